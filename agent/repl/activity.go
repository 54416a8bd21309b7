package repl

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/render"
)

const (
	// tickTime is how often the sign of life moves.
	tickTime = 250 * time.Millisecond
	// tailRows is how many of the last lines of a running tool are shown.
	tailRows = 3
	// maxTailBytes bounds the unfinished line of a running tool's output.
	maxTailBytes = 4 << 10
)

// activity is the sign of life while the agent works: what it does, for how
// long, and the end of what a running tool puts out. Nothing of it remains on
// the screen.
type activity struct {
	what  string
	since time.Time
	tail  []string // lines of the running tool, the last one unfinished
	spins int
}

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// becomes notes what happens from now on.
func (a *activity) becomes(what string, now time.Time) {
	if a.what != what {
		a.what, a.since, a.tail = what, now, nil
	}
}

// output adds output of the running tool.
func (a *activity) output(text string) {
	last := ""
	if n := len(a.tail); n > 0 {
		last, a.tail = a.tail[n-1], a.tail[:n-1]
	}
	lines := strings.Split(last+text, "\n")
	end := &lines[len(lines)-1]
	*end = (*end)[max(0, len(*end)-maxTailBytes):]
	a.tail = append(a.tail, lines...)
	a.tail = a.tail[max(0, len(a.tail)-tailRows-1):]
}

// rows are the rows that show it, in so many columns.
func (a *activity) rows(columns int, now time.Time) []string {
	if a.what == "" {
		return nil
	}
	life := fmt.Sprintf("  %c %s · Esc stops", spinner[a.spins%len(spinner)], elapsed(now.Sub(a.since)))
	rows := []string{"▸ " + render.Truncate(a.what, max(columns-1-2-render.Width(life), 8)) + life}
	for _, line := range a.tail {
		if line = strings.TrimRight(line, "\r "); line != "" {
			rows = append(rows, "  "+render.CleanLine(strings.ReplaceAll(line, "\t", "    ")))
		}
	}
	return append(rows[:1], rows[max(1, len(rows)-tailRows):]...)
}

// elapsed is a duration in whole seconds, for people.
func elapsed(d time.Duration) string {
	s := int(d.Seconds())
	if s < 60 {
		return fmt.Sprintf("%d s", s)
	}
	return fmt.Sprintf("%d:%02d min", s/60, s%60)
}
