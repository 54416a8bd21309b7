package resume

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// machine is a home folder with programs in it.
type machine struct {
	t       *testing.T
	home    string
	environ []string
	s       *store.Store
}

func newMachine(t *testing.T, programs ...string) *machine {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell for a program that stands for a tool")
	}
	m := &machine{t: t, home: t.TempDir(), s: store.New(memory.New(), nil)}
	bin := filepath.Join(m.home, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho \"the tool, version 3.14.15 (new)\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.environ = []string{"HOME=" + m.home, "PATH=" + bin}
	return m
}

// session is a session that is kept, of a tool or of nobody.
func (m *machine) session(project string) tidemark.SessionID {
	m.t.Helper()
	w := m.s.Create(tidemark.Session{Title: "tea", Project: project}, store.Self("test"))
	for _, e := range []tidemark.Entry{tidemark.Say(tidemark.User, "which tea?"), tidemark.Say(tidemark.Assistant, "green")} {
		if _, err := w.Append(m.t.Context(), e); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := w.Close(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	return w.ID()
}

func (m *machine) prepare(id tidemark.SessionID, in string, args ...string) (*Start, error) {
	m.t.Helper()
	v, err := m.s.View(m.t.Context(), id)
	if err != nil {
		m.t.Fatal(err)
	}
	return Prepare(m.t.Context(), Request{Point: store.Point{View: v}, In: in, Dir: m.home, Args: args, Environ: m.environ, State: filepath.Join(m.home, "state"), Holder: store.Self("test")})
}

func TestAToolIsStartedOnTheSessionThatItWasGiven(t *testing.T) {
	m := newMachine(t, "claude", "codex", "opencode")
	id := m.session(m.home)
	for _, c := range []struct {
		in   string
		args []string
		want string // ID is that of the session there, and HOME the folder
	}{
		{"claude-code", []string{"-p", "it's warm"}, "bin/claude --resume ID -p 'it'\\''s warm'"},
		{"codex", nil, "bin/codex resume ID"},
		{"codex", []string{"exec", "go on"}, "bin/codex exec resume ID 'go on'"},
		{"opencode", []string{"--auto"}, "bin/opencode import HOME/.local/share/opencode/opencode-import/ID.json && HOME/bin/opencode -s ID --auto"},
		{"opencode", []string{"run", "go on"}, "bin/opencode import HOME/.local/share/opencode/opencode-import/ID.json && HOME/bin/opencode run -s ID 'go on'"},
	} {
		start, err := m.prepare(id, c.in, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		want := "cd " + m.home + " && " + filepath.Join(m.home, strings.NewReplacer("ID", start.ForeignID, "HOME", m.home).Replace(c.want))
		if got := start.Shell(); got != want || start.Version != "3.14.15" || start.Tool != c.in {
			t.Errorf("%+v: %s, want %s", start, got, want)
		}
		if _, err := m.s.HandedOver(t.Context(), c.in, start.ForeignID); err != nil {
			t.Error(err)
		}
	}
}

func TestWithoutANameASessionGoesOnInItsToolIfThatIsInstalledElseInChat(t *testing.T) {
	with, without := newMachine(t, "codex"), newMachine(t)
	for _, m := range []*machine{with, without} {
		given, err := newMachineSession(m)
		if err != nil {
			t.Fatal(err)
		}
		start, err := m.prepare(given, "")
		if err != nil {
			t.Fatal(err)
		}
		if want := map[*machine]string{with: "codex", without: Chat}[m]; start.Tool != want {
			t.Errorf("it goes on in %s, want %s", start.Tool, want)
		}
		if own, err := m.prepare(m.session(m.home), ""); err != nil || own.Tool != Chat || own.Command[1] != "chat" || !slices.Contains(own.Command, string(own.Session)) {
			t.Errorf("a session from here goes on in %+v, %v", own, err)
		}
	}
}

// newMachineSession is a session that came from Codex, which another store gave it.
func newMachineSession(m *machine) (tidemark.SessionID, error) {
	other := newMachine(m.t, "codex")
	other.environ[0] = "HOME=" + m.home
	if _, err := other.prepare(other.session(m.home), "codex"); err != nil {
		return "", err
	}
	results, err := transfer.Import(m.t.Context(), m.s, filepath.Join(m.home, ".codex"), nil)
	if err != nil || len(results) != 1 {
		return "", errors.Join(err, errors.New("not imported"))
	}
	return results[0].Session, nil
}

func TestWhatCannotGoOnIsRefusedAndNothingIsWritten(t *testing.T) {
	m := newMachine(t, "codex")
	id := m.session(m.home)
	held, trashed := m.session(m.home), m.session(m.home)
	w, err := m.s.Attach(t.Context(), held, tidemark.Holder{Program: "a chat", Host: "ada", PID: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	if err := m.s.Trash(t.Context(), trashed); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id   tidemark.SessionID
		in   string
		want error
		says string
	}{
		{id, "claude-code", tidemark.ErrNotFound, `"claude"`},
		{id, "nonsense", tidemark.ErrInvalid, "want one of claude-code, codex, opencode, kilo-cli, pi, qwen-code, kimi-code, gemini-cli, chat"},
		{id, "cursor", tidemark.ErrUnsupported, "cursor"},
		{held, "codex", tidemark.ErrHeld, "a chat"},
		{trashed, "codex", tidemark.ErrInvalid, "trash"},
	} {
		if _, err := m.prepare(c.id, c.in); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("in %s: %v, want %v that says %s", c.in, err, c.want, c.says)
		}
	}
	if _, err := os.Stat(filepath.Join(m.home, ".codex")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

func TestAPersonIsToldWhenTheToolWorksInAnotherProject(t *testing.T) {
	m := newMachine(t, "codex")
	m.environ[1] += ":" + os.Getenv("PATH")
	m.s = store.New(memory.New(), &store.Options{
		Marks: func(ctx context.Context, folder string) ([]string, error) {
			return project.Marks(ctx, folder, m.environ)
		},
		There: func(folder string) bool { _, err := os.Stat(folder); return err == nil },
	})
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = m.home
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	git("init", "-q", "one")
	git("-C", "one", "commit", "-q", "--allow-empty", "-m", "first")
	git("clone", "-q", "one", "copy")
	git("init", "-q", "two")
	id := m.session(filepath.Join(m.home, "one"))
	for _, c := range []struct {
		folder string
		noted  bool
	}{{"one", false}, {"one/below", false}, {"copy", false}, {"two", true}, {"moved", false}, {"copy", false}, {"two", true}} {
		if c.folder == "moved" {
			if err := os.Rename(filepath.Join(m.home, "one"), filepath.Join(m.home, "moved")); err != nil {
				t.Fatal(err)
			}
		}
		folder, noted := c.folder, c.noted
		v, err := m.s.View(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		start, err := Prepare(t.Context(), Request{Point: store.Point{View: v}, In: "codex", Dir: filepath.Join(m.home, folder), Environ: m.environ, Holder: store.Self("test")})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(start.Notes, func(n string) bool { return strings.Contains(n, "is about") }); got != noted {
			t.Errorf("in %s: %q", folder, start.Notes)
		}
	}
}

func TestWhatAToolAddedBeforeIsTakenInBeforeTheNextGoesOn(t *testing.T) {
	m := newMachine(t, "claude", "codex")
	id := m.session(m.home)
	first, err := m.prepare(id, "codex")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(m.home, ".codex", "sessions", "*", "*", "*", "*"+first.ForeignID+".jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	more := `{"timestamp":"2026-11-15T00:27:30.008Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"How warm?"}]}}
{"timestamp":"2026-11-15T00:27:31.008Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"80 degrees"}]}}
{"timestamp":"2026-11-15T00:27:31.018Z","type":"event_msg","payload":{"type":"task_complete","last_agent_message":"80 degrees"}}
`
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(more); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := m.prepare(id, "claude-code")
	if err != nil {
		t.Fatal(err)
	}
	files, err = filepath.Glob(filepath.Join(m.home, ".claude", "projects", "*", next.ForeignID+".jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(text), "80 degrees") || !strings.Contains(string(text), "was said in Codex, and goes on in Claude Code") {
		t.Errorf("%v\n%s", err, text)
	}
	said, err := next.TakeIn(t.Context(), time.Now())
	if err != nil || !strings.HasPrefix(said, "0 new entries of Claude Code") {
		t.Errorf("TakeIn = %q, %v", said, err)
	}
}

func TestAVersionThatNobodyTriedIsToldAndAskedForOnce(t *testing.T) {
	m := newMachine(t)
	id := m.session(m.home)
	program := filepath.Join(m.home, "bin", "codex")
	asked := filepath.Join(m.home, "asked")
	install := func(version string) {
		t.Helper()
		if err := os.WriteFile(program, []byte("#!/bin/sh\necho asked >> "+asked+"\necho codex-cli "+version+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := clientOf("codex")
	for n, v := range []struct{ version, want string }{
		{c.tried, ""},
		{series(c.tried) + ".999", ""},
		{"3.0.0-beta.1", "It is written as for Codex 0.169.x; yours is 3.0.0-beta.1."},
		{"0.98.0", "It is written as for Codex 0.169.x; yours is 0.98.0."},
	} {
		install(v.version)
		for range 2 {
			start, err := m.prepare(id, "codex")
			if err != nil {
				t.Fatal(err)
			}
			told := ""
			for _, note := range start.Notes {
				if strings.Contains(note, "written as for") {
					told = note
				}
			}
			if told != v.want || start.Version != v.version {
				t.Errorf("version %s: told %q, want %q", start.Version, told, v.want)
			}
		}
		if b, err := os.ReadFile(asked); err != nil || strings.Count(string(b), "asked") != n+1 {
			t.Errorf("after version %s it was asked %d times, %v; want once for each", v.version, strings.Count(string(b), "asked"), err)
		}
	}
	// What is remembered may be anything.
	for _, torn := range []string{"", "null", "{", `{"x":3}`} {
		if err := os.WriteFile(filepath.Join(m.home, "state", versionFile), []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		if start, err := m.prepare(id, "codex"); err != nil || start.Version != "0.98.0" {
			t.Errorf("after %q: %+v, %v", torn, start, err)
		}
	}
}
