package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// here is the name of Tidemark among the tools.
const here = "tidemark"

// cell is what became of the sessions of one tool in another.
type cell struct {
	From, In string
	Carried  carried
	Wrong    []string
}

// matrix goes on with a session of each tool in each tool.
func (w *workshop) matrix(ctx context.Context) (cells []cell, err error) {
	for _, from := range append([]string{here}, names()...) {
		for _, c := range clients {
			one, err := w.goOnIn(ctx, from, c)
			if ctx.Err() != nil {
				return nil, err
			}
			if err != nil {
				fmt.Fprintln(w.log, err)
				one.Wrong = append(one.Wrong, firstLine(err))
			}
			fmt.Fprintf(w.log, "%s in %s: %+v\n", from, c.tool, one)
			cells = append(cells, one)
		}
	}
	return cells, nil
}

func names() (all []string) {
	for _, c := range clients {
		all = append(all, c.tool)
	}
	return all
}

// firstLine is the beginning of an error that quotes what a program printed.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func clientOf(tool string) client {
	for _, c := range clients {
		if c.tool == tool {
			return c
		}
	}
	panic("no client " + tool)
}

// begin makes a session in a tool: texts in several scripts, a call and its result,
// and where the tool can be given one without a screen, an image.
func (m *world) begin(ctx context.Context, tool string) error {
	if tool == here {
		data, err := base64.StdEncoding.DecodeString(pixel)
		if err != nil {
			return err
		}
		return m.append(ctx, "new",
			tidemark.Say(tidemark.User, "An apple, яблоко, 苹果, 👩‍🌾."),
			tidemark.Entry{Role: tidemark.Assistant, Blocks: []tidemark.Block{{Type: tidemark.BlockToolUse, ID: "call_1", Name: "bash", Input: []byte(`{"cmd":"echo harbour-$((40+2))"}`)}}},
			tidemark.Entry{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "call_1", Text: "harbour-42"}}},
			tidemark.Say(tidemark.Assistant, "Noted."),
			tidemark.Entry{Role: tidemark.User, Blocks: []tidemark.Block{tidemark.Text("What is this?"), {Type: tidemark.BlockImage, MediaType: "image/png", Data: data}}},
			tidemark.Say(tidemark.Assistant, "A pixel."))
	}
	c := clientOf(tool)
	prompt := `An apple, яблоко, 苹果, 👩‍🌾. [[fake op bash {"cmd":"echo harbour-$((40+2))"}]] [[fake say Noted.]]`
	if _, err := m.do(ctx, c.program, c.begin(prompt)...); err != nil {
		return err
	}
	_, err := m.tidemark(ctx, "import", "--all")
	return err
}

// goOnIn goes on with a session of one tool in another, and looks at what that asks
// the model and at what comes back.
func (w *workshop) goOnIn(ctx context.Context, from string, c client) (out cell, err error) {
	out = cell{From: from, In: c.tool}
	m, err := w.newWorld()
	if err != nil {
		return out, err
	}
	if err := m.begin(ctx, from); err != nil {
		return out, err
	}
	wrong := func(format string, args ...any) { out.Wrong = append(out.Wrong, fmt.Sprintf(format, args...)) }
	for n, prompt := range []string{"A pear grows here.", "A fig grows here."} {
		before, err := m.entries(ctx, "last")
		if err != nil {
			return out, err
		}
		if err := m.resume(ctx, "last", c, prompt); err != nil {
			return out, err
		}
		asked, ok := w.model.with(prompt)
		if !ok {
			wrong("the model was not asked")
			continue
		}
		carried := compare(before, asked)
		if n == 0 {
			out.Carried = carried
		}
		if from != c.tool && n == 0 && carried.Told > 0 {
			wrong("%d texts of the other harness are told", carried.Told)
		}
		after, err := m.entries(ctx, "last")
		if err != nil {
			return out, err
		}
		for _, problem := range grownBy(before, after, prompt) {
			wrong("%s", problem)
		}
		all, err := m.sessions(ctx)
		if err != nil {
			return out, err
		}
		if len(all) != 1 {
			wrong("%d sessions instead of one", len(all))
		}
	}
	return out, nil
}

// resume goes on with a session in a tool, by one prompt.
func (m *world) resume(ctx context.Context, session string, c client, prompt string) error {
	_, err := m.tidemark(ctx, append([]string{"resume", session, "--in", c.tool, "--"}, c.goOn(prompt)...)...)
	return err
}

// grownBy says what is wrong with a session that a tool went on with: it has to have
// all that it had, then the prompt and the answer, and nothing twice.
func grownBy(before, after []tidemark.Entry, prompt string) (wrong []string) {
	if len(after) < len(before) || !reflect.DeepEqual(before, after[:len(before)]) {
		return []string{"what the session had was changed"}
	}
	var said []string
	for _, e := range after[len(before):] {
		if (e.Kind == "" || e.Kind == tidemark.KindMessage) && !e.Context() {
			said = append(said, string(e.Role))
			if e.Role == tidemark.User && strings.TrimSpace(e.Text()) != prompt {
				wrong = append(wrong, fmt.Sprintf("a prompt came back as %.80q", e.Text()))
			}
		}
	}
	if want := []string{"user", "assistant"}; !reflect.DeepEqual(said, want) {
		wrong = append(wrong, fmt.Sprintf("messages came back by %v, want one prompt and one answer", said))
	}
	return wrong
}

// through goes on with a session of Tidemark in all tools, twice around, and returns
// what is wrong.
func (w *workshop) through(ctx context.Context) (wrong []string, err error) {
	m, err := w.newWorld()
	if err != nil {
		return nil, err
	}
	if err := m.begin(ctx, here); err != nil {
		return nil, err
	}
	prompts := []string{}
	for round := range 2 {
		for _, c := range clients {
			prompt := fmt.Sprintf("Round %d in %s.", round+1, c.title)
			prompts = append(prompts, prompt)
			before, err := m.entries(ctx, "last")
			if err != nil {
				return nil, err
			}
			if err := m.resume(ctx, "last", c, prompt); err != nil {
				return nil, err
			}
			after, err := m.entries(ctx, "last")
			if err != nil {
				return nil, err
			}
			wrong = append(wrong, grownBy(before, after, prompt)...)
			asked, ok := w.model.with(prompt)
			for _, p := range prompts {
				if !ok || !strings.Contains(asked.text(), p) {
					wrong = append(wrong, fmt.Sprintf("%s was asked without %q", c.title, p))
				}
			}
		}
	}
	// An import of everything finds nothing new.
	before, err := m.entries(ctx, "last", "--all")
	if err != nil {
		return nil, err
	}
	if _, err := m.tidemark(ctx, "import", "--all"); err != nil {
		return nil, err
	}
	after, err := m.entries(ctx, "last", "--all")
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(before, after) {
		wrong = append(wrong, fmt.Sprintf("an import of everything afterwards added %d entries", len(after)-len(before)))
	}
	all, err := m.sessions(ctx)
	if len(all) != 1 {
		wrong = append(wrong, fmt.Sprintf("%d sessions instead of one", len(all)))
	}
	return wrong, err
}

// hooks configures the hooks of docs/guide/watch.md, and returns for which tools a
// turn was kept by them.
func (w *workshop) hooks(ctx context.Context) (kept map[string]bool, err error) {
	m, err := w.newWorld()
	if err != nil {
		return nil, err
	}
	settings := `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "tidemark watch --now claude-code > /dev/null"}]}]}}`
	err = errors.Join(os.MkdirAll(filepath.Join(m.home, ".claude"), 0o700), os.WriteFile(filepath.Join(m.home, ".claude", "settings.json"), []byte(settings), 0o600),
		m.configureCodex("notify = [\"tidemark\", \"watch\", \"--now\", \"codex\"]\n"), m.append(ctx, "new", tidemark.Say(tidemark.User, "so that there is a store")))
	if err != nil {
		return nil, err
	}
	kept = make(map[string]bool)
	for _, c := range clients {
		if _, err := m.do(ctx, c.program, c.begin("A plum for "+c.tool+".")...); err != nil {
			return nil, err
		}
		// Codex does not wait for its notification.
		for range 50 {
			out, err := m.tidemark(ctx, "ls", "-A", "--tool", c.tool, "--jq", ".[].id")
			if err != nil {
				return nil, err
			}
			if kept[c.tool] = strings.TrimSpace(out) != ""; kept[c.tool] {
				break
			}
			if err := sleep(ctx, 100); err != nil {
				return nil, err
			}
		}
	}
	return kept, nil
}
