package store

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// KeptMemory is a memory with its version and with the Mark from which a listing
// continues after it.
type KeptMemory struct {
	Memory
	Version int64
	Mark    Mark
}

// MemoriesAfter lists the memories of a project, or of all projects when that is
// "", the most recently changed first, from the Mark of an earlier listing on. In
// contrast to Memories it does not look at the project's folder, which may be on
// another machine. One that cannot be read is yielded as a *tidemark.Damage, and
// the listing goes on.
func (s *Store) MemoriesAfter(ctx context.Context, project string, after Mark) iter.Seq2[KeptMemory, error] {
	q := tidemark.Query{Kind: kindMemory, Group: s.projectGroup(project), After: after.After(memoryKey(after.ID))}
	return func(yield func(KeptMemory, error) bool) {
		for r, err := range s.backend.List(ctx, q) {
			m := KeptMemory{Version: r.Version, Mark: Mark{ID: r.ID, At: r.UpdatedAt}}
			if err == nil {
				err = records.Decode(r, &m.Memory)
			}
			if !yield(m, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

// MemoryAt returns the memory of exactly this id: ErrNotFound.
func (s *Store) MemoryAt(ctx context.Context, id string) (KeptMemory, error) {
	var m KeptMemory
	if tidemark.CheckID(id) != nil {
		return m, tidemark.NotFoundf("memory %.40q: not found", id)
	}
	r, err := s.k.Get(ctx, memoryKey(id), &m.Memory)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("memory %q: not found", id)
	}
	m.Version, m.Mark = r.Version, Mark{ID: id, At: r.UpdatedAt}
	return m, err
}

// PutMemory keeps a memory under its id, and replaces the one at the version want,
// as PutItem does. At stays that of the first version.
func (s *Store) PutMemory(ctx context.Context, m Memory, want int64) (KeptMemory, error) {
	if err := tidemark.CheckID(m.ID); err != nil {
		return KeptMemory{}, err
	}
	text, err := s.vault.RedactText(ctx, m.ID, m.Text)
	if err != nil {
		return KeptMemory{}, err
	}
	if m.Text = strings.TrimSpace(text); m.Text == "" {
		return KeptMemory{}, tidemark.Invalidf("a memory without words")
	}
	out := KeptMemory{}
	err = records.Retry(ctx, func() error {
		var old Memory
		r, err := s.k.Get(ctx, memoryKey(m.ID), &old)
		if err == nil {
			err = (Item{Kind: kindMemory, ID: m.ID}).checkVersion(r.Version, want)
		}
		if err != nil {
			return err
		}
		b := tidemark.Batch{At: s.k.Now()}
		if m.At = b.At; r.Version > 0 {
			m.At = old.At
		}
		p, err := records.Put(r.Key, r.Version, m)
		if err != nil {
			return err
		}
		p.Group = s.projectGroup(m.Project)
		b.Puts = append(b.Puts, p)
		out = KeptMemory{Memory: m, Version: p.Version, Mark: Mark{ID: m.ID, At: b.At}}
		_, err = s.k.Commit(ctx, b)
		return err
	})
	return out, err
}

// ForgetAt removes a memory at the version want, which may be AnyVersion:
// ErrNotFound, ErrConflict.
func (s *Store) ForgetAt(ctx context.Context, id string, want int64) error {
	return records.Retry(ctx, func() error {
		m, err := s.MemoryAt(ctx, id)
		if err == nil {
			err = (Item{Kind: kindMemory, ID: id}).checkVersion(m.Version, want)
		}
		if err != nil {
			return err
		}
		b := tidemark.Batch{Deletes: []tidemark.Precondition{{Key: memoryKey(id), Version: m.Version}}}
		if err := s.vault.Forget(ctx, &b, id); err != nil {
			return err
		}
		_, err = s.k.Commit(ctx, b)
		return err
	})
}
