package watch

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark/render"
)

// Screen shows people what a watcher does: on a terminal one line for each home,
// which changes, and elsewhere a line for everything that happened. It may be used
// concurrently.
type Screen struct {
	W        io.Writer
	Terminal bool
	Columns  int
	// Path abbreviates a path; nil: it is shown whole.
	Path func(string) string

	mu    sync.Mutex
	homes []shown
	lines int // that are on the screen
}

// shown is what stands on the screen of a home: its newest Event, with the sums of
// what was imported.
type shown struct {
	Event
	changed  sessionSet
	progress string // of an import that goes on; "": none does
}

// Tell shows an Event. It is what Options.Tell wants.
func (s *Screen) Tell(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.Terminal {
		fmt.Fprintln(s.W, render.CleanLine(s.line(e)))
		return
	}
	if e.State == Missing || e.State == Left {
		s.homes = slices.DeleteFunc(s.homes, func(h shown) bool { return h.Tool == e.Tool && h.Path == e.Path })
		s.paint(s.line(e))
		return
	}
	h := s.home(e.Tool, e.Path)
	e.Sessions, e.Entries = h.changed.add(e), e.Entries+h.Entries
	h.Event, h.progress = e, ""
	s.paint()
}

// Progress shows on a terminal how far an import is. It is what Options.Progress wants.
func (s *Screen) Progress(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Terminal {
		s.home(p.Tool, p.Path).progress = p.String()
		s.paint()
	}
}

// home is what stands on the screen of a home.
func (s *Screen) home(tool, path string) *shown {
	for i := range s.homes {
		if h := &s.homes[i]; h.Tool == tool && h.Path == path {
			return h
		}
	}
	s.homes = append(s.homes, shown{Event: Event{Tool: tool, Path: path}, changed: make(sessionSet)})
	return &s.homes[len(s.homes)-1]
}

// paint shows all homes again, in the place where they are, below lines that stay.
func (s *Screen) paint(stay ...string) {
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", s.lines)
	}
	lines := stay
	if len(s.homes) > 0 {
		lines = append(lines, fmt.Sprintf(columns, "TIME", "TOOL", "SESSIONS", "ENTRIES", "LAG", "WHERE"))
	}
	for _, h := range s.homes {
		line := s.row(h.Event)
		if h.progress != "" {
			line = fmt.Sprintf("%s  %-14s %s  %s", time.Now().Format(time.TimeOnly), h.Tool, h.progress, s.path(h.Path))
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		b.WriteString(render.Truncate(render.CleanLine(line), max(s.Columns-1, 20)) + "\n")
	}
	s.lines = len(lines) - len(stay)
	io.WriteString(s.W, b.String()) // there is nobody to tell that the terminal is gone
}

// columns are those of the screen. With the heads that are no paths they leave 25 of
// 80 for where a home is, and what is to be said about it.
const columns = "%-8s  %-14s  %8s  %8s  %6s  %s"

// row is what stands on the screen of a home. What it only hints at is in the status.
func (s *Screen) row(e Event) string {
	lag := ""
	if e.LagMS > 0 {
		lag = shortly(time.Duration(e.LagMS) * time.Millisecond)
	}
	where := s.path(e.Path)
	for _, note := range []struct {
		is   bool
		says string
	}{
		{e.State == Paused, "paused"},
		{e.State == Full, "the store is full: see watch status"},
		{e.State == Silent, "does not answer"},
		{e.State == Reading, "is being read"},
		{len(e.Problems) > 0, fmt.Sprintf("%d problem(s): see watch status", len(e.Problems))},
		{e.Waiting > 0, fmt.Sprintf("%d open here", e.Waiting)},
		{e.Drafts > 0, "being written"},
		{e.Swept != "", "swept"},
	} {
		if note.is {
			where += ", " + note.says
		}
	}
	return fmt.Sprintf(columns, e.At.Local().Format(time.TimeOnly), e.Tool, fmt.Sprint(e.Sessions), fmt.Sprint(e.Entries), lag, where)
}

// shortly is a duration in six columns.
func shortly(d time.Duration) string {
	switch {
	case d >= 100*time.Second:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d >= time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.String()
}

// path is a path as it is shown.
func (s *Screen) path(path string) string {
	if s.Path == nil {
		return path
	}
	return s.Path(path)
}

// without says of states in which nothing is imported from a home why.
var without = map[string]string{
	Missing: "is gone, its sessions stay",
	Left:    "is no longer followed, its sessions stay",
	Silent:  "does not answer, the others go on",
	Reading: "is being read, the others go on",
}

// line says in a line what happened.
func (s *Screen) line(e Event) string {
	begin := fmt.Sprintf("%s  %-14s ", e.At.Local().Format(time.TimeOnly), e.Tool)
	if why := without[e.State]; why != "" {
		return begin + why + "  " + s.path(e.Path)
	}
	says := begin + fmt.Sprintf("%d session(s), %d new entries", e.Sessions, e.Entries)
	if e.Drafts > 0 {
		says += ", being written"
	}
	if e.Waiting > 0 {
		says += fmt.Sprintf(", %d waiting: open here", e.Waiting)
	}
	if e.LagMS > 0 {
		says += fmt.Sprintf(", %s after", time.Duration(e.LagMS)*time.Millisecond)
	}
	switch e.State {
	case Paused:
		says += "; paused"
	case Full:
		says += "; the store is as large as watch.max_bytes allows: nothing is taken in until there is room"
	}
	says += "  " + s.path(e.Path)
	if e.Swept != "" {
		says += "; looked through from time to time: " + e.Swept
	}
	if n := len(e.Problems); n > 0 {
		says += fmt.Sprintf("; %d problem(s): %s", n, e.Problems[0])
	}
	return says
}
