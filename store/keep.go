package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Pin keeps a session out of retention, or lets it in again. It needs no
// lease.
func (s *Store) Pin(ctx context.Context, id tidemark.SessionID, pinned bool) error {
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		i.Pinned = pinned
		return s.addNote(ctx, b, id, Note{Kind: notePin, Remove: !pinned})
	})
}

// Hold keeps a session from being removed by anybody, or lets it go. It needs
// no lease.
func (s *Store) Hold(ctx context.Context, id tidemark.SessionID, held bool) error {
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		i.OnHold = held
		return s.addNote(ctx, b, id, Note{Kind: noteHold, Remove: !held})
	})
}

// Expired lists the sessions that were last changed before the given time and
// that nobody pinned, holds or writes to, the newest first.
func (s *Store) Expired(ctx context.Context, before time.Time) ([]Info, error) {
	var expired []Info
	for i, err := range s.Sessions(ctx, Filter{}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // what cannot be read is not thrown away
		}
		if err != nil {
			return nil, err
		}
		if i.Pinned || i.OnHold || !i.UpdatedAt.Before(before) {
			continue
		}
		l, err := s.Lease(ctx, i.ID)
		if err != nil {
			return nil, err
		}
		if !l.Held || l.Dead || l.Expired {
			expired = append(expired, i)
		}
	}
	return expired, nil
}

// Purging lists the sessions whose purge was interrupted.
func (s *Store) Purging(ctx context.Context) ([]tidemark.SessionID, error) {
	var ids []tidemark.SessionID
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindSession, State: purging, Order: tidemark.ByID}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // its state is not known either
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, tidemark.SessionID(r.ID))
	}
	return ids, nil
}

// Refile returns a record of another store as this one would file it: names,
// projects, checkpoints, files and items are found by hashes, which are a
// sealed store's own. It returns other records as they are, and a zero one for what is not to
// be taken over.
func (s *Store) Refile(r tidemark.Record) (tidemark.Record, error) {
	switch id, more := sessionOf(r.Key); {
	case r.Kind == kindPlain:
		return tidemark.Record{}, nil // each store says for itself that it is plain
	case r.Kind == kindName:
		var n name
		if err := records.Decode(r, &n); err != nil {
			return r, err
		}
		r.Key, r.Group = s.nameKey(n), s.nameGroup(n.Class, n.Text)
	case r.Kind == kindSession:
		var sess tidemark.Session
		if err := records.Decode(r, &sess); err != nil {
			return r, err
		}
		r.Group = s.projectGroup(sess.Project)
	case r.Kind == kindCheckpoint && more != "":
		var c Checkpoint
		if err := records.Decode(r, &c); err != nil {
			return r, err
		}
		r.Key = s.checkpointKey(id, c.Name)
	case r.Kind == kindProject:
		var p project
		if err := records.Decode(r, &p); err != nil {
			return r, err
		}
		r.Key = s.projectKey(p.Mark)
	case r.Kind == kindMemory:
		var m Memory
		if err := records.Decode(r, &m); err != nil {
			return r, err
		}
		r.Group = s.projectGroup(m.Project)
	case strings.HasPrefix(r.Kind, kindItem):
		var err error
		if r, err = s.refileItem(r); err != nil {
			return r, err
		}
	case r.Kind == kindFile:
		var f File
		if err := records.Decode(r, &f); err != nil {
			return r, err
		}
		if r.State != filling {
			r.Key = s.fileKey(id, f.Name)
		}
	}
	r.Sum = r.Checksum()
	return r, nil
}
