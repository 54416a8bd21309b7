package repl

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
)

const (
	// maxDiffRows is how many rows of a change are shown at once, maxEndRows
	// how many of the last lines of a command or a failure.
	maxDiffRows = 20
	maxEndRows  = 4
	// maxFolded bounds how many calls can be unfolded: each may have tens of
	// kilobytes.
	maxFolded = 50
)

// running is the call that runs.
type running struct {
	chat.Call
	began   time.Time
	printed bool // it put something out
	seen    bool // the person saw all of it when they were asked
	diff    []render.DiffLine
}

// folded is a call that was shown in short.
type folded struct {
	title string
	about string // how long it was and took, in brackets
	rows  []string
	cut   []string // the rows, cut at the edge of the screen
}

// call shows that a call begins.
func (s *screen) call(c chat.Call) {
	s.shown = 0
	s.running = &running{Call: c, began: time.Now(), seen: s.approved == c.ID}
	if c.Change != nil {
		s.running.diff = render.Diff(*c.Change)
	}
	title := render.Call(c.Tool, c.Input)
	if s.progress == nil {
		s.dim("▸ " + title)
		return
	}
	s.flush()
	s.becomes(title)
}

// allowed notes that the person saw all of a call and allowed it.
func (s *screen) allowed(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.approved = id
}

// output shows what the running tool puts out.
func (s *screen) output(text string) {
	if s.running != nil {
		s.running.printed = true
	}
	if s.progress != nil {
		s.activity.output(text)
		return
	}
	for line := range strings.Lines(text) {
		if s.shown++; s.shown > maxShown {
			break
		}
		s.dim("  " + strings.TrimRight(line, "\n"))
	}
}

// result shows how a call ended: in one line, with what a person wants to see of
// it at once. All of it can be unfolded.
func (s *screen) result(b tidemark.Block) {
	r := s.running
	s.running = nil
	s.becomes("")
	switch {
	case r == nil || r.ID != b.ToolUseID: // it was not run, or began in another view
		if b.IsError {
			s.dim("  ✗ " + render.Phrase(b.Text))
		}
		return
	case s.progress == nil:
		s.plainResult(*r, b)
		return
	}
	f, head, tail := s.fold(*r, b)
	rows := f.cut
	if hidden := len(rows) - head - tail; hidden > 0 {
		more := s.style("2", fmt.Sprintf("… %s more, Ctrl-O shows all", plural(hidden, "line")))
		rows = append(append(append([]string{}, rows[:head]...), more), rows[len(rows)-tail:]...)
		s.keepFolded(f)
	}
	s.dim(render.Truncate(f.title, max(s.rowWidth()-render.Width(f.about), 8)) + f.about)
	for _, row := range rows {
		s.row(row)
	}
}

// fold is a call that ended, and how many of its first and last rows are shown.
func (s *screen) fold(r running, b tidemark.Block) (f folded, head, tail int) {
	sign := "✓ "
	if b.IsError {
		sign = "✗ "
	}
	var about []string
	switch text := blockText(b); {
	case (r.Change != nil || r.diff != nil) && !b.IsError:
		added, removed := render.Changed(r.diff)
		about = append(about, fmt.Sprintf("+%d −%d", added, removed))
		f.rows, f.cut = render.DiffForTerminal(r.diff, 0, s.Color), render.DiffForTerminal(r.diff, s.rowWidth(), s.Color)
		if head = maxDiffRows; r.seen {
			head = 0
		}
	case r.Tool == "task" && !b.IsError && s.tasks != nil:
		f.rows = slash.TaskRows(s.tasks())
		head = len(f.rows)
	default:
		f.rows = textRows(text)
		if r.printed || b.IsError {
			tail = maxEndRows
		}
		if len(f.rows) > tail {
			about = append(about, plural(len(f.rows), "line"))
		}
	}
	if took := time.Since(r.began); took >= time.Second {
		about = append(about, elapsed(took))
	}
	if f.cut == nil {
		for _, row := range f.rows {
			f.cut = append(f.cut, s.style("2", render.Truncate(row, s.rowWidth())))
		}
	}
	f.title = sign + render.Call(r.Tool, r.Input)
	if len(about) > 0 {
		f.about = " (" + strings.Join(about, ", ") + ")"
	}
	return f, head, tail
}

// plainResult shows how a call ended where lines cannot be drawn again.
func (s *screen) plainResult(r running, b tidemark.Block) {
	switch {
	case b.IsError:
		s.dim("  ✗ " + render.Phrase(b.Text))
	case r.diff != nil && !r.seen:
		rows := render.DiffForTerminal(r.diff, s.rowWidth(), s.Color)
		for _, row := range rows[:min(len(rows), maxDiffRows)] {
			s.row(row)
		}
		if more := len(rows) - maxDiffRows; more > 0 {
			s.dim(fmt.Sprintf("  … %d lines more", more))
		}
	case s.shown == 0 && b.Text != "":
		s.dim("  " + render.Phrase(b.Text))
	case s.shown > maxShown:
		s.dim(fmt.Sprintf("  … %d lines more", s.shown-maxShown))
	}
}

// blockText is the text of a result.
func blockText(b tidemark.Block) string {
	text := b.Text
	for _, inner := range b.Blocks {
		text += inner.Text
	}
	return text
}

// textRows are the lines of a text, made harmless.
func textRows(text string) (rows []string) {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		rows = append(rows, render.CleanLine(strings.ReplaceAll(line, "\t", "    ")))
	}
	return rows
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// row prints a row below a call, which is clean and may have colours.
func (s *screen) row(text string) {
	if s.Quiet {
		return
	}
	s.flush()
	fmt.Fprintln(s.side, "  "+text)
}

// rowWidth is how wide a row below a call may be; in a pipe nothing is cut.
func (s *screen) rowWidth() int {
	if columns := s.width(); columns > 0 {
		return max(columns-3, 8)
	}
	return math.MaxInt
}

func (s *screen) keepFolded(f folded) {
	s.folds = append(s.folds, f)
	s.folds = s.folds[max(0, len(s.folds)-maxFolded):]
	s.unfolded = len(s.folds)
}

// unfold shows the newest call that is folded, and each time it is called again
// the one before.
func (s *screen) unfold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unfolded == 0 {
		s.noteLocked("Nothing more is folded.")
		s.unfolded = len(s.folds)
		return
	}
	s.unfolded--
	f := s.folds[s.unfolded]
	s.flush()
	fmt.Fprintln(s.side, s.style("1", s.wrapped("── "+f.title)))
	for _, row := range f.rows {
		fmt.Fprintln(s.side, "  "+row)
	}
	fmt.Fprintln(s.side, s.style("1", "──"))
}
