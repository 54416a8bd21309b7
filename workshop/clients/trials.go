package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// here is the name of Tidemark among the tools.
const here = "tidemark"

// matrix goes on with a session of each tool in each tool.
func (w *workshop) matrix(ctx context.Context) error {
	for _, in := range w.installed() {
		for _, from := range append([]string{here}, names(w.installed())...) {
			id := "in " + in.tool + " from " + from
			if !w.due(id) {
				continue
			}
			one, err := w.goOnIn(ctx, from, in)
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

func names(all []client) (names []string) {
	for _, c := range all {
		names = append(names, c.tool)
	}
	return names
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
	c, _ := clientOf(tool)
	// opencode and Kilo CLI put a backslash before quotes.
	prompt := `An apple, яблоко, 苹果, 👩‍🌾. [[fake op bash echo harbour-$((40+2))]] [[fake say Noted.]]`
	if _, err := m.do(ctx, c.program, c.begin(prompt)...); err != nil {
		return err
	}
	_, err := m.tidemark(ctx, "import", "--all")
	return err
}

// goOnIn goes on with a session of one tool in another, and looks at what that asks
// the model and at what comes back.
func (w *workshop) goOnIn(ctx context.Context, from string, c client) (out found, err error) {
	m, err := w.newWorld("")
	if err != nil {
		return out, err
	}
	defer m.leave()
	if err := m.begin(ctx, from); err != nil {
		return out, err
	}
	wrong := func(format string, args ...any) { out.Wrong = append(out.Wrong, fmt.Sprintf(format, args...)) }
	for n, prompt := range []string{"A pear grows here.", "A fig grows here."} {
		before, err := m.entries(ctx, "last")
		if err != nil {
			return out, err
		}
		w.model.forget()
		notes, err := m.resume(ctx, "last", c, prompt)
		if err != nil {
			return out, err
		}
		asked, ok := w.model.with(prompt)
		if !ok {
			wrong("the model was not asked")
			continue
		}
		carried := compare(before, asked)
		if n == 0 {
			out.Carried, out.Lost = &carried, notes
		}
		if from != c.tool && n == 0 && carried.Told > 0 {
			wrong("%d texts of the other harness are told", carried.Told)
		}
		for _, lost := range carried.Lost {
			wrong("%s was not sent", lost)
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

// resume goes on with a session in a tool, by one prompt, and returns what it says
// that the tool has no place for.
func (m *world) resume(ctx context.Context, session string, c client, prompt string) (lost []string, err error) {
	args := append([]string{"--no-encrypt", "resume", session, "--in", c.tool, "--"}, c.begin(prompt)...)
	_, said, err := m.both(ctx, m.program, args...)
	for line := range strings.Lines(said) {
		if _, what, found := strings.Cut(line, " format: "); found && strings.Contains(line, "not in the ") {
			lost = append(lost, strings.TrimSpace(what))
		}
	}
	return lost, err
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

// through goes on with a session of Tidemark in all agents, twice around.
func (w *workshop) through(ctx context.Context) error {
	const id = "through"
	if !w.due(id) || len(w.installed()) < 2 {
		return nil
	}
	wrong, err := w.around(ctx)
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return w.note(ctx, id, found{Said: strings.Join(names(w.installed()), ", "), Wrong: wrong})
}

// around returns what is wrong with a session that went through all agents.
func (w *workshop) around(ctx context.Context) (wrong []string, err error) {
	m, err := w.newWorld("")
	if err != nil {
		return nil, err
	}
	defer m.leave()
	if err := m.begin(ctx, here); err != nil {
		return nil, err
	}
	prompts := []string{}
	for round := range 2 {
		for _, c := range w.installed() {
			prompt := fmt.Sprintf("Round %d in %s.", round+1, c.title)
			prompts = append(prompts, prompt)
			before, err := m.entries(ctx, "last")
			if err != nil {
				return wrong, err
			}
			w.model.forget()
			if _, err := m.resume(ctx, "last", c, prompt); err != nil {
				return wrong, err
			}
			after, err := m.entries(ctx, "last")
			if err != nil {
				return wrong, err
			}
			for _, problem := range grownBy(before, after, prompt) {
				wrong = append(wrong, fmt.Sprintf("round %d: %s: %s", round+1, c.title, problem))
			}
			asked, ok := w.model.with(prompt)
			for _, p := range prompts {
				if !ok || !strings.Contains(asked.text(), p) {
					wrong = append(wrong, fmt.Sprintf("%s was asked without %q", c.title, p))
				}
			}
		}
	}
	return wrong, m.nothingNew(ctx, &wrong)
}

// nothingNew imports everything, which has to find nothing new.
func (m *world) nothingNew(ctx context.Context, wrong *[]string) error {
	before, err := m.entries(ctx, "last", "--all")
	if err != nil {
		return err
	}
	if _, err := m.tidemark(ctx, "import", "--all"); err != nil {
		return err
	}
	after, err := m.entries(ctx, "last", "--all")
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(before, after) {
		*wrong = append(*wrong, fmt.Sprintf("an import of everything afterwards added %d entries", len(after)-len(before)))
	}
	all, err := m.sessions(ctx)
	if len(all) != 1 {
		*wrong = append(*wrong, fmt.Sprintf("%d sessions instead of one", len(all)))
	}
	return err
}

// hooked are the hooks of docs/guide/watch.md, as they are configured.
var hooked = map[string]func(m *world) error{
	"claude-code": func(m *world) error {
		return put(m.home, ".claude/settings.json", `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "tidemark watch --now claude-code > /dev/null"}]}]}}`)
	},
	"codex": func(m *world) error {
		return put(m.home, ".codex/config.toml", "notify = [\"tidemark\", \"watch\", \"--now\", \"codex\"]\n"+codexSettings(m.url))
	},
}

// hooks has agents work with those hooks, without a watcher.
func (w *workshop) hooks(ctx context.Context) error {
	for _, c := range w.installed() {
		id := "hook " + c.tool
		if hooked[c.tool] == nil || !w.due(id) {
			continue
		}
		var one found
		kept, err := w.hook(ctx, c)
		if err != nil {
			one.Wrong = append(one.Wrong, err.Error())
		} else if !kept {
			one.Wrong = append(one.Wrong, "the turn was not kept")
		}
		if err := w.note(ctx, id, one); err != nil {
			return err
		}
	}
	return nil
}

// hook reports whether the hook of an agent had a turn kept.
func (w *workshop) hook(ctx context.Context, c client) (bool, error) {
	m, err := w.newWorld("")
	if err != nil {
		return false, err
	}
	defer m.leave()
	if err := errors.Join(hooked[c.tool](m), m.append(ctx, "new", tidemark.Say(tidemark.User, "so that there is a store"))); err != nil {
		return false, err
	}
	if _, err := m.do(ctx, c.program, c.begin("A plum for "+c.tool+".")...); err != nil {
		return false, err
	}
	for range 50 { // Codex does not wait for its notification
		out, err := m.tidemark(ctx, "ls", "-A", "--tool", c.tool, "--jq", ".[].id")
		if err != nil || strings.TrimSpace(out) != "" {
			return err == nil, err
		}
		if err := sleep(ctx, 100); err != nil {
			return false, err
		}
	}
	return false, nil
}
