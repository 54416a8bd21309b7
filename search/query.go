package search

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// MaxQueryBytes bounds a query. People type some tens of bytes; a pasted phrase
// fits.
const MaxQueryBytes = 4 << 10

// MaxQueryTerms bounds the terms of a query, so that no query costs many times
// more than another.
const MaxQueryTerms = 64

// Query is a parsed query. Its zero value matches nothing. It never changes, and
// may be used from several goroutines.
type Query struct {
	text     string
	groups   [][]atom // every group holds; a group holds when one of its atoms does
	terms    []tidemark.Term
	words    map[string]int // terms that are whole words, by their place in terms
	prefixes []int          // terms that are prefixes
}

// atom is one term as it was typed: conditions on words, which an index can
// answer, and the phrase, which it cannot.
type atom struct {
	not     bool
	clauses [][]int // one term of each clause must be there
	phrase  *phrase
}

// Parse reads a query.
//
//	word       every part of it is a word of the text
//	'exact     the text has it as such, from the beginning of a word on
//	"a phrase" the same with spaces inside, also '"a phrase" and 'a phrase';
//	           "" is a quote in it
//	^begin     a word begins like this
//	!term      not; in front of any of these
//	a | b      one of them; binds tighter than the space, which means and
//
// ErrInvalid: nothing to search for, only negations, an unclosed quote, more
// than MaxQueryBytes or MaxQueryTerms.
func Parse(text string) (Query, error) {
	if len(text) > MaxQueryBytes {
		return Query{}, tidemark.Invalidf("query of %d bytes: at most %d are allowed", len(text), MaxQueryBytes)
	}
	p := parser{rest: text, query: Query{text: text, words: make(map[string]int)}}
	if err := p.parse(); err != nil {
		return Query{}, tidemark.Invalidf("query %.60q: %w", text, err)
	}
	return p.query, nil
}

// String is the query as it was given to Parse.
func (q Query) String() string { return q.text }

// shortestTyped is the number of bytes from which an incomplete word stands for
// all words that begin like it: fewer would find almost everything.
const shortestTyped = 3

// ParseTyped reads a query that somebody is still typing: its last word may be
// incomplete, so it is taken as a beginning.
func ParseTyped(text string) (Query, error) {
	at := strings.LastIndexFunc(text, unicode.IsSpace) + 1
	last := text[at:]
	plain := len(last) >= shortestTyped && !strings.ContainsAny(text, `'"`) &&
		!strings.ContainsFunc(last, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if plain {
		text = text[:at] + "^" + last
	}
	return Parse(text)
}

type parser struct {
	rest   string
	query  Query
	joined bool // a | precedes the next term
	count  int
}

func (p *parser) parse() error {
	for {
		p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace)
		if p.rest == "" {
			return p.finish()
		}
		if bar, rest, _ := cutSpace(p.rest); bar == "|" {
			if len(p.query.groups) == 0 || p.joined {
				return tidemark.Invalidf("| stands between two terms; put it in quotes to look for it")
			}
			p.joined, p.rest = true, rest
			continue
		}
		if err := p.term(); err != nil {
			return err
		}
	}
}

func (p *parser) finish() error {
	switch {
	case p.joined:
		return tidemark.Invalidf("nothing behind the last |")
	case len(p.query.groups) == 0:
		return tidemark.Invalidf("nothing to look for")
	}
	if all, _, _ := p.query.Terms(); len(all) > 0 {
		return nil
	}
	for _, g := range p.query.groups {
		if !negated(g) {
			return tidemark.Invalidf("no letter or digit to look for")
		}
	}
	return tidemark.Invalidf("only negations; add a word to look for")
}

// negated reports whether one of the alternatives of a group is a negation.
func negated(group []atom) bool {
	for _, a := range group {
		if a.not {
			return true
		}
	}
	return false
}

// cutSpace splits s at its first space.
func cutSpace(s string) (before, after string, found bool) {
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i:], true
}

// term reads one term and adds it to the query.
func (p *parser) term() error {
	if p.count++; p.count > MaxQueryTerms {
		return tidemark.Invalidf("more than %d terms", MaxQueryTerms)
	}
	var a atom
	a.not = p.eat('!')
	sign := byte(' ')
	if p.eat('\'') {
		sign = '\''
	} else if p.eat('^') {
		sign = '^'
	}
	text, quoted, err := p.text(sign)
	if err != nil {
		return err
	}
	if quoted && sign == ' ' {
		sign = '\''
	}
	f := folded{classes: true}
	f.add(text)
	if f.trim(); len(f.low) == 0 {
		return tidemark.Invalidf("an empty term")
	}
	switch sign {
	case '\'':
		// A phrase begins at the start of a word, so all its runs are words of
		// the text except the last, which may continue there.
		a.phrase = newPhrase(&f)
		a.clauses = p.prefixClauses(&f)
	case '^':
		a.clauses = p.prefixClauses(&f)
	default:
		a.clauses = p.wordClauses(&f)
	}
	if a.phrase == nil && len(a.clauses) == 0 {
		return tidemark.Invalidf("%.40q has no letter or digit; look for signs with '%s and a word beside it", text, text)
	}
	p.add(a)
	return nil
}

func (p *parser) eat(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// text reads the text of a term: up to the next space, or in quotes.
func (p *parser) text(sign byte) (text string, quoted bool, err error) {
	if end := closing(p.rest); sign == '\'' && end >= 0 {
		text, p.rest = p.rest[:end], p.rest[end+1:]
		return text, true, nil
	}
	if !p.eat('"') {
		text, p.rest, _ = cutSpace(p.rest)
		return text, false, nil
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(p.rest, '"')
		if i < 0 {
			return "", true, tidemark.Invalidf("a quote is not closed")
		}
		b.WriteString(p.rest[:i])
		p.rest = p.rest[i+1:]
		if !p.eat('"') {
			return b.String(), true, nil
		}
		b.WriteByte('"')
	}
}

// closing returns the position of the apostrophe that closes an exact term, or
// -1: it ends a word, and no apostrophe that begins a word comes before it, as
// in 'one 'other. Apostrophes inside words do not count.
func closing(s string) int {
	if strings.HasPrefix(s, `"`) {
		return -1
	}
	before := ' '
	for i, r := range s {
		if r == '\'' {
			next, size := utf8.DecodeRuneInString(s[i+1:])
			switch {
			case unicode.IsSpace(before):
				return -1
			case size == 0 || unicode.IsSpace(next):
				return i
			}
		}
		before = r
	}
	return -1
}

func (p *parser) add(a atom) {
	q := &p.query
	if p.joined {
		last := len(q.groups) - 1
		q.groups[last] = append(q.groups[last], a)
	} else {
		q.groups = append(q.groups, []atom{a})
	}
	p.joined = false
}

// index returns the index of a term among the terms of the query.
func (p *parser) index(word string, prefix bool) int {
	q := &p.query
	if !prefix {
		if i, ok := q.words[word]; ok {
			return i
		}
	}
	for _, i := range q.prefixes {
		if prefix && q.terms[i].Word == word {
			return i
		}
	}
	i := len(q.terms)
	q.terms = append(q.terms, tidemark.Term{Word: word, Prefix: prefix})
	if prefix {
		q.prefixes = append(q.prefixes, i)
	} else {
		q.words[word] = i
	}
	return i
}

// wordClauses requires each run of a term, as one word or by its parts. Parts of
// one character do not count; where fewer than two parts remain, only the run
// itself will do, so that v2 is not found as v here and 2 there.
func (p *parser) wordClauses(f *folded) (clauses [][]int) {
	eachRun(f.class, func(from, to int, all class) {
		if all == unspaced {
			clauses = append(clauses, p.characterClauses(f, from, to)...)
			return
		}
		whole := p.index(f.word(from, to), false)
		var long []int
		for _, part := range parts(nil, f.class[:to], from) {
			if part.count > 1 {
				long = append(long, p.index(f.word(part.from, part.to), false))
			}
		}
		if len(long) < 2 {
			clauses = append(clauses, []int{whole})
			return
		}
		for _, part := range long {
			clauses = append(clauses, []int{whole, part})
		}
	})
	return clauses
}

// characterClauses requires that neighbours in a run of an unspaced script are
// neighbours in the text, too.
func (p *parser) characterClauses(f *folded, from, to int) (clauses [][]int) {
	first := -1
	n := 0
	characters(f.class[:to], from, func(from, to int) {
		if first < 0 {
			first = to
		}
		if n++; n > 1 && n%2 == 1 { // a character, then the pair that it ends
			clauses = append(clauses, []int{p.index(f.word(from, to), false)})
		}
	})
	if len(clauses) == 0 {
		clauses = append(clauses, []int{p.index(f.word(from, first), false)})
	}
	return clauses
}

// prefixClauses requires that the last run begins a word, and that the others
// are words. Characters of unspaced scripts are words by themselves.
func (p *parser) prefixClauses(f *folded) (clauses [][]int) {
	eachRun(f.class, func(from, to int, all class) {
		if all == unspaced {
			clauses = append(clauses, p.characterClauses(f, from, to)...)
			return
		}
		last := to == len(f.low)
		clauses = append(clauses, []int{p.index(f.word(from, to), last)})
	})
	return clauses
}

// trim removes trailing spaces.
func (f *folded) trim() {
	f.low = bytes.TrimRightFunc(f.low, unicode.IsSpace)
	f.class = f.class[:len(f.low)]
}

// word returns the folded word at from, cut to the maximum length.
func (f *folded) word(from, to int) string { return string(f.low[from:cut(f.low, from, to)]) }

// phrase is text that has to occur literally. A space in it stands for any
// number of them, so that a line break does not hide it.
type phrase struct {
	chunks []string // without spaces
	first  class    // of the first character
	steps  []tidemark.Step
	plain  bool // steps say it all
}

func newPhrase(f *folded) *phrase {
	p := &phrase{chunks: strings.Fields(string(f.low))}
	p.steps, p.plain = stepsOf(f)
	r, _ := utf8.DecodeRuneInString(p.chunks[0])
	p.first = runeClass(r)
	return p
}
