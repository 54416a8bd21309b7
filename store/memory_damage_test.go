package store_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// blotted gives one record back damaged.
type blotted struct {
	*memory.Backend
	id string
}

func (b *blotted) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		for r, err := range b.Backend.List(ctx, q) {
			if r.ID == b.id {
				r.Body, err = nil, &tidemark.Damage{Key: r.Key, What: "blotted"}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func TestADamagedMemoryHidesNoOther(t *testing.T) {
	b := &blotted{Backend: memory.New()}
	s := store.New(b, nil)
	for _, text := range []string{"one", "two", "three"} {
		m, _, err := s.Remember(t.Context(), store.Memory{Text: text, Project: "/p"})
		if err != nil {
			t.Fatal(err)
		}
		if text == "two" {
			b.id = m.ID
		}
	}
	var told []string
	damaged := 0
	for m, err := range s.Memories(t.Context(), "/p") {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			damaged++
		case err != nil:
			t.Fatal(err)
		default:
			told = append(told, m.Text)
		}
	}
	same(t, told, []string{"three", "one"})
	same(t, damaged, 1)
	if _, fresh, err := s.Remember(t.Context(), store.Memory{Text: "one", Project: "/p"}); err != nil || fresh {
		t.Errorf("Remember what is known = %v, %v", fresh, err)
	}
}
