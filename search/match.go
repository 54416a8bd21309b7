package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Match reports whether text matches the query. Texts of several fields are
// joined by newlines; see Text for entries.
func (q Query) Match(text string) bool {
	f := folded{low: make([]byte, 0, len(text))}
	f.add(text)
	low := string(f.low)
	// A word that does not occur as a substring is no word of the text. This
	// settles most texts, at the speed of a substring search.
	may := make([]bool, len(q.terms))
	for i, t := range q.terms {
		may[i] = strings.Contains(low, t.Word)
	}
	if !q.holds(func(a *atom) bool { return a.not || allHold(a.clauses, may) }) {
		return false
	}
	has := q.find(text)
	return q.holds(func(a *atom) bool {
		return a.not != (allHold(a.clauses, has) && (a.phrase == nil || a.phrase.in(low)))
	})
}

func (q Query) holds(atomHolds func(*atom) bool) bool {
	for _, group := range q.groups {
		any := false
		for i := range group {
			if any = atomHolds(&group[i]); any {
				break
			}
		}
		if !any {
			return false
		}
	}
	return len(q.groups) > 0
}

func allHold(clauses [][]int, has []bool) bool {
	for _, clause := range clauses {
		any := false
		for _, i := range clause {
			any = any || has[i]
		}
		if !any {
			return false
		}
	}
	return true
}

// find returns which of the terms are words of text.
func (q Query) find(text string) []bool {
	has := make([]bool, len(q.terms))
	f := folded{classes: true}
	for len(text) > 0 {
		n := chunkEnd(text, chunkBytes)
		f.low, f.class = f.low[:0], f.class[:0]
		f.add(text[:n])
		tokens(f.low, f.class, func(from, to int) {
			q.meets(f.low[from:to], func(term int) { has[term] = true })
		})
		text = text[n:]
	}
	return has
}

// meets calls yield with each term that a word matches.
func (q Query) meets(word []byte, yield func(term int)) {
	if i, ok := q.words[string(word)]; ok {
		yield(i)
	}
	for _, i := range q.prefixes {
		if w := q.terms[i].Word; len(word) >= len(w) && string(word[:len(w)]) == w {
			yield(i)
		}
	}
}

// in reports whether folded text contains the phrase.
func (p *phrase) in(low string) bool {
	from, _ := p.next(low, 0)
	return from >= 0
}

// next returns where the phrase first occurs in folded text at or after start,
// or -1.
func (p *phrase) next(low string, start int) (from, to int) {
	for start <= len(low) {
		i := strings.Index(low[start:], p.chunks[0])
		if i < 0 {
			break
		}
		from = start + i
		if to = p.at(low, from); to >= 0 {
			return from, to
		}
		_, size := utf8.DecodeRuneInString(low[from:])
		start = from + size
	}
	return -1, -1
}

// at returns where the phrase at from ends, or -1 when it does not occur there.
func (p *phrase) at(low string, from int) int {
	if !p.beginsAt(low, from) {
		return -1
	}
	end := from + len(p.chunks[0])
	for _, chunk := range p.chunks[1:] {
		rest := strings.TrimLeftFunc(low[end:], unicode.IsSpace)
		if len(rest) == len(low)-end || !strings.HasPrefix(rest, chunk) {
			return -1
		}
		end = len(low) - len(rest) + len(chunk)
	}
	// A character of an unspaced script is one with its marks.
	if next, _ := utf8.DecodeRuneInString(low[end:]); unicode.IsMark(next) && lastBase(low[:end]) == unspaced {
		return -1
	}
	return end
}

// beginsAt reports whether a word, or something that is not a word, begins at
// from.
func (p *phrase) beginsAt(low string, from int) bool {
	switch p.first {
	case other, unspaced:
		return true
	case mark:
		r, size := utf8.DecodeLastRuneInString(low[:from])
		return size == 0 || runeClass(r) == other
	}
	before := lastBase(low[:from])
	return before == other || before == unspaced
}

// lastBase returns the class of the last character of folded text that is not
// a mark; of a mark without a character before it, mark.
func lastBase(low string) class {
	last := other
	for len(low) > 0 {
		r, size := utf8.DecodeLastRuneInString(low)
		c := runeClass(r)
		if c != mark {
			if last == mark && c == other {
				return mark
			}
			return c
		}
		last, low = mark, low[:len(low)-size]
	}
	return last
}

func runeClass(r rune) class {
	if r < utf8.RuneSelf {
		return ascii.class[r]
	}
	return classOf(r)
}
