package search

import (
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// class is what a byte of folded text is, as a set of one bit, so that the
// classes of a whole run can be combined. The bytes of a character after its
// first one are inner.
type class uint8

const (
	other    class = 0 // between words
	lower    class = 1 << (iota - 1)
	upper          // folded, but an identifier is split before it
	digit          //
	mark           // belongs to the character before it
	unspaced       // of a script without spaces between words
	inner          //
)

// folded is text made comparable: without compatibility forms, case, accents and
// invisible characters. class and from run parallel to low when they are
// requested.
type folded struct {
	low   []byte
	class []class
	from  []int32 // where in the text each byte of low came from

	classes, origins bool // what to record besides low
}

// ascii holds, for each byte of ASCII, its folded form and its class.
var ascii = func() (t struct {
	low   [utf8.RuneSelf]byte
	class [utf8.RuneSelf]class
}) {
	for c := range byte(utf8.RuneSelf) {
		t.low[c] = c
		switch {
		case c >= 'a' && c <= 'z':
			t.class[c] = lower
		case c >= 'A' && c <= 'Z':
			t.class[c], t.low[c] = upper, c|0x20
		case c >= '0' && c <= '9':
			t.class[c] = digit
		}
	}
	return t
}()

// foldClass is where the class of a byte stands in asciiFolds, above its folded form.
const foldClass = 8

// asciiFolds is ascii in one table. A byte of a character beyond ASCII has the class
// inner, which no byte of ASCII has.
var asciiFolds = func() (t [256]uint16) {
	for c := range t {
		if c < utf8.RuneSelf {
			t[c] = uint16(ascii.class[c])<<foldClass | uint16(ascii.low[c])
		} else {
			t[c] = uint16(inner) << foldClass
		}
	}
	return t
}()

// add folds text and appends it. ASCII changes only its case. A stretch beyond
// ASCII is normalised on its own: nothing in ASCII affects its neighbours,
// because accents on ASCII letters are dropped.
func (f *folded) add(text string) {
	for i := 0; i < len(text); {
		n := asciiPrefix(text[i:])
		f.addASCII(text[i:i+n], i)
		i += n
		n = 0
		for i+n < len(text) && text[i+n] >= utf8.RuneSelf {
			n++
		}
		if n > 0 {
			f.addWide(text[i:i+n], i)
			i += n
		}
	}
}

func asciiPrefix(s string) int {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return i
		}
	}
	return len(s)
}

func (f *folded) addASCII(s string, at int) {
	n := len(f.low)
	f.low = append(f.low, s...)
	low := f.low[n:]
	for i, c := range low {
		low[i] = ascii.low[c&0x7f]
	}
	if f.classes {
		f.class = slices.Grow(f.class, len(s))[:n+len(s)]
		class := f.class[n:]
		for i := range class {
			class[i] = ascii.class[s[i]&0x7f]
		}
	}
	if f.origins {
		for i := range len(s) {
			f.from = append(f.from, int32(at+i))
		}
	}
}

// addWide folds a stretch without ASCII. Where neighbours may combine into one
// character, the whole stretch is normalised; elsewhere, which is nearly always,
// each character on its own, which is several times faster.
func (f *folded) addWide(s string, at int) {
	for _, r := range s {
		if combines(r) {
			f.addMelted(s, at)
			return
		}
	}
	for i, r := range s {
		f.addRune(r, s[i:], at+i)
	}
}

func (f *folded) addMelted(s string, at int) {
	var segments norm.Iter
	segments.InitString(norm.NFKC, s)
	for !segments.Done() {
		i := segments.Pos()
		seg := string(segments.Next())
		for j, r := range seg {
			f.addRune(r, seg[j:], at+i)
		}
	}
}

// combines reports whether r may become one character with a neighbour that is
// not an accent: parts of Hangul syllables, the voicing marks of kana, and
// characters of the scripts of India and beyond.
func combines(r rune) bool {
	switch {
	case r < 0x900:
		return false
	case r < 0x1e00:
		return true
	case r < 0x3099:
		return false
	case r < 0x30a0:
		return true
	case r < 0x3100:
		return false
	case r < 0x3400:
		return true
	case r < 0xa000:
		return false
	case r < 0xac00:
		return true
	}
	return r > 0xd7a3 && (r < 0xff01 || r > 0xff60) && r < 0x20000
}

// short is the folded form of a character that becomes at most one character.
type short struct {
	low   rune // 0: it disappears
	class class
	known bool // false: it becomes several
}

// shorts holds the characters of the alphabets of Europe, which most text beyond
// ASCII consists of. It is built when the first of them occurs.
var shorts = sync.OnceValue(func() *[0x590]short {
	var t [0x590]short
	f := folded{classes: true}
	for i := utf8.RuneSelf; i < len(t); i++ {
		f.low, f.class = f.low[:0], f.class[:0]
		f.takeApart(rune(i), string(rune(i)), 0)
		r, size := utf8.DecodeRune(f.low)
		switch len(f.low) {
		case 0:
			t[i] = short{known: true}
		case size:
			t[i] = short{r, f.class[0], true}
		}
	}
	return &t
})

// addRune folds one character, which is at the front of s.
func (f *folded) addRune(r rune, s string, at int) {
	if r < 0x590 {
		if k := shorts()[r]; k.known {
			if k.low != 0 {
				f.put(k.low, k.class, at)
			}
			return
		}
	}
	f.takeApart(r, s, at)
}

func (f *folded) takeApart(r rune, s string, at int) {
	switch {
	case r >= 0x4e00 && r <= 0x9fff, r >= 0xac00 && r <= 0xd7a3, // Han, Hangul syllables
		r >= 0x3041 && r <= 0x3096, r >= 0x30a1 && r <= 0x30fa: // kana keep their voicing marks
		f.put(r, unspaced, at)
		return
	case r == 0x30fe || r == 0x309e: // voiced, too
		f.put(r, unspaced, at)
		return
	case r == utf8.RuneError:
		f.put(r, other, at)
		return
	}
	p := norm.NFKD.PropertiesString(s)
	d := p.Decomposition()
	if d == nil {
		f.addLetter(r, p.CCC(), at)
		return
	}
	for len(d) > 0 {
		r, size := utf8.DecodeRune(d)
		var ccc uint8
		if r >= 0x300 {
			ccc = norm.NFKD.Properties(d).CCC()
		}
		f.addLetter(r, ccc, at)
		d = d[size:]
	}
}

// addLetter folds the case of a character that cannot be decomposed any further.
// All four Turkish letters i become one, as do the two forms of sigma.
func (f *folded) addLetter(r rune, ccc uint8, at int) {
	switch {
	case r < utf8.RuneSelf:
		f.put(rune(ascii.low[r]), ascii.class[r], at)
	case isAccent(ccc) || unseen(r):
	case r == 'ß':
		f.put('s', lower, at)
		f.put('s', lower, at)
	case r == 'ẞ':
		f.put('s', upper, at)
		f.put('s', upper, at)
	default:
		f.put(unicode.ToLower(unicode.ToUpper(r)), classOf(r), at)
	}
}

func (f *folded) put(r rune, c class, at int) {
	n := len(f.low)
	f.low = utf8.AppendRune(f.low, r)
	for i := n; i < len(f.low); i++ {
		if f.classes {
			f.class = append(f.class, c)
			c = inner
		}
		if f.origins {
			f.from = append(f.from, int32(at))
		}
	}
}

// isAccent distinguishes marks that people leave out when they type (accents of
// Latin, Greek and Cyrillic, points of Hebrew, vowels of Arabic) from marks that
// make another letter (vowels of Indic scripts and Thai, voiced kana) by their
// canonical combining class.
func isAccent(ccc uint8) bool {
	return ccc == 1 || ccc >= 10 && ccc <= 36 || ccc >= 200
}

// unseen reports whether r is invisible, so that a word with it and one without
// it look the same. The zero width space is not included: it separates words.
func unseen(r rune) bool {
	switch {
	case r < 0x34f:
		return r == 0xad
	case r < 0x2000:
		return r == 0x34f || r == 0x61c || r >= 0x180b && r <= 0x180f
	case r < 0x2070:
		return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2060
	}
	return r >= 0xfe00 && r <= 0xfe0f || r == 0xfeff || r >= 0xe0000 && r <= 0xe0fff
}

// classOf returns the class of a character beyond ASCII. Letters without case
// count as lower.
func classOf(r rune) class {
	switch {
	case unicode.IsMark(r):
		return mark
	case unicode.Is(unicode.Nd, r):
		return digit
	case !unicode.IsLetter(r) && !unicode.IsNumber(r):
		return other
	case isUnspaced(r):
		return unspaced
	case unicode.IsUpper(r) || unicode.IsTitle(r):
		return upper
	}
	return lower
}

// unspacedSpans are the scripts without spaces between words, and Korean, whose
// words take endings. Both ends are included.
var unspacedSpans = [][2]rune{
	{0x0e00, 0x0eff},   // Thai, Lao
	{0x1000, 0x109f},   // Myanmar
	{0x1100, 0x11ff},   // Hangul, in parts
	{0x1780, 0x17ff},   // Khmer
	{0x1950, 0x19df},   // Tai Le, New Tai Lue
	{0x1a20, 0x1aaf},   // Tai Tham
	{0x2e80, 0x2fdf},   // Han radicals
	{0x3005, 0x3007},   // Han iteration mark, zero
	{0x3021, 0x3029},   // Han numerals
	{0x3031, 0x318f},   // kana, Bopomofo, Hangul
	{0x31a0, 0x31ff},   // more of them
	{0x3400, 0x9fff},   // Han
	{0xa000, 0xa4cf},   // Yi
	{0xa960, 0xa97f},   // Hangul, in parts
	{0xa9e0, 0xa9ff},   // Myanmar
	{0xaa60, 0xaadf},   // Myanmar, Tai Viet
	{0xac00, 0xd7ff},   // Hangul
	{0xf900, 0xfaff},   // Han
	{0xff66, 0xffdc},   // halfwidth kana and Hangul
	{0x1aff0, 0x1b16f}, // kana
	{0x20000, 0x3ffff}, // Han
}

func isUnspaced(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	for _, s := range unspacedSpans {
		if r <= s[1] {
			return r >= s[0]
		}
	}
	return false
}
