package chat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

func TestShellLinesOfAProjectRunApprovedAndHeldOnly(t *testing.T) {
	r := newRig(t, newMemory(), nil)
	script := filepath.Join(r.dir, "do.sh")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("printf x >> ran; echo hello")
	request := func() chat.StartRequest {
		return chat.StartRequest{Name: "the shell lines of /x", File: "x.md", Says: json.RawMessage(`{"runs":["sh do.sh"]}`), Parts: chat.PartsOf(r.dir, chat.ShellWords(`sh "do.sh"`, nil))}
	}
	try := func(own bool) ([]string, error) {
		t.Helper()
		c := r.new()
		defer r.close(c)
		q := request()
		q.Own = own
		return c.RunLines(t.Context(), q, []string{"sh do.sh"})
	}
	refused := func(why string) {
		t.Helper()
		before := ran(t, r)
		if _, err := try(false); !errors.Is(err, tidemark.ErrDenied) || ran(t, r) != before {
			t.Errorf("%s: %v, ran %d times", why, err, ran(t, r)-before)
		}
	}
	r.o.Unattended = true
	refused("nobody is there")
	if len(r.asks) != 0 {
		t.Errorf("asked: %+v", r.asks)
	}
	r.o.Unattended = false
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Always, nil }
	out, err := try(false)
	if err != nil || len(out) != 1 || !strings.Contains(out[0], "hello") || !strings.HasPrefix(out[0], "<data ") || len(r.asks) != 1 {
		t.Fatalf("approved: %v %q, asked %d times", err, out, len(r.asks))
	}
	r.o.Unattended = true
	if _, err := try(false); err != nil || ran(t, r) != 2 {
		t.Errorf("approved for the project: %v, ran %d times", err, ran(t, r))
	}
	write("printf xx >> ran")
	refused("its script changed")
	if _, err := try(true); err != nil {
		t.Errorf("the person's own: %v", err)
	}
	write("printf x >> ran; echo hello")
	box := r.o.Box
	r.o.Box = func(s tool.State, f tool.Files, l store.Limits, out func(string, []byte)) (*tool.Box, error) {
		return tool.New(tool.Options{Root: r.dir, Environ: []string{"PATH=" + os.Getenv("PATH")}, Unfenced: "there is no sandbox", State: s, Files: f, Output: out})
	}
	refused("it cannot be held")
	r.o.Box = box
}

func TestWhatACommandNamesIsPartOfIt(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.sh", "b c.sh", "hooks/d.py", "e.sh"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string]string{
		"sh a.sh":              "a.sh",
		"cat <a.sh|./e.sh":     "a.sh e.sh",
		"sh 'b c.sh' && true":  "b c.sh",
		`"$ROOT"/hooks/d.py x`: "hooks/d.py",
		"${ROOT}/hooks/d.py;":  "hooks/d.py",
		"x --file=a.sh":        "a.sh",
		dir + "/e.sh":          "e.sh",
		"../a.sh none .":       "",
		"cd hooks; ../a.sh":    "",
	} {
		var got []string
		parts := chat.PartsOf(dir, chat.ShellWords(command, map[string]string{"ROOT": dir}))
		for _, name := range []string{"a.sh", "b c.sh", "e.sh", "hooks/d.py"} {
			if len(parts[name]) == 64 {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want || len(got) != len(parts) {
			t.Errorf("%s: %q, want %q", command, parts, want)
		}
	}
}

func TestALongFileIsApprovedByAllOfIt(t *testing.T) {
	dir := t.TempDir()
	part := func() string { return chat.PartsOf(dir, []string{"long"})["long"] }
	content := bytes.Repeat([]byte("tide"), 5<<20)
	write := func() {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "long"), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	before := part()
	if before == "" || part() != before {
		t.Fatalf("%q, then %q", before, part())
	}
	content[len(content)-1]++
	write()
	if part() == before {
		t.Error("a byte at its end changes nothing")
	}
	// Longer than anybody waits for: no answer is for good.
	if err := os.Truncate(filepath.Join(dir, "long"), 1<<40); err != nil {
		t.Skipf("the file system has no such files: %v", err)
	}
	if a, b := part(), part(); a == "" || a == b {
		t.Errorf("a file that is not read is %q, and %q again", a, b)
	}
}
