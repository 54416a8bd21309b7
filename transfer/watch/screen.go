package watch

import (
	"fmt"
	"io"
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

// paint shows all homes again, in the place where they are.
func (s *Screen) paint() {
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines)
	}
	for _, h := range s.homes {
		line := s.line(h.Event)
		if h.progress != "" {
			line = fmt.Sprintf("%s  %-14s %s  %s", time.Now().Format(time.TimeOnly), h.Tool, h.progress, s.path(h.Path))
		}
		b.WriteString("\r\x1b[K" + render.Truncate(render.CleanLine(line), max(s.Columns-1, 20)) + "\n")
	}
	s.lines = len(s.homes)
	io.WriteString(s.W, b.String()) // there is nobody to tell that the terminal is gone
}

// path is a path as it is shown.
func (s *Screen) path(path string) string {
	if s.Path == nil {
		return path
	}
	return s.Path(path)
}

// line says in a line what happened.
func (s *Screen) line(e Event) string {
	says := fmt.Sprintf("%s  %-14s %d session(s), %d new entries", e.At.Local().Format(time.TimeOnly), e.Tool, e.Sessions, e.Entries)
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
	case Missing:
		says += "; is not there any more, what was taken in stays"
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
