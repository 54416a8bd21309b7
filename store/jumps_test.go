package store_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// note is an entry that is no message.
func note(text string) tidemark.Entry {
	return tidemark.Entry{Kind: tidemark.KindContext, Blocks: []tidemark.Block{tidemark.Text(text)}}
}

// grow appends n entries to a session, some of which are no messages, by Writers that come and go.
// Now and then one follows an earlier entry, or a marker.
func grow(t *testing.T, r *rapid.T, s *store.Store, id tidemark.SessionID, n int) {
	t.Helper()
	for i := 0; i < n; {
		w := attach(t, s, id, "one of many")
		for range rapid.IntRange(1, 3).Draw(r, "appends") {
			var batch []tidemark.Entry
			for range rapid.IntRange(1, 700).Draw(r, "batch") {
				i++
				batch = append(batch, []tidemark.Entry{user("ask"), note("context"), assistant("answer"), assistant("more")}[(i*i+i/3)%4])
			}
			switch head := w.Head(); rapid.IntRange(0, 5).Draw(r, "jump") {
			case 0:
				batch[0].Parent = rapid.Int64Range(1, head).Draw(r, "parent")
			case 1:
				if err := w.Branch(t.Context(), rapid.Int64Range(1, head).Draw(r, "branch")); err != nil {
					r.Skip(err) // of an entry that a fork does not share
				}
			case 2:
				batch[len(batch)/2].Parent = store.Root
			}
			if _, err := w.Append(t.Context(), batch...); err != nil {
				r.Skip(err)
			}
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// paths tells of a session what its log says when each entry is looked at.
type paths struct {
	entries map[int64]tidemark.Entry
}

func pathsOf(t *testing.T, v *store.View) paths {
	t.Helper()
	p := paths{make(map[int64]tidemark.Entry)}
	for e, err := range v.Log(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		p.entries[e.Seq] = e
	}
	return p
}

// path is that to an entry without markers; turns are the counts of nodes on it.
func (p paths) path(seq int64) (path, turns []int64) {
	for ; seq > 0; seq = p.entries[seq].Parent {
		if e := p.entries[seq]; e.Kind != tidemark.KindBranch {
			path = append(path, seq)
			if n := len(turns); e.Nodes > 0 && (n == 0 || turns[n-1] != e.Nodes) {
				turns = append(turns, e.Nodes)
			}
		}
	}
	slices.Reverse(path)
	slices.Reverse(turns)
	return path, turns
}

func seqsIn(t *testing.T, entries iter.Seq2[tidemark.Entry, error]) (seqs []int64) {
	t.Helper()
	for e, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

// Whatever is known of the jumps of a session, and whoever wrote it: its paths and
// turns are those that its entries name.
func TestPathsAreWhatEntriesName(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := store.New(memory.New(), nil)
		w := begin(t, s, system("be kind"), user("begin"))
		id := w.ID()
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		grow(t, r, s, id, 2000)
		if rapid.Bool().Draw(r, "fork") {
			f, err := s.Fork(t.Context(), id, rapid.Int64Range(2, view(t, s, id).Entries).Draw(r, "point"), "fork")
			if err != nil {
				t.Fatal(err)
			}
			id = f.ID
			grow(t, r, s, id, 1000)
		}
		v := view(t, s, id)
		p := pathsOf(t, v)
		head := int64(0)
		for seq := range p.entries {
			head = max(head, seq)
		}
		if n, err := v.TurnCount(t.Context()); err != nil {
			t.Fatal(err)
		} else if _, turns := p.path(head); n != int64(len(turns)) {
			t.Fatalf("%d turns, want %d", n, len(turns))
		}
		for i := range rapid.IntRange(0, 3).Draw(r, "labels") {
			if err := s.Label(t.Context(), id, rapid.Int64Range(1, v.Entries).Draw(r, "labelled"), fmt.Sprint("label ", i)); err != nil {
				r.Skip(err) // as a branch of it
			}
		}
		sameAsTree(t, v)
		for range 5 {
			at := rapid.SampledFrom(slices.Sorted(func(yield func(int64) bool) {
				for seq := range p.entries {
					if !yield(seq) {
						return
					}
				}
			})).Draw(r, "at")
			path, turns := p.path(at)
			if d := cmp.Diff(path, seqsIn(t, v.Path(t.Context(), at))); d != "" {
				t.Fatalf("the path to %d: %s", at, d)
			}
			from := rapid.Int64Range(1, at).Draw(r, "from")
			if d := cmp.Diff(append([]int64(nil), path[slices.IndexFunc(append(path, 1<<62), func(seq int64) bool { return seq >= from }):]...), seqsIn(t, v.PathRange(t.Context(), at, from, 0))); d != "" && len(path) > 0 {
				t.Fatalf("the path to %d from %d on: %s", at, from, d)
			}
			offset := rapid.IntRange(0, len(turns)).Draw(r, "offset")
			page, err := v.TurnPage(t.Context(), at, int64(offset), 20)
			if err != nil || page.Total != int64(len(turns)) {
				t.Fatalf("at %d: %d turns, want %d: %v", at, page.Total, len(turns), err)
			}
			var got []int64
			for _, turn := range page.Turns {
				got = append(got, turn.Number+1)
			}
			if d := cmp.Diff(turns[offset:min(offset+20, len(turns))], got); d != "" && len(got)+len(turns)-offset > 0 {
				t.Fatalf("turns behind %d of %d: %s", offset, len(turns), d)
			}
		}
	})
}

// sameAsTree says what the sketch of a session has otherwise than its tree.
func sameAsTree(t *testing.T, v *store.View) {
	t.Helper()
	tree, err := v.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sketch, err := v.Sketch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(sketch.Nodes) != len(tree) {
		t.Fatalf("a sketch of %d nodes, want %d", len(sketch.Nodes), len(tree))
	}
	var places []int
	for i, n := range tree {
		if got := sketch.Nodes[i]; got.Number != n.Number || got.Parent != n.Parent || got.Label != n.Label || got.Current != n.Current {
			t.Fatalf("the sketch has %+v, want %+v", got, n)
		}
		if at, err := sketch.NodeAt(t.Context(), n.Last); at != n.Number || err != nil {
			t.Fatalf("entry %d is in node %d, want %d: %v", n.Last, at, n.Number, err)
		}
		if i%3 > 0 || i == len(tree)-1 {
			places = append(places, i)
		}
	}
	if err := sketch.Describe(t.Context(), places); err != nil {
		t.Fatal(err)
	}
	for _, i := range places {
		if d := cmp.Diff(tree[i], sketch.Nodes[i]); d != "" {
			t.Fatalf("node n%d: %s", i, d)
		}
	}
}

// longWithNotes makes a session of entries that are not all messages, with a branch in its midst.
func longWithNotes(t *testing.T, s *store.Store, n int) tidemark.SessionID {
	t.Helper()
	w := begin(t, s, user("begin"))
	for i := 1; i < n; i += 1000 {
		var batch []tidemark.Entry
		for j := range 500 {
			batch = append(batch, user(fmt.Sprint(i+j)), note("context"))
		}
		if i == n/2/1000*1000+1 {
			batch[0].Parent = w.Head() - 10
		}
		add(t, w, batch...)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.ID()
}

// What is read of a long session does not depend on its length, also where not
// all of its entries are messages, and where it has branches.
func TestALongSessionOfAllKindsIsNotReadWhole(t *testing.T) {
	m := &metered{Backend: memory.New()}
	s := store.New(m, nil)
	id := longWithNotes(t, s, 20_000)
	v := view(t, s, id)
	for what, do := range map[string]func() error{
		"counting turns": func() error {
			n, err := v.TurnCount(t.Context())
			if n != 9996 {
				return fmt.Errorf("%d turns: %w", n, err)
			}
			return err
		},
		"turns of its midst": func() error {
			page, err := v.TurnPage(t.Context(), 0, 5000, 20)
			if len(page.Turns) != 20 || page.Turns[0].Entries[0].Text() == "" {
				return fmt.Errorf("%d turns: %w", len(page.Turns), err)
			}
			return err
		},
		"the end of its tree": func() error {
			sketch, err := v.Sketch(t.Context())
			if err != nil || len(sketch.Nodes) != 10_001 {
				return fmt.Errorf("%d nodes: %w", len(sketch.Nodes), err)
			}
			if err := sketch.Describe(t.Context(), []int{10_000, 9_999}); err != nil {
				return err
			}
			if n := sketch.Nodes[9_999]; n.Text == "" || n.Parent != 9_998 {
				return fmt.Errorf("%+v", n)
			}
			return nil
		},
		"its first entries": func() error {
			n := 0
			for _, err := range v.PathRange(t.Context(), 0, 1, 20) {
				if n++; err != nil {
					return err
				}
			}
			if n != 20 {
				return fmt.Errorf("%d entries", n)
			}
			return nil
		},
	} {
		m.lines = 0
		if err := do(); err != nil || m.lines > 600 {
			t.Errorf("%s read %d lines, %v", what, m.lines, err)
		}
	}
}

// Sessions that were written by a program that knew nothing of jumps.
func TestJumpsOfOldSessionsAreNotedLater(t *testing.T) {
	m := &metered{Backend: memory.New()}
	s := store.New(m, nil)
	id, open := longWithNotes(t, s, 40_000), longWithNotes(t, s, 8000)
	key := func(id tidemark.SessionID) tidemark.Key {
		return tidemark.Key{Kind: tidemark.KindJumps, ID: string(id)}
	}
	for _, id := range []tidemark.SessionID{id, open} {
		r, err := m.Get(t.Context(), key(id))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), Deletes: []tidemark.Precondition{{Key: r.Key, Version: r.Version}}}); err != nil {
			t.Fatal(err)
		}
	}
	w := attach(t, s, open, "somebody")
	var noted []tidemark.SessionID
	if err := s.NoteJumps(t.Context(), who("keeper"), func(i store.Info) { noted = append(noted, i.ID) }); err != nil {
		t.Fatal(err)
	}
	same(t, noted, []tidemark.SessionID{id})
	if r, err := m.Get(t.Context(), key(id)); err != nil || !strings.Contains(string(r.Body), `"up_to":40001`) {
		t.Errorf("the record says %s, %v", r.Body, err)
	}
	if _, err := m.Get(t.Context(), key(open)); err == nil {
		t.Error("a session that somebody has open was noted")
	}
	m.lines = 0
	if n, err := view(t, s, id).TurnCount(t.Context()); n != 19_996 || err != nil || m.lines > 600 {
		t.Errorf("%d turns with %d lines, %v", n, m.lines, err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A record of jumps that belongs to another log, or to one that was cut off, says nothing; and it goes
// with its session.
func TestJumpsOfAnotherLogAreNotBelieved(t *testing.T) {
	b := memory.New()
	s := store.New(b, nil)
	id := longWithNotes(t, s, 4000)
	key := tidemark.Key{Kind: tidemark.KindJumps, ID: string(id)}
	r, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	want := seqsIn(t, view(t, s, id).Path(t.Context(), 0))
	for _, body := range []string{`{"up_to":3000,"sum":1}`, `{"up_to":900000,"sum":1}`, `{"up_to":-5}`, `nonsense`, `{"up_to":4001,"sum":7,"jumps":[{"at":9,"parent":1}]}`} {
		r.Version++
		r.Body = []byte(body)
		r.Sum = r.Checksum()
		if _, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), Puts: []tidemark.Record{r}}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, seqsIn(t, view(t, s, id).Path(t.Context(), 0))); d != "" {
			t.Errorf("with %s: %s", body, d)
		}
	}
	// Who writes next puts it right.
	w := attach(t, s, id, "later")
	for range 150 {
		add(t, w, note("more"), user("more"))
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err = b.Get(t.Context(), key); err != nil || !strings.Contains(string(r.Body), `"up_to":4301`) {
		t.Errorf("the record says %s, %v", r.Body, err)
	}
	if err := s.Trash(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), id, who("purger")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), key); err == nil {
		t.Error("the record is there after its session was purged")
	}
}
