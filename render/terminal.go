package render

import (
	"io"
	"strings"
	"unicode/utf8"
)

// TerminalOptions say how Markdown looks on a terminal. A nil *TerminalOptions
// means the defaults.
type TerminalOptions struct {
	Columns int  // width of the terminal, 0: defaultWidth, negative: lines are not wrapped
	Color   bool // with SGR sequences, which only this package writes
}

// Terminal writes Markdown to a terminal while it arrives, word by word. The
// output depends only on the text, not on the pieces in which it came. Each
// line, and each Write, leaves the terminal without a style, so that a program
// that dies there leaves none behind.
//
// Everything foreign is cleaned as Clean does. With Color, headings, emphasis
// and code have a style instead of their marks; without, the marks stay. Links
// are their text followed by the address, and tables are aligned or, when they
// are too wide, shown field by field. Lines end where the text ends them, as
// does emphasis, and are wrapped between words to the width of the terminal.
//
// The text held back is bounded: a word, a sign that may begin something (a
// link, bold text) until that ends, at most some 2 kB, and a table of at most
// 64 kB. It is not safe for concurrent use.
type Terminal struct {
	to    io.Writer
	err   error
	clean cleaner
	rest  string // the end of the input, which more bytes may complete
	text  []byte // what was just cleaned

	line  string // the part of this line that is not written yet
	mode  mode   // the kind of this line
	prev  byte   // the byte before line, within this line
	shown bool   // something was written since the text began
	blank bool   // an empty line is due before the next

	fence fence // the open code block
	table table
	flow
}

// mode is the kind of a line, once it is known.
type mode int

const (
	modeUnknown mode = iota
	modeProse
	modeHeading
	modeCode
	modeRow  // row of a table
	modeDone // all of it is written
)

// NewTerminal returns a Terminal that writes to w.
func NewTerminal(w io.Writer, o *TerminalOptions) *Terminal {
	t := &Terminal{to: w}
	if o != nil {
		t.color = o.Color
		t.SetColumns(o.Columns)
	} else {
		t.SetColumns(0)
	}
	t.flow.fresh = true
	return t
}

// SetColumns changes the width of the terminal. What is written already stays;
// the current line continues in the new width.
func (t *Terminal) SetColumns(columns int) {
	switch {
	case columns == 0:
		columns = defaultWidth
	case columns < 0:
		columns = endless
	}
	t.columns = columns
}

// pieceBytes is how much is processed at a time, so that an answer of
// megabytes in one Write needs no more memory than one in pieces.
const pieceBytes = 8 << 10

// Write adds more of the text. After an error of the underlying writer it
// writes nothing more and returns that error again.
func (t *Terminal) Write(p []byte) (int, error) {
	for n := 0; n < len(p) && t.err == nil; n += pieceBytes {
		t.take(string(p[n:min(n+pieceBytes, len(p))]), false)
	}
	if t.err != nil {
		return 0, t.err
	}
	return len(p), nil
}

// WriteString is Write for a string.
func (t *Terminal) WriteString(s string) (int, error) {
	for n := 0; n < len(s) && t.err == nil; n += pieceBytes {
		t.take(s[n:min(n+pieceBytes, len(s))], false)
	}
	if t.err != nil {
		return 0, t.err
	}
	return len(s), nil
}

// Flush ends the text: what was held back is written, and the cursor is at
// the beginning of a line. Writing may continue, as a new text.
func (t *Terminal) Flush() error {
	t.take("", true)
	t.clean.prev = 0
	t.shown, t.blank = false, false
	return t.err
}

// take processes more of the text and writes the result.
func (t *Terminal) take(s string, ends bool) {
	if t.err != nil {
		return
	}
	if t.rest != "" {
		s = t.rest + s
	}
	var n int
	t.text, n = t.clean.append(t.text[:0], s, ends)
	t.rest = strings.Clone(s[n:])
	t.lines(string(t.text))
	if ends {
		if t.line != "" || t.mode != modeUnknown {
			t.endLine()
		}
		t.endTable()
		t.fence = fence{}
		t.newline()
	}
	t.style(0)
	if len(t.out) > 0 {
		_, t.err = t.to.Write(t.out)
		t.out = t.out[:0]
	}
}

func (t *Terminal) lines(s string) {
	for s != "" {
		n := strings.IndexByte(s, '\n')
		if n < 0 {
			t.line += s
			t.advance(false)
			return
		}
		t.line += s[:n]
		t.endLine()
		s = s[n+1:]
	}
}

func (t *Terminal) endLine() {
	t.advance(true)
	if t.mode == modeProse || t.mode == modeHeading || t.mode == modeCode {
		t.endWord()
		t.forceLine()
	}
	t.line, t.mode, t.prev = "", modeUnknown, 0
}

// advance writes as much of the line as is certain.
func (t *Terminal) advance(ended bool) {
	if t.mode == modeUnknown {
		n, ok := t.begin(t.line, ended)
		if !ok {
			return
		}
		t.used(n)
	}
	switch t.mode {
	case modeCode:
		t.used(t.verbatim(t.line, ended))
	case modeProse, modeHeading:
		base := looks(0)
		if t.mode == modeHeading {
			base = styleBold
		}
		i := inline{s: t.line, ended: ended, prev: t.prev, color: t.color, say: t.say}
		t.used(i.run(base))
	case modeRow:
		t.row(ended)
	case modeDone:
		t.line = ""
	}
}

// used drops the first n bytes of the line.
func (t *Terminal) used(n int) {
	if n > 0 {
		t.prev = t.line[n-1]
		t.line = t.line[n:]
	}
}

// spaced writes the empty line that is due, now that something follows it.
func (t *Terminal) spaced() {
	if t.blank && t.shown {
		t.out = append(t.out, '\n')
	}
	t.blank, t.shown = false, true
}

// row keeps a line of a table until it ends.
func (t *Terminal) row(ended bool) {
	switch {
	case len(t.line) > maxRowBytes: // no table that anybody could read
		t.endTable()
		t.spaced()
		t.mode = modeProse
		t.advance(ended)
	case ended:
		t.table.add(t.line)
		t.mode = modeDone
		if t.table.bytes > maxTableBytes {
			t.endTable()
		}
	}
}

// endTable writes the table, which is complete.
func (t *Terminal) endTable() {
	if len(t.table.rows) == 0 {
		return
	}
	t.spaced()
	t.table.write(&t.flow)
	t.table = table{}
}

// verbatim writes code unchanged, and returns how much of s it used: all but
// a character at the end that may continue.
func (t *Terminal) verbatim(s string, ended bool) int {
	at := 0
	for at < len(s) {
		n, w := sign(s[at:])
		if at+n == len(s) && len(s)-at < maxSign && !ended {
			break
		}
		t.put(styleCode, s[at:at+n], w)
		at += n
	}
	return at
}

// maxSign is how many bytes are examined to find what is drawn as one sign.
const maxSign = 64

// sign is cluster for hostile text: a letter with a megabyte of accents
// is many signs.
func sign(s string) (n, columns int) {
	if len(s) > maxSign {
		end := maxSign
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	return cluster(s)
}
