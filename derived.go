package tidemark

import (
	"encoding/json"
	"slices"
	"strings"
)

// The kinds of what is made from the rest of a store: a search index, and what is known
// of paths.
const (
	KindSegment = "segment" // words and the lines that have them: a record and a log
	KindIndex   = "index"   // which segments count

	// KindJumps is a record of where the path of a log does not go on with the entry
	// before: SESSION or SESSION.WORKER, like the log.
	KindJumps = "jumps"

	// KindUnindexed is a record that says that something is not indexed which
	// looks older than it is: SESSION.RANDOM.
	KindUnindexed = "unindexed"
)

// DerivedKinds returns the kinds of which everything is derived.
func DerivedKinds() []string { return slices.Clone(derivedKinds) }

var derivedKinds = []string{KindSegment, KindIndex, KindUnindexed, KindJumps}

// Derived reports whether what is stored under a key is made from the rest of the
// store, and is made again where it is missing: the search index and who makes
// it, and the jumps of logs. It is neither exported nor archived, migrated or synced, and counts as
// nobody's data.
func (k Key) Derived() bool {
	if slices.Contains(derivedKinds, k.Kind) {
		return true
	}
	switch k.Kind {
	case "lease", "pulse", "ask":
		id, _, _ := strings.Cut(k.ID, ".")
		return id == KindIndex
	}
	return false
}

// Unindexed is the body of a record of KindUnindexed.
type Unindexed struct {
	// Changed are lines that are gone, hidden or say something else since they were
	// indexed: what an index has of them has to go.
	Changed []ChangedLines `json:"changed,omitempty"`
}

// ChangedLines is a run of lines of a log, both ends included; a To of 0 stands for
// its end.
type ChangedLines struct {
	Log  Key   `json:"log"`
	From int64 `json:"from"`
	To   int64 `json:"to,omitempty"`
}

// NoteUnindexed returns a new record of KindUnindexed, for a batch that puts it.
func NoteUnindexed(id SessionID, changed ...ChangedLines) Record {
	body, err := json.Marshal(Unindexed{Changed: changed})
	if err != nil {
		panic(err) // there is nothing in it that could fail
	}
	r := Record{Key: Key{Kind: KindUnindexed, ID: string(id) + "." + NewBatchID()}, Version: 1, Body: body}
	r.Sum = r.Checksum()
	return r
}
