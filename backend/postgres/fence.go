package postgres

import (
	"slices"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// fence is what the log of a session is appended to under: the versions of its
// lease and of its record; 0: not required. The row of the log keeps the fence
// that was last looked up, until the lease or the record changes, so that an
// append does not have to look for either.
type fence struct{ lease, record int64 }

// The kinds of the records that a log keeps the versions of. The schema has the
// same.
const (
	kindSession = "session"
	kindLease   = "lease"
)

// kindPulse is of the records that say when a holder was last heard from.
const kindPulse = "pulse"

// fencedBy reports whether a log keeps the version of a record.
func fencedBy(log, record tidemark.Key) bool {
	return log.Kind == kindSession && record.ID == log.ID && (record.Kind == kindLease || record.Kind == kindSession)
}

// fenceOf returns what is required of a log that keeps versions.
func fenceOf(log tidemark.Key, require []tidemark.Precondition) (f fence) {
	for _, n := range require {
		switch {
		case !fencedBy(log, n.Key):
		case n.Kind == kindLease:
			f.lease = n.Version
		default:
			f.record = n.Version
		}
	}
	return f
}

// maxFences bounds what a process remembers: as many logs as are written to at
// the same time.
const maxFences = 1 << 14

// fences are those that logs had when this process last appended to them.
// Nothing is taken for true: it only says where to look first.
type fences struct {
	mu sync.Mutex
	of map[owned]fence
}

// has reports whether a log can be expected to have a fence. A fence that
// requires nothing never holds anybody up.
func (t *fences) has(who who, log tidemark.Key, f fence) bool {
	if f == (fence{}) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[owned{who, log}] == f
}

// smallBatch is how large a batch may be for that other users wait for it.
const smallBatch = 64 << 10

// leased reports whether a batch only goes on with logs that can be expected to
// have the lease which it requires, so that it may be carried out beside those of
// other users. Whoever was refused finds that out alone, and holds up nobody.
func (t *fences) leased(who who, b *tidemark.Batch) bool {
	if b.Adopt || len(b.Appends) == 0 || len(b.Puts)+len(b.Deletes)+len(b.Drops)+len(b.Trims)+len(b.Fills) > 0 || size(b) > smallBatch {
		return false
	}
	for i := range b.Appends {
		log := b.Appends[i].Log
		if f := fenceOf(log, b.Require); f.lease == 0 || !t.has(who, log, f) {
			return false
		}
	}
	return !slices.ContainsFunc(b.Require, func(n tidemark.Precondition) bool {
		return !slices.ContainsFunc(b.Appends, func(a tidemark.Append) bool { return fencedBy(a.Log, n.Key) })
	})
}

// settle notes how a group went: what was looked up is in the rows now, and what
// was refused has to be looked up.
func (t *fences) settle(logs []*growing, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range logs {
		name := owned{g.who, g.Log}
		switch {
		case !done:
			delete(t.of, name)
		case g.checked:
			if t.of == nil || len(t.of) >= maxFences {
				t.of = make(map[owned]fence)
			}
			t.of[name] = g.under
		}
	}
}
