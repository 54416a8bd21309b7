package server

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// counted counts how often logs are read.
type counted struct {
	*memory.Backend
	reads atomic.Int64
}

func (c *counted) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	c.reads.Add(1)
	return c.Backend.Lines(ctx, log, spans...)
}

func TestAnEntryIsReadOnceForAllWhoFollow(t *testing.T) {
	b := &counted{Backend: memory.New()}
	st := store.New(b, nil)
	s := newTestServer(t, func(o *Options) {
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return st, nil }
	})
	path := newSession(t, s, wA, "tides", "one")
	const followers, entries = 60, 5
	var all []*follower
	for range followers {
		f := s.follow(t, "reader-a", path+"/entries/stream", "1")
		if got := f.next(t); got != "2 re one" {
			t.Fatal(got)
		}
		all = append(all, f)
	}
	before := b.reads.Load()
	for i := range entries {
		s.append(t, path, said(fmt.Sprint("m", i)))
		for n, f := range all {
			if got, want := f.next(t), fmt.Sprintf("%d m%d", i+3, i); got != want {
				t.Fatalf("follower %d: %q, want %q", n, got, want)
			}
		}
	}
	if n := b.reads.Load() - before; n >= followers {
		t.Errorf("%d entries for %d followers: %d reads", entries, followers, n)
	}
	for _, f := range all {
		f.close()
	}
}

func TestAFollowerThatIsFarBehindMissesNothing(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides")
	first := s.follow(t, wA, path+"/entries/stream", "")
	const kept = 256 // events that a source keeps
	const entries = 2*kept + 7
	for i := 0; i < entries; i += 50 {
		var texts []string
		for n := i; n < min(i+50, entries); n++ {
			texts = append(texts, fmt.Sprint("m", n))
		}
		s.append(t, path, said(texts...))
	}
	for _, c := range []struct {
		f    *follower
		from int
	}{
		{first, 0},
		{s.follow(t, wA, path+"/entries/stream", ""), 0},
		{s.follow(t, wA, path+"/entries/stream", "300"), 300},
	} {
		for i := c.from; i < entries; i++ {
			if got, want := c.f.next(t), fmt.Sprintf("%d m%d", i+1, i); got != want {
				t.Fatalf("%q, want %q", got, want)
			}
		}
		c.f.close()
	}
}

// What was masked since it was read for others is masked for who comes later.
func TestWhoFollowsLaterSeesNothingThatWasMaskedMeanwhile(t *testing.T) {
	st := store.New(memory.New(), nil)
	s := newTestServer(t, func(o *Options) {
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return st, nil }
	})
	path := newSession(t, s, wA, "tides")
	first := s.follow(t, wA, path+"/entries/stream", "")
	s.append(t, path, said("the word is sesame"))
	if got := first.next(t); got != "1 the word is sesame" {
		t.Fatal(got)
	}
	v, err := st.View(t.Context(), tidemark.SessionID(path[strings.LastIndexByte(path, '/')+1:]))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.MarkSecrets(t.Context(), 1, []store.Secret{{From: 12, To: 18}}); err != nil {
		t.Fatal(err)
	}
	later := s.follow(t, wA, path+"/entries/stream", "")
	if got := later.next(t); strings.Contains(got, "sesame") {
		t.Errorf("who follows later gets %q", got)
	}
	s.append(t, path, said("next"))
	for _, f := range []*follower{first, later} {
		if got := f.next(t); got != "2 next" {
			t.Error(got)
		}
		f.close()
	}
}
