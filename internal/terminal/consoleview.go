package terminal

import (
	"fmt"
	"strings"
)

const (
	minColumns = 4
	// maxChoices bounds the rows of completions below the prompt.
	maxChoices = 5
	// maxWaiting bounds how many of the lines that wait to be read are shown.
	maxWaiting = 3
)

// row is one row of the screen below the output. It never wraps.
type row struct {
	text  string
	width int
}

// block is everything below the output: the waiting lines, a question, the
// prompt with the cursor, completions, the status.
type block struct {
	rows   []row
	cursor int    // the row of the cursor
	left   string // that row up to the cursor
	column int    // the width of left
}

func (b *block) same(o *block) bool {
	if len(b.rows) != len(o.rows) || b.cursor != o.cursor || b.left != o.left {
		return false
	}
	for i := range b.rows {
		if b.rows[i] != o.rows[i] {
			return false
		}
	}
	return true
}

// view draws the block for a screen size. It leaves the last column free,
// where terminals behave differently, and is always lower than the screen,
// because what has scrolled off cannot be drawn again.
func (c *Console) view(columns, rows int) block {
	width := max(columns, minColumns) - 1
	room := max(rows-1, 1)
	above := c.above(width)
	below := c.below(width)
	// The prompt has priority, then the question, then the rest.
	input, cursor, left, column := c.input(width)
	show := min(len(input), max(room/2, 1))
	first := max(0, cursor-show+1)
	input = input[first:min(first+show, len(input))]
	room -= len(input)
	above = above[max(0, len(above)-room):]
	room -= len(above)
	if drop := len(below) - room; drop > 0 {
		below = below[drop:] // the status is the last row
	}
	b := block{cursor: len(above) + cursor - first, left: left, column: column}
	b.rows = append(append(append(b.rows, above...), input...), below...)
	return b
}

// statusText joins as many parts of the status as fit.
func (c *Console) statusText(width int) string {
	text := c.text.Clean(c.status[0])
	for _, part := range c.status[1:] {
		next := text + " · " + c.text.Clean(part)
		if c.text.Width(next) > width {
			break
		}
		text = next
	}
	return text
}

// above returns the rows above the prompt.
func (c *Console) above(width int) (rows []row) {
	for _, s := range c.progress {
		rows = append(rows, c.dim(s, width))
	}
	waiting := 0
	for _, in := range c.events {
		if in.Kind != Line {
			continue
		}
		if waiting++; waiting <= maxWaiting {
			rows = append(rows, c.dim("» "+firstLine(in.Text), width))
		}
	}
	if waiting > maxWaiting {
		rows = append(rows, c.dim(fmt.Sprintf("» … and %d more", waiting-maxWaiting), width))
	}
	if waiting > 0 && c.hold != nil && c.question == nil {
		rows = append(rows, c.dim("  sent when this is done; Up takes the last one back", width))
	}
	if c.question != nil {
		rows = append(rows, c.flow(c.question.words(), "  ", "1", width)...)
	}
	return rows
}

// below returns the rows below the prompt.
func (c *Console) below(width int) (rows []row) {
	if c.menu != nil {
		rows = append(rows, c.candidates(width)...)
	}
	if c.notice != "" {
		rows = append(rows, c.flow(strings.Fields(c.text.Clean(c.notice)), " ", "2", width)...)
	}
	if len(c.status) > 0 {
		rows = append(rows, c.dim(c.statusText(width), width))
	}
	return rows
}

// input lays out the prompt and the line after it.
func (c *Console) input(width int) (rows []row, cursor int, left string, column int) {
	prompt, used := c.text.fit(c.promptNow(), width*2/3)
	indent := strings.Repeat(" ", used)
	if used > width/3 {
		indent = ""
	}
	var b strings.Builder
	b.WriteString(c.styled("1", prompt))
	at := used
	end := func() {
		rows = append(rows, row{b.String(), at})
		b.Reset()
		b.WriteString(indent)
		at = len(indent)
	}
	for i, cl := range c.line.cells {
		show, w := cl.show, cl.width
		if w > width-len(indent) {
			show, w = c.text.fit(show, width-len(indent))
		}
		if at+w > width {
			end()
		}
		if i == c.line.at {
			cursor, left, column = len(rows), b.String(), at
		}
		if cl.newline() {
			end()
			continue
		}
		b.WriteString(show)
		at += w
	}
	if c.line.at == len(c.line.cells) {
		cursor, left, column = len(rows), b.String(), at
	}
	return append(rows, row{b.String(), at}), cursor, left, column
}

// promptNow is the text in front of the line.
func (c *Console) promptNow() string {
	switch s := c.search; {
	case s == nil:
		return c.prompt
	case s.missed:
		return "nothing with " + c.text.Clean(s.query) + ": "
	default:
		return "search " + c.text.Clean(s.query) + ": "
	}
}

// candidates lays completions out in columns.
func (c *Console) candidates(width int) (rows []row) {
	widest := 0
	names := make([]string, len(c.menu.candidates))
	for i, s := range c.menu.candidates {
		names[i] = strings.TrimSpace(c.text.Clean(s))
		widest = max(widest, c.text.Width(names[i]))
	}
	cell := min(widest+2, width)
	across := max(width/cell, 1)
	// Whole pages, so that the chosen one is always visible.
	page := across * maxChoices
	first := max(c.menu.chosen, 0) / page * page
	for from := first; from < min(first+page, len(names)); from += across {
		var b strings.Builder
		used := 0
		for i := from; i < min(from+across, len(names)); i++ {
			name, w := c.text.fit(names[i], cell)
			style := "2"
			if i == c.menu.chosen {
				style = "7"
			}
			b.WriteString(c.styled(style, name) + strings.Repeat(" ", cell-w))
			used += cell
		}
		rows = append(rows, row{strings.TrimRight(b.String(), " "), used})
	}
	if rest := len(names) - first - page; rest > 0 {
		rows = append(rows, c.dim(fmt.Sprintf("… %d more", rest), width))
	}
	return rows
}

// dim returns one row of secondary text.
func (c *Console) dim(s string, width int) row {
	cut := c.text.truncate(c.text.Clean(s), width)
	return row{c.styled("2", cut), c.text.Width(cut)}
}

// flow puts clean words into rows, with a gap between two of them.
func (c *Console) flow(words []string, gap, style string, width int) (rows []row) {
	var b strings.Builder
	used := 0
	for _, word := range words {
		word, w := c.text.fit(word, width)
		if used > 0 && used+len(gap)+w > width {
			rows = append(rows, row{c.styled(style, b.String()), used})
			b.Reset()
			used = 0
		}
		if used > 0 {
			b.WriteString(gap)
			used += len(gap)
		}
		b.WriteString(word)
		used += w
	}
	return append(rows, row{c.styled(style, b.String()), used})
}

func (c *Console) styled(sgr, s string) string {
	if !c.color || s == "" {
		return s
	}
	return "\x1b[" + sgr + "m" + s + "\x1b[m"
}

// firstLine returns enough of a text to fill a row.
func firstLine(s string) string {
	line, _, more := strings.Cut(s[:min(len(s), 1000)], "\n")
	if more {
		line += " …"
	}
	return line
}
