package render

import "strings"

const (
	maxRowBytes   = 4 << 10
	maxTableBytes = 64 << 10
	maxCells      = 32 // in a row
)

// table collects the rows of a table until it ends and its widths are known.
type table struct {
	rows  []string
	bytes int
}

func (t *table) add(row string) {
	t.rows = append(t.rows, row)
	t.bytes += len(row) + 16
}

// cell is a cell in its final look.
type cell struct {
	runs  []styled
	width int
}

type styled struct {
	look looks
	text string
}

// write writes the table as a grid, if that fits, or else each row as a list
// of its fields. Without a row of dashes below its head it is no table.
func (t *table) write(f *flow) {
	right, ok := dashes(t.rows)
	if !ok {
		f.margins("", "")
		for _, row := range t.rows {
			f.prose(0, row)
		}
		return
	}
	raw := [][]string{cells(t.rows[0])}
	for _, row := range t.rows[2:] {
		raw = append(raw, cells(row))
	}
	var rows [][]cell
	var widths []int
	for r, fields := range raw {
		look := looks(0)
		if r == 0 {
			look = styleBold
		}
		var row []cell
		for c, s := range fields {
			made := makeCell(s, look, f.color)
			if c == len(widths) {
				widths = append(widths, 0)
			}
			widths[c] = max(widths[c], made.width)
			row = append(row, made)
		}
		rows = append(rows, row)
	}
	total := 3 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	f.margins("", "")
	if total <= f.columns {
		grid(f, rows, widths, right)
	} else {
		records(f, raw)
	}
}

// dashes reads the row below the head: whether it is one, and which columns
// are aligned to the right.
func dashes(rows []string) (right []bool, ok bool) {
	if len(rows) < 2 {
		return nil, false
	}
	fields := cells(rows[1])
	for _, s := range fields {
		line := strings.TrimSuffix(strings.TrimPrefix(s, ":"), ":")
		if line == "" || strings.Trim(line, "-") != "" {
			return nil, false
		}
		right = append(right, strings.HasSuffix(s, ":") && !strings.HasPrefix(s, ":"))
	}
	return right, len(fields) > 0
}

// cells splits a row. A bar after a backslash or in a code span is text; what
// exceeds maxCells stays in the last one.
func cells(row string) []string {
	row = strings.ReplaceAll(strings.Trim(row, " \t"), "\t", " ")
	row = strings.TrimPrefix(row, "|")
	var out []string
	from := 0
	for at := 0; at < len(row) && len(out) < maxCells-1; {
		switch row[at] {
		case '\\':
			at += 2
		case '`':
			if end := codeEnd(row, at); end > 0 {
				at = end
			} else {
				at += run(row[at:])
			}
		case '|':
			out = append(out, strings.TrimSpace(row[from:at]))
			at++
			from = at
		default:
			at++
		}
	}
	if last := strings.TrimSpace(row[from:]); last != "" {
		out = append(out, last)
	}
	return out
}

func makeCell(s string, look looks, color bool) cell {
	var c cell
	i := inline{s: s, ended: true, color: color, say: func(look looks, s string, _ bool) int {
		c.runs = append(c.runs, styled{look, s})
		c.width += Width(s)
		return len(s)
	}}
	i.run(look)
	return c
}

// grid writes rows with aligned cells.
func grid(f *flow, rows [][]cell, widths []int, right []bool) {
	bar, across, cross := " | ", "-", " | "
	if f.color {
		bar, across, cross = " │ ", "─", "─┼─"
	}
	for r, row := range rows {
		for c, made := range row {
			pad := strings.Repeat(" ", widths[c]-made.width)
			if c > 0 {
				f.put(styleDim, bar, 3)
			}
			if c < len(right) && right[c] {
				f.put(0, pad, len(pad))
				pad = ""
			}
			for _, s := range made.runs {
				f.put(s.look, s.text, Width(s.text))
			}
			if c+1 < len(row) {
				f.put(0, pad, len(pad))
			}
		}
		f.forceLine()
		if r > 0 {
			continue
		}
		for c, w := range widths {
			if c > 0 {
				f.put(styleDim, cross, 3)
			}
			f.put(styleDim, strings.Repeat(across, w), w)
		}
		f.forceLine()
	}
}

// records writes each row as lines of a head and its value, for terminals
// that are too narrow for a grid.
func records(f *flow, rows [][]string) {
	head := rows[0]
	for r, row := range rows[1:] {
		if r > 0 {
			f.forceLine()
		}
		for c, s := range row {
			if s == "" {
				continue
			}
			f.margins("", "")
			if c < len(head) && head[c] != "" {
				i := inline{s: head[c] + ": ", ended: true, color: f.color, say: f.say}
				i.run(styleBold)
			}
			f.prose(0, s)
		}
	}
	if len(rows) == 1 {
		f.prose(styleBold, strings.Join(head, ", "))
	}
}

// prose writes s as a line of text.
func (f *flow) prose(look looks, s string) {
	i := inline{s: s, ended: true, color: f.color, say: f.say}
	i.run(look)
	f.endWord()
	f.forceLine()
}
