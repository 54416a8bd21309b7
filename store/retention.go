package store

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Pin exempts a session from retention, or ends that. It needs no lease.
func (s *Store) Pin(ctx context.Context, id tidemark.SessionID, pinned bool) error {
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		i.Pinned = pinned
		return s.addNote(ctx, b, id, Note{Kind: notePin, Remove: !pinned})
	})
}

// Hold keeps everybody from removing a session, or ends that. It needs no lease.
func (s *Store) Hold(ctx context.Context, id tidemark.SessionID, held bool) error {
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		i.OnHold = held
		return s.addNote(ctx, b, id, Note{Kind: noteHold, Remove: !held})
	})
}

// Expired lists the sessions that were last changed before the given time, are
// neither pinned nor on hold, and have no live writer; newest first.
func (s *Store) Expired(ctx context.Context, before time.Time) ([]Info, error) {
	var expired []Info
	for i, err := range s.Sessions(ctx, Filter{}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // a session that cannot be read may be wanted
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
			continue // whether it was being purged cannot be read
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, tidemark.SessionID(r.ID))
	}
	return ids, nil
}
