package render

import (
	"fmt"
	"io"
	"strings"
)

// Table prints rows aligned on a terminal, and as plain tab-separated lines,
// with nothing cut and no heading, in a pipe.
type Table struct {
	Head     []string
	Terminal bool
	Color    bool
	Columns  int // of the terminal

	rows [][]string
}

// Row adds a row; what a terminal could act on is made harmless.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.Head))
	for i := range row {
		row[i] = CleanLine(cells[i])
	}
	t.rows = append(t.rows, row)
}

// Print writes the table.
func (t *Table) Print(w io.Writer) error {
	if !t.Terminal {
		for _, r := range t.rows {
			fmt.Fprintln(w, strings.Join(r, "\t"))
		}
		return nil
	}
	if len(t.rows) == 0 {
		return nil
	}
	widths := make([]int, len(t.Head))
	for _, r := range append([][]string{t.Head}, t.rows...) {
		for i, c := range r {
			widths[i] = max(widths[i], Width(c))
		}
	}
	for n, r := range append([][]string{t.Head}, t.rows...) {
		line := t.line(r, widths)
		if n == 0 && t.Color {
			line = "\x1b[1m" + line + "\x1b[0m"
		}
		fmt.Fprintln(w, line)
	}
	return nil
}

// line aligns one row; the last column gets the remaining room.
func (t *Table) line(cells []string, widths []int) string {
	var b strings.Builder
	used := 0
	for i, c := range cells {
		if i == len(cells)-1 {
			b.WriteString(Truncate(c, max(t.Columns-used, 8)))
			break
		}
		b.WriteString(c)
		b.WriteString(strings.Repeat(" ", widths[i]-Width(c)+2))
		used += widths[i] + 2
	}
	return strings.TrimRight(b.String(), " ")
}
