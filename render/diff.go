package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// DiffLine is a line of a diff with its number: that in the old file for a line
// that is removed, else that in the new one. A marker has none. Its text is
// clean.
type DiffLine struct {
	Kind   LineKind
	Number int
	Text   string
}

// Diff is what a change does to a file, as the lines that change and those around
// them.
func Diff(c Change) []DiffLine {
	var lines []DiffLine
	for i, h := range hunks(difference(splitLines(c.Old), splitLines(c.New))) {
		if i > 0 {
			lines = append(lines, DiffLine{Kind: MarkerLine, Text: "…"})
		}
		for _, s := range h {
			number := s.line
			if s.kind == RemovedLine {
				number = s.old
			}
			lines = append(lines, DiffLine{s.kind, number, visible(strings.TrimSuffix(s.text, "\n"))})
		}
	}
	return lines
}

// DiffForTerminal are the lines of a diff as a terminal shows them: number, sign
// and text, each in one row of at most so many columns; without a limit when
// that is 0.
func DiffForTerminal(lines []DiffLine, columns int, color bool) []string {
	p := page{Options: Options{Color: color}}
	digits := 1
	for _, l := range lines {
		digits = max(digits, len(strconv.Itoa(l.Number)))
	}
	rows := make([]string, len(lines))
	for i, l := range lines {
		number := strconv.Itoa(l.Number)
		if l.Kind == MarkerLine {
			number = ""
		}
		text := fmt.Sprintf("%*s %s %s", digits, number, strings.Replace(signs[l.Kind], "@", " ", 1), strings.ReplaceAll(l.Text, "\t", "    "))
		if columns > 0 {
			text = Truncate(text, columns)
		}
		switch l.Kind {
		case AddedLine:
			text = p.style(green, text)
		case RemovedLine:
			text = p.style(red, text)
		default:
			text = p.style(dim, text)
		}
		rows[i] = text
	}
	return rows
}

// UnifiedForTerminal are the lines of a diff in the form of git as a terminal
// shows them, made harmless.
func UnifiedForTerminal(text string, color bool) (rows []string) {
	p := page{Options: Options{Color: color}}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		row := visible(strings.ReplaceAll(line, "\t", "    "))
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "index "):
			row = p.style(dim, row)
		case strings.HasPrefix(line, "+"):
			row = p.style(green, row)
		case strings.HasPrefix(line, "-"):
			row = p.style(red, row)
		}
		rows = append(rows, row)
	}
	return rows
}

// Changed counts the lines that a diff adds and removes.
func Changed(lines []DiffLine) (added, removed int) {
	for _, l := range lines {
		switch l.Kind {
		case AddedLine:
			added++
		case RemovedLine:
			removed++
		}
	}
	return added, removed
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// step is a line of a diff. line and old are its numbers in the new and in the
// old file, or would be.
type step struct {
	kind      LineKind
	text      string
	line, old int
}

// maxTable bounds the work on what is between the common beginning and end of
// two texts. Larger changes are shown as all removed and all added, which is
// just as true, only longer.
const maxTable = 4 << 20

// difference returns the steps from old to now, empty when they are equal.
func difference(old, now []string) []step {
	if slices.Equal(old, now) {
		return nil
	}
	first := 0
	for first < len(old) && first < len(now) && old[first] == now[first] {
		first++
	}
	last := 0
	for last < len(old)-first && last < len(now)-first && old[len(old)-1-last] == now[len(now)-1-last] {
		last++
	}
	var steps []step
	line, before := 1, 1
	put := func(kind LineKind, text string) {
		steps = append(steps, step{kind, text, line, before})
		if kind != RemovedLine {
			line++
		}
		if kind != AddedLine {
			before++
		}
	}
	for _, text := range old[:first] {
		put(PlainLine, text)
	}
	between(old[first:len(old)-last], now[first:len(now)-last], put)
	for _, text := range old[len(old)-last:] {
		put(PlainLine, text)
	}
	return steps
}

// between finds the longest common lines of two texts.
func between(old, now []string, put func(LineKind, string)) {
	if len(old)*len(now) > maxTable {
		for _, text := range old {
			put(RemovedLine, text)
		}
		for _, text := range now {
			put(AddedLine, text)
		}
		return
	}
	wide := len(now) + 1
	common := make([]int32, (len(old)+1)*wide)
	for i := len(old) - 1; i >= 0; i-- {
		for j := len(now) - 1; j >= 0; j-- {
			if common[i*wide+j] = max(common[(i+1)*wide+j], common[i*wide+j+1]); old[i] == now[j] {
				common[i*wide+j] = common[(i+1)*wide+j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(old) || j < len(now) {
		switch {
		case i < len(old) && j < len(now) && old[i] == now[j]:
			put(PlainLine, old[i])
			i, j = i+1, j+1
		case j == len(now) || i < len(old) && common[(i+1)*wide+j] >= common[i*wide+j+1]:
			put(RemovedLine, old[i])
			i++
		default:
			put(AddedLine, now[j])
			j++
		}
	}
}

// around is how many lines are shown around a change.
const around = 3

// hunks are the parts of a diff that have changes, with the lines around
// them.
func hunks(steps []step) (all [][]step) {
	begin, end := -1, -1
	for i, s := range steps {
		if s.kind == PlainLine {
			continue
		}
		if begin >= 0 && i-around > end {
			all = append(all, steps[begin:end])
			begin = -1
		}
		if begin < 0 {
			begin = max(0, i-around)
		}
		end = min(len(steps), i+around+1)
	}
	if begin >= 0 {
		all = append(all, steps[begin:end])
	}
	return all
}
