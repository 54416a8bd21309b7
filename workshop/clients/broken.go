package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/transfer"
	"github.com/tidemark-sessions/tidemark/transfer/resume"
)

// repairable are the agents whose sessions are broken and repaired.
var repairable = []string{"claude-code", "codex", "opencode"}

// takenAsItIs says that an agent mends a broken session by itself.
const takenAsItIs = "taken as it is"

// repairs breaks sessions in every way, shows them to their agent, which asks a model
// that refuses what providers refuse, and shows it the repaired copies.
func (w *workshop) repairs(ctx context.Context) error {
	for _, c := range w.installed() {
		if !slices.Contains(repairable, c.tool) {
			continue
		}
		tool, err := transfer.ToolNamed(c.tool)
		if err != nil {
			return err
		}
		all, err := w.broken(ctx, tool)
		if err != nil {
			return err
		}
		for _, b := range all {
			id := "repair " + c.tool + " " + b.Name
			if !w.due(id) {
				continue
			}
			one, err := w.repair(ctx, c, tool, b)
			if err != nil {
				one.Wrong = append(one.Wrong, err.Error())
			}
			if err := w.note(ctx, id, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// broken are the sessions of an agent that are broken.
func (w *workshop) broken(ctx context.Context, tool convert.Tool) ([]converttest.Broken, error) {
	sound, err := w.sound(ctx, tool, converttest.Sound(tool.Name))
	if err != nil {
		return nil, err
	}
	compacted, err := w.sound(ctx, tool, converttest.Compacted(tool.Name))
	if err != nil {
		return nil, err
	}
	return converttest.BrokenSessions(tool.Name, sound, compacted), nil
}

// anyProject and anySession stand for the folder of a session and its id until they are known.
const anyProject, anySession = "/any/project", "00000000-0000-8000-8000-000000000001"

// sound is a session that nothing is wrong with, as an agent keeps it.
func (w *workshop) sound(ctx context.Context, tool convert.Tool, s *convert.Session) (string, error) {
	dir, err := os.MkdirTemp(w.scratch, "sound")
	if err != nil {
		return "", err
	}
	out, err := transfer.OpenFolder(dir, nil)
	if err != nil {
		return "", err
	}
	defer out.Close()
	s.ID, s.ForeignID, s.Project = anySession, anySession, anyProject
	if _, err := tool.Export(ctx, out, s); err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(dir, out.Created()[0]))
	return string(b), err
}

// repair shows an agent a broken session and its copy. What it says is how the broken
// one was refused.
func (w *workshop) repair(ctx context.Context, c client, tool convert.Tool, b converttest.Broken) (one found, err error) {
	m, err := w.newWorld(w.strictURL)
	if err != nil {
		return one, err
	}
	defer m.leave()
	file, id, err := m.place(ctx, tool, b.Text)
	if err != nil {
		return one, err
	}
	if one.Said = m.takes(ctx, c, tool, id, file); one.Said == "" {
		one.Said = takenAsItIs
	}
	out, err := m.tidemark(ctx, "repair", file, "--for", c.tool, "-o", transfer.HomeOf(tool, m.environ), "--json", fmt.Sprint("--drop-thinking=", b.Signed))
	if err != nil {
		return one, err
	}
	var r transfer.Repaired
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return one, err
	}
	copied := ""
	if len(r.Load) > 0 {
		copied = r.Load[len(r.Load)-1]
	}
	if why := m.takes(ctx, c, tool, r.ForeignID, copied); why != "" {
		one.Wrong = append(one.Wrong, "the copy: "+why)
	}
	return one, nil
}

// place puts the text of a session where its agent looks for it, or would be told to
// take it in from.
func (m *world) place(ctx context.Context, tool convert.Tool, text string) (file, id string, err error) {
	home := transfer.HomeOf(tool, m.environ)
	out, err := transfer.OpenFolder(home, m.environ)
	if err != nil {
		return "", "", err
	}
	defer out.Close()
	s := converttest.Sound(tool.Name)
	s.ID, s.Project = tidemark.NewSessionID(), m.project
	if s.ForeignID = string(s.ID); tool.Handover.NewID != nil {
		s.ForeignID = tool.Handover.NewID()
	}
	if _, err := tool.Export(ctx, out, s); err != nil {
		return "", "", err
	}
	file = filepath.Join(home, out.Created()[0])
	was := string(anySession)
	if tool.Handover.NewID != nil { // it took none but its own
		was = between(text, `"id":"`, `"`)
	}
	text = strings.NewReplacer(anyProject, m.project, was, s.ForeignID).Replace(text)
	return file, s.ForeignID, os.WriteFile(file, []byte(text), 0o600)
}

// between is the first text between two marks.
func between(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return text
}

// takes has an agent go on with a session, and returns why it does not, or not with
// all prompts.
func (m *world) takes(ctx context.Context, c client, tool convert.Tool, id, file string) string {
	if tool.Handover.Load != nil {
		command := tool.Handover.Load(file)
		if _, said, err := m.both(ctx, command[0], command[1:]...); err != nil {
			return "not taken in: " + shortly(said)
		}
	}
	m.strict.forget()
	command := resume.CommandOf(c.tool, id, c.begin(question))
	_, said, err := m.both(ctx, command[0], command[1:]...)
	if why := m.strict.refusal(); why != "" {
		return "refused by the model: " + why
	}
	if err != nil {
		return "refused: " + shortly(said)
	}
	asked, ok := m.strict.with(question)
	if !ok {
		return "the model was not asked"
	}
	text, lost := asked.text(), 0
	for n := range converttest.Rounds {
		if !strings.Contains(text, fmt.Sprintf("prompt %d", n)) {
			lost++
		}
	}
	if lost > 0 {
		return fmt.Sprintf("without %d of %d prompts", lost, converttest.Rounds)
	}
	return ""
}

// shortly is the last line of what an agent said that says something.
func shortly(said string) string {
	last := ""
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
	}
	return fmt.Sprintf("%.160s", last)
}
