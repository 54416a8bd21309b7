package terminal

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	// maxPartial bounds how much of an unfinished line is kept for
	// redrawing it when the terminal is resized.
	maxPartial = 16 << 10
	// maxStyle bounds the sequence of colours that is kept.
	maxStyle = 256
	tabStop  = 8
)

// output is the stream above the prompt. It tracks the position of the
// stream on the screen, because the prompt is drawn below its last row and
// the next piece has to continue in that row.
//
// Its input is clean already. It checks again, since it has to find sequences
// anyway: anything but a colour is dropped.
type output struct {
	text    Text
	color   bool
	columns int

	line   []byte // text since the last newline, or since a row of an overlong line
	before string // the style at the start of line
	row    int    // where the last row starts in line
	rowIn  string // the style there
	sign   int    // where the last sign starts in line
	col    int    // column of the stream in the last row
	style  string // the style now
	rest   []byte // an incomplete character or sequence
}

// partial reports whether the last row holds something, so that the prompt has
// to go below it.
func (o *output) partial() bool { return len(o.line) > 0 }

// again appends what redraws the last row from its first column.
func (o *output) again(dst []byte) []byte {
	if !o.partial() {
		return append(dst, o.style...)
	}
	dst = append(dst, o.rowIn...)
	return append(dst, o.line[o.row:]...)
}

// write appends p to dst in the form for the terminal.
func (o *output) write(dst, p []byte) []byte {
	if len(o.rest) > 0 {
		p = append(o.rest, p...)
		o.rest = nil
	}
	for len(p) > 0 {
		n := 1
		switch b := p[0]; {
		case b == '\n':
			dst = append(dst, '\r', '\n')
			o.fresh()
		case b == '\t':
			for spaces := tabStop - o.col%tabStop; spaces > 0; spaces-- {
				dst = o.put(dst, " ", 1)
			}
		case b == 0x1b:
			var done bool
			if dst, n, done = o.sequence(dst, p); !done {
				o.rest = bytes.Clone(p)
				return dst
			}
		case b >= ' ' && b < 0x7f:
			o.sign = len(o.line)
			dst = o.put(dst, string(rune(b)), 1)
		case b < utf8.RuneSelf: // a control
		case !utf8.FullRune(p):
			o.rest = bytes.Clone(p)
			return dst
		default:
			var r rune
			if r, n = utf8.DecodeRune(p); !isControl(r) {
				dst = o.character(dst, r)
			}
		}
		p = p[n:]
	}
	return dst
}

// character appends a character that is not ASCII, which may be drawn into
// the sign before it.
func (o *output) character(dst []byte, r rune) []byte {
	s := string(r)
	if o.sign < len(o.line) && len(o.line)-o.sign < maxSign*utf8.UTFMax {
		if sign := string(o.line[o.sign:]); o.text.joins(sign, r) {
			o.col += o.text.Width(sign+s) - o.text.Width(sign)
			o.line = append(o.line, s...)
			return append(dst, s...)
		}
	}
	width := o.text.Width(s)
	if o.col+width > o.columns {
		o.wrap()
	}
	o.sign = len(o.line)
	return o.put(dst, s, width)
}

// put appends a sign of some width. The terminal wraps by itself, so that
// text copied from it has no newline there.
func (o *output) put(dst []byte, s string, width int) []byte {
	if o.col+width > o.columns {
		o.wrap()
	}
	o.line = append(o.line, s...)
	o.col += width
	return append(dst, s...)
}

func (o *output) wrap() {
	o.row, o.rowIn, o.col = len(o.line), o.style, 0
	if o.row > maxPartial {
		o.line, o.before, o.row = o.line[:0], o.style, 0
	}
	o.sign = len(o.line)
}

// fresh resets to the start of a line.
func (o *output) fresh() {
	o.line, o.row, o.sign, o.col = o.line[:0], 0, 0, 0
	o.before, o.rowIn = o.style, o.style
}

// sequence appends the sequence at the front of p if it is a colour.
func (o *output) sequence(dst, p []byte) (_ []byte, n int, done bool) {
	n, done = sequenceLength(p)
	if !done {
		return dst, 0, false
	}
	s := p[:n]
	if !o.color || n < 3 || s[1] != '[' || s[n-1] != 'm' || len(bytes.Trim(s[2:n-1], "0123456789;:")) > 0 {
		return dst, n, true
	}
	params := string(s[2 : n-1])
	switch first, _, more := strings.Cut(params, ";"); {
	case strings.Trim(params, "0;") == "":
		o.style = ""
	case strings.Trim(first, "0") == "" && more, len(o.style)+n > maxStyle:
		o.style = string(s)
	default:
		o.style += string(s)
	}
	o.line = append(o.line, s...)
	o.sign = len(o.line)
	return append(dst, s...), n, true
}

// sequenceLength returns the length of the escape sequence at the front of
// p. done is false when its end has not come yet.
func sequenceLength(p []byte) (n int, done bool) {
	if len(p) < 2 {
		return 0, false
	}
	n = -1
	switch p[1] {
	case '[':
		for i := 2; i < len(p) && n < 0; i++ {
			if p[i] < 0x20 || p[i] > 0x7e {
				return i, true
			} else if p[i] >= 0x40 {
				n = i + 1
			}
		}
	case ']', 'P', 'X', '^', '_':
		n = endOfString(p)
	default:
		return 1, true
	}
	if n < 0 && len(p) > maxAnswer {
		return 1, true
	}
	return n, n >= 0
}

// resize lays out the last line again, like a terminal that rewraps its lines
// when its width changes.
func (o *output) resize(columns int) {
	o.columns = columns
	line, style := bytes.Clone(o.line), o.style
	o.style = o.before
	o.fresh()
	rest := o.rest
	o.rest = nil
	o.write(nil, line)
	o.rest, o.style = rest, style
}
