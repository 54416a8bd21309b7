package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Item is something that programs keep beside sessions: a step of a run, a
// snapshot of a sandbox, a dataset, a run of an optimizer, one of its results.
// This package never looks at the content of Data, except for secrets.
type Item struct {
	Kind      string             `json:"kind"`              // lower-case words joined by dashes: run-step
	ID        string             `json:"id"`                // unique within its kind
	Title     string             `json:"title,omitempty"`   //
	Session   tidemark.SessionID `json:"session,omitempty"` // that it belongs to
	Parent    string             `json:"parent,omitempty"`  // the item or job that it is a part of
	Data      json.RawMessage    `json:"data,omitempty"`    // an object
	CreatedAt time.Time          `json:"created_at"`

	UpdatedAt time.Time `json:"-"`
	Version   int64     `json:"-"` // 1 when first kept, one more with each change
}

// The bounds of an item, in bytes. They are small because a page of items is read
// into memory at once.
const (
	MaxItemBytes  = 1 << 20
	maxItemTitle  = 1 << 10
	maxItemParent = 256
	maxItemKind   = 28
)

// kindItem is the prefix of the record kinds of items. Each kind of item has a
// record kind of its own, such as itemrunstep, so that a listing reads no others.
const kindItem = "item"

// itemRecordKind returns the record kind of a kind of item.
func itemRecordKind(kind string) (string, error) {
	letters := strings.ReplaceAll(kind, "-", "")
	bad := kind == "" || len(letters) > maxItemKind || strings.HasPrefix(kind, "-") || strings.HasSuffix(kind, "-") || strings.Contains(kind, "--")
	for i := range len(letters) {
		bad = bad || letters[i] < 'a' || letters[i] > 'z'
	}
	if bad {
		return "", tidemark.Invalidf("kind %.40q of an item: want lower-case words joined by dashes, at most %d letters", kind, maxItemKind)
	}
	return kindItem + letters, nil
}

// itemKey returns the key of an item's record. It has a hash in place of the id,
// because the id may be a name that a sealed store should not reveal.
func (s *Store) itemKey(kind, id string) (tidemark.Key, error) {
	record, err := itemRecordKind(kind)
	if err == nil {
		err = tidemark.CheckID(id)
	}
	return tidemark.Key{Kind: record, ID: s.k.Hash("item", kind, id)}, err
}

// itemGroup is the Group of the records of all items of one parent, itemState the
// State of those of one session.
func (s *Store) itemGroup(parent string) string {
	if parent == "" {
		return ""
	}
	return s.k.Hash("item parent", parent)
}

func (s *Store) itemState(id tidemark.SessionID) string {
	if id == "" {
		return ""
	}
	return s.k.Hash("item session", string(id))
}

func (s *Store) itemRecord(i Item, key tidemark.Key, version int64) (tidemark.Record, error) {
	r, err := records.Put(key, version, i)
	r.Group, r.State = s.itemGroup(i.Parent), s.itemState(i.Session)
	return r, err
}

// check returns ErrInvalid for an item that cannot be kept.
func (i Item) check() error {
	invalid := func(what string, args ...any) error {
		return tidemark.Invalidf("%s %.40q: %w", i.Kind, i.ID, tidemark.Invalidf(what, args...))
	}
	if len(i.Title) > maxItemTitle || len(i.Parent) > maxItemParent {
		return invalid("its title has at most %d bytes and the name of its parent %d", maxItemTitle, maxItemParent)
	}
	if len(i.Data) > MaxItemBytes {
		return invalid("%d bytes, at most %d are allowed", len(i.Data), MaxItemBytes)
	}
	if i.Session != "" {
		if _, err := tidemark.ParseSessionID(string(i.Session)); err != nil {
			return invalid("%w", err)
		}
	}
	if len(i.Data) == 0 {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(i.Data, &object); err != nil || object == nil {
		return invalid("its data is no JSON object")
	}
	return nil
}

// PutItem keeps an item, and replaces the one that is there if that is at the
// version want: 0 when there must be none, AnyVersion when it does not matter.
// ErrConflict: it is at another version. ErrExists: want is 0, and there is one.
// It returns the item as it is kept: with secrets masked as in entries, and with
// the CreatedAt of the first version.
func (s *Store) PutItem(ctx context.Context, i Item, want int64) (Item, error) {
	key, err := s.itemKey(i.Kind, i.ID)
	if err == nil {
		err = i.check()
	}
	if err != nil {
		return Item{}, err
	}
	owner := cmp.Or(string(i.Session), key.ID)
	if err := s.vault.Keep(ctx, owner, s.vault.Redact(string(i.Session), []*string{&i.Title}, &i.Data)); err != nil {
		return Item{}, err
	}
	err = records.Retry(ctx, func() error {
		var old Item
		r, err := s.k.Get(ctx, key, &old)
		if err == nil {
			err = i.checkVersion(r.Version, want)
		}
		if err != nil {
			return err
		}
		b := tidemark.Batch{At: s.k.Now()}
		i.CreatedAt, i.UpdatedAt, i.Version = b.At, b.At, r.Version+1
		if r.Version > 0 {
			i.CreatedAt = old.CreatedAt
		}
		p, err := s.itemRecord(i, key, r.Version)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, p)
		_, err = s.k.Commit(ctx, b)
		return err
	})
	return i, err
}

// checkVersion returns an error unless the version is the one that is wanted. The
// error is one that Retry does not try again.
func (i Item) checkVersion(version, want int64) error {
	switch {
	case want == AnyVersion || want == version:
		return nil
	case want == 0:
		return tidemark.Existsf("%s %s is there already", i.Kind, i.ID)
	}
	return records.Final(tidemark.Conflictf("%s %s stands at version %d, not %d", i.Kind, i.ID, version, want))
}

// Item returns one item: ErrNotFound.
func (s *Store) Item(ctx context.Context, kind, id string) (Item, error) {
	var i Item
	key, err := s.itemKey(kind, id)
	if err != nil {
		return i, err
	}
	r, err := s.k.Get(ctx, key, &i)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("%s %s: not found", kind, id)
	}
	i.UpdatedAt, i.Version = r.UpdatedAt, r.Version
	return i, err
}

// RemoveItem removes an item at the version want, which may be AnyVersion:
// ErrNotFound, ErrConflict.
func (s *Store) RemoveItem(ctx context.Context, kind, id string, want int64) error {
	key, err := s.itemKey(kind, id)
	if err != nil {
		return err
	}
	return records.Retry(ctx, func() error {
		i, err := s.Item(ctx, kind, id)
		if err == nil {
			err = i.checkVersion(i.Version, want)
		}
		if err != nil {
			return err
		}
		b := tidemark.Batch{Deletes: []tidemark.Precondition{{Key: key, Version: i.Version}}}
		if err := s.vault.Forget(ctx, &b, key.ID); err != nil {
			return err
		}
		_, err = s.k.Commit(ctx, b)
		return err
	})
}

// RemoveParts removes the items of a kind that have this Parent.
func (s *Store) RemoveParts(ctx context.Context, kind, parent string) error {
	if parent == "" {
		return tidemark.Invalidf("the parts of nothing")
	}
	for {
		var some []Item
		for i, err := range s.Items(ctx, ItemFilter{Kind: kind, Parent: parent, Limit: 100}) {
			if err != nil {
				return err
			}
			some = append(some, i)
		}
		if len(some) == 0 {
			return nil
		}
		for _, i := range some {
			if err := s.RemoveItem(ctx, i.Kind, i.ID, AnyVersion); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
				return err
			}
		}
	}
}

// Mark is where a listing stopped, so that the next one can continue after it.
type Mark = records.Mark

// ItemFilter says which items to list. Kind is required; any other zero field does
// not restrict the list.
type ItemFilter struct {
	Kind    string
	Session tidemark.SessionID
	Parent  string
	After   Mark
	Limit   int
}

// Mark returns where a listing that ended with i continues.
func (i Item) Mark() Mark { return Mark{ID: i.ID, At: i.UpdatedAt} }

// Items lists items of a kind, the most recently changed first. One that cannot
// be read is yielded as a *tidemark.Damage, and the listing goes on.
func (s *Store) Items(ctx context.Context, f ItemFilter) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		record, err := itemRecordKind(f.Kind)
		if err != nil {
			yield(Item{}, err)
			return
		}
		q := tidemark.Query{Kind: record, Group: s.itemGroup(f.Parent), State: s.itemState(f.Session), Limit: f.Limit,
			After: f.After.After(tidemark.Key{Kind: record, ID: s.k.Hash("item", f.Kind, f.After.ID)})}
		for r, err := range s.backend.List(ctx, q) {
			var i Item
			if err == nil {
				err = records.Decode(r, &i)
			}
			i.UpdatedAt, i.Version = r.UpdatedAt, r.Version
			if !yield(i, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}
