package hook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/hook"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// rig is a conversation with hooks, and a model that calls bash once a message.
type rig struct {
	t       *testing.T
	dir     string
	h       hook.Options
	o       chat.Options
	asks    []chat.ApprovalRequest
	notices []string
	decide  chat.Decision
	result  tidemark.Block
	seen    []model.Request
}

func newRig(t *testing.T) *rig {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash here")
	}
	r := &rig{t: t, dir: t.TempDir(), decide: chat.Once}
	r.h = hook.Options{Own: filepath.Join(t.TempDir(), hook.OwnFile), Project: r.dir, IsProject: true, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir}}
	r.o = chat.Options{
		Store: store.New(memory.New(), nil), Holder: tidemark.Holder{Program: "test", PID: 1, Host: "here"}, Model: r, Name: "m", Provider: "scripted", Root: r.dir,
		Grants: grant.Open(t.TempDir(), "ada").For(r.dir),
		Box: func(s tool.State, f tool.Files, _ store.Limits, out func(string, []byte)) (*tool.Box, error) {
			return tool.New(tool.Options{Root: r.dir, Environ: r.h.Environ, State: s, Files: f, Output: out})
		},
		Approve: func(_ context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
			r.asks = append(r.asks, a)
			return r.decide, nil
		},
		Show: func(e chat.Event) {
			if e.Notice != "" {
				r.notices = append(r.notices, e.Notice)
			}
			if e.Result != nil {
				r.result = *e.Result
			}
		},
	}
	return r
}

func (r *rig) Parts(model.Request) ([][]byte, error) { return nil, nil }

func (r *rig) Stream(_ context.Context, q model.Request) iter.Seq2[model.Event, error] {
	r.seen = append(r.seen, q)
	e := tidemark.Say(tidemark.Assistant, "done")
	if last := q.Entries[len(q.Entries)-1]; last.Role == tidemark.User && !strings.HasPrefix(last.Text(), "A hook") {
		e.Blocks = append(e.Blocks, tidemark.Block{Type: tidemark.BlockToolUse, ID: fmt.Sprint("c", len(r.seen)), Name: "bash", Input: json.RawMessage(`{"command":"echo ran >> ran"}`)})
	}
	return func(yield func(model.Event, error) bool) {
		yield(model.Event{Done: &model.Answer{Entry: e, Stop: model.StopEnd}}, nil)
	}
}

// say sends a message in a conversation of its own, and forgets what was asked
// and told before.
func (r *rig) say(text string) error {
	r.t.Helper()
	r.asks, r.notices, r.result = nil, nil, tidemark.Block{}
	r.o.Hooks = hook.New(r.h)
	c, err := chat.New(r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = c.Send(r.t.Context(), tidemark.Text(text))
	if closeErr := c.Close(r.t.Context()); closeErr != nil {
		r.t.Fatal(closeErr)
	}
	return err
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.dir, name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// defines writes a file with one hook.
func (r *rig) defines(file string, event chat.HookEvent, matcher, command string) {
	r.t.Helper()
	b, err := json.Marshal(map[string]any{"hooks": map[string]any{string(event): []any{map[string]any{"matcher": matcher, "hooks": []any{map[string]any{"type": "command", "command": command, "timeout": 20}}}}}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(file, string(b))
}

func (r *rig) lines(name string) int {
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

func (r *rig) noticed(part string) bool {
	return slices.ContainsFunc(r.notices, func(n string) bool { return strings.Contains(n, part) })
}

func (r *rig) starts() (n int) {
	for _, a := range r.asks {
		if a.Tool == "start" {
			n++
		}
	}
	return n
}

// TestNoHookOfAProjectStartsUnapproved goes through what may change in a
// repository after somebody approved what it had, in each of its files.
func TestNoHookOfAProjectStartsUnapproved(t *testing.T) {
	for _, file := range []string{".tidemark/hooks.json", ".claude/settings.json", ".claude/settings.local.json"} {
		t.Run(file, func(t *testing.T) {
			r := newRig(t)
			const command = `sh "$CLAUDE_PROJECT_DIR"/guard.sh`
			r.write("guard.sh", "echo x >> hooked")
			r.defines(file, chat.HookPrompt, "", command)
			want := func(why string, hooked, asked int) {
				t.Helper()
				before := r.lines("hooked")
				if err := r.say("hello"); err != nil {
					t.Fatal(err)
				}
				if n := r.lines("hooked") - before; n != hooked || r.starts() != asked {
					t.Errorf("%s: the hook ran %d times, asked %d times, %q", why, n, r.starts(), r.notices)
				}
			}
			r.o.Unattended = true
			r.decide = chat.Always
			want("nobody is there", 0, 0)
			if !r.noticed("nobody is there to ask") {
				t.Errorf("it is not said: %q", r.notices)
			}
			r.o.Unattended = false
			r.decide = chat.Once
			want("once", 1, 1)
			var shown []string
			for _, l := range r.asks[0].Lines {
				shown = append(shown, l.Text)
			}
			if all := strings.Join(shown, "\n"); !strings.Contains(all, "guard.sh as it is now") || !strings.Contains(all, file) || !strings.Contains(all, "CLAUDE_PROJECT_DIR") {
				t.Errorf("shown: %q", all)
			}
			r.decide = chat.Always
			want("always", 1, 1)
			r.o.Unattended = true
			want("as approved", 1, 0)
			r.o.Unattended = false
			r.decide = chat.Deny
			r.write("guard.sh", "echo x >> hooked; echo y >> hooked")
			want("its script changed", 0, 1)
			want("declined", 0, 0)
			r.write("guard.sh", "echo x >> hooked")
			want("as it was approved", 1, 0)
			r.defines(file, chat.HookPrompt, "", command+" ")
			want("its definition changed", 0, 1)
			r.defines(file, chat.HookPrompt, "", command)
			r.h.Unfenced = "there is no sandbox here"
			want("it cannot be held", 0, 0)
			r.h.Unfenced, r.h.IsProject = "", false
			want("the folder is no project", 0, 0)
		})
	}
}

// TestHooksOfAnotherProgramRunOnlyAfterTheyWereApproved: what a person wrote for
// Claude Code was not meant to run here.
func TestHooksOfAnotherProgramRunOnlyAfterTheyWereApproved(t *testing.T) {
	r := newRig(t)
	home := t.TempDir()
	r.h.Claude = filepath.Join(home, ".claude")
	settings, script := filepath.Join(r.h.Claude, "settings.json"), filepath.Join(r.h.Claude, "hooks", "guard.sh")
	r.write(script, "echo x >> "+filepath.Join(r.dir, "hooked"))
	r.defines(settings, chat.HookPrompt, "", "sh ~/.claude/hooks/guard.sh")
	r.h.Environ = append(r.h.Environ, "HOME="+home)
	want := func(why string, hooked, asked int) {
		t.Helper()
		before := r.lines("hooked")
		if err := r.say("hello"); err != nil {
			t.Fatal(err)
		}
		if n := r.lines("hooked") - before; n != hooked || r.starts() != asked {
			t.Errorf("%s: the hook ran %d times, asked %d times, %q", why, n, r.starts(), r.notices)
		}
	}
	r.o.Unattended = true
	want("nobody is there", 0, 0)
	r.o.Unattended, r.decide = false, chat.Always
	want("always", 1, 1)
	want("as approved", 1, 0)
	r.decide = chat.Deny
	r.write(script, "echo y; echo x >> "+filepath.Join(r.dir, "hooked"))
	want("its script changed", 0, 1)
	rows, _ := hook.New(r.h).Rows(r.o.Grants)
	if len(rows) != 1 || rows[0].State != hook.RowDeclined || rows[0].File != settings {
		t.Errorf("listed: %+v", rows)
	}
}

func TestWhatSettingsDenyIsRefusedUnasked(t *testing.T) {
	for _, file := range []string{".claude/settings.json", ".claude/settings.local.json", "claude"} {
		r := newRig(t)
		r.o.Unattended = true
		if r.write(file, `{"permissions":{"deny":["Bash(echo:*)","Task(x)"],"allow":["Bash(*)"]}}`); file == "claude" {
			r.h.Claude = t.TempDir()
			r.write(filepath.Join(r.h.Claude, "settings.json"), `{"permissions":{"deny":["Bash(echo:*)","Task(x)"]}}`)
		}
		if err := r.say("hello"); err != nil {
			t.Fatal(err)
		}
		if r.lines("ran") != 0 || !r.result.IsError || !strings.Contains(r.result.Text, "denies Bash(echo:*)") || len(r.asks) != 0 || !r.noticed(`"Task(x)" is not heeded`) {
			t.Errorf("%s: ran %d times, %q, asked %d times, notices %q", file, r.lines("ran"), r.result.Text, len(r.asks), r.notices)
		}
		if rows, _ := hook.New(r.h).Rows(nil); len(rows) != 1 || rows[0].State != hook.RowDenies {
			t.Errorf("%s: listed: %+v", file, rows)
		}
	}
}

func TestWhatAHookSaysByCodeAndByJSON(t *testing.T) {
	veto := func(event chat.HookEvent, more string) string {
		return fmt.Sprintf(`echo '{"hookSpecificOutput":{"hookEventName":"%s",%s}}'`, event, more)
	}
	for name, c := range map[string]struct {
		event            chat.HookEvent
		matcher, command string
		ran              bool   // the call did
		asked            int    // about the call
		result, notice   string // parts of the result, and of what people are told
		refused          string // of the error
	}{
		"exit code 2":            {event: chat.HookBefore, matcher: "Bash", command: "echo no rm >&2; exit 2", result: "no rm"},
		"a regular expression":   {event: chat.HookBefore, matcher: "^Ba.*|Edit", command: "echo no >&2; exit 2", result: "no"},
		"our own name":           {event: chat.HookBefore, matcher: "bash", command: "exit 2", result: "gave no reason"},
		"another tool":           {event: chat.HookBefore, matcher: "Edit|Write", command: "exit 2", ran: true, asked: 1},
		"deny":                   {event: chat.HookBefore, command: veto(chat.HookBefore, `"permissionDecision":"deny","permissionDecisionReason":"too late"`), result: "too late"},
		"the older form":         {event: chat.HookBefore, command: `echo '{"decision":"block","reason":"older"}'`, result: "older"},
		"allow allows nothing":   {event: chat.HookBefore, command: veto(chat.HookBefore, `"permissionDecision":"allow"`), ran: true, asked: 1},
		"approve allows nothing": {event: chat.HookBefore, command: `echo '{"decision":"approve"}'`, ran: true, asked: 1},
		"ask":                    {event: chat.HookBefore, command: veto(chat.HookBefore, `"permissionDecision":"ask","permissionDecisionReason":"hm"`), ran: true, asked: 1},
		"another input":          {event: chat.HookBefore, command: veto(chat.HookBefore, `"permissionDecision":"allow","updatedInput":{"command":"true"}`), result: `{"command":"true"}`},
		"continue false":         {event: chat.HookBefore, command: `echo '{"continue":false,"stopReason":"halt"}'`, result: "halt", notice: "A hook ended the turn: halt"},
		"it fails":               {event: chat.HookBefore, command: "echo broken >&2; exit 1", ran: true, asked: 1, notice: "broken"},
		"it is no JSON":          {event: chat.HookBefore, command: "echo '{no'", ran: true, asked: 1, notice: "no JSON"},
		"it says too much":       {event: chat.HookBefore, command: "echo '{'; yes | head -c 200000", ran: true, asked: 1, notice: "longer than"},
		"it kills itself":        {event: chat.HookBefore, command: "kill -9 $$", ran: true, asked: 1, notice: "has no say"},
		"a message for people":   {event: chat.HookBefore, command: `echo '{"systemMessage":"look\u001b[31m here"}'`, ran: true, asked: 1, notice: "look"},
		"after, it objects":      {event: chat.HookAfter, command: "echo format it >&2; exit 2", ran: true, asked: 1, result: "format it"},
		"after, it adds":         {event: chat.HookAfter, command: veto(chat.HookAfter, `"additionalContext":"by the way"`), ran: true, asked: 1, result: "by the way"},
		"a prompt is refused":    {event: chat.HookPrompt, command: "echo secret >&2; exit 2", refused: "secret"},
		"a prompt is blocked":    {event: chat.HookPrompt, command: `echo '{"decision":"block","reason":"blocked"}'`, refused: "blocked"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.defines(r.h.Own, c.event, c.matcher, c.command)
			err := r.say("hello")
			if (err != nil) != (c.refused != "") || err != nil && (!errors.Is(err, chat.ErrPromptRefused) || !strings.Contains(err.Error(), c.refused)) {
				t.Fatalf("Send: %v", err)
			}
			if r.starts() != 0 || len(r.asks) != c.asked || (r.lines("ran") == 1) != c.ran {
				t.Errorf("ran %d times, asked %d times", r.lines("ran"), len(r.asks))
			}
			if !strings.Contains(r.result.Text, c.result) || c.notice != "" && !r.noticed(c.notice) {
				t.Errorf("result %q, told %q", r.result.Text, r.notices)
			}
			if slices.ContainsFunc(r.notices, func(n string) bool { return strings.ContainsRune(n, 0x1b) }) {
				t.Errorf("told %q", r.notices)
			}
		})
	}
}

func TestAHookIsToldWhatHappens(t *testing.T) {
	for event, want := range map[chat.HookEvent][]string{
		chat.HookPrompt: {`"prompt":"hello"`, `"hook_event_name":"UserPromptSubmit"`, `"session_id":"`, `"cwd":`},
		chat.HookBefore: {`"tool_name":"Bash"`, `"tool_input":{"command":"echo ran \u003e\u003e ran"}`, `"tool_use_id":"c1"`, `"permission_mode":"default"`},
		chat.HookAfter:  {`"tool_name":"Bash"`, `"tool_response":{"is_error":false`},
		chat.HookStop:   {`"stop_hook_active":false`},
	} {
		r := newRig(t)
		r.defines(r.h.Own, event, "", "cat > told; echo $CLAUDE_PROJECT_DIR > where")
		if err := r.say("hello"); err != nil {
			t.Fatal(err)
		}
		told, err := os.ReadFile(filepath.Join(r.dir, "told"))
		for _, part := range want {
			if !strings.Contains(string(told), part) {
				t.Errorf("%s: %s, %v: no %s", event, told, err, part)
			}
		}
		if where, err := os.ReadFile(filepath.Join(r.dir, "where")); err != nil || strings.TrimSpace(string(where)) != r.dir {
			t.Errorf("%s: in %q, %v", event, where, err)
		}
	}
}

func TestAHookThatHangsIsStoppedWithAllThatItStarted(t *testing.T) {
	r := newRig(t)
	r.write(r.h.Own, `{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"sleep 600 & sleep 600","timeout":0.2}]}]}}`)
	if err := r.say("hello"); err != nil {
		t.Fatal(err)
	}
	if !r.noticed("was stopped after 200ms") || r.lines("ran") != 1 {
		t.Errorf("%q", r.notices)
	}
	// One that leaves something behind which holds its output open ends, too.
	r.write(r.h.Own, `{"hooks":{"PreToolUse":[{"hooks":[{"command":"sleep 600 & echo no >&2; exit 2"}]}]}}`)
	if err := r.say("hello"); err != nil || !strings.Contains(r.result.Text, "no") {
		t.Errorf("%v, %+v, %q", err, r.result, r.notices)
	}
}

func TestHooksAreHeldInTheSandboxUnlessThePersonExemptsTheirOwn(t *testing.T) {
	r := newRig(t)
	held := 0
	r.h.Sandbox = &tool.Sandbox{Policy: func() sandbox.Policy { return sandbox.Policy{Root: r.dir, Home: r.dir} },
		Confine: func(sandbox.Policy, *exec.Cmd) (*sandbox.Fence, error) { held++; return nil, nil }}
	const off = `{"hooks":{"UserPromptSubmit":[{"hooks":[{"command":"echo x >> hooked","sandbox":{"off":true}}]}]}}`
	r.write(".tidemark/hooks.json", off)
	if err := r.say("hello"); err != nil || held != 1 || r.lines("hooked") != 1 {
		t.Errorf("of the project: %v, held %d times, ran %d times", err, held, r.lines("hooked"))
	}
	r.write(".tidemark/hooks.json", "{}")
	r.write(r.h.Own, off)
	r.h.Unfenced = "there is no sandbox"
	if err := r.say("hello"); err != nil || held != 1 || r.lines("hooked") != 2 {
		t.Errorf("of the person: %v, held %d times, ran %d times", err, held, r.lines("hooked"))
	}
}

func TestWhatIsWrongWithAFileIsSaidOnce(t *testing.T) {
	r := newRig(t)
	r.write(".claude/settings.json", `{"permissions":{"allow":["Bash(*)"]},"hooks":{"SessionEnd":[{"hooks":[{"command":"touch started"}]}],"PreToolUse":[{"matcher":"(","hooks":[{"command":"touch started"}]},{"hooks":[{"type":"prompt"}]}]}}`)
	r.write(".tidemark/hooks.json", "{")
	if err := r.say("hello"); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"SessionEnd", "matcher", `"prompt"`, ".tidemark/hooks.json"} {
		if n := len(slices.DeleteFunc(slices.Clone(r.notices), func(s string) bool { return !strings.Contains(s, part) })); n != 1 {
			t.Errorf("%s is said %d times: %q", part, n, r.notices)
		}
	}
	if len(r.asks) != 1 || r.starts() != 0 {
		t.Errorf("asked: %+v", r.asks) // what the file allows counts for nothing
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "{}", `{"hooks":{}}`, `{"hooks":[]}`, `{"hooks":{"Stop":[{"hooks":[{"command":"x","timeout":1e300}]}]}}`, `{"hooks":{"PreToolUse":[{"matcher":"a|b*","hooks":[{"type":"command","command":"y"}]}]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, raw, left, err := hook.Parse(b)
		if err != nil && len(all) > 0 || len(all) > 0 && len(raw) == 0 || len(all) > 64 {
			t.Fatalf("%v %q %v", all, raw, err)
		}
		for _, d := range all {
			if strings.TrimSpace(d.Command) == "" || d.Timeout <= 0 || d.Timeout.Minutes() > 10 {
				t.Fatalf("%+v", d)
			}
		}
		if utf8.Valid(b) && !utf8.ValidString(strings.Join(left, "")) {
			t.Fatalf("%q", left)
		}
	})
}
