package render

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// looks is a set of text styles.
type looks uint8

const (
	styleBold looks = 1 << iota
	styleDim
	styleItalic
	styleUnder
	styleCode
	styleStrike
)

// sgr are the SGR codes of the styles, in the order of their bits.
var sgr = [...]int{1, 2, 3, 4, 36, 9}

// endless is a width that nothing reaches.
const endless = 1 << 30

// maxWordBytes is how long a word may grow before it is written without
// knowing whether it fits. Only words of zero-width signs reach it.
const maxWordBytes = 4 << 10

// flow breaks styled text into lines.
type flow struct {
	columns int
	color   bool
	out     []byte

	now    looks // the current style of the terminal
	column int
	fresh  bool   // this line is empty, without even the margin
	first  string // the margin of the first line of what is being written
	rest   string // the margin of its wrapped lines
	margin int    // columns of either

	word   []byte // what must not be split
	styles []bit  // the styles of word
	wide   int    // columns of word
	spaces int    // before word
	tail   rune   // the last character of word that has a width
}

// bit is the style of word up to a position.
type bit struct {
	look looks
	to   int
}

// margins sets the margin of what follows. A margin that would leave too little
// room becomes text.
func (f *flow) margins(first, rest string) {
	f.first, f.rest, f.margin = first, rest, Width(first)
	if f.margin > f.columns/2 || f.columns-f.margin < 2 {
		f.first, f.rest, f.margin = "", "", 0
		for s := range strings.FieldsSeq(first) {
			f.say(0, s+" ", true)
		}
	}
}

// room is how many columns a line has for text.
func (f *flow) room() int { return max(f.columns-f.margin, 1) }

// say adds text in a style, and returns how much of it was used: all, except
// for the last sign when more may come.
func (f *flow) say(look looks, s string, ends bool) int {
	at := 0
	for at < len(s) {
		n, w := sign(s[at:])
		if at+n == len(s) && len(s)-at < maxSign && !ends {
			break
		}
		f.add(look, s[at:at+n], w)
		at += n
	}
	return at
}

// add adds one sign.
func (f *flow) add(look looks, s string, w int) {
	if s == " " || s == "\t" {
		f.endWord()
		f.spaces++
		return
	}
	r, _ := utf8.DecodeRuneInString(s)
	if w > 0 {
		if breaks(f.tail, r) {
			f.endWord()
		}
		if f.wide+w > f.room() {
			f.endWord()
		}
		f.tail = r
	}
	if len(f.word) > maxWordBytes {
		f.endWord()
	}
	f.word = append(f.word, s...)
	f.wide += w
	if n := len(f.styles); n > 0 && f.styles[n-1].look == look {
		f.styles[n-1].to = len(f.word)
	} else {
		f.styles = append(f.styles, bit{look, len(f.word)})
	}
}

// Signs that should not begin a line, and signs that should not end one, where
// text may be broken between any two characters.
const (
	noStart = "、。，．・：；？！ー々〜」』）】〕｝〉》”’…‥%％,.:;?!)]}"
	noEnd   = "「『（【〔｛〈《“‘([{"
)

// breaks reports whether a line may end between two characters without a
// blank between them: in scripts that use none, and around emoji.
func breaks(before, after rune) bool {
	if before == 0 || before < 0x1100 && after < 0x1100 {
		return false
	}
	return (runeWidth(before) == 2 || runeWidth(after) == 2) &&
		!strings.ContainsRune(noStart, after) && !strings.ContainsRune(noEnd, before)
}

// endWord writes the word, on the next line if there is no room for it.
func (f *flow) endWord() {
	if len(f.word) == 0 {
		return
	}
	if !f.fresh && f.column+f.spaces+f.wide > f.columns && f.column > f.margin {
		f.newline()
		f.spaces = 0
	}
	if f.fresh {
		// Blanks at the front are part of the margin.
		f.spaces = 0
		f.open()
	}
	if f.spaces > 0 {
		if f.now != f.styles[0].look {
			f.style(0)
		}
		for range f.spaces {
			f.out = append(f.out, ' ')
		}
	}
	from := 0
	for _, b := range f.styles {
		f.style(b.look)
		f.out = append(f.out, f.word[from:b.to]...)
		from = b.to
	}
	f.column += f.spaces + f.wide
	f.word, f.styles, f.wide, f.spaces, f.tail = f.word[:0], f.styles[:0], 0, 0, 0
}

// put writes unbreakable text at once: a sign of code, or a cell that is known
// to fit.
func (f *flow) put(look looks, s string, w int) {
	if s == "\t" {
		w = min(tabStop-max(f.column-f.margin, 0)%tabStop, f.room())
		s = "    "[:w]
	}
	if !f.fresh && f.column+w > f.columns && f.column > f.margin {
		f.newline()
	}
	if f.fresh {
		f.open()
	}
	f.style(look)
	f.out = append(f.out, s...)
	f.column += w
}

// tabStop is the largest width of a tab in code.
const tabStop = 4

// open begins a line with its margin.
func (f *flow) open() {
	f.fresh = false
	if f.first != "" {
		if strings.TrimLeft(f.first, " ") != "" {
			f.style(styleDim)
		}
		f.out = append(f.out, f.first...)
	}
	f.first = f.rest
	f.column = f.margin
}

// newline ends the line, if there is anything on it.
func (f *flow) newline() {
	if f.fresh {
		return
	}
	f.style(0)
	f.out = append(f.out, '\n')
	f.fresh, f.column = true, 0
}

// forceLine ends the line even if it is empty.
func (f *flow) forceLine() {
	if f.fresh {
		if strings.TrimLeft(f.first, " ") != "" {
			f.first = strings.TrimRight(f.first, " ")
			f.open()
		}
		f.fresh = false
	}
	f.spaces = 0
	f.newline()
}

// style sets the terminal to a style.
func (f *flow) style(s looks) {
	if s == f.now || !f.color {
		return
	}
	if f.now != 0 {
		f.out = append(f.out, "\x1b[0m"...)
	}
	f.now = s
	if s == 0 {
		return
	}
	f.out = append(f.out, "\x1b["...)
	for i, n := range sgr {
		if s&(1<<i) != 0 {
			f.out = strconv.AppendInt(f.out, int64(n), 10)
			f.out = append(f.out, ';')
		}
	}
	f.out[len(f.out)-1] = 'm'
}
