package server

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// torn gives some lines of sessions back damaged.
type torn struct {
	*memory.Backend
	seqs map[int64]bool
}

func (b *torn) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		for l, err := range b.Backend.Lines(ctx, log, spans...) {
			if err == nil && log.Kind == "session" && b.seqs[l.Seq] {
				l, err = tidemark.Line{Seq: l.Seq}, &tidemark.Damage{Key: log, Seq: l.Seq, What: "torn"}
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// Entries are read from the end in parts. One that is damaged where a part
// begins does not tell what is before it, and must neither hide nor double that.
func TestDamageWhereAPartBeginsHidesNothingBeforeIt(t *testing.T) {
	const newestPart = 64 // entries that are held at a time
	const entries = 3*newestPart + 10
	for first, last := range map[int64]int64{
		entries - newestPart + 1: entries - newestPart + 1, // the first of the newest part
		entries - newestPart:     entries - newestPart + 2, // and around it
		1:                        2,                        // the first of all
	} {
		b := &torn{Backend: memory.New()}
		st := store.New(b, nil)
		s := newTestServer(t, func(o *Options) {
			o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return st, nil }
		})
		path := newSession(t, s, wA, "tides")
		for i := range entries {
			s.append(t, path, said(fmt.Sprint("m", i)))
		}
		b.seqs = make(map[int64]bool)
		for seq := first; seq <= last; seq++ {
			b.seqs[seq] = true
		}
		var page api.EntryList
		s.call(t, wA, "GET", path+fmt.Sprintf("/entries?tail=%d", entries), nil).want(t, 200).into(t, &page)
		if len(page.Items) != entries {
			t.Errorf("%d to %d damaged: %d of %d entries came", first, last, len(page.Items), entries)
			continue
		}
		for i, e := range page.Items {
			if e.Seq != int64(i+1) || (e.Damage != "") != b.seqs[e.Seq] {
				t.Errorf("%d to %d damaged: at %d stands %d, damage %q", first, last, i+1, e.Seq, e.Damage)
			}
		}
	}
}
