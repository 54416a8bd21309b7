package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/transfer"
	"github.com/tidemark-sessions/tidemark/transfer/resume"
)

// question is what an agent is told to go on with.
const question = "What have I said so far?"

// writers writes the conversations that every writer is tested with for each agent,
// and has the agent list them and go on with them.
func (w *workshop) writers(ctx context.Context) error {
	for _, c := range w.installed() {
		if err := w.writer(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// writer tries what is written for one agent. An agent that lists all sessions at
// once has them in one home: agents are slow to start.
func (w *workshop) writer(ctx context.Context, c client) (err error) {
	var together *world
	var all []written
	for _, talk := range converttest.Conversations() {
		one := written{Conversation: talk, id: "writer " + c.tool + " " + talk.Name, in: together}
		if !w.due(one.id) {
			continue
		}
		if one.in == nil {
			if one.in, err = w.newWorld(""); err != nil {
				return err
			}
			defer one.in.leave()
		}
		if c.list != nil {
			together = one.in
		}
		one.err = one.write(ctx, c)
		all = append(all, one)
	}
	listed := ""
	if together != nil {
		if listed, err = together.do(ctx, c.program, c.list...); err != nil {
			return err
		}
	}
	for _, one := range all {
		var f found
		problems, err := one.goOn(ctx, c, listed)
		if f.Wrong = problems; err != nil {
			f.Wrong = append(f.Wrong, err.Error())
		}
		if err := w.note(ctx, one.id, f); err != nil {
			return err
		}
	}
	return nil
}

// written is a conversation that was written for an agent.
type written struct {
	converttest.Conversation
	id      string
	in      *world
	session convert.Session
	err     error
}

// write writes it.
func (o *written) write(ctx context.Context, c client) error {
	tool, err := transfer.ToolNamed(c.tool)
	if err != nil {
		return err
	}
	o.session = *o.Session
	s := &o.session
	if name := filepath.Base(s.Project); name != "work" && c.list == nil {
		if err := o.in.moveTo(name); err != nil {
			return err
		}
	}
	s.ID = tidemark.NewSessionID()
	s.Project, s.ForeignID = o.in.project, string(s.ID)
	if newID := tool.Handover.NewID; newID != nil {
		s.ForeignID = newID()
	}
	return o.in.write(ctx, tool, s)
}

// goOn has the agent list and go on with it, and says what is wrong with that and
// with what it asks its model.
func (o *written) goOn(ctx context.Context, c client, listed string) (problems []string, err error) {
	if o.err != nil {
		return nil, o.err
	}
	there := strings.Contains(listed, o.session.ForeignID)
	if c.list == nil {
		title, _, _ := strings.Cut(o.session.Title, "\n")
		if there, err = o.in.onScreen(ctx, c, title, firstPrompt(&o.session)); err != nil {
			return nil, err
		}
	}
	if !there {
		problems = append(problems, "it is not listed")
	}
	o.in.model.forget()
	command := resume.CommandOf(c.tool, o.session.ForeignID, c.begin(question))
	if _, err := o.in.do(ctx, command[0], command[1:]...); err != nil {
		return problems, err
	}
	asked, ok := o.in.model.with(question)
	if !ok {
		return append(problems, "the model was not asked"), nil
	}
	return append(problems, missing(o.Conversation, asked)...), nil
}

// missing is what of a conversation is not in a request.
func missing(talk converttest.Conversation, asked request) (all []string) {
	for _, text := range talk.Extra {
		if !strings.Contains(asked.text(), text) {
			all = append(all, fmt.Sprintf("%.60q was not sent", text))
		}
	}
	if talk.Mended {
		return all
	}
	var entries []tidemark.Entry
	for _, e := range converttest.PathOf(talk.Session) {
		entries = append(entries, e.Entry)
	}
	c := compare(entries, asked)
	for _, lost := range c.Lost {
		all = append(all, lost+" was not sent")
	}
	for name, n := range map[string]count{"texts": c.Texts, "calls": c.Calls, "results": c.Results, "images": c.Images} {
		if n.AsText > 0 {
			all = append(all, fmt.Sprintf("%d %s were sent as text", n.AsText, name))
		}
	}
	return all
}

// write writes a session into the home of a tool, and has the tool take it in if it
// does not find it by itself.
func (m *world) write(ctx context.Context, tool convert.Tool, s *convert.Session) error {
	out, err := transfer.OpenFolder(transfer.HomeOf(tool, m.environ), m.environ)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := transfer.Fit(ctx, tool, s); err != nil {
		return err
	}
	if _, err := tool.Export(ctx, out, s); err != nil {
		return err
	}
	if load := tool.Handover.Load; load != nil {
		command := load(filepath.Join(transfer.HomeOf(tool, m.environ), out.Created()[0]))
		_, err = m.do(ctx, command[0], command[1:]...)
	}
	return err
}

// firstPrompt is the beginning of what was asked first, by which some agents list a
// session.
func firstPrompt(s *convert.Session) string {
	for _, e := range converttest.PathOf(s) {
		if said, _, _ := strings.Cut(strings.TrimSpace(e.Text()), "\n"); e.Role == tidemark.User && said != "" {
			return string([]rune(said)[:min(8, len([]rune(said)))])
		}
	}
	return s.Title
}
