package store

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// The ledger is what is known of the files of other tools whose sessions are
// here, so that an import reads only what changed. It is kept after the entries
// that it speaks of, never before: an import that was killed reads some files
// again and finds their entries here.

// Source is a folder of another tool on one machine.
type Source struct {
	Machine string `json:"machine"`
	Tool    string `json:"tool"`
	Path    string `json:"path"` // absolute
}

// SourceState is a Source as it was when everything in it was imported.
type SourceState struct {
	Source
	Stamp    string    `json:"stamp"`    // of all its files
	Sessions int       `json:"sessions"` // how many there were
	ReadAt   time.Time `json:"read_at"`
}

// SourceUnit is files of a Source that are imported together: the transcript of a
// session with what belongs to it.
type SourceUnit struct {
	Source
	Unit    string             `json:"unit"`              // its name in the Source
	Stamp   string             `json:"stamp"`             // of its files, when they were imported
	Session tidemark.SessionID `json:"session,omitempty"` // the one that was made of it; "": several
	State   []byte             `json:"state,omitempty"`   // of the converter

	// Bookmark is where a reading of its file goes on. KeepUnits keeps one that is
	// not nil; only SourceBookmark returns it, because most units are never read
	// again.
	Bookmark []byte `json:"-"`

	Version int64 `json:"-"`
}

// MaxUnitState bounds State, and Bookmark, in bytes.
const MaxUnitState = 64 << 10

// bookmark is the record of a Bookmark.
type bookmark struct {
	Bookmark []byte `json:"bookmark"`
}

func (s *Store) bookmarkKey(src Source, unit string) tidemark.Key {
	return tidemark.Key{Kind: kindBookmark, ID: s.unitKey(src, unit).ID}
}

// SourceBookmark returns the Bookmark of a unit, nil if it has none.
func (s *Store) SourceBookmark(ctx context.Context, src Source, unit string) ([]byte, error) {
	var b bookmark
	_, err := s.k.Get(ctx, s.bookmarkKey(src, unit), &b)
	if errors.Is(err, tidemark.ErrCorrupt) {
		return nil, nil
	}
	return b.Bookmark, err
}

// bookmarkRecord returns the record of the Bookmark of a unit, in place of the one
// that is there.
func (s *Store) bookmarkRecord(ctx context.Context, u SourceUnit) (tidemark.Record, error) {
	key := s.bookmarkKey(u.Source, u.Unit)
	old, err := s.k.Get(ctx, key, &bookmark{})
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return old, err
	}
	r, err := records.Put(key, old.Version, bookmark{u.Bookmark})
	r.State = s.unitState(u.Session)
	return r, err
}

func (s *Store) sourceHash(src Source) string {
	return s.k.Hash("source", src.Machine, src.Tool, src.Path)
}

func (s *Store) sourceKey(src Source) tidemark.Key {
	return tidemark.Key{Kind: kindSource, ID: s.sourceHash(src)}
}

// unitKey is the key of a unit. It is the store's and not the session's, because
// all units of a Source are read at once.
func (s *Store) unitKey(src Source, unit string) tidemark.Key {
	return tidemark.Key{Kind: kindUnit, ID: s.sourceHash(src) + "." + s.k.Hash("unit", unit)}
}

// unitRecord returns the record that replaces the one at u.Version.
func (s *Store) unitRecord(u SourceUnit) (tidemark.Record, error) {
	r, err := records.Put(s.unitKey(u.Source, u.Unit), u.Version, u)
	r.State = s.unitState(u.Session)
	return r, err
}

// unitState is the State of the records of all units of one session. Who asks for them
// by it does not order them by ID, so that a backend finds them by its index of states.
func (s *Store) unitState(id tidemark.SessionID) string {
	if id == "" {
		return ""
	}
	return s.k.Hash("unit session", string(id))
}

// SourceState returns what is known of a Source: ErrNotFound.
func (s *Store) SourceState(ctx context.Context, src Source) (SourceState, error) {
	var state SourceState
	r, err := s.k.Get(ctx, s.sourceKey(src), &state)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("%s: not imported yet", src.Path)
	}
	return state, err
}

// SourceUnit returns what is known of one unit of a Source: ErrNotFound.
func (s *Store) SourceUnit(ctx context.Context, src Source, unit string) (u SourceUnit, err error) {
	r, err := s.k.Get(ctx, s.unitKey(src, unit), &u)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("%s: not imported yet", unit)
	}
	u.Version = r.Version
	return u, err
}

// SourceUnits yields the units of a Source that were imported. What is damaged is
// left out: it is read again.
func (s *Store) SourceUnits(ctx context.Context, src Source) iter.Seq2[SourceUnit, error] {
	return s.units(ctx, tidemark.Query{Kind: kindUnit, Prefix: s.sourceHash(src) + ".", Order: tidemark.ByID})
}

// SessionUnits yields those of a Source that a session was made of.
func (s *Store) SessionUnits(ctx context.Context, src Source, id tidemark.SessionID) iter.Seq2[SourceUnit, error] {
	return func(yield func(SourceUnit, error) bool) {
		for u, err := range s.units(ctx, tidemark.Query{Kind: kindUnit, State: s.unitState(id)}) {
			if (err != nil || u.Source == src) && !yield(u, err) {
				return
			}
		}
	}
}

func (s *Store) units(ctx context.Context, q tidemark.Query) iter.Seq2[SourceUnit, error] {
	return func(yield func(SourceUnit, error) bool) {
		for r, err := range s.backend.List(ctx, q) {
			var u SourceUnit
			if err == nil {
				err = records.Decode(r, &u)
			}
			u.Version = r.Version
			if errors.Is(err, tidemark.ErrCorrupt) {
				continue
			}
			if !yield(u, err) || err != nil {
				return
			}
		}
	}
}

// KeepUnits keeps units that were imported, each in place of the one at its
// Version: ErrConflict, and then none. They must be of sessions that are here.
func (s *Store) KeepUnits(ctx context.Context, units ...SourceUnit) error {
	var b tidemark.Batch
	for _, u := range units {
		if n := max(len(u.State), len(u.Bookmark)); n > MaxUnitState {
			return tidemark.Invalidf("%s: a state of %d bytes, at most %d are allowed", u.Unit, n, MaxUnitState)
		}
		r, err := s.unitRecord(u)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
		if u.Bookmark == nil {
			continue
		}
		if r, err = s.bookmarkRecord(ctx, u); err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
	}
	if len(b.Puts) == 0 {
		return nil
	}
	b.At = s.k.Clock()
	_, err := s.k.Commit(ctx, b)
	return err
}

// ForgetUnits removes units whose files are gone, each at its Version.
func (s *Store) ForgetUnits(ctx context.Context, units ...SourceUnit) error {
	var b tidemark.Batch
	for _, u := range units {
		r, err := s.unitRecord(u)
		if err != nil {
			return err
		}
		b.Deletes = append(b.Deletes, tidemark.Precondition{Key: r.Key, Version: u.Version})
		if r, err = s.bookmarkRecord(ctx, u); err != nil {
			return err
		}
		if old := r.Version - 1; old > 0 {
			b.Deletes = append(b.Deletes, tidemark.Precondition{Key: r.Key, Version: old})
		}
	}
	if len(b.Deletes) == 0 {
		return nil
	}
	_, err := s.k.Commit(ctx, b)
	return err
}

// KeepSource keeps that everything in a Source was imported.
func (s *Store) KeepSource(ctx context.Context, state SourceState) error {
	return records.Retry(ctx, func() error {
		old, err := s.k.Get(ctx, s.sourceKey(state.Source), &SourceState{})
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		b := tidemark.Batch{At: s.k.Clock()}
		state.ReadAt = b.At
		r, err := records.Put(s.sourceKey(state.Source), old.Version, state)
		if err != nil {
			return err
		}
		b.Puts = []tidemark.Record{r}
		_, err = s.k.Commit(ctx, b)
		return err
	})
}

// forgetSources puts into the batch that removes a session that its files are not
// known any more, so that an import finds it missing.
func (s *Store) forgetSources(ctx context.Context, b *tidemark.Batch, id tidemark.SessionID) error {
	for _, q := range []tidemark.Query{{Kind: kindUnit, State: s.unitState(id)}, {Kind: kindBookmark, State: s.unitState(id)},
		{Kind: kindSource, Order: tidemark.ByID}} {
		for r, err := range s.backend.List(ctx, q) {
			if err != nil {
				return err
			}
			if r.Owner != "" {
				continue // what others know of their files is theirs
			}
			b.Deletes = append(b.Deletes, tidemark.Precondition{Key: r.Key, Version: r.Version})
		}
	}
	return nil
}
