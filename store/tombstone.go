package store

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// A purge of a session that came from another tool leaves a tombstone, so that
// the next import does not bring the session back; so does one that other machines
// have. It is a sum of the id of the session, where that is made from what it is in
// its tool or the session is on other machines, or else of the tool and its id there, made with a random key that is a record of its own and goes
// where the tombstones go: into archives and other stores. Without the session
// itself nothing can be read from it. A store into which others were restored has
// several keys.

// purgeKey is the record of a key.
type purgeKey struct {
	Key []byte `json:"key"`
}

// tombstones returns where the tombstone of a session may be: one place for each
// key that there is and each of the names.
func (s *Store) tombstones(ctx context.Context, names ...string) ([]tidemark.Key, error) {
	var places []tidemark.Key
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindPurgeKey, Order: tidemark.ByID}) {
		var k purgeKey
		if err == nil && r.Owner != "" {
			continue // what others purged is theirs
		}
		if err == nil {
			err = records.Decode(r, &k)
		}
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			places = append(places, k.tombstone(r.ID, name))
		}
	}
	return places, nil
}

// purgedName is what the tombstone of a session is a sum of, "" for one that was
// begun here.
func purgedName(sess tidemark.Session) string {
	switch {
	case sess.Tool == "" || sess.ForeignID == "":
		return ""
	case sess.ID.Derived():
		return string(sess.ID)
	}
	return sess.Tool + "\x00" + sess.ForeignID
}

// purgedNames are the names by which a session may have been purged: what it would
// be here, and how earlier versions would have kept it.
func purgedNames(sess tidemark.Session) []string {
	older := sess
	older.ID = ""
	return []string{purgedName(sess), purgedName(older)}
}

func (k purgeKey) tombstone(id, name string) tidemark.Key {
	sum := hmac.New(sha256.New, k.Key)
	sum.Write([]byte(name))
	return tidemark.Key{Kind: kindPurged, ID: id + "." + hex.EncodeToString(sum.Sum(nil)[:16])}
}

// Purged reports whether a session of another tool was purged, and is not to come
// back by itself. It is known by its Tool and ForeignID, and by its ID if that is a
// derived one.
func (s *Store) Purged(ctx context.Context, sess tidemark.Session) (bool, error) {
	return s.hasTombstone(ctx, purgedNames(sess)...)
}

// hasTombstone reports whether there is a tombstone of one of the names.
func (s *Store) hasTombstone(ctx context.Context, names ...string) (bool, error) {
	places, err := s.tombstones(ctx, names...)
	for _, place := range places {
		if has, err := s.k.Has(ctx, place); has || err != nil {
			return has, err
		}
	}
	return false, err
}

// Unpurge removes the tombstone of a session that somebody wants back.
func (s *Store) Unpurge(ctx context.Context, sess tidemark.Session) error {
	return records.Retry(ctx, func() error {
		places, err := s.tombstones(ctx, purgedNames(sess)...)
		if err != nil {
			return err
		}
		var b tidemark.Batch
		for _, place := range places {
			r, err := s.k.Get(ctx, place, &struct{}{})
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			if r.Version > 0 {
				b.Deletes = append(b.Deletes, tidemark.Precondition{Key: place, Version: r.Version})
			}
		}
		if len(b.Deletes) == 0 {
			return nil
		}
		_, err = s.k.Commit(ctx, b)
		return err
	})
}

// PurgedID reports whether a session of this id was purged that other machines have
// or had, and is not to come back from them.
func (s *Store) PurgedID(ctx context.Context, id tidemark.SessionID) (bool, error) {
	return s.hasTombstone(ctx, string(id))
}

// Bury leaves the tombstone of a session that another machine purged and that is not
// here, so that no remote brings it. ErrExists: it is here.
func (s *Store) Bury(ctx context.Context, id tidemark.SessionID) error {
	return records.Retry(ctx, func() error {
		if has, err := s.k.Has(ctx, keyOf(kindSession, id)); err != nil || has {
			return cmp.Or(err, tidemark.Existsf("session %s is here", id))
		}
		b := tidemark.Batch{Require: []tidemark.Precondition{{Key: keyOf(kindSession, id)}}}
		if err := s.addTombstone(ctx, &b, string(id)); err != nil || len(b.Puts) == 0 {
			return err
		}
		_, err := s.k.Commit(ctx, b)
		return err
	})
}

// addTombstone adds the tombstone of this name to the batch that purges a session,
// and the key when it is the first; nothing for "".
func (s *Store) addTombstone(ctx context.Context, b *tidemark.Batch, name string) error {
	if name == "" {
		return nil
	}
	places, err := s.tombstones(ctx, name)
	if err != nil {
		return err
	}
	for _, place := range places {
		if has, err := s.k.Has(ctx, place); has || err != nil {
			return err
		}
	}
	if len(places) == 0 {
		random := make([]byte, 8+sha256.Size)
		rand.Read(random)
		id, k := hex.EncodeToString(random[:8]), purgeKey{random[8:]}
		r, err := records.Put(tidemark.Key{Kind: kindPurgeKey, ID: id}, 0, k)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
		places = append(places, k.tombstone(id, name))
	}
	r, err := records.Put(places[0], 0, struct{}{})
	b.Puts = append(b.Puts, r)
	return err
}
