// Package store implements the rules of sessions over a Backend: who may write,
// what a branch is, how a fork shares its past, what is in the trash and what is
// gone. All of its state is in the Backend, so any number of stores, in any
// number of processes, may work on the same data. Package fleet has the rules
// for the jobs and schedules that are kept there too.
//
// It never touches the environment, the terminal or the network, and reading
// never writes.
//
//	s := store.New(backend, nil)
//	w := s.Create(tidemark.Session{Title: "demo"}, who)
//	seqs, err := w.Append(ctx, tidemark.Say(tidemark.User, "hello"))
package store

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// The kinds of records and logs that this package writes. Whatever belongs to a
// session has the session's id as its own id, or before the first dot of it.
const (
	kindSession    = "session"    // record: the session; log: its entries
	kindNotes      = "notes"      // log: labels, titles, tags
	kindPast       = "past"       // log: a fork's own copy of a purged past
	kindWorker     = "worker"     // record and log: SESSION.NAME
	kindName       = "name"       // record: SESSION.HASH, grouped by the name that leads to the session
	kindFork       = "fork"       // record: SOURCE.FORK
	kindCheckpoint = "checkpoint" // record: SESSION or SESSION.HASH
	kindPlain      = "plain"      // record: the store is not sealed, see tidemark.PlainMark
	kindFile       = "file"       // record: SESSION.HASH, a durable file; log: SESSION.RANDOM, its content, or SESSION.HASH, one of a snapshot
	kindProject    = "project"    // record: HASH, the paths at which a project was seen
	kindMemory     = "memory"     // record: something learned in a project
	kindSource     = "source"     // record: HASH, a folder of another tool
	kindDraft      = "draft"      // record: SESSION or SESSION.WORKER, what may still change of its log
	kindHandover   = "handover"   // record: SESSION.HASH, what another tool was given of it, grouped by the tool's id
	kindUnit       = "unit"       // record: HASH.HASH, files in one that are imported together
	kindBookmark   = "bookmark"   // record: HASH.HASH, where a reading of a unit goes on
	kindPurgeKey   = "purgekey"   // record: RANDOM, a key of tombstones
	kindPurged     = "purged"     // record: PURGEKEY.SUM, the tombstone of a session of another tool
)

// The states of a session, special values, and defaults.
const (
	Live  = "live"
	Trash = "trash"

	// Native is the tool of sessions that were begun here, in a Filter.
	Native = "tidemark"
	// Root, as the Parent of a new entry, makes it a root of its own instead of
	// following the newest entry.
	Root = -1
	// AnyVersion matches an item at any version, or no item at all.
	AnyVersion = -1

	// DefaultHits is how many hits a search returns at most, by default.
	DefaultHits = 20
	// DefaultLease is how long a writer may be silent before it can be replaced.
	DefaultLease = records.DefaultLease
)

// Options configure a Store. Nil, and each zero field, means the default.
type Options struct {
	// Now tells the time. The default is time.Now.
	Now func() time.Time
	// Dead reports whether a holder is proven dead. The default is to ask the
	// operating system about processes of this host.
	Dead func(tidemark.Holder) bool
	// Lease is how long a writer may be silent before another may take its
	// place. The default is DefaultLease.
	Lease time.Duration
	// Places calls yield with the words to find an entry by and their places, and
	// reports whether that was all of them. The search index is kept in the store
	// itself. Without Places nothing is indexed, and a search reads the logs.
	Places func(e tidemark.Entry, yield func(word []byte, place int)) (all bool)
	// Scopes keeps the indexes of what is shared, in a process that may. By default
	// somebody else does, such as the server of a remote store.
	Scopes *Scopes
	// Secrets finds the secrets in an entry. The default finds none.
	Secrets func(tidemark.Entry) []Secret
	// Redact is what happens to a secret that is about to be written. The
	// default is RedactOff.
	Redact Redaction
	// Marks returns identifiers of the project at a path that stay the same when
	// the project is moved, and There reports whether a path exists. With both,
	// the sessions of a project that was moved are found at its new path. An error of
	// Marks says that there was no time to find all of them.
	Marks func(ctx context.Context, path string) ([]string, error)
	There func(path string) bool
	// Price returns the cost of a model's answer of which only the token counts
	// were recorded. The default knows no prices.
	Price func(model string, at time.Time, u tidemark.Usage) (Estimate, bool)
	// Warn is called with secrets before they are written or masked, and with
	// the id of the session, job or other owner that they belong to. The default
	// does nothing.
	Warn func(owner string, secrets []Secret)
}

// Store applies the rules to one Backend. Its methods may be called concurrently.
type Store struct {
	backend tidemark.Backend
	o       Options
	grown   chan struct{} // holds one element when something was appended and not yet indexed
	k       *records.Kernel
	vault   *vault.Vault
	kept    *keptWriters
	index   *index.Index                 // nil: a search reads the logs
	written *written                     // what KeepIndexed has to index
	shared  *sharedIndexes               // of what others share
	beside  *atomic.Pointer[besideIndex] // of an import under way; nil in it: there is none
}

// Self returns this process as the holder of a session; program is the name that
// others see while it has the session open. If the process dies, the next writer
// gets in at once. A Holder that is made by hand lacks what is needed to prove it
// dead, so others have to wait until its lease expires.
func Self(program string) tidemark.Holder { return process.Self(program) }

// New returns a Store over b, which it closes when it is closed.
func New(b tidemark.Backend, o *Options) *Store {
	s := &Store{backend: b, grown: make(chan struct{}, 1), kept: new(keptWriters), written: new(written), shared: new(sharedIndexes), beside: new(atomic.Pointer[besideIndex])}
	if o != nil {
		s.o = *o
	}
	if s.o.Dead == nil {
		s.o.Dead = process.Dead
	}
	// The names of tokens and the like are masked if entries are. They belong to
	// the operator, who has no vault, so the values are not kept.
	mask := func(text string) string { return s.vault.MaskWritten(text) }
	s.k = records.New(b, records.Options{Now: s.o.Now, Dead: s.o.Dead, Lease: s.o.Lease, Mask: mask, Grown: s.grew})
	if s.o.Places != nil {
		s.index = s.newIndex(b, index.Options{})
	}
	s.vault = vault.New(s.k, vault.Options{Find: s.o.Secrets, Redact: s.o.Redact, Warn: s.o.Warn})
	return s
}

// Close closes the Backend.
func (s *Store) Close() error { return s.backend.Close() }

// Of returns a view of one owner's part of the store, limited to what the
// principal of s may read. It is needed because two people may have sessions of
// the same id, and an id alone means one's own. Of("") is s itself.
// ErrUnsupported: the store has one user.
func (s *Store) Of(owner string) (*Store, error) {
	if owner == "" {
		return s, nil
	}
	sharer, err := tidemark.Ability[tidemark.Sharer](s.backend)
	if err != nil {
		return nil, err
	}
	b, err := sharer.Of(owner)
	if err != nil {
		return nil, err
	}
	of := *s
	of.backend, of.index = b, nil // one's own index is not that of others
	return of.setKernel(s.k.Over(b)), nil
}

// of is Of for the owner that a record names. A store with one user has no
// owners, so s itself is returned.
func (s *Store) of(owner string) (*Store, error) {
	of, err := s.Of(owner)
	if errors.Is(err, tidemark.ErrUnsupported) {
		return s, nil
	}
	return of, err
}

// setKernel puts s, which has to be a copy, on another Kernel.
func (s *Store) setKernel(k *records.Kernel) *Store {
	s.k, s.vault, s.kept = k, s.vault.Over(k), new(keptWriters)
	return s
}

// Records returns the Kernel under the Store, for packages that keep other things
// beside sessions.
func (s *Store) Records() *records.Kernel { return s.k }

// With returns the same store, which passes each of its batches to an Also first.
func (s *Store) With(also records.Also) *Store {
	more := *s
	return more.setKernel(s.k.With(also))
}

// ChangedAt returns the same store for an import: what it writes gets the time
// that at returns as its last change, not the current time. Leases still go by
// the store's own clock. KeepIndexed does not notice what is appended this way, so
// the index has to be caught up at the end.
func (s *Store) ChangedAt(at func() time.Time) *Store {
	other := *s
	other.grown, other.written = make(chan struct{}, 1), new(written)
	return other.setKernel(s.k.ChangedAt(at, other.grew, other.datedBack))
}

// Standing returns ErrSealed when the store was sealed after it was opened as
// a plain one: then it has to be opened again, with its key. Once the store is
// known to be plain or sealed, the call costs nothing.
func (s *Store) Standing(ctx context.Context) error { return s.k.Standing(ctx) }

func keyOf(kind string, id tidemark.SessionID, more ...string) tidemark.Key {
	return tidemark.Key{Kind: kind, ID: strings.Join(append([]string{string(id)}, more...), ".")}
}

// sessionOf returns the session that a key belongs to, and what follows the dot
// in the key's id, such as the name of a worker.
func sessionOf(k tidemark.Key) (tidemark.SessionID, string) {
	id, more, _ := strings.Cut(k.ID, ".")
	return tidemark.SessionID(id), more
}
