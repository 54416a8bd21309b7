package store

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Memory is something learned in a project that later sessions there should know.
type Memory struct {
	ID      string             `json:"id"`
	Project string             `json:"project,omitempty"`
	Text    string             `json:"text"`
	Session tidemark.SessionID `json:"session,omitempty"` // where it was learned
	At      time.Time          `json:"at"`
}

func memoryKey(id string) tidemark.Key { return tidemark.Key{Kind: kindMemory, ID: id} }

// Remember keeps a memory. The same text in the same project is kept only once;
// it returns the memory that is kept, and whether that is new.
func (s *Store) Remember(ctx context.Context, m Memory) (Memory, bool, error) {
	said := m.Text
	m.Text = strings.TrimSpace(s.vault.MaskWritten(m.Text))
	if m.Text == "" {
		return m, false, tidemark.Invalidf("a memory without words")
	}
	for have, err := range s.Memories(ctx, m.Project) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return m, false, err
		}
		if have.Project == m.Project && fold(have.Text) == fold(m.Text) {
			return have, false, nil
		}
	}
	m.ID, m.At = strings.ToLower(rand.Text()[:12]), s.k.Now()
	if err := s.vault.Keep(ctx, m.ID, s.vault.ValuesIn(said)); err != nil {
		return m, false, err
	}
	r, err := records.Put(memoryKey(m.ID), 0, m)
	if err != nil {
		return m, false, err
	}
	r.Group = s.projectGroup(m.Project)
	_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
	return m, true, err
}

// Memories lists the memories of a project, or of all projects when that is "",
// newest first. A damaged one is yielded as its error, and the listing goes on.
func (s *Store) Memories(ctx context.Context, project string) iter.Seq2[Memory, error] {
	return func(yield func(Memory, error) bool) {
		places, err := s.placesOf(ctx, project)
		if err != nil {
			yield(Memory{}, err)
			return
		}
		groups := make([]string, len(places))
		for i, place := range places {
			groups[i] = s.projectGroup(place)
		}
		for r, err := range s.inGroups(ctx, tidemark.Query{Kind: kindMemory}, groups) {
			var m Memory
			if err == nil {
				err = records.Decode(r, &m)
			}
			if !yield(m, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

// Memory returns the memory whose id is or begins with the given one: ErrNotFound,
// or ErrInvalid when there are several.
func (s *Store) Memory(ctx context.Context, id string) (Memory, error) {
	var found []Memory
	for m, err := range records.List[Memory](ctx, s.k, tidemark.Query{Kind: kindMemory, Prefix: strings.ToLower(id), Limit: 2}) {
		if err != nil {
			return m, err
		}
		found = append(found, m)
	}
	switch {
	case len(found) == 0 || id == "":
		return Memory{}, tidemark.NotFoundf("memory %q: not found", id)
	case len(found) > 1:
		return Memory{}, tidemark.Invalidf("memory %q: there are several that begin so", id)
	}
	return found[0], nil
}

// Forget removes a memory: ErrNotFound.
func (s *Store) Forget(ctx context.Context, id string) error {
	r, err := s.backend.Get(ctx, memoryKey(id))
	if err != nil {
		return err
	}
	b := tidemark.Batch{Deletes: []tidemark.Precondition{{Key: r.Key, Version: r.Version}}}
	if err := s.vault.Forget(ctx, &b, id); err != nil {
		return err
	}
	_, err = s.k.Commit(ctx, b)
	return err
}
