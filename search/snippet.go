package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// overlapBytes is how much of the text after a chunk is searched with it, so
// that a phrase across the border is found and what follows a match is marked.
const overlapBytes = 16 << 10

// ellipsis marks where a snippet leaves something out.
const ellipsis = '…'

// Snippet returns the part of text around the first match of the query, on one
// line of at most width characters, and where in it the matched words are, as
// ranges of bytes in order. Runs of white space and control characters become
// one space, and invalid UTF-8 the replacement character. If nothing matches,
// the snippet is the beginning of the text.
//
// A snippet is still foreign text: it may hold characters that a terminal or a
// page has to be protected from.
func (q Query) Snippet(text string, width int) (snippet string, marks [][2]int) {
	if width <= 0 {
		return "", nil
	}
	found := q.first(text)
	at := 0
	if len(found) > 0 {
		at = found[0][0]
	}
	s := snipper{text: text, found: found, room: width}
	s.write(snippetStart(text, at, width))
	return s.out.String(), s.marks
}

// first returns the positions of the matches in the first part of text that has
// some, in order and without overlaps.
func (q Query) first(text string) [][2]int {
	f := folded{classes: true, origins: true}
	for start := 0; start < len(text); {
		view := text[start:]
		n := chunkEnd(view, chunkBytes)
		view = view[:n+chunkEnd(view[n:], overlapBytes)]
		f.low, f.class, f.from = f.low[:0], f.class[:0], f.from[:0]
		f.add(view)
		if found := q.places(&f, len(view)); len(found) > 0 {
			for i := range found {
				found[i][0] += start
				found[i][1] += start
			}
			return found
		}
		start += n
	}
	return nil
}

// places returns where in a folded text, of size bytes before folding, the
// query's positive terms are.
func (q Query) places(f *folded, size int) (found [][2]int) {
	wanted := make([]bool, len(q.terms))
	low := string(f.low)
	for _, group := range q.groups {
		for _, a := range group {
			switch {
			case a.not:
			case a.phrase != nil:
				for from, to := a.phrase.next(low, 0); from >= 0; from, to = a.phrase.next(low, to) {
					found = append(found, f.origin(from, to, size))
				}
			default:
				for _, c := range a.clauses {
					for _, t := range c {
						wanted[t] = true
					}
				}
			}
		}
	}
	tokens(f.low, f.class, func(from, to int) {
		q.meets(f.low[from:to], func(term int) {
			if wanted[term] {
				found = append(found, f.origin(from, to, size))
			}
		})
	})
	return merge(found)
}

// origin returns the position in the text of from to to in folded text.
// Characters after it that were folded away belong to it, and so does the whole
// of one that was folded into several.
func (f *folded) origin(from, to, size int) [2]int {
	last := f.from[to-1]
	for to < len(f.from) && f.from[to] == last {
		to++
	}
	if to < len(f.from) {
		size = int(f.from[to])
	}
	return [2]int{int(f.from[from]), size}
}

// merge orders ranges and joins those that overlap.
func merge(ranges [][2]int) [][2]int {
	slices.SortFunc(ranges, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	merged := ranges[:0]
	for _, r := range ranges {
		if n := len(merged); n > 0 && r[0] < merged[n-1][1] {
			merged[n-1][1] = max(merged[n-1][1], r[1])
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// snippetStart returns where a snippet begins whose match is at the given
// place: a third of the width before it, more when little follows, at the
// beginning of a word when there is one.
func snippetStart(text string, at, width int) int {
	follow := 0
	for i := at; i < len(text) && follow < width; follow++ {
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
	}
	start := at
	for lead := max(width/3, width-follow); lead > 0 && start > 0; lead-- {
		_, size := utf8.DecodeLastRuneInString(text[:start])
		start -= size
	}
	if start == 0 {
		return 0
	}
	if i := strings.IndexFunc(text[start:at], isBlank); i >= 0 {
		start += i
	}
	return start
}

func isBlank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// snipper writes a snippet.
type snipper struct {
	text  string
	found [][2]int // to mark, in order
	room  int      // characters left
	out   strings.Builder
	marks [][2]int
	open  int // where the open mark begins
}

// minEllipsis is the width from which a snippet shows that something was left
// out before it. Below that, the match needs the space.
const minEllipsis = 8

func (s *snipper) write(start int) {
	if start > 0 && s.room >= minEllipsis {
		s.out.WriteRune(ellipsis)
		s.room--
	}
	s.open = -1
	begun, blank := false, false
	for i := start; i < len(s.text) && s.room > 0; {
		r, size := utf8.DecodeRuneInString(s.text[i:])
		s.leave(i)
		if isBlank(r) {
			blank = begun
			i += size
			continue
		}
		need := 1
		if blank {
			need = 2
		}
		if s.room < need || s.room == need && !s.nothingBehind(i+size) {
			s.close()
			s.out.WriteRune(ellipsis)
			return
		}
		if blank {
			s.out.WriteByte(' ')
		}
		s.enter(i)
		s.out.WriteRune(r)
		s.room -= need
		begun, blank = true, false
		i += size
	}
	s.close()
}

// nothingBehind reports whether only white space follows.
func (s *snipper) nothingBehind(i int) bool {
	return strings.IndexFunc(s.text[i:], func(r rune) bool { return !isBlank(r) }) < 0
}

// leave ends the marks that end before place i of the text.
func (s *snipper) leave(i int) {
	for len(s.found) > 0 && i >= s.found[0][1] {
		s.close()
		s.found = s.found[1:]
	}
}

// enter begins the mark that contains place i of the text.
func (s *snipper) enter(i int) {
	if len(s.found) > 0 && i >= s.found[0][0] && s.open < 0 {
		s.open = s.out.Len()
	}
}

func (s *snipper) close() {
	if s.open >= 0 && s.open < s.out.Len() {
		s.marks = append(s.marks, [2]int{s.open, s.out.Len()})
	}
	s.open = -1
}
