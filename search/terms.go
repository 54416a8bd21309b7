package search

import (
	"slices"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// maxClauses bounds what one group of alternatives, and a whole query, asks of
// an index. Beyond it the index is asked for less, and Match decides.
const maxClauses = 64

// Terms returns what to ask an index for: lines that have one of the terms in
// each of all, and none of the terms in none. Every line that the query
// matches is among them, as far as its words were indexed; verify says that
// others may be, and that each has to be shown to Match.
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

// shortBeginning is a beginning of so few letters that an index has to look
// through many words for it, and says little beside whole words.
const shortBeginning = 5

// withoutShortBeginnings leaves clauses out that ask for a short beginning of
// a word, such as the last word of a phrase, when others remain.
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

// excluded returns terms that a line must not have when the atom, which is a
// negation, holds, and whether that is all it says.
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

// alternatives turns "one of these" of atoms into clauses: each clause of the
// one joined with each clause of the other. Where that would be too many, the
// clause that fewest lines should fulfil stands for its atom.
func (q Query) alternatives(group []atom) (clauses [][]int, whole bool) {
	count := 1
	whole = true
	for i := range group {
		if len(group[i].clauses) == 0 {
			return nil, false // signs alone: no index knows them
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

// weight guesses how rare a clause is: as rare as its shortest word is long.
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
