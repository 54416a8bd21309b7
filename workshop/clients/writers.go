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
		for _, talk := range converttest.Conversations() {
			id := "writer " + c.tool + " " + talk.Name
			if !w.due(id) {
				continue
			}
			var one found
			problems, err := w.written(ctx, c, talk)
			if one.Wrong = problems; err != nil {
				one.Wrong = append(one.Wrong, err.Error())
			}
			if err := w.note(ctx, id, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// written has an agent go on with one conversation, and says what is wrong with what
// it asks its model.
func (w *workshop) written(ctx context.Context, c client, talk converttest.Conversation) (problems []string, err error) {
	m, err := w.newWorld("")
	if err != nil {
		return nil, err
	}
	defer m.leave()
	tool, err := transfer.ToolNamed(c.tool)
	if err != nil {
		return nil, err
	}
	s := *talk.Session
	if name := filepath.Base(s.Project); name != "work" {
		if err := m.moveTo(name); err != nil {
			return nil, err
		}
	}
	s.ID = tidemark.NewSessionID()
	s.Project, s.ForeignID = m.project, string(s.ID)
	if newID := tool.Handover.NewID; newID != nil {
		s.ForeignID = newID()
	}
	if err := m.write(ctx, tool, &s); err != nil {
		return nil, err
	}
	listed, err := m.listed(ctx, c, &s)
	if err != nil {
		return nil, err
	}
	if !listed {
		problems = append(problems, "it is not listed")
	}
	w.model.forget()
	command := resume.CommandOf(c.tool, s.ForeignID, c.begin(question))
	if _, err := m.do(ctx, command[0], command[1:]...); err != nil {
		return problems, err
	}
	asked, ok := w.model.with(question)
	if !ok {
		return append(problems, "the model was not asked"), nil
	}
	return append(problems, missing(talk, asked)...), nil
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
	if _, err := tool.Export(ctx, out, s); err != nil {
		return err
	}
	if load := tool.Handover.Load; load != nil {
		command := load(filepath.Join(transfer.HomeOf(tool, m.environ), out.Created()[0]))
		_, err = m.do(ctx, command[0], command[1:]...)
	}
	return err
}

// listed reports whether an agent lists a session.
func (m *world) listed(ctx context.Context, c client, s *convert.Session) (bool, error) {
	if c.list == nil {
		title, _, _ := strings.Cut(s.Title, "\n")
		return m.onScreen(ctx, c, title, firstPrompt(s))
	}
	said, err := m.do(ctx, c.program, c.list...)
	return strings.Contains(said, s.ForeignID) || strings.Contains(said, strings.Join(strings.Fields(s.Title), " ")), err
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
