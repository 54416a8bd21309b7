package instructions

import (
	"slices"
	"strings"
)

// maxIncluded bounds how many paths of one text are looked up: it may consist of
// nothing else.
const maxIncluded = 256

// Includes returns the paths that a text names as @path: at the start of a line
// or after a space or a bracket, outside of code. Each is returned once, in the
// order of the text, and at most 256 are. Whether there is such a file is not
// known here.
func Includes(text string) []string {
	var found []string
	fence := ""
	for line := range strings.Lines(text) {
		if mark := fenceOf(line); mark != "" {
			switch {
			case fence == "":
				fence = mark
			case mark[0] == fence[0] && len(mark) >= len(fence):
				fence = ""
			}
			continue
		}
		if fence != "" {
			continue
		}
		for _, p := range inLine(withoutCode(line)) {
			if len(found) == maxIncluded {
				return found
			}
			if !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

// fenceOf returns the mark that begins or ends a block of code, "" if the line
// has none.
func fenceOf(line string) string {
	line = strings.TrimLeft(line, " \t>")
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

// withoutCode replaces spans between backticks by a space. A backtick without
// a second one is text.
func withoutCode(line string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(line, "`")
		if !ok {
			break
		}
		_, after, closed := strings.Cut(rest, "`")
		if !closed {
			break
		}
		b.WriteString(before + " ")
		line = after
	}
	return b.String() + line
}

// maxPath bounds a path: no system has longer ones.
const maxPath = 4096

func inLine(line string) (found []string) {
	for word := range strings.FieldsSeq(line) {
		p, ok := strings.CutPrefix(strings.TrimLeft(word, `([{"'*_<`), "@")
		if !ok {
			continue
		}
		p = strings.TrimRight(p, `.,;:!?)]}"'*_>`)
		p = strings.TrimPrefix(p, "./")
		if p == "" || len(p) > maxPath || strings.ContainsAny(p, "@\\\x00") {
			continue
		}
		found = append(found, p)
	}
	return found
}
