package store_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// spoilt has logs that cannot be read at all once it is spoilt.
type spoilt struct {
	*memory.Backend
	now atomic.Bool
}

func (s *spoilt) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if s.now.Load() {
		return func(yield func(tidemark.Line, error) bool) {
			yield(tidemark.Line{}, &tidemark.Damage{Key: log, What: "the head"})
		}
	}
	return s.Backend.Lines(ctx, log, spans...)
}

func TestFollowingALogThatIsDamagedAsAWholeEnds(t *testing.T) {
	b := &spoilt{Backend: memory.New()}
	s := store.New(b, nil)
	w := begin(t, s, user("1"), user("2"))
	f, err := s.Fork(t.Context(), w.ID(), 0, "fork")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*store.Writer{w, attach(t, s, f.ID, "fork")} {
		b.now.Store(false)
		add(t, w, user("3"))
		var got []string
		for e, err := range view(t, s, w.ID()).Follow(t.Context(), 0) {
			if err != nil {
				got = append(got, "damage")
				continue
			}
			got = append(got, e.Text())
			if e.Text() == "3" {
				add(t, w, user("4"))
				b.now.Store(true)
			}
		}
		same(t, got[len(got)-2:], []string{"3", "damage"})
	}
}
