package tour

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-sessions/tidemark/render"
)

// width is the width of the tour's output.
func (t *Tour) width() int {
	if t.Columns == 0 {
		return maxColumns
	}
	return min(t.Columns, maxColumns)
}

// show returns a function that shows the lines of a command, and counts those
// that are too many.
func (t *Tour) show() func(line string) {
	n := 0
	return func(line string) {
		if n++; n > shownLines {
			if n == shownLines+1 {
				t.print("  …\n")
			}
			return
		}
		line = render.Clean(line)
		switch {
		case !t.Terminal:
			line = "  " + line
		case strings.HasPrefix(line, "{"):
			line = render.Truncate("  "+line, t.width()) // JSON has no good place to break
		default:
			line = folded(line, t.width(), "  ")
		}
		t.print(strings.TrimRight(line, " ") + "\n")
	}
}

// tell prints something in the tour's own words.
func (t *Tour) tell(style, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	lead := text[:len(text)-len(strings.TrimLeft(text, "\n"))]
	t.print(lead + t.style(style, folded(text[len(lead):], t.width(), "")) + "\n")
}

func (t *Tour) style(code, text string) string {
	if !t.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// print writes to people. When nobody reads any more, the tour ends.
func (t *Tour) print(text string) {
	if t.Report != nil {
		return
	}
	if _, err := io.WriteString(t.Out, text); err != nil {
		t.cancel(err)
	}
}

// folded breaks a line between words, so that it fits into the columns,
// each part indented. A longer word stays whole.
func folded(line string, columns int, indent string) string {
	text := strings.TrimLeft(line, " ")
	indent += line[:len(line)-len(text)]
	var out strings.Builder
	used := 0
	for text != "" {
		gap := len(text) - len(strings.TrimLeft(text, " "))
		word := gap + len(text[gap:])
		if end := strings.IndexByte(text[gap:], ' '); end >= 0 {
			word = gap + end
		}
		switch w := render.Width(text[:word]); {
		case used == 0:
			out.WriteString(indent + text[:word])
			used = render.Width(indent) + w
		case used+w > columns:
			out.WriteString("\n" + indent + text[gap:word])
			used = render.Width(indent) + w - gap
		default:
			out.WriteString(text[:word])
			used += w
		}
		text = text[word:]
	}
	return out.String()
}

// ruled is a heading.
func ruled(text string, columns int) string {
	return "── " + text + " " + strings.Repeat("─", max(0, columns-render.Width(text)-4))
}
