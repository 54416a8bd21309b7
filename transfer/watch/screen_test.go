package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
)

func TestTheScreenFitsInEightyColumns(t *testing.T) {
	var b strings.Builder
	s := &Screen{W: &b, Terminal: true, Columns: 80}
	s.Tell(Event{Tool: "factory-droid", Path: "~/.factory/sessions", Entries: 123_456, LagMS: 59_999})
	s.Tell(Event{Tool: "claude-code", Path: "~/.claude", LagMS: 7_200_000, Drafts: 1, Swept: "many folders", Problems: []string{strings.Repeat("long ", 40)}})
	for line := range strings.Lines(b.String()[strings.LastIndex(b.String(), "\x1b[J")+len("\x1b[J"):]) {
		if n := render.Width(strings.TrimSuffix(line, "\n")); n > 79 {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.Contains(line, "factory-droid") && !strings.Contains(line, " 60.0s  ~/.factory/sessions\n") {
			t.Errorf("where a home is does not fit: %s", line)
		}
	}
}

func TestTheScreenHasALineForEachHomeAndCountsASessionOnce(t *testing.T) {
	var b strings.Builder
	s := &Screen{W: &b, Terminal: true, Columns: 100, Path: func(p string) string { return "~" + p }}
	one, two := tidemark.NewSessionID(), tidemark.NewSessionID()
	s.Tell(Event{Tool: "codex", Path: "/.codex", Sessions: 1, Entries: 2, changed: []tidemark.SessionID{one}})
	s.Tell(Event{Tool: "pi", Path: "/.pi", State: Paused, Problems: []string{"a file\x1b[2J"}})
	s.Tell(Event{Tool: "codex", Path: "/.codex", Sessions: 2, Entries: 3, Drafts: 1, changed: []tidemark.SessionID{one, two}})
	end := func() string { return b.String()[strings.LastIndex(b.String(), "\x1b[3A"):] }
	lines := strings.Split(strings.TrimSuffix(end(), "\n"), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "codex                  2         5          ~/.codex, being written") ||
		!strings.Contains(lines[2], ", paused, 1 problem(s)") || strings.Contains(end(), "\x1b[2J") {
		t.Errorf("the screen ends with %q", lines)
	}
	s.Progress(Progress{Tool: "pi", Path: "/.pi", Done: 10, Expected: 40, For: 5 * time.Second})
	if !strings.Contains(end(), "pi             10 of about 40 sessions, 2 a second, 15s left  ~/.pi") || !strings.Contains(end(), "~/.codex") {
		t.Errorf("during an import it ends with %q", end())
	}
	s.Tell(Event{Tool: "pi", Path: "/.pi", Sessions: 40})
	if strings.Contains(end(), "about") {
		t.Errorf("after it it ends with %q", end())
	}
	s.Tell(Event{Tool: "codex", Path: "/.codex", State: Left})
	lines = strings.Split(strings.TrimSuffix(end(), "\n"), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "codex          is no longer followed, its sessions stay  ~/.codex") || !strings.Contains(lines[2], "pi") {
		t.Errorf("when a home left it ends with %q", lines)
	}
	s.Tell(Event{Tool: "pi", Path: "/.pi", State: Missing})
	if last := b.String()[strings.LastIndex(b.String(), "\x1b[2A"):]; strings.Count(last, "\n") != 1 || !strings.Contains(last, "pi             is gone, its sessions stay") {
		t.Errorf("when the last home left it ends with %q", last)
	}

	b.Reset()
	s = &Screen{W: &b}
	s.Progress(Progress{Tool: "pi", Path: "/.pi", Done: 10})
	s.Tell(Event{Tool: "codex", Path: "/.codex", Sessions: 1, Entries: 2, LagMS: 40})
	if got := b.String(); strings.Contains(got, "\x1b") || !strings.Contains(got, "1 session(s), 2 new entries, 40ms after  /.codex\n") {
		t.Errorf("a pipe gets %q", got)
	}
}
