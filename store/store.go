// Package store is the rules over a Backend: who may write, what a branch is,
// how a fork shares its past, what is trash and what is gone. It holds no
// state of its own but what the Backend keeps, so any number of stores, in any
// number of processes, may work on one place.
//
// It never reads the environment, the terminal or the network, and never
// writes because something was read.
//
//	s := store.New(backend, nil)
//	w := s.Create(tidemark.Session{Title: "demo"}, who)
//	seqs, err := w.Append(ctx, tidemark.Say(tidemark.User, "hello"))
package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// The kinds of records and logs that the rules know. A session's id is the
// id, or the id up to the first dot, of everything that belongs to it.
const (
	kindSession    = "session"    // record: the session; log: its entries
	kindNotes      = "notes"      // log: labels, titles, tags
	kindPast       = "past"       // log: a fork's own copy of a purged past
	kindWorker     = "worker"     // record and log: SESSION.NAME
	kindLease      = "lease"      // record: who may append
	kindPulse      = "pulse"      // record: when the holder was last heard
	kindAsk        = "ask"        // record: somebody wants the lease
	kindName       = "name"       // record: SESSION.HASH, grouped by what it resolves
	kindFork       = "fork"       // record: SOURCE.FORK
	kindCheckpoint = "checkpoint" // record: SESSION or SESSION.HASH
	kindWake       = "wake"       // record: SESSION, when the fleet goes on with what its agent left
	kindPlain      = "plain"      // record: the store is plain, see tidemark.PlainMark
	kindSecret     = "secret"     // record: SESSION.FINGERPRINT, what a mask stands for
	kindFile       = "file"       // record: SESSION.HASH, a durable file; log: SESSION.RANDOM, its content
	kindProject    = "project"    // record: HASH, where a project was seen
	kindMemory     = "memory"     // record: something that was learned in a project
	kindFleet      = "fleet"      // record: the one fleet of the store
	kindDaemon     = "daemon"     // record: HOST-PID, a process that runs the fleet
	kindAgent      = "agent"      // record: NAME; log: what it logged
	kindSchedule   = "schedule"   // record: AGENT.HASH
	kindReview     = "review"     // record: JOB.HASH, grouped by its job: a call that waits for an answer
	kindLane       = "lane"       // record: AGENT.LANE, or -.LANE for the fleet, grouped by whose it is: the job that runs in it
	kindSlots      = "slots"      // record: AGENT, or - for the fleet: the jobs that an earlier program runs
	kindJob        = "job"        // record: one run; log: its output
	kindTenant     = "tenant"     // record: a tenant; this and the rest are the operator's
	kindIssuer     = "issuer"     // record: HASH, which tenant an issuer means
	kindUser       = "user"       // record: TENANT.USER
	kindWorkspace  = "workspace"  // record: TENANT.WORKSPACE
	kindToken      = "token"      // record: a service token, grouped by its tenant
	kindAudit      = "audit"      // log: TENANT, who did what, each line chained to the one before
	kindBoot       = "boot"       // record: TENANT.NODE.BOOT, how far what a server did is chained; see tidemark.ActLog
	kindAnchor     = "anchor"     // log: TENANT, heads that the audit log had
	kindServerKey  = "serverkey"  // record: NAME, a secret that all servers of the store share
	kindSignOut    = "signout"    // record: HASH, a cookie that is not good any more
)

// The states of a session.
const (
	Live  = "live"
	Trash = "trash"
)

// The states of a lease.
const (
	held = "held"
	free = "free"
)

// tries bounds how often a change is made anew because somebody else was
// quicker. Each failed try means that another writer succeeded.
const tries = 100

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
	// Warn is told of secrets that are written, or masked, before they are.
	// The default tells nobody.
	Warn func(tidemark.SessionID, []Secret)
}

// DefaultLease outlasts a long garbage collection, a slow disk and a laptop's
// short sleep, and is short enough to wait for.
const DefaultLease = 30 * time.Second

// Store is the rules over one Backend. Its methods may be called concurrently.
type Store struct {
	backend tidemark.Backend
	o       Options
	grown   chan struct{} // holds one element when something was appended and not yet indexed
	settled *atomic.Bool  // the store is sealed, or marked as plain: it stays what it is
	also    Also          // adds to each batch; nil: nothing is added
}

// Self is this process as the holder of a session, under the name that others
// are told while it has one open. When it dies, the next writer is let in at
// once: a Holder that is made by hand is not known well enough for that.
func Self(program string) tidemark.Holder { return process.Self(program) }

// New returns a Store over b, which it closes when it is closed.
func New(b tidemark.Backend, o *Options) *Store {
	s := &Store{backend: b, grown: make(chan struct{}, 1), settled: new(atomic.Bool)}
	if o != nil {
		s.o = *o
	}
	s.settled.Store(tidemark.IsSealed(b))
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Dead == nil {
		s.o.Dead = process.Dead
	}
	if s.o.Lease == 0 {
		s.o.Lease = DefaultLease
	}
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
	of := New(b, &s.o)
	of.grown, of.also = s.grown, s.also
	of.settled.Store(s.settled.Load())
	return of, nil
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

// Backend returns what the Store works on, for plumbing and repair.
func (s *Store) Backend() tidemark.Backend { return s.backend }

// now is the time as every backend can keep it.
func (s *Store) now() time.Time { return keepable(s.o.Now()) }

func keepable(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func keyOf(kind string, id tidemark.SessionID, more ...string) tidemark.Key {
	return tidemark.Key{Kind: kind, ID: strings.Join(append([]string{string(id)}, more...), ".")}
}

// sessionOf returns the session that a key belongs to, and what stands behind
// its id: the name of a worker.
func sessionOf(k tidemark.Key) (tidemark.SessionID, string) {
	id, more, _ := strings.Cut(k.ID, ".")
	return tidemark.SessionID(id), more
}

// put returns the record that replaces one at the given version.
func put(key tidemark.Key, version int64, body any) (tidemark.Record, error) {
	b, err := encode(body)
	if err != nil {
		return tidemark.Record{}, tidemark.Invalidf("%s: %w", key, err)
	}
	r := tidemark.Record{Key: key, Version: version + 1, Body: b}
	r.Sum = r.Checksum()
	return r, nil
}

// encode writes JSON for people to read: one line, nothing escaped for HTML.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(buf.Bytes(), "\n"), err
}

// decode reads the body of a record.
func decode(r tidemark.Record, into any) error {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return &tidemark.Damage{Key: r.Key, What: err.Error()}
	}
	return nil
}

// get reads a record into a value. A record that is not there leaves the value
// as it is and has version 0.
func (s *Store) get(ctx context.Context, key tidemark.Key, into any) (tidemark.Record, error) {
	r, err := s.backend.Get(ctx, key)
	if errors.Is(err, tidemark.ErrNotFound) {
		return tidemark.Record{Key: key}, nil
	}
	if err != nil || r.Version == 0 {
		return r, err
	}
	return r, decode(r, into)
}

// commit carries out a batch, the first one of a plain store with its mark. An
// unknown outcome is settled: the id of the batch stands with everything it
// wrote, so one look tells.
func (s *Store) commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if b.ID == "" {
		b.ID = tidemark.NewBatchID()
	}
	if b.At.IsZero() {
		b.At = s.now()
	}
	if !s.settled.Load() {
		return s.commitFirst(ctx, b)
	}
	return s.send(ctx, b)
}

// send commits a batch, and looks what became of it where that is not known.
func (s *Store) send(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	for try := range tries {
		receipt, err := s.also.Commit(ctx, s.backend, b)
		if err == nil && len(b.Appends) > 0 {
			s.signal()
		}
		if !errors.Is(err, tidemark.ErrUnknown) {
			return receipt, err
		}
		done, lookErr := s.took(ctx, b)
		if lookErr != nil {
			return receipt, errors.Join(err, lookErr)
		}
		if done {
			return tidemark.Receipt{}, nil
		}
		if backOff(ctx, try) != nil {
			break
		}
	}
	return tidemark.Receipt{}, tidemark.ErrUnknown
}

// took reports whether a batch took effect, by looking for its id. A batch of
// drops alone never seems to have: it can be sent again.
func (s *Store) took(ctx context.Context, b tidemark.Batch) (bool, error) {
	switch {
	case len(b.Appends) > 0:
		first := b.Appends[0].Lines[0].Seq
		for l, err := range s.backend.Lines(ctx, b.Appends[0].Log, tidemark.Span{From: first, To: first}) {
			if err != nil || l.Batch == b.ID {
				return err == nil, err
			}
		}
		return false, nil
	case len(b.Puts) > 0:
		r, err := s.backend.Get(ctx, b.Puts[0].Key)
		if errors.Is(err, tidemark.ErrNotFound) {
			return false, nil
		}
		return r.Batch == b.ID, err
	case len(b.Deletes) > 0:
		r, err := s.backend.Get(ctx, b.Deletes[0].Key)
		if errors.Is(err, tidemark.ErrNotFound) || err == nil && r.Version == 0 {
			return true, nil
		}
		return false, err
	}
	return false, nil
}

// retry runs change until it does not lose a race.
func retry(ctx context.Context, change func() error) error {
	var err error
	for try := range tries {
		if err = change(); !errors.Is(err, tidemark.ErrConflict) || backOff(ctx, try) != nil {
			return err
		}
	}
	return err
}

// Whoever lost a race waits before the next try, longer each time: at first for
// about as long as a commit takes, and never so long that a person notices one
// wait.
const (
	firstWait = time.Millisecond
	longWait  = 128 * time.Millisecond
)

// backOff waits before another try, by chance for a shorter or a longer time, so
// that those who met do not meet again. It returns the error of ctx when that
// ends first.
func backOff(ctx context.Context, try int) error {
	return wait(ctx, rand.N(min(firstWait<<min(try, 16), longWait))+1)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// hash names what may be any text: a title, a label, a project.
func (s *Store) hash(parts ...string) string {
	if h, err := tidemark.Ability[tidemark.Hasher](s.backend); err == nil {
		return h.Hash(parts...)
	}
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}
