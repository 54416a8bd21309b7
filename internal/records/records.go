// Package records is the kernel on which store keeps sessions, fleet keeps jobs
// and tenant keeps users and tokens. It reads and writes single records, commits
// batches and finds out what became of them when the connection broke, retries
// changes that lost a race, and manages who may write to something, and for how
// long (Lease, Holding).
//
// It knows no rules of sessions, jobs or users, reads no environment, and writes
// only what its callers pass to it.
//
//	k := records.New(backend, records.Options{})
//	old, err := k.Get(ctx, key, &value)
//	r, err := records.Put(key, old.Version, changed)
//	_, err = k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
package records

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/tidemark-sessions/tidemark"
)

// DefaultLease is longer than a long garbage collection, a stall of a slow disk or
// a laptop's short sleep, and short enough for people to wait for.
const DefaultLease = 30 * time.Second

// Options configure a Kernel. Each zero field means the default.
type Options struct {
	// Now tells the time. The default is time.Now.
	Now func() time.Time
	// ChangedAt, for imports, returns the time of the last change of what is
	// written. The default is Now. Leases go by Now in any case.
	ChangedAt func() time.Time
	// Dead reports whether a holder is proven dead. By default nobody ever is.
	Dead func(tidemark.Holder) bool
	// Lease is how long a holder may be silent before another may take its
	// place. The default is DefaultLease.
	Lease time.Duration
	// Mask masks the secrets in a text. By default the text is kept as it is.
	Mask func(string) string
	// Grown is called with each batch that appended lines. The default does nothing.
	Grown func(tidemark.Batch)
	// Before is called with each batch before it is committed, and may add to it.
	// The default does nothing.
	Before func(*tidemark.Batch)
}

// Kernel reads and writes the records of one Backend. It may be used
// concurrently.
type Kernel struct {
	backend tidemark.Backend
	o       Options
	settled *atomic.Bool // the store is sealed, or marked as plain: that can no longer change
	also    Also         // gets each batch before it is committed; may be nil
}

// New returns a Kernel over b, which it never closes.
func New(b tidemark.Backend, o Options) *Kernel {
	k := &Kernel{backend: b, o: o, settled: new(atomic.Bool)}
	k.settled.Store(k.Sealed())
	if k.o.Now == nil {
		k.o.Now = time.Now
	}
	if k.o.Dead == nil {
		k.o.Dead = func(tidemark.Holder) bool { return false }
	}
	if k.o.Lease == 0 {
		k.o.Lease = DefaultLease
	}
	if k.o.Mask == nil {
		k.o.Mask = func(text string) string { return text }
	}
	if k.o.Grown == nil {
		k.o.Grown = func(tidemark.Batch) {}
	}
	return k
}

// Over returns a Kernel like k over another view of the same store. It shares what
// k knows about whether the store is plain or sealed.
func (k *Kernel) Over(b tidemark.Backend) *Kernel {
	over := *k
	over.backend, over.settled = b, new(atomic.Bool)
	over.settled.Store(k.settled.Load() || over.Sealed())
	return &over
}

// ChangedAt returns a Kernel like k for an import, with these functions as its
// Options.ChangedAt, Options.Grown and Options.Before.
func (k *Kernel) ChangedAt(at func() time.Time, grown func(tidemark.Batch), before func(*tidemark.Batch)) *Kernel {
	other := *k
	other.o.ChangedAt, other.o.Grown, other.o.Before = at, grown, before
	return &other
}

// KindWake is the kind of a record that fleet keeps under the id of a session:
// when its agent wants to continue it. A purge of the session removes it.
const KindWake = "wake"

// KindWatch is the kind of the records of those who watch the folders of other
// tools on a machine. Another store has its own.
const KindWatch = "watch"

// KindOrigins is the kind of the records that package sync keeps under the id of a
// session, or of a worker of one: which of its entries are which on other machines.
// A purge of the session removes them.
const KindOrigins = "origins"

// KindRemote is the kind of the records of the remotes of a store, and of how far
// each was read. Another store has its own.
const KindRemote = "remote"

// KindBlob and KindBlobData are the kinds of the records that a server keeps for
// remotes of its users. They are sealed by keys of the remote and not of the store
// that they are beside: see IsBlob.
const (
	KindBlob     = "blob"
	KindBlobData = "blobdata"
)

// IsBlob reports whether records of a kind belong to a remote, and are neither
// read nor sealed with the store that they are beside.
func IsBlob(kind string) bool { return kind == KindBlob || kind == KindBlobData }

// Backend returns the Backend that the Kernel works on.
func (k *Kernel) Backend() tidemark.Backend { return k.backend }

// Sealed reports whether the Backend encrypts what is written.
func (k *Kernel) Sealed() bool { return tidemark.IsSealed(k.backend) }

// Now is the time to write as the time of a change, as every backend can keep it.
func (k *Kernel) Now() time.Time {
	if k.o.ChangedAt != nil {
		return Keepable(k.o.ChangedAt())
	}
	return k.Clock()
}

// Clock is the time that leases go by.
func (k *Kernel) Clock() time.Time { return Keepable(k.o.Now()) }

// Dead reports whether a holder is proven dead.
func (k *Kernel) Dead(h tidemark.Holder) bool { return k.o.Dead(h) }

// Keepable returns a time as every backend can keep it.
func Keepable(t time.Time) time.Time {
	t = t.UTC().Round(0) // without the reading of the clock that nobody sets
	return t.Add(-time.Duration(t.Nanosecond() % 1000))
}

// Mask returns text with its secrets masked, see Options.Mask.
func (k *Kernel) Mask(text string) string { return k.o.Mask(text) }

// Put returns the record that replaces one at the given version.
func Put(key tidemark.Key, version int64, body any) (tidemark.Record, error) {
	b, err := Encode(body)
	if err != nil {
		return tidemark.Record{}, tidemark.Invalidf("%s: %w", key, err)
	}
	r := tidemark.Record{Key: key, Version: version + 1, Body: b}
	r.Sum = r.Checksum()
	return r, nil
}

// Encode writes JSON for people to read: one line, nothing escaped for HTML.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(buf.Bytes(), "\n"), err
}

// Decode reads the body of a record: a *tidemark.Damage when it cannot be read.
// Lists decode thousands of bodies, and this decoder, which has the rules of
// encoding/json, takes a third of the time.
func Decode(r tidemark.Record, into any) error {
	if jsonv2.Unmarshal(r.Body, into, onePass) == nil {
		return nil
	}
	if err := jsonv1.Unmarshal(r.Body, into); err != nil {
		return &tidemark.Damage{Key: r.Key, What: err.Error()}
	}
	return nil
}

// onePass are the rules of encoding/json, except that a body is not checked whole
// before it is read. Whatever is wrong with it is left to the rules without
// exception, which say what.
var onePass = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))

// Get reads a record into a value. If there is no such record, the value stays as
// it is, and the version of the returned record is 0.
func (k *Kernel) Get(ctx context.Context, key tidemark.Key, into any) (tidemark.Record, error) {
	r, err := k.backend.Get(ctx, key)
	if errors.Is(err, tidemark.ErrNotFound) {
		return tidemark.Record{Key: key}, nil
	}
	if err != nil || r.Version == 0 {
		return r, err
	}
	return r, Decode(r, into)
}

// Has reports whether there is such a record, damaged or not.
func (k *Kernel) Has(ctx context.Context, key tidemark.Key) (bool, error) {
	r, err := k.backend.Get(ctx, key)
	switch {
	case errors.Is(err, tidemark.ErrCorrupt):
		return true, nil
	case errors.Is(err, tidemark.ErrNotFound):
		return false, nil
	}
	return r.Version > 0, err
}

// List decodes the records that match q. One that cannot be read is yielded as a
// *tidemark.Damage, and the listing goes on.
func List[T any](ctx context.Context, k *Kernel, q tidemark.Query) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for r, err := range k.backend.List(ctx, q) {
			var v T
			if err == nil {
				err = Decode(r, &v)
			}
			if !yield(v, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

// Mark is where a listing stopped: after the element of this id, which was last
// changed at that time.
type Mark struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// After returns the mark in the form of Query.After, for an element whose record
// has this key; nil for the zero Mark, which begins a listing.
func (m Mark) After(key tidemark.Key) *tidemark.Record {
	if m.ID == "" {
		return nil
	}
	return &tidemark.Record{Key: key, UpdatedAt: Keepable(m.At)}
}

// poll is how often a log is checked for new lines when the Backend has no Wait.
const poll = 250 * time.Millisecond

// Wait returns when a log may be longer than after lines.
func (k *Kernel) Wait(ctx context.Context, log tidemark.Key, after int64) error {
	if err := k.backend.Wait(ctx, log, after); !errors.Is(err, tidemark.ErrUnsupported) {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(poll):
		return nil
	}
}

// Hash turns arbitrary text, such as a title, a label or a project, into a part of
// a key. In a sealed store it depends on a secret key.
func (k *Kernel) Hash(parts ...string) string {
	if h, err := tidemark.Ability[tidemark.Hasher](k.backend); err == nil {
		return h.Hash(parts...)
	}
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// MaxTextBytes bounds titles, labels, tags and names: anything longer was probably
// pasted by accident.
const MaxTextBytes = 1000

// CheckText returns a title or a name as it is kept, without the space around it.
// ErrInvalid: it is empty, too long or not UTF-8.
func CheckText(what, text string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", tidemark.Invalidf("an empty %s", what)
	case len(text) > MaxTextBytes:
		return "", tidemark.Invalidf("%s of %d bytes, at most %d are allowed", what, len(text), MaxTextBytes)
	case !utf8.ValidString(text):
		return "", tidemark.Invalidf("%s: not valid UTF-8", what)
	}
	return text, nil
}
