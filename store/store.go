// Package store is the rules of sessions over a Backend: who may write, what a
// branch is, how a fork shares its past, what is trash and what is gone. It
// holds no state of its own but what the Backend keeps, so any number of stores,
// in any number of processes, may work on one place. What a fleet keeps in the
// same place is in package fleet.
//
// It never reads the environment, the terminal or the network, and never
// writes because something was read.
//
//	s := store.New(backend, nil)
//	w := s.Create(tidemark.Session{Title: "demo"}, who)
//	seqs, err := w.Append(ctx, tidemark.Say(tidemark.User, "hello"))
package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// The kinds of records and logs that the rules know. A session's id is the
// id, or the id up to the first dot, of everything that belongs to it.
const (
	kindSession    = "session"    // record: the session; log: its entries
	kindNotes      = "notes"      // log: labels, titles, tags
	kindPast       = "past"       // log: a fork's own copy of a purged past
	kindWorker     = "worker"     // record and log: SESSION.NAME
	kindName       = "name"       // record: SESSION.HASH, grouped by what it resolves
	kindFork       = "fork"       // record: SOURCE.FORK
	kindCheckpoint = "checkpoint" // record: SESSION or SESSION.HASH
	kindPlain      = "plain"      // record: the store is plain, see tidemark.PlainMark
	kindFile       = "file"       // record: SESSION.HASH, a durable file; log: SESSION.RANDOM, its content
	kindProject    = "project"    // record: HASH, where a project was seen
	kindMemory     = "memory"     // record: something that was learned in a project
)

// The states of a session, values that stand for something, and defaults.
const (
	Live  = "live"
	Trash = "trash"

	// Native stands for the tool of sessions that were begun here.
	Native = "tidemark"
	// Root, as the Parent of an entry that is appended, makes it a root of its
	// own instead of following the newest entry.
	Root = -1
	// AnyVersion is whatever version of an item is there, none included.
	AnyVersion = -1

	// DefaultHits is how many hits a search returns.
	DefaultHits = 20
	// DefaultLease is how long a writer may be silent.
	DefaultLease = records.DefaultLease
)

// Options are the parts of a Store that its caller may choose. Nil, and each
// zero field, means the default.
type Options struct {
	// Now tells the time. The default is time.Now.
	Now func() time.Time
	// Dead reports whether a holder is proven dead. The default is to ask the
	// operating system about processes of this host.
	Dead func(tidemark.Holder) bool
	// Lease is how long a writer may be silent before another may take its
	// place. The default is DefaultLease.
	Lease time.Duration
	// Words returns the words to find an entry by. The default is none: then
	// nothing is indexed, and a search reads.
	Words func(tidemark.Entry) []string
	// Secrets finds what should not be kept as it is. The default finds none.
	Secrets func(tidemark.Entry) []Secret
	// Redact says what happens to a secret that is about to be written. The
	// default is RedactOff.
	Redact Redaction
	// Marks returns what the project at a path is known by wherever it lies,
	// and There reports whether something lies at a path. With both, sessions
	// of a project that was moved are found where it is now.
	Marks func(ctx context.Context, path string) []string
	There func(path string) bool
	// Price returns what an answer of a model costs that says only how many
	// tokens it took. The default knows no price.
	Price func(model string, at time.Time, u tidemark.Usage) (Estimate, bool)
	// Warn is told of secrets that are written, or masked, before they are, and
	// of the id of the session, the job or whatever else they are in. The default
	// tells nobody.
	Warn func(owner string, secrets []Secret)
}

// Store is the rules over one Backend. Its methods may be called concurrently.
type Store struct {
	backend tidemark.Backend
	o       Options
	grown   chan struct{} // holds one element when something was appended and not yet indexed
	k       *records.Kernel
	vault   *vault.Vault
}

// Self is this process as the holder of a session, under the name that others
// are told while it has one open. When it dies, the next writer is let in at
// once: a Holder that is made by hand is not known well enough for that.
func Self(program string) tidemark.Holder { return process.Self(program) }

// New returns a Store over b, which it closes when it is closed.
func New(b tidemark.Backend, o *Options) *Store {
	s := &Store{backend: b, grown: make(chan struct{}, 1)}
	if o != nil {
		s.o = *o
	}
	if s.o.Dead == nil {
		s.o.Dead = process.Dead
	}
	// Names of tokens and the like are masked where entries would be. They are the
	// operator's, who has no vault.
	mask := func(text string) string { return s.vault.MaskWritten(text) }
	s.k = records.New(b, records.Options{Now: s.o.Now, Dead: s.o.Dead, Lease: s.o.Lease, Mask: mask, Grown: s.signal})
	s.vault = vault.New(s.k, vault.Options{Find: s.o.Secrets, Redact: s.o.Redact, Warn: s.o.Warn})
	return s
}

// Close closes the Backend.
func (s *Store) Close() error { return s.backend.Close() }

// Of returns the store as one owner has it, as far as this one's principal may
// read it: two people may have sessions of the same id, and an id alone leads to
// one's own. "" is s itself. ErrUnsupported: the store has one user.
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
	of.backend = b
	return of.atop(s.k.Over(b)), nil
}

// of is Of for what a record says of its owner: a store that cannot be asked for
// one is read by ids alone.
func (s *Store) of(owner string) (*Store, error) {
	of, err := s.Of(owner)
	if errors.Is(err, tidemark.ErrUnsupported) {
		return s, nil
	}
	return of, err
}

// atop makes s, which is a copy, one over another Kernel.
func (s *Store) atop(k *records.Kernel) *Store {
	s.k, s.vault = k, s.vault.Over(k)
	return s
}

// Records returns what the Store is built on, for what is kept beside sessions.
func (s *Store) Records() *records.Kernel { return s.k }

// With returns the same store, whose batches are added to.
func (s *Store) With(also records.Also) *Store {
	more := *s
	return more.atop(s.k.With(also))
}

// ChangedAt returns the same store for an import: what it writes was last changed
// when at says, not now. Leases go by the store's own clock all the same, and
// KeepIndexed does not hear of it: catch up at the end.
func (s *Store) ChangedAt(at func() time.Time) *Store {
	other := *s
	other.grown = make(chan struct{}, 1)
	return other.atop(s.k.ChangedAt(at, other.signal))
}

// Standing returns ErrSealed when the store was sealed after it was opened as
// a plain one: then it has to be opened again, with its key. It costs nothing
// once it is known what the store is.
func (s *Store) Standing(ctx context.Context) error { return s.k.Standing(ctx) }

func keyOf(kind string, id tidemark.SessionID, more ...string) tidemark.Key {
	return tidemark.Key{Kind: kind, ID: strings.Join(append([]string{string(id)}, more...), ".")}
}

// sessionOf returns the session that a key belongs to, and what stands behind
// its id: the name of a worker.
func sessionOf(k tidemark.Key) (tidemark.SessionID, string) {
	id, more, _ := strings.Cut(k.ID, ".")
	return tidemark.SessionID(id), more
}
