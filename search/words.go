// Package search defines what the words of a text are and what a query means.
//
// A caller with an index fills it with [EachWord] and queries it for
// [Query.Terms]; a caller without one passes each text to [Query.Match]. Both
// find the same. The package reads nothing, stores nothing and knows no store:
// it is a set of pure functions over text, and safe to use from several
// goroutines.
//
//	q, err := search.Parse(`'"exit code" ^time !warning`)
//	all, none, verify := q.Terms()
package search

import "unicode/utf8"

// MaxWordBytes is where a word is cut, in texts and queries alike. Anything
// longer is data rather than language, and its beginning identifies it.
const MaxWordBytes = 64

// MaxWords bounds the distinct words of one text. Some 300 KB of prose hold as
// many; a text with more is a dump of data, and would cost the index more than
// searching it is worth. Words beyond the limit are not in the index; Match
// still sees them.
const MaxWords = 20_000

// maxParts bounds the parts that one identifier is split into. A run that
// changes more often between letters and digits is a hash or base64, and its
// fragments are not words.
const maxParts = 16

// chunkBytes is about how much of a text is folded at a time, so that a large
// text does not need a multiple of its size in memory.
const chunkBytes = 64 << 10

// Words returns the words of text, each once, in the order of their first
// appearance.
//
// A word is a run of letters, digits and marks, folded: compatibility forms
// (NFKC), accents and case are gone. A run that is an identifier also gives its
// parts of at least two characters: parseHTTPRequest2 gives parsehttprequest2,
// parse, http and request. Scripts without spaces between words (Han, kana, Thai
// and their like) and Hangul give each character and each pair of neighbours.
//
// Words are valid UTF-8 of at most MaxWordBytes, and there are at most MaxWords.
func Words(text string) []string {
	var c collector
	c.add(text)
	return c.words
}

// collector gathers distinct words.
type collector struct {
	seen  map[string]struct{}
	words []string
}

func (c *collector) add(text string) {
	if c.seen == nil {
		guess := min(len(text)/6, 1024)
		c.seen = make(map[string]struct{}, guess)
		c.words = make([]string, 0, guess)
	}
	size := min(len(text), chunkBytes+chunkBytes/8)
	f := folded{low: make([]byte, 0, size), class: make([]class, 0, size), classes: true}
	for len(text) > 0 && len(c.words) < MaxWords {
		n := chunkEnd(text, chunkBytes)
		f.low, f.class = f.low[:0], f.class[:0]
		f.add(text[:n])
		low := string(f.low)
		tokens(f.low, f.class, func(from, to int) {
			c.put(low[from:to])
		})
		text = text[n:]
	}
}

func (c *collector) put(word string) {
	if _, ok := c.seen[word]; ok || len(c.words) >= MaxWords {
		return
	}
	c.seen[word] = struct{}{}
	c.words = append(c.words, word)
}

// chunkEnd returns where to cut text so that no word and no character is cut:
// after the first ASCII character that is part of no word, beyond size bytes.
func chunkEnd(text string, size int) int {
	for i := size; i < len(text); i++ {
		if c := text[i]; c < utf8.RuneSelf && ascii.class[c] == other {
			return i + 1
		}
	}
	return len(text)
}

// tokens calls yield with the position of each word in folded text.
func tokens(low []byte, classes []class, yield func(from, to int)) {
	eachRun(classes, func(from, to int, all class) {
		if all == unspaced {
			characters(classes, from, func(from, to int) { yield(from, cut(low, from, to)) })
			return
		}
		yield(from, cut(low, from, to))
		eachPart(low, classes, from, to, all, yield)
	})
}

// eachRun calls yield with each run of folded text and the classes in it;
// unspaced alone for a run of such a script.
func eachRun(classes []class, yield func(from, to int, all class)) {
	for i := 0; i < len(classes); {
		switch classes[i] {
		case other, inner:
			i++
		case unspaced:
			end := characters(classes, i, func(int, int) {})
			yield(i, end, unspaced)
			i = end
		default:
			end, all := runEnd(classes, i)
			yield(i, end, all)
			i = end
		}
	}
}

// eachPart calls yield with the parts of a run that are words besides the run
// itself.
func eachPart(low []byte, classes []class, from, to int, all class, yield func(from, to int)) {
	// A run of only one kind of character cannot be split.
	if all &^= mark | inner; all&(all-1) == 0 {
		return
	}
	var room [maxParts]part
	for _, p := range parts(room[:0], classes[:to], from) {
		if p.count > 1 && (p.from > from || p.to < to) {
			yield(p.from, cut(low, p.from, p.to))
		}
	}
}

// runEnd returns where the run that begins at i ends, and the classes in it.
func runEnd(classes []class, i int) (end int, all class) {
	for ; i < len(classes); i++ {
		c := classes[i]
		if c == other || c == unspaced {
			break
		}
		all |= c
	}
	return i, all
}

// characters calls yield with each character of the run at i, its marks
// included, and with each pair of neighbours. It returns where the run ends.
func characters(classes []class, i int, yield func(from, to int)) int {
	before := -1
	for i < len(classes) && classes[i] == unspaced {
		end := i + 1
		for end < len(classes) && classes[end]&(mark|inner) != 0 {
			end++
		}
		yield(i, end)
		if before >= 0 {
			yield(before, end)
		}
		before, i = i, end
	}
	return i
}

// part is a piece of an identifier; count is how many characters it has,
// marks aside.
type part struct{ from, to, count int }

// parts splits the run that begins at i and ends with classes: between letters
// and digits, before a capital that follows a lower-case letter, and before the
// last of several capitals when a lower-case letter follows it. It appends to
// found, which is empty, and returns nil for a run of too many parts.
func parts(found []part, classes []class, i int) []part {
	p := part{from: i}
	var last class
	for ; i < len(classes); i++ {
		c := classes[i]
		if c&(mark|inner) != 0 {
			continue
		}
		if p.count > 0 && splits(last, c, classes, i) {
			if len(found) == maxParts-1 {
				return nil
			}
			p.to = i
			found = append(found, p)
			p = part{from: i}
		}
		p.count++
		last = c
	}
	p.to = len(classes)
	return append(found, p)
}

// splits reports whether a part begins at i with class c after class last.
func splits(last, c class, classes []class, i int) bool {
	switch {
	case last == c:
		if c != upper {
			return false
		}
		for i++; i < len(classes) && classes[i]&(mark|inner) != 0; i++ {
		}
		return i < len(classes) && classes[i] == lower
	case last == digit, c == digit:
		return true
	}
	return c == upper
}

// cut returns to, or less when the word would be longer than MaxWordBytes.
func cut(low []byte, from, to int) int {
	if to-from <= MaxWordBytes {
		return to
	}
	to = from + MaxWordBytes
	for !utf8.RuneStart(low[to]) {
		to--
	}
	return to
}
