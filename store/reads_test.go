package store_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// metered counts the lines that are read of logs.
type metered struct {
	tidemark.Backend
	lines int
}

func (m *metered) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		for l, err := range m.Backend.Lines(ctx, log, spans...) {
			m.lines++
			if !yield(l, err) {
				return
			}
		}
	}
}

// What a person waits for costs what is asked for, and not what is kept: no
// session is read whole to be listed, gone on with, forked or written to.
func TestALongSessionIsNotReadWhole(t *testing.T) {
	m := &metered{Backend: memory.New()}
	s := store.New(m, nil)
	const entries, some = 20_000, 50
	w := begin(t, s, user("first"))
	for n := 1; n < entries; n += 1000 {
		batch := make([]tidemark.Entry, 0, 1000)
		for i := range 1000 {
			batch = append(batch, user(fmt.Sprint(n+i)))
		}
		add(t, w, batch...)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		most int
		do   func() error
	}{
		{"listing", 0, func() error {
			for i, err := range s.Sessions(t.Context(), store.Filter{}) {
				if err != nil || i.Messages != entries+1 {
					return fmt.Errorf("%d messages: %v", i.Messages, err)
				}
			}
			return nil
		}},
		{"its end", 4 * some, func() error {
			same(t, len(texts(t, view(t, s, w.ID()).Tail(t.Context(), 0, some))), some)
			return nil
		}},
		{"a page in its middle", 4 * some, func() error {
			v := view(t, s, w.ID())
			head, err := v.Head(t.Context())
			if err != nil {
				return err
			}
			n := 0
			for _, err := range v.PathRange(t.Context(), head, entries/2, 0) {
				if n++; err != nil || n == some {
					return err
				}
			}
			return nil
		}},
		{"turns in its middle", 4 * some, func() error {
			page, err := view(t, s, w.ID()).TurnPage(t.Context(), 0, entries/2, some)
			if err == nil && (len(page.Turns) != some || page.Total != entries+1 || page.Turns[0].Entries[0].Seq != entries/2+1) {
				err = fmt.Errorf("%d turns of %d", len(page.Turns), page.Total)
			}
			return err
		}},
		{"nodes in its middle", 4 * some, func() error {
			nodes, more, err := view(t, s, w.ID()).TreePage(t.Context(), entries/2, some)
			if err == nil && (len(nodes) != some || !more || nodes[0].Number != entries/2 || nodes[0].Parent != entries/2-1) {
				err = fmt.Errorf("%d nodes", len(nodes))
			}
			return err
		}},
		{"going on with it", 4 * some, func() error {
			again := attach(t, s, w.ID(), "next")
			add(t, again, user("more"))
			return again.Close(t.Context())
		}},
		{"a fork of it", 4 * some, func() error {
			_, err := s.Fork(t.Context(), w.ID(), entries/2, "")
			return err
		}},
		{"a label on it", 4 * some, func() error { return s.Label(t.Context(), w.ID(), entries/2, "here") }},
	} {
		m.lines = 0
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if m.lines > c.most {
			t.Errorf("%s reads %d lines of %d, want at most %d", c.what, m.lines, entries, c.most)
		}
	}
}
