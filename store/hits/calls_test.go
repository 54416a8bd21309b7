package hits_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// counting counts how often lines of sessions are asked for: elsewhere each time is a
// round trip.
type counting struct {
	tidemark.Backend
	calls int
}

func (c *counting) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if log.Kind == "session" {
		c.calls++
	}
	return c.Backend.Lines(ctx, log, spans...)
}

func TestHitsOfOneSessionAreReadAtOnce(t *testing.T) {
	b := &counting{Backend: memory.New()}
	s := store.New(b, &store.Options{Places: search.EachWord})
	const sessions, each = 2, 30
	for n := range sessions {
		w := s.Create(tidemark.Session{}, store.Self("test"))
		for i := range each {
			if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, fmt.Sprintf("tide %d of session%d", i, n)), tidemark.Say(tidemark.System, "tide tables")); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.CatchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	ask := func(text string, limit int) int {
		q, err := search.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		b.calls = 0
		a, err := s.Search(t.Context(), store.Question{Limit: limit}.About(q))
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Found) != limit || !a.Cut() && a.LeftOut.N != sessions*each {
			t.Errorf("%s: %d hits, cut %v, %d left out", text, len(a.Found), a.Cut(), a.LeftOut.N)
		}
		return b.calls
	}
	for _, c := range []struct {
		text        string
		limit, most int
	}{
		{"tide", 20, sessions},
		{"tide session1", 20, 1},
		// Each rank is asked for, and what is left out.
		{"tide", sessions * each, 3 * sessions},
	} {
		if n := ask(c.text, c.limit); n == 0 || n > c.most {
			t.Errorf("%s: lines of sessions were asked for %d times for %d hits, want %d at most", c.text, n, c.limit, c.most)
		}
	}
}

// far is a Backend where each call takes a round trip. It returns from reading sessions
// and their lines when others do the same, or none comes.
type far struct {
	tidemark.Backend
	gate chan struct{}
	met  atomic.Int64 // how many were read beside another
}

func (f *far) meet() {
	select {
	case f.gate <- struct{}{}:
		f.met.Add(1)
	case <-f.gate:
		f.met.Add(1)
	case <-time.After(time.Second):
	}
}

func (f *far) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if key.Kind == "session" && f.gate != nil {
		f.meet()
	}
	return f.Backend.Get(ctx, key)
}

func (f *far) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if log.Kind == "session" && f.gate != nil {
		f.meet()
	}
	return f.Backend.Lines(ctx, log, spans...)
}

func (f *far) LinesOf(ctx context.Context, asked []tidemark.LogLines) ([][]tidemark.Line, error) {
	return gathered(ctx, f.Backend, asked)
}

// gathered reads lines of several logs.
func gathered(ctx context.Context, b tidemark.Backend, asked []tidemark.LogLines) ([][]tidemark.Line, error) {
	all := make([][]tidemark.Line, len(asked))
	for i, a := range asked {
		for _, seq := range a.Seqs {
			for l, err := range b.Lines(ctx, a.Log, tidemark.Span{From: seq, To: seq}) {
				if err == nil {
					all[i] = append(all[i], l)
				}
			}
		}
	}
	return all, nil
}

// Where each call takes a round trip, nobody waits for one session after the other.
func TestSessionsThatAreFarAwayAreReadBesideEachOther(t *testing.T) {
	b := &far{Backend: memory.New()}
	s := store.New(b, &store.Options{Places: search.EachWord})
	const sessions = 8
	for range sessions {
		w := s.Create(tidemark.Session{}, store.Self("test"))
		_, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "tide"))
		if err == nil {
			err = w.Close(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.CatchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	query, err := search.Parse("tide")
	if err != nil {
		t.Fatal(err)
	}
	s = store.New(b, &store.Options{Places: search.EachWord, Now: func() time.Time { return time.Now().Add(time.Hour) }})
	b.gate = make(chan struct{})
	a, err := s.Search(t.Context(), store.Question{}.About(query))
	if err != nil || len(a.Found) != sessions || a.Damage != nil {
		t.Fatalf("%d hits: %v, %v", len(a.Found), err, a.Damage)
	}
	if n := b.met.Load(); n < sessions {
		t.Errorf("%d of %d sessions and logs were read beside another", n, 2*sessions)
	}
}
