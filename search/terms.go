package search

import (
	"slices"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// maxClauses bounds what one group of alternatives, and a whole query, asks of
// an index. Beyond it the index query is less specific, and Match decides.
const maxClauses = 64

// Terms returns what to query an index for: lines that have one of the terms in
// each of all, and none of the terms in none. Every line that the query matches
// is among the result, as far as its words were indexed; verify says that there
// may be others, and that each has to be passed to Match.
func (q Query) Terms() (all [][]tidemark.Term, none []tidemark.Term, verify bool) {
	var clauses [][]int
	for _, group := range q.groups {
		switch {
		case len(group) == 1 && group[0].not:
			terms, whole := group[0].excluded()
			none = append(none, q.named(terms)...)
			verify = verify || !whole
		case negated(group):
			verify = true
		default:
			asked, whole := q.alternatives(group)
			clauses = append(clauses, asked...)
			verify = verify || !whole
		}
	}
	if len(clauses) > maxClauses {
		slices.SortStableFunc(clauses, func(a, b []int) int { return q.weight(b) - q.weight(a) })
		clauses, verify = clauses[:maxClauses], true
	}
	kept := q.withoutShortBeginnings(clauses)
	verify = verify || len(kept) < len(clauses)
	for _, c := range kept {
		all = append(all, q.named(c))
	}
	return all, none, verify
}

// shortBeginning is the length below which a prefix makes an index look through
// many words, and adds little to whole words.
const shortBeginning = 5

// withoutShortBeginnings leaves out clauses that search for a short prefix, such
// as the last word of a phrase, when others remain.
func (q Query) withoutShortBeginnings(clauses [][]int) [][]int {
	kept := make([][]int, 0, len(clauses))
	for _, c := range clauses {
		short := slices.ContainsFunc(c, func(t int) bool {
			return q.terms[t].Prefix && utf8.RuneCountInString(q.terms[t].Word) < shortBeginning
		})
		if !short {
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 {
		return clauses
	}
	return kept
}

// excluded returns terms that a line must not have for the atom, which is a
// negation, to hold, and whether that is all it requires.
func (a *atom) excluded() (terms []int, whole bool) {
	if len(a.clauses) == 0 || a.phrase != nil {
		return nil, false
	}
	// The negation of several clauses is that one of them fails. A term of all
	// of them would make them all hold.
	for _, t := range a.clauses[0] {
		common := true
		for _, c := range a.clauses[1:] {
			common = common && slices.Contains(c, t)
		}
		if common {
			terms = append(terms, t)
		}
	}
	return terms, len(a.clauses) == 1
}

// alternatives turns a group of atoms, of which one must hold, into clauses:
// each clause of the one joined with each clause of the other. Where that would
// be too many, the clause that fewest lines should match stands for its atom.
func (q Query) alternatives(group []atom) (clauses [][]int, whole bool) {
	count := 1
	whole = true
	for i := range group {
		if len(group[i].clauses) == 0 {
			return nil, false // punctuation only: no index has it
		}
		whole = whole && group[i].phrase == nil
		count = min(count*len(group[i].clauses), maxClauses+1)
	}
	clauses = [][]int{nil}
	for i := range group {
		own := group[i].clauses
		if count > maxClauses && len(group) > 1 {
			own, whole = own[q.rarest(own):][:1], false
		}
		var joined [][]int
		for _, a := range clauses {
			for _, b := range own {
				joined = append(joined, union(a, b))
			}
		}
		clauses = joined
	}
	return clauses, whole
}

func (q Query) rarest(clauses [][]int) int {
	best := 0
	for i, c := range clauses {
		if q.weight(c) > q.weight(clauses[best]) {
			best = i
		}
	}
	return best
}

// weight estimates how rare a clause is: its shortest word decides, longer being
// rarer.
func (q Query) weight(clause []int) int {
	w := MaxWordBytes
	for _, t := range clause {
		w = min(w, len(q.terms[t].Word))
	}
	return w
}

func union(a, b []int) []int {
	u := slices.Clone(a)
	for _, t := range b {
		if !slices.Contains(u, t) {
			u = append(u, t)
		}
	}
	return u
}

func (q Query) named(terms []int) []tidemark.Term {
	named := make([]tidemark.Term, len(terms))
	for i, t := range terms {
		named[i] = q.terms[t]
	}
	return named
}
