package render

import "unicode"

// span is a run of characters, both ends included.
type span struct{ first, last rune }

// in reports whether r lies in one of the spans, which are in order.
func in(r rune, spans []span) bool {
	for _, s := range spans {
		if r <= s.last {
			return r >= s.first
		}
	}
	return false
}

// hiddenSpans are the characters beyond ASCII that act on a terminal, reorder
// the text around them, or are invisible, so that two texts with and without
// them would look the same. Spaces of every width are not among them, nor
// characters for private use, which fonts for terminals draw, nor unassigned
// ones, which are mostly newer emoji.
//
// The flags of England, Scotland and Wales are spelled with tag characters;
// they are shown in pieces, because tag characters can spell any hidden text.
var hiddenSpans = []span{
	{0x0080, 0x009f},   // C1: one of them begins a sequence as ESC [ does
	{0x00ad, 0x00ad},   // soft hyphen
	{0x034f, 0x034f},   // combining grapheme joiner
	{0x061c, 0x061c},   // Arabic letter mark: reorders
	{0x115f, 0x1160},   // Hangul fillers: invisible letters
	{0x17b4, 0x17b5},   // invisible Khmer vowels
	{0x180e, 0x180e},   // Mongolian vowel separator
	{0x200b, 0x200b},   // zero width space
	{0x200e, 0x200f},   // left-to-right and right-to-left marks
	{0x2028, 0x202e},   // line and paragraph separators, bidi embeddings and overrides
	{0x2060, 0x206f},   // word joiner, invisible operators, bidi isolates, shaping controls
	{0x3164, 0x3164},   // Hangul filler
	{0xfdd0, 0xfdef},   // not characters
	{0xfeff, 0xfeff},   // zero width no-break space, the byte order mark
	{0xffa0, 0xffa0},   // halfwidth Hangul filler
	{0xfff0, 0xfffb},   // interlinear annotation
	{0xfffe, 0xffff},   // not characters
	{0x13430, 0x1343f}, // controls of hieroglyphs
	{0x1bca0, 0x1bca3}, // controls of shorthand
	{0x1d173, 0x1d17a}, // controls of music
	{0xe0000, 0xe00ff}, // tags
	{0xe01f0, 0xe0fff}, // reserved for more of the same
}

func hidden(r rune) bool {
	if r < 0x80 {
		return r < ' ' || r == 0x7f
	}
	return in(r, hiddenSpans) || r&0xfffe == 0xfffe
}

const (
	nonJoiner = 0x200c // ZWNJ: keeps two letters apart, in Persian within words
	joiner    = 0x200d // ZWJ: makes one sign of two, in Indic scripts and emoji
	textStyle = 0xfe0e // draws the character before it as text
	emoji     = 0xfe0f // draws the character before it as an emoji
)

func isJoiner(r rune) bool { return r == nonJoiner || r == joiner }

// joins reports whether a joiner between prev and next has a visible meaning.
// Emoji of families and professions are spelled with it, and whole languages
// write it within words; anywhere else it only hides. At the edge of a word it
// is shown as well, since that use is rare and could hide something.
func joins(r, prev, next rune) bool {
	if r == joiner && (pictographic(prev) || prev == emoji) && pictographic(next) {
		return true
	}
	return joining(prev) && joining(next)
}

// pictographSpans are the blocks that emoji are taken from.
var pictographSpans = []span{
	{0x2190, 0x21ff}, {0x2300, 0x23ff}, {0x25a0, 0x27bf}, {0x2900, 0x297f}, {0x2b00, 0x2bff},
	{0x1f000, 0x1faff},
}

func pictographic(r rune) bool { return in(r, pictographSpans) && !hidden(r) }

// joiningSpans are the scripts whose letters change shape with their
// neighbours.
var joiningSpans = []span{
	{0x0600, 0x08ff},                   // Arabic, Syriac, Thaana, N'Ko, Mandaic
	{0x0900, 0x0dff},                   // the scripts of India, Sinhala
	{0x1000, 0x109f},                   // Myanmar
	{0x1780, 0x18af},                   // Khmer, Mongolian
	{0x1a20, 0x1aaf}, {0x1b00, 0x1bff}, // Tai Tham, Balinese, Sundanese, Batak
	{0xa840, 0xa8ff}, {0xa980, 0xaaff}, {0xabc0, 0xabff}, // Phags-pa, Javanese, Cham, Meetei
	{0xfb50, 0xfdff}, {0xfe70, 0xfefe}, // Arabic forms
	{0x10a00, 0x10fff}, {0x11000, 0x11fff}, {0x1e900, 0x1e95f},
}

func joining(r rune) bool {
	return in(r, joiningSpans) && (unicode.IsLetter(r) || unicode.IsMark(r)) && !hidden(r) && !isSelector(r)
}

// selectorSpans are the characters that choose among the shapes of the
// previous one.
var selectorSpans = []span{{0x180b, 0x180d}, {0x180f, 0x180f}, {0xfe00, 0xfe0f}, {0xe0100, 0xe01ef}}

func isSelector(r rune) bool { return in(r, selectorSpans) }

// selects reports whether the selector r can belong to prev: a single one,
// after a character that has several shapes. Rows of them, or ones after
// letters, carry hidden bytes.
func selects(prev, r rune) bool {
	switch {
	case r == textStyle || r == emoji:
		return prev >= '0' && prev <= '9' || prev == '#' || prev == '*' || // keycaps
			prev == 0xa9 || prev == 0xae || prev > 0x2000 && unicode.IsSymbol(prev) ||
			prev == 0x203c || prev == 0x2049 || prev == 0x3030 || prev == 0x303d
	case r <= 0x180f:
		return prev >= 0x1800 && prev <= 0x18af && unicode.IsLetter(prev)
	case r >= 0xe0100:
		return unicode.Is(unicode.Han, prev)
	}
	return prev > 0x2000 && (unicode.Is(unicode.Han, prev) || unicode.Is(unicode.Sm, prev)) ||
		prev >= 0x1000 && prev <= 0x109f && unicode.IsLetter(prev)
}
