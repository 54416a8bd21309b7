package terminal

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark/internal/text"
)

// pickRow is an item with the text that the filter compares, made once when it
// is loaded.
type pickRow struct {
	Item
	key  string // the folded title, agent, project, short id and tags
	gone bool   // moved to or out of the trash while listed
}

// goneKey is the key of a row that is gone. No filter contains a newline, and
// an empty filter is not compared with keys.
const goneKey = "\n"

// newRows folds the items of a page. The keys of a page are contiguous in
// memory, so that a filter reads them in sequence.
func newRows(items []Item) []pickRow {
	rows := make([]pickRow, len(items))
	ends := make([]int, len(items))
	var b strings.Builder
	for i, it := range items {
		rows[i].Item = it
		writeKey(&b, it)
		ends[i] = b.Len()
	}
	at, keys := 0, b.String()
	for i, end := range ends {
		rows[i].key = keys[at:end]
		at = end
	}
	return rows
}

func (r *pickRow) refold() {
	if r.gone {
		r.key = goneKey
		return
	}
	var b strings.Builder
	writeKey(&b, r.Item)
	r.key = b.String()
}

// writeKey adds what a filter matches of an item: what the list shows of it.
// Fields are separated by newlines: no filter contains one, so nothing matches
// across two fields.
func writeKey(b *strings.Builder, it Item) {
	writeFolded(b, text.Clip(it.Title, maxText))
	for _, field := range [...]string{it.Agent, lastName(it.Project), shortID(it.ID)} {
		b.WriteByte('\n')
		writeFolded(b, field)
	}
	for _, tag := range it.Tags {
		b.WriteString("\n#")
		writeFolded(b, tag)
	}
}

// writeFolded folds case character by character, so that the folded text has
// as many characters as the original and positions in both agree.
func writeFolded(b *strings.Builder, s string) {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			b.WriteByte(c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		b.WriteRune(foldRune(r))
		i += n
	}
}

// foldRune folds through upper case, so that ſ and s, ς and σ are equal.
func foldRune(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

func fold(s string) string {
	var b strings.Builder
	writeFolded(&b, s)
	return b.String()
}

// none stands for no row.
const none = -1

// list is what was loaded of one scope, and which of it passes the
// filter. It is not safe for concurrent use.
type list struct {
	rows  []*pickRow
	keys  []string // of the rows, stored separately: a filter reads nothing else
	byID  map[string]int32
	above []int32   // for each row the source that it is listed below, or none
	forks [][]int32 // for each row those that are listed below it

	order []int32 // all rows in their order without a filter
	terms []string
	hits  []int32    // what is shown: order, or the rows that match all terms
	found []pickRow  // what the content search returned
	below []*pickRow // those of found that are not among the hits
}

func newList() *list {
	return &list{byID: map[string]int32{}}
}

// add adds the next page. Sessions that are in two pages, because they were
// written to in between, stay in their first place.
func (l *list) add(page []pickRow) {
	first := len(l.rows)
	grouped := false
	for i := range page {
		r := &page[i]
		if _, twice := l.byID[r.ID]; twice {
			continue
		}
		at := int32(len(l.rows))
		l.rows = append(l.rows, r)
		l.keys = append(l.keys, r.key)
		l.above = append(l.above, none)
		l.forks = append(l.forks, nil)
		l.byID[r.ID] = at
		// A fork is listed below its source if the source is the newer of
		// the two. Otherwise it keeps its place, so that the newest
		// session is always first.
		if source, ok := l.byID[r.ForkOf.ID]; ok && r.ForkOf.ID != "" && source != at {
			l.forks[source] = append(l.forks[source], at)
			l.above[at] = source
			grouped = true
		}
	}
	if grouped {
		l.arrange()
		l.show()
		return
	}
	for i := first; i < len(l.rows); i++ {
		l.order = append(l.order, int32(i))
		if l.matches(l.keys[i]) {
			l.hits = append(l.hits, int32(i))
		}
	}
	l.mergeFound()
}

// arrange puts every fork after its source, and the rest in order of time.
func (l *list) arrange() {
	l.order = l.order[:0]
	var put func(at int32)
	put = func(at int32) {
		l.order = append(l.order, at)
		for _, fork := range l.forks[at] {
			put(fork)
		}
	}
	for i := range l.rows {
		if l.above[i] == none {
			put(int32(i))
		}
	}
}

// filter shows what matches every word of text.
func (l *list) filter(text string) {
	terms := strings.Fields(fold(text))
	narrower := narrows(l.terms, terms)
	l.terms = terms
	l.found, l.below = nil, nil
	if len(terms) == 0 || !narrower {
		l.show()
		return
	}
	kept := l.hits[:0]
	for _, at := range l.hits {
		if l.matches(l.keys[at]) {
			kept = append(kept, at)
		}
	}
	l.hits = kept
}

// narrows reports whether every match of the new terms also matched the old
// ones, which is the case while somebody keeps typing.
func narrows(old, new []string) bool {
	if len(old) == 0 || len(new) < len(old) {
		return false
	}
	last := len(old) - 1
	return slices.Equal(old[:last], new[:last]) && strings.Contains(new[last], old[last])
}

// show selects from all rows again.
func (l *list) show() {
	if len(l.terms) == 0 {
		l.hits = l.hits[:0]
		for _, at := range l.order {
			if l.keys[at] != goneKey {
				l.hits = append(l.hits, at)
			}
		}
		l.below = nil
		return
	}
	l.hits = l.hits[:0]
	for i, key := range l.keys {
		if l.matches(key) {
			l.hits = append(l.hits, int32(i))
		}
	}
	l.mergeFound()
}

func (l *list) matches(key string) bool {
	for _, term := range l.terms {
		if !strings.Contains(key, term) {
			return false
		}
	}
	return true
}

// find adds the results of the content search.
func (l *list) find(found []pickRow) {
	l.found = found
	l.mergeFound()
}

func (l *list) mergeFound() {
	l.below = nil
	for i := range l.found {
		r := &l.found[i]
		if at, loaded := l.byID[r.ID]; loaded {
			if l.rows[at].gone || l.matches(l.keys[at]) {
				continue
			}
		}
		if !r.gone {
			l.below = append(l.below, r)
		}
	}
}

func (l *list) len() int { return len(l.hits) + len(l.below) }

// at returns the row shown at a position, or nil beyond the end.
func (l *list) at(i int) *pickRow {
	switch {
	case i < 0 || i >= l.len():
		return nil
	case i < len(l.hits):
		return l.rows[l.hits[i]]
	}
	return l.below[i-len(l.hits)]
}

// indent returns how deep a shown row is below its sources, at most limit.
func (l *list) indent(i, limit int) int {
	if len(l.terms) > 0 || i >= len(l.hits) {
		return 0
	}
	n, at := 0, l.hits[i]
	for n < limit {
		source := l.above[at]
		if source == none || l.rows[source].gone {
			break
		}
		n, at = n+1, source
	}
	return n
}

// where returns the position at which a session is shown, searching from where
// it was.
func (l *list) where(id string, was int) (int, bool) {
	if r := l.at(was); r != nil && r.ID == id {
		return was, true
	}
	for i := range l.len() {
		if l.at(i).ID == id {
			return i, true
		}
	}
	return 0, false
}

// change lets f change every row of one session, and updates what is shown.
func (l *list) change(id string, f func(*pickRow)) {
	if at, ok := l.byID[id]; ok {
		f(l.rows[at])
		l.rows[at].refold()
		l.keys[at] = l.rows[at].key
	}
	for i := range l.found {
		if l.found[i].ID == id {
			f(&l.found[i])
		}
	}
	l.show()
}
