package watch

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

func TestTheScreenHasALineForEachHomeAndCountsASessionOnce(t *testing.T) {
	var b strings.Builder
	s := &Screen{W: &b, Terminal: true, Columns: 100, Path: func(p string) string { return "~" + p }}
	one, two := tidemark.NewSessionID(), tidemark.NewSessionID()
	s.Tell(Event{Tool: "codex", Path: "/.codex", Sessions: 1, Entries: 2, changed: []tidemark.SessionID{one}})
	s.Tell(Event{Tool: "pi", Path: "/.pi", State: Paused, Problems: []string{"a file\x1b[2J"}})
	s.Tell(Event{Tool: "codex", Path: "/.codex", Sessions: 2, Entries: 3, Drafts: 1, changed: []tidemark.SessionID{one, two}})
	last := b.String()[strings.LastIndex(b.String(), "\x1b[2A"):]
	lines := strings.Split(strings.TrimSuffix(last, "\n"), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "codex          2 session(s), 5 new entries, being written  ~/.codex") ||
		!strings.Contains(lines[1], "; paused") || strings.Contains(lines[1], "\x1b[2J") {
		t.Errorf("the screen ends with %q", lines)
	}
	s.Progress(Progress{Tool: "pi", Path: "/.pi", Done: 10, Expected: 40, For: 5 * time.Second})
	if last := b.String()[strings.LastIndex(b.String(), "\x1b[2A"):]; !strings.Contains(last, "pi             10 of about 40 sessions, 2 a second, 15s left  ~/.pi") || !strings.Contains(last, "5 new entries") {
		t.Errorf("during an import it ends with %q", last)
	}
	s.Tell(Event{Tool: "pi", Path: "/.pi", Sessions: 40})
	if last := b.String()[strings.LastIndex(b.String(), "\x1b[2A"):]; strings.Contains(last, "about") {
		t.Errorf("after it it ends with %q", last)
	}

	b.Reset()
	s = &Screen{W: &b}
	s.Progress(Progress{Tool: "pi", Path: "/.pi", Done: 10})
	s.Tell(Event{Tool: "codex", Path: "/.codex", Sessions: 1, Entries: 2, LagMS: 40})
	if got := b.String(); strings.Contains(got, "\x1b") || !strings.Contains(got, "1 session(s), 2 new entries, 40ms after  /.codex\n") {
		t.Errorf("a pipe gets %q", got)
	}
}
