package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// LineKind is what a line of an approval is.
type LineKind string

// The kinds of lines: text that will run or be sent, text that a file gains or
// loses, and what the program itself says about them.
const (
	PlainLine   LineKind = "plain"
	AddedLine   LineKind = "added"
	RemovedLine LineKind = "removed"
	MarkerLine  LineKind = "marker"
)

// ApprovalLine is one line of what a person decides about. Its text is clean.
type ApprovalLine struct {
	Kind LineKind `json:"kind"`
	Text string   `json:"text"`
}

// Sign is put in front of a line, so that its kind shows without colours.
func (l ApprovalLine) Sign() string { return signs[l.Kind] }

// Change is what a call does to a file.
type Change struct {
	Path     string // a description of where it is
	Old, New string
	Made     bool // the file does not exist yet
}

// ApprovalLines returns everything that a call would run, send or write, for
// the person who is asked to allow it. Nothing is left out: invisible
// characters are made visible, and where repetitions are folded, the fold says
// how many. A terminal, an editor, a page and a review show these lines and no
// others.
func ApprovalLines(tool string, input json.RawMessage, change *Change) []ApprovalLine {
	a := approval{}
	if change != nil {
		a.change(tool, *change)
		return a.lines
	}
	a.marker(CleanLine(tool))
	var fields map[string]json.RawMessage
	if len(bytes.TrimSpace(input)) == 0 {
		return a.lines
	}
	if json.Unmarshal(input, &fields) != nil || fields == nil || repeats(input, len(fields)) {
		// Programs read such an input in different ways.
		a.text(PlainLine, string(input))
		return a.lines
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var text string
		if json.Unmarshal(fields[name], &text) != nil {
			text = string(fields[name])
		}
		a.marker(CleanLine(name) + ":")
		a.text(PlainLine, text)
	}
	return a.lines
}

// repeats reports whether an object has more members than names, so that a name
// is repeated.
func repeats(input json.RawMessage, names int) bool {
	d := json.NewDecoder(bytes.NewReader(input))
	if _, err := d.Token(); err != nil {
		return true
	}
	n := 0
	for d.More() {
		var value json.RawMessage
		if _, err := d.Token(); err != nil || d.Decode(&value) != nil {
			return true
		}
		n++
	}
	return n != names
}

// ApprovalText is the lines as text. Each begins with a sign for its kind and a
// blank, so that no line can pass for one of another kind.
func ApprovalText(lines []ApprovalLine) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(signs[l.Kind] + " " + l.Text + "\n")
	}
	return b.String()
}

var signs = map[LineKind]string{PlainLine: " ", AddedLine: "+", RemovedLine: "-", MarkerLine: "@"}

// ParseApproval is the reverse of ApprovalText.
func ParseApproval(text string) (lines []ApprovalLine) {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		kind := PlainLine
		for k, sign := range signs {
			if strings.HasPrefix(line, sign+" ") {
				kind, line = k, line[len(sign)+1:]
				break
			}
		}
		lines = append(lines, ApprovalLine{kind, Clean(line)})
	}
	return lines
}

// ReviewLines are the lines of a stored question: its text or, for those of
// earlier releases, which have none, what is kept of the input.
func ReviewLines(text, tool string, input json.RawMessage, inputBytes int) []ApprovalLine {
	if text != "" {
		return ParseApproval(text)
	}
	lines := ApprovalLines(tool, input, nil)
	if inputBytes > 0 {
		lines = append(lines, ApprovalLine{MarkerLine, fmt.Sprintf("the beginning of %d bytes", inputBytes)})
	}
	return lines
}

// ApprovalForTerminal is one line as a terminal shows it, with its sign.
func ApprovalForTerminal(l ApprovalLine, color bool) string {
	p := page{Options: Options{Color: color}}
	text := signs[l.Kind] + " " + strings.ReplaceAll(l.Text, "\t", "    ")
	switch l.Kind {
	case AddedLine:
		return p.style(green, text)
	case RemovedLine:
		return p.style(red, text)
	case MarkerLine:
		return p.style(dim, text)
	}
	return text
}

// approval is the lines while they are built.
type approval struct{ lines []ApprovalLine }

func (a *approval) marker(text string) {
	a.lines = append(a.lines, ApprovalLine{MarkerLine, text})
}

// text adds the lines of a text of one kind.
func (a *approval) text(kind LineKind, text string) {
	a.add(kind, strings.Split(strings.TrimSuffix(text, "\n"), "\n"))
}

// Limits of what is shown unchanged: more blanks in a row push what follows
// out of sight, and more marks on one letter cover the lines around it.
const (
	mostBlanks     = 24
	mostMarks      = 3
	mostEmptyLines = 3
)

func (a *approval) add(kind LineKind, lines []string) {
	for i := 0; i < len(lines); i++ {
		empty := 0
		for i+empty < len(lines) && strings.TrimFunc(lines[i+empty], isBlank) == "" {
			empty++
		}
		if empty > mostEmptyLines {
			a.lines = append(a.lines, ApprovalLine{kind, fmt.Sprintf("⟨%d empty lines⟩", empty)})
			i += empty - 1
			continue
		}
		a.lines = append(a.lines, ApprovalLine{kind, visible(lines[i])})
	}
}

// isBlank reports whether a character is invisible but takes space.
func isBlank(r rune) bool { return r == '\t' || r == 0x2800 || unicode.Is(unicode.Zs, r) }

func isMark(r rune) bool { return unicode.In(r, unicode.Mn, unicode.Me) }

// visible is one line without anything that acts on the terminal, hides, or
// pushes text away.
func visible(line string) string {
	line = Clean(line)
	var b strings.Builder
	for line != "" {
		blanks, rest := leading(line, isBlank)
		if blanks == 0 {
			marks, after := leading(line, isMark)
			if marks > mostMarks {
				fmt.Fprintf(&b, "⟨%d combining marks⟩", marks)
				line = after
				continue
			}
			for _, r := range line {
				b.WriteRune(r)
				line = line[len(string(r)):]
				break
			}
			continue
		}
		if blanks > mostBlanks {
			fmt.Fprintf(&b, "⟨%d blanks⟩", blanks)
		} else {
			b.WriteString(line[:len(line)-len(rest)])
		}
		line = rest
	}
	return b.String()
}

// leading counts the characters of a kind at the front of a text.
func leading(text string, is func(rune) bool) (n int, rest string) {
	for i, r := range text {
		if !is(r) {
			return n, text[i:]
		}
		n++
	}
	return n, ""
}

// change shows the change of a file as a unified diff.
func (a *approval) change(tool string, c Change) {
	path := visible(CleanLine(c.Path))
	if c.Made {
		a.marker(CleanLine(tool) + ": a new file, " + path)
	} else {
		a.marker(CleanLine(tool) + ": changes " + path)
	}
	old, now := splitLines(c.Old), splitLines(c.New)
	steps := difference(old, now)
	if len(steps) == 0 {
		a.marker("nothing changes")
	}
	for _, h := range hunks(steps) {
		a.marker(fmt.Sprintf("lines %d to %d", h[0].line, max(h[0].line, h[len(h)-1].line)))
		for i := 0; i < len(h); {
			kind, same := h[i].kind, []string(nil)
			for ; i < len(h) && h[i].kind == kind; i++ {
				same = append(same, strings.TrimSuffix(h[i].text, "\n"))
			}
			a.add(kind, same)
		}
	}
	if was, is := unended(c.Old), unended(c.New); is && (!was || c.Made) {
		a.marker("the last line has no newline any more")
	} else if was && !is {
		a.marker("the last line gets a newline")
	}
}

func unended(text string) bool { return text != "" && !strings.HasSuffix(text, "\n") }
