package tidemark

import "strings"

// The kinds of what a search index is kept in.
const (
	KindSegment = "segment" // words and the lines that have them: a record and a log
	KindIndex   = "index"   // which segments count

	// KindUnindexed is a record that says that something is not indexed which
	// looks older than it is: SESSION.RANDOM.
	KindUnindexed = "unindexed"
)

// Derived reports whether what is stored under a key is made from the rest of the
// store, and is made again where it is missing: the search index, and who makes
// it. It is neither exported nor archived, migrated or synced, and counts as
// nobody's data.
func (k Key) Derived() bool {
	switch k.Kind {
	case KindSegment, KindIndex, KindUnindexed:
		return true
	case "lease", "pulse", "ask":
		id, _, _ := strings.Cut(k.ID, ".")
		return id == KindIndex
	}
	return false
}
