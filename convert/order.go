package convert

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// OriginalsFirst orders sessions so that each comes after the one that it was
// copied from, and leaves the order as it is otherwise. link returns the id of a
// session and that of its original, "" when it has none. Sessions that are each
// other's originals, which only a damaged store has, come in some order.
func OriginalsFirst[T any](all []T, link func(T) (id, original string)) []T {
	at := map[string]int{}
	for i, one := range all {
		id, _ := link(one)
		at[id] = i
	}
	ordered := make([]T, 0, len(all))
	seen := make([]bool, len(all))
	for i := range all {
		var chain []int
		for next, ok := i, true; ok && !seen[next]; {
			seen[next] = true
			chain = append(chain, next)
			_, original := link(all[next])
			next, ok = at[original]
		}
		for _, n := range slices.Backward(chain) {
			ordered = append(ordered, all[n])
		}
	}
	return ordered
}

// Identity is what sessions are told apart and ordered by.
type Identity struct {
	ID, Original string
	// Owners are sessions of which this one may be a helper agent: of the first
	// that is there.
	Owners    []string
	CreatedAt time.Time
}

// InOrder orders sessions by their creation, originals first, and drops
// duplicates: of several with the same id the oldest counts.
func InOrder[T any](all []T, identity func(T) Identity) []T {
	slices.SortStableFunc(all, func(a, b T) int { return identity(a).CreatedAt.Compare(identity(b).CreatedAt) })
	seen := map[string]bool{}
	all = slices.DeleteFunc(all, func(one T) bool {
		id := identity(one).ID
		twice := seen[id]
		seen[id] = true
		return twice
	})
	return OriginalsFirst(all, func(one T) (string, string) { return identity(one).ID, identity(one).Original })
}

// EntryIDs gives the entries of one log ids that are unique in it. The zero
// value is not ready: make one.
type EntryIDs map[string]bool

// maxForeignID bounds the ids that are used as they are.
const maxForeignID = 128

// Of returns the tool's own id for an entry, or the fallback when that is
// empty, unfit or taken. The fallback has to be unique among fallbacks, and is
// usually the place in the file, which stays the same as the file grows.
func (n EntryIDs) Of(own, fallback string) string {
	own = freeID(own, fallback, func(id string) bool { return n[id] })
	n[own] = true
	return own
}

// freeID is an id that is not taken.
func freeID(own, fallback string, taken func(id string) bool) string {
	if own == "" || len(own) > maxForeignID || taken(own) || !utf8.ValidString(own) || strings.ContainsFunc(own, unicode.IsControl) {
		own = fallback
	}
	for taken(own) { // somebody named an entry like a place
		own += "'"
	}
	return own
}
