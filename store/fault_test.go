package store_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// lossy is a Backend on a line that breaks: every other commit ends without an
// answer, half of these after it took effect.
type lossy struct {
	tidemark.Backend
	commits int
}

func (l *lossy) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	l.commits++
	switch l.commits % 4 {
	case 1:
		return tidemark.Receipt{}, tidemark.ErrUnknown
	case 3:
		if _, err := l.Backend.Commit(ctx, b); err != nil {
			return tidemark.Receipt{}, err
		}
		return tidemark.Receipt{}, tidemark.ErrUnknown
	}
	return l.Backend.Commit(ctx, b)
}

func TestUnknownOutcomesAreSettledByReadingBack(t *testing.T) {
	b := &lossy{Backend: memory.New()}
	s := store.New(b, nil)
	ctx := t.Context()
	w := begin(t, s, user("0"))
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint(i))
		if i > 0 {
			same(t, add(t, w, user(fmt.Sprint(i))), []int64{int64(i) + 1})
		}
		if err := s.Label(ctx, w.ID(), int64(i)+1, fmt.Sprint("label ", i)); err != nil {
			t.Fatal(err)
		}
		if err := s.Rename(ctx, w.ID(), fmt.Sprint("title ", i)); err != nil {
			t.Fatal(err)
		}
	}
	same(t, texts(t, view(t, s, w.ID()).Path(ctx, 0)), want)
	f, err := s.Fork(ctx, w.ID(), 5, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		w := attach(t, s, f.ID, fmt.Sprint("writer ", i))
		add(t, w, user("more"))
		if err := w.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Purge(ctx, w.ID(), who("purge")); err != nil {
		t.Fatal(err)
	}
	same(t, texts(t, view(t, s, f.ID).Path(ctx, 0)), append(want[:5:5], "more", "more", "more"))
	healthy(t, s)
}

// scarred is a Backend some of whose lines cannot be read.
type scarred struct {
	tidemark.Backend
	log  tidemark.Key
	seqs map[int64]bool
}

func (s *scarred) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		for l, err := range s.Backend.Lines(ctx, log, spans...) {
			if err == nil && log == s.log && s.seqs[l.Seq] {
				l, err = tidemark.Line{Seq: l.Seq}, &tidemark.Damage{Key: log, Seq: l.Seq, What: "scar"}
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

func TestDamageIsReportedInItsPlaceAndHidesNothingElse(t *testing.T) {
	b := &scarred{Backend: memory.New(), seqs: map[int64]bool{}}
	s := store.New(b, nil)
	ctx := t.Context()
	// 1-4 the trunk, 5-8 one branch of it, 10-13 another from 4; 9 is a marker.
	w := begin(t, s, user("1"), assistant("2"), user("3"), assistant("4"), user("5"), assistant("6"), user("7"), assistant("8"))
	if err := w.Branch(ctx, 4); err != nil {
		t.Fatal(err)
	}
	add(t, w, user("10"), assistant("11"), user("12"), assistant("13"))
	b.log = tidemark.Key{Kind: "session", ID: string(w.ID())}
	v := view(t, s, w.ID())
	read := func(entries iter.Seq2[tidemark.Entry, error]) string {
		t.Helper()
		var got []string
		for e, err := range entries {
			switch {
			case errors.Is(err, tidemark.ErrCorrupt):
				got = append(got, fmt.Sprintf("!%d", e.Seq))
			case err != nil:
				t.Fatal(err)
			default:
				got = append(got, e.Text())
			}
		}
		return strings.Join(got, " ")
	}
	for _, c := range []struct {
		scars []int64
		path  string
		tail  string
	}{
		{nil, "1 2 3 4 10 11 12 13", "11 12 13"},
		{[]int64{13}, "1 2 3 4 10 11 12 !13", "11 12 !13"},
		{[]int64{11}, "1 2 3 4 10 !11 12 13", "!11 12 13"},
		{[]int64{2, 3}, "1 !2 !3 4 10 11 12 13", "11 12 13"},
		{[]int64{1}, "!1 2 3 4 10 11 12 13", "11 12 13"},
		{[]int64{10}, "1 2 3 4 !10 11 12 13", "11 12 13"}, // what it followed is known from its turn
		{[]int64{9}, "1 2 3 4 !9 10 11 12 13", "11 12 13"},
		{[]int64{12, 13}, "1 2 3 4 10 11 !12 !13", "11 !12 !13"},
	} {
		clear(b.seqs)
		for _, seq := range c.scars {
			b.seqs[seq] = true
		}
		if got := read(v.Path(ctx, 0)); got != c.path {
			t.Errorf("with %v damaged the path is %q, want %q", c.scars, got, c.path)
		}
		if got := read(v.Tail(ctx, 0, 3)); got != c.tail {
			t.Errorf("with %v damaged the tail is %q, want %q", c.scars, got, c.tail)
		}
		found := 0
		for err := range s.Verify(ctx, w.ID()) {
			wants(t, err, tidemark.ErrCorrupt)
			found++
		}
		if found != len(c.scars) {
			t.Errorf("verify finds %d of %d", found, len(c.scars))
		}
		if end, err := v.NodeEnd(ctx, 0); len(c.scars) > 0 && c.scars[0] > 2 && (err != nil || end != 2) {
			t.Errorf("with %v damaged n0 ends at %d, %v", c.scars, end, err)
		}
	}
}

// stubborn is a Backend that fails the last step of a purge.
type stubborn struct {
	tidemark.Backend
	fail bool
}

func (s *stubborn) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if s.fail && len(b.Drops) > 0 {
		return tidemark.Receipt{}, tidemark.ErrStorage
	}
	return s.Backend.Commit(ctx, b)
}

func TestInterruptedPurgeIsSeenInTheTrashAndGoesOn(t *testing.T) {
	b := &stubborn{Backend: memory.New(), fail: true}
	s := store.New(b, &store.Options{Dead: func(tidemark.Holder) bool { return true }})
	w := begin(t, s, user("1"), assistant("2"))
	f, err := s.Fork(t.Context(), w.ID(), 1, "fork")
	if err != nil {
		t.Fatal(err)
	}
	wants(t, s.Purge(t.Context(), w.ID(), who("purge")), tidemark.ErrStorage)
	found := 0
	for i, err := range s.Sessions(t.Context(), store.Filter{State: store.Trash}) {
		if err == nil && i.ID == w.ID() {
			found++
		}
	}
	if found != 1 {
		t.Errorf("the trash shows it %d times", found)
	}
	healthy(t, s)
	_, err = s.Fork(t.Context(), w.ID(), 1, "too late")
	wants(t, err, tidemark.ErrNotFound)
	b.fail = false
	if err := s.Purge(t.Context(), w.ID(), who("purge")); err != nil {
		t.Fatal(err)
	}
	same(t, texts(t, view(t, s, f.ID).Path(t.Context(), 0)), []string{"1"})
	healthy(t, s)
}
