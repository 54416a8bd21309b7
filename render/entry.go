package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Options say how an entry looks. A nil *Options means the defaults.
type Options struct {
	Color    bool                   // with SGR sequences, which only this package writes
	Full     bool                   // nothing is cut
	All      bool                   // also empty entries, and context in full
	Width    int                    // width of the terminal, 0: there is none, and no line is folded
	Relative func(time.Time) string // formats a time; nil: in UTC
}

const (
	defaultWidth = 80
	inputLines   = 3 // of a tool's input: enough to recognise the call
	resultLines  = 8 // of a tool's result: enough to see how it went
	maxIndent    = 8 // levels of nested results that indent
)

// The program's own colours.
const (
	bold    = "1"
	dim     = "2"
	red     = "31"
	green   = "1;32"
	yellow  = "1;33"
	blue    = "34"
	magenta = "1;35"
	cyan    = "1;36"
)

var roleColors = map[tidemark.Role]string{
	tidemark.System: yellow, tidemark.User: cyan, tidemark.Assistant: green, tidemark.Tool: magenta,
}

// Entry writes e as text for a terminal: a line that says which entry it is, and
// below it the blocks, indented by two columns, so that none of their lines can
// pass for the head of another entry. Foreign text is cleaned. The text ends in
// one newline. The error is that of w.
//
// Without All, context added by a tool takes one line, and an empty entry is
// not written.
func Entry(w io.Writer, e tidemark.Entry, o *Options) error {
	p := page{}
	if o != nil {
		p.Options = *o
	}
	if p.folds = p.Width > 0; !p.folds {
		p.Width = defaultWidth
	}
	switch {
	case p.All:
		p.head(e)
		for _, b := range e.Blocks {
			p.block(b, 1)
		}
	case e.Empty():
	case e.Context():
		p.folded(e)
	default:
		p.head(e)
		for _, b := range e.Blocks {
			if b.Type == tidemark.BlockText && e.Role == tidemark.User {
				b.Text = p.spoken(b.Text)
			}
			p.block(b, 1)
		}
	}
	_, err := w.Write(p.Bytes())
	return err
}

// page is the text of one entry while it is built.
type page struct {
	Options
	bytes.Buffer
	folds bool // fold at words, where the terminal would cut them
}

func (p *page) head(e tidemark.Entry) {
	who, color := string(e.Role), roleColors[e.Role]
	if who == "" {
		who = e.Kind
	}
	if color == "" {
		color = bold
	}
	var rest []string
	if e.Kind == tidemark.KindBranch {
		rest = append(rest, fmt.Sprintf("from #%d", e.Parent))
	}
	switch {
	case e.At.IsZero():
	case p.Relative != nil:
		rest = append(rest, CleanLine(p.Relative(e.At)))
	default:
		rest = append(rest, e.At.UTC().Format("2006-01-02 15:04:05Z"))
	}
	if e.Model != "" {
		rest = append(rest, CleanLine(e.Model))
	}
	if e.Draft {
		rest = append(rest, "draft")
	}
	number, who := fmt.Sprintf("#%d", e.Seq), CleanLine(who)
	p.WriteString(p.style(dim, number) + " " + p.style(color, who))
	used := Width(number) + 1 + Width(who)
	for _, s := range rest {
		if used += Width(" · " + s); p.folds && used > p.Width {
			break // the rest is not worth a second row
		}
		p.WriteString(p.style(dim, " · "+s))
	}
	p.WriteByte('\n')
}

// folded writes context on one line: its kind, its first words, its size.
func (p *page) folded(e tidemark.Entry) {
	who := string(e.Role)
	if e.Kind == tidemark.KindContext || e.Role != tidemark.System {
		who = tidemark.KindContext
	}
	about := "#" + strconv.FormatInt(e.Seq, 10) + " " + who + " · "
	much := " (" + size(sizeOf(e.Blocks)) + ")"
	about += Truncate(gist(e.Text()), max(p.Width-Width(about)-Width(much), 10)) + much
	p.WriteString(p.style(dim, about) + "\n")
}

// gist is the beginning of a block of context on one line.
func gist(text string) string {
	element, words := tidemark.Gist(text)
	if element != "" && words != "" {
		element += ": "
	}
	return CleanLine(element + words)
}

// spoken is what a person said, and a line for each block that a tool
// wrapped around it.
func (p *page) spoken(text string) string {
	said, context := tidemark.Spoken(text)
	if len(context) == 0 {
		return text
	}
	for _, c := range context {
		said += "\n[" + Truncate(gist(c), p.columns(1)-16) + " (" + size(len(c)) + ")]"
	}
	return said
}

// sizeOf is how many bytes of text there are in blocks.
func sizeOf(blocks []tidemark.Block) int {
	n := 0
	for _, b := range blocks {
		n += len(b.Text) + len(b.Input) + len(b.Data) + len(b.Raw) + sizeOf(b.Blocks)
	}
	return n
}

func (p *page) block(b tidemark.Block, depth int) {
	switch b.Type {
	case tidemark.BlockText:
		p.lines(depth, "", "", b.Text)
	case tidemark.BlockThinking:
		text := b.Text
		if text == "" {
			text = fmt.Sprintf("(thinking that only %s can read, %s)", or(b.Provider, "its provider"), size(len(b.Raw)))
		}
		p.lines(depth, dim, "┊ ", text)
	case tidemark.BlockToolUse:
		p.toolUse(b, depth)
	case tidemark.BlockToolResult:
		p.toolResult(b, depth)
	default:
		p.lines(depth, dim, "", p.fact(b))
		if b.Text != "" {
			p.lines(depth, "", "", b.Text)
		}
	}
}

func (p *page) toolUse(b tidemark.Block, depth int) {
	// Input may span several lines; on one line, a newline within a
	// string still shows as \n.
	var input bytes.Buffer
	if json.Compact(&input, b.Input) != nil {
		input.Reset()
		input.Write(b.Input)
	}
	text := CleanLine(or(b.Name, "(no name)"))
	if input.Len() > 0 {
		text += " " + CleanLine(input.String())
	}
	if !p.Full {
		text = Truncate(text, inputLines*p.columns(depth))
	}
	p.marked(depth, blue, "→ ", "  ", text)
}

func (p *page) toolResult(b tidemark.Block, depth int) {
	mark, color := "← ", ""
	if b.IsError {
		mark, color = "← error: ", red
	}
	text := b.Text
	if text == "" {
		switch len(b.Blocks) {
		case 0:
			text = "(nothing)"
		case 1:
			text = "(1 block)"
		default:
			text = fmt.Sprintf("(%d blocks)", len(b.Blocks))
		}
	}
	p.marked(depth, color, mark, "  ", p.excerpt(text, p.columns(depth)+2-Width(mark)))
	for _, inner := range b.Blocks {
		if inner.Type == tidemark.BlockText {
			inner.Text = p.excerpt(inner.Text, p.columns(depth+1))
		}
		p.block(inner, depth+1)
	}
}

// fact describes a block that is not text in one line.
func (p *page) fact(b tidemark.Block) string {
	parts := []string{or(b.Type, "block without a type")}
	for _, s := range []string{b.Name, b.MediaType} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	s := strings.Join(parts, " ")
	switch {
	case len(b.Data) > 0:
		s += ", " + size(len(b.Data))
	case b.URL != "":
		s += ", " + b.URL
	case b.Raw != "":
		s += ", " + size(len(b.Raw))
	}
	s = CleanLine(s)
	if !p.Full {
		s = Truncate(s, inputLines*p.Width)
	}
	return "[" + s + "]"
}

// excerpt returns the first lines of s, cut to a number of columns, and how
// many more there are; with Full, all of it.
func (p *page) excerpt(s string, columns int) string {
	if p.Full {
		return s
	}
	var b strings.Builder
	rest := strings.TrimSuffix(s, "\n")
	for range resultLines {
		line, after, more := strings.Cut(rest, "\n")
		// Cut before cleaning, so that a line of megabytes costs nothing:
		// cleaning never makes text narrower.
		b.WriteString(Truncate(Clean(Truncate(strings.TrimSuffix(line, "\r"), columns)), columns))
		if !more {
			return b.String()
		}
		b.WriteByte('\n')
		rest = after
	}
	fmt.Fprintf(&b, "… %d more lines", strings.Count(rest, "\n")+1)
	return b.String()
}

// columns is the room for text after a mark of two columns.
func (p *page) columns(depth int) int { return max(p.Width-2*min(depth, maxIndent)-2, 20) }

// lines writes text with the same mark before each line.
func (p *page) lines(depth int, color, mark, text string) {
	if p.folds {
		text = fold(Clean(text), p.columns(depth)+2-Width(mark))
	}
	p.marked(depth, color, mark, mark, text)
}

// marked writes cleaned text, with one mark before its first line and another
// before the others. A colour of the text also applies to the mark.
func (p *page) marked(depth int, color, first, rest, text string) {
	indent := strings.Repeat("  ", min(depth, maxIndent))
	mark := first
	for line := range strings.SplitSeq(strings.TrimSuffix(Clean(text), "\n"), "\n") {
		if s := mark + line; s != "" {
			p.WriteString(indent)
			p.WriteString(p.style(color, s))
		}
		p.WriteByte('\n')
		mark = rest
	}
}

// fold puts newlines between words, so that no line is wider than the
// columns except for longer words.
func fold(text string, columns int) string {
	var b strings.Builder
	at := 0 // the column
	for len(text) > 0 {
		end := 1 + strings.IndexAny(text[1:], " \n") // a word, with the blank before it
		if end == 0 {
			end = len(text)
		}
		word := text[:end]
		text = text[end:]
		width := Width(word)
		switch {
		case word[0] == '\n':
			at = width
		case at > 0 && at+width > columns && word != " ":
			b.WriteByte('\n')
			word = strings.TrimPrefix(word, " ")
			at = Width(word)
		default:
			at += width
		}
		b.WriteString(word)
	}
	return b.String()
}

func (p *page) style(color, s string) string {
	if !p.Color || color == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// size formats a number of bytes, in units of a thousand.
func size(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1000_000)
}
