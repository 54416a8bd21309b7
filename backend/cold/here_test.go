package cold

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

// packed returns a Backend with a session of n lines, all but one of which are packed in
// the store itself.
func packed(t *testing.T, inner tidemark.Backend, s *shelf, n int64) (*Backend, []tidemark.Line) {
	t.Helper()
	b := over(inner, s).To(Here)
	commit(t, b, func(x *tidemark.Batch) {
		x.Puts = []tidemark.Record{backendtest.NewRecord(log, 1, `{}`)}
		x.Appends = []tidemark.Append{talk(1, n)}
	})
	want := read(t, b)
	if did, err := b.Move(t.Context(), log); err != nil || did.Lines != n-1 || did.Packed == 0 {
		t.Fatalf("Move = %+v, %v", did, err)
	}
	return b, want
}

// later is after everything that a test did.
func later() time.Time { return time.Now().Add(time.Hour) }

// kept returns what a Backend has of this package's kind.
func kept(t *testing.T, inner tidemark.Backend) (keys []tidemark.Key) {
	t.Helper()
	for k, err := range inner.Walk(t.Context(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		if k.Kind == Kind {
			keys = append(keys, k)
		}
	}
	return keys
}

func TestLinesArePackedInTheStoreItself(t *testing.T) {
	inner, s := memory.New(), newShelf()
	b, want := packed(t, inner, s, 60)
	if n := len(kept(t, inner)); n < 10 || len(s.names()) != 0 {
		t.Fatalf("%d keys, %q elsewhere", n, s.names())
	}
	if r, err := inner.Get(t.Context(), log); err != nil || r.Head.Trimmed != 59 {
		t.Errorf("underneath: %+v, %v", r.Head, err)
	}
	b.places = NewPlaces(s.open)
	same(t, read(t, b, tidemark.Span{From: 30, To: 31}), want[29:31])
	same(t, read(t, b), want)
	backwards := read(t, b, tidemark.Span{Backwards: true})
	slices.Reverse(backwards)
	same(t, backwards, want)
	for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
		if k.Kind == Kind || err != nil {
			t.Errorf("whoever walks sees %s, %v", k, err)
		}
	}
	st, err := b.Status(t.Context())
	if err != nil || st.Lines != 59 || st.Places[Here] != st.Packed || st.Packed == 0 {
		t.Errorf("Status = %+v, %v", st, err)
	}
	for err := range b.Check(t.Context()) {
		t.Errorf("Check: %v", err)
	}
	for range 2 {
		if n, err := b.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("Sweep = %d, %v", n, err)
		}
	}

	// Whoever goes on with it knows all keys, and has it whole.
	again := talk(61, 61)
	again.Lines[0].Key = "key-6"
	again.Lines[0].Sum = again.Lines[0].Checksum(log)
	batch := newBatch()
	batch.Appends = []tidemark.Append{again}
	if r, err := b.Commit(t.Context(), batch); !errors.Is(err, tidemark.ErrExists) || len(r.Duplicates) != 1 || r.Duplicates[0].Seq != 6 {
		t.Errorf("a repeated key: %+v, %v", r, err)
	}
	commit(t, b, func(x *tidemark.Batch) { x.Appends = []tidemark.Append{talk(61, 61)} })
	same(t, read(t, b)[:60], want)
	same(t, kept(t, inner), []tidemark.Key{keyOf(log)})
	commit(t, b, func(x *tidemark.Batch) { x.Drops = []tidemark.Key{log} })
	same(t, kept(t, inner), []tidemark.Key(nil))
}

func TestAPurgeTakesWhatIsPackedWithIt(t *testing.T) {
	drop := func(x *tidemark.Batch) {
		x.Drops = []tidemark.Key{log}
		x.Deletes = []tidemark.Precondition{{Key: log, Version: 1}}
	}
	for name, before := range map[string]func(t *testing.T, inner tidemark.Backend, b *Backend){
		"packed": func(*testing.T, tidemark.Backend, *Backend) {},
		"with a record that cannot be read": func(t *testing.T, inner tidemark.Backend, _ *Backend) {
			commit(t, inner, func(x *tidemark.Batch) {
				x.Puts = []tidemark.Record{backendtest.NewRecord(keyOf(log), 2, `{"segments":`)}
			})
		},
		"noted as gone by an older program": func(t *testing.T, inner tidemark.Backend, b *Backend) {
			c, err := b.find(t.Context(), log)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range c.Segments {
				c.Gone = append(c.Gone, s.Object)
			}
			c.Segments = nil
			commit(t, inner, func(x *tidemark.Batch) {
				put, err := c.put()
				if err != nil {
					t.Fatal(err)
				}
				x.Puts = []tidemark.Record{put}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := memory.New()
			b, _ := packed(t, inner, newShelf(), 30)
			before(t, inner, b)
			commit(t, b, drop)
			for _, k := range kept(t, inner) {
				if _, name, ok := segmentOf(k); ok {
					t.Errorf("segment %s is left", name)
				}
			}
			if err := b.Left(t.Context()); err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				t.Errorf("Left = %v", err)
			}
		})
	}
}

func TestWhatIsPackedAndDamagedIsNeverOtherContent(t *testing.T) {
	for name, lie := range map[string]func(x *tidemark.Batch, bad, other tidemark.Key, content tidemark.Line){
		"missing": func(x *tidemark.Batch, bad, _ tidemark.Key, _ tidemark.Line) { x.Drops = []tidemark.Key{bad} },
		"of another segment": func(x *tidemark.Batch, bad, _ tidemark.Key, content tidemark.Line) {
			content.Seq = 2 // behind what is there
			content.Sum = content.Checksum(bad)
			x.Appends = []tidemark.Append{{Log: bad, Lines: []tidemark.Line{content}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := memory.New()
			b, want := packed(t, inner, newShelf(), 30)
			c, err := b.find(t.Context(), log)
			if err != nil {
				t.Fatal(err)
			}
			bad, other := c.Segments[2], hereKey(log, c.Segments[3].Name)
			var content tidemark.Line
			for l, err := range inner.Lines(t.Context(), other) {
				if content = l; err != nil {
					t.Fatal(err)
				}
			}
			commit(t, inner, func(x *tidemark.Batch) { lie(x, hereKey(log, bad.Name), other, content) })
			b.places = NewPlaces(nil)
			damaged := int64(0)
			for l, err := range b.Lines(t.Context(), log) {
				switch inside := l.Seq >= bad.First && l.Seq <= bad.Last; {
				case inside && errors.Is(err, tidemark.ErrCorrupt):
					damaged++
				case inside || err != nil:
					t.Errorf("line %d: %v", l.Seq, err)
				default:
					same(t, l, want[l.Seq-1])
				}
			}
			if damaged != bad.Last-bad.First+1 {
				t.Errorf("%d lines are damaged", damaged)
			}
			if _, err := over(inner, newShelf()).Move(t.Context(), log); !errors.Is(err, tidemark.ErrCorrupt) {
				t.Errorf("Move = %v", err)
			}
		})
	}
}

// What is packed goes on to a place, and a death at any call on the way loses nothing.
func TestWhatIsPackedGoesOnToAPlace(t *testing.T) {
	for at := 0; ; at++ {
		inner, s := memory.New(), newShelf()
		b, want := packed(t, inner, s, 30)
		commit(t, b, func(x *tidemark.Batch) {
			x.Puts = []tidemark.Record{backendtest.NewRecord(log, 2, `{}`)}
		})
		to := over(inner, s)
		to.limits.segment = 2000
		found := 0
		for r, err := range to.Quiet(t.Context(), later()) {
			would, failed := to.Would(t.Context(), r)
			if found++; err != nil || failed != nil || r.Key != log || would.Lines != 29 {
				t.Fatalf("Quiet yields %s, of which %+v would move: %v, %v", r.Key, would, err, failed)
			}
		}
		for r := range b.Quiet(t.Context(), later()) {
			t.Fatalf("%s is to be packed again", r.Key)
		}
		if found != 1 {
			t.Fatalf("%d logs are quiet", found)
		}
		calls, dead := 0, false
		s.before = func(string, string) error {
			if calls++; calls > at {
				dead = true
				return errors.New("dead")
			}
			return nil
		}
		to.inner = mortal{inner, &dead}
		did, err := to.Move(t.Context(), log)
		s.before = nil
		next := over(inner, s)
		same(t, read(t, next), want)
		for err := range next.Check(t.Context()) {
			t.Errorf("Check: %v", err)
		}
		if dead {
			continue
		}
		if err != nil || did.Lines != 29 || len(kept(t, inner)) != 2 { // what says where lines are, and the name of the place
			t.Errorf("Move = %+v, %v, and %v are left", did, err, kept(t, inner))
		}
		if n := len(s.names()); n < 2 || n > 4 {
			t.Errorf("%d objects", n)
		}
		if err := next.BringBack(t.Context(), log); err != nil {
			t.Error(err)
		}
		same(t, read(t, next), want)
		same(t, s.names(), []string(nil))
		return
	}
}

func TestTheSweepDropsSegmentsThatNothingNamesAndNoOthers(t *testing.T) {
	inner := memory.New()
	b, want := packed(t, inner, newShelf(), 30)
	orphan := hereKey(log, random())
	leave := func() {
		commit(t, inner, func(x *tidemark.Batch) { x.Appends = []tidemark.Append{pieces(log, segmentName(orphan), []byte("x"))} })
	}
	leave()
	before := kept(t, inner)
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil || slices.Contains(kept(t, inner), orphan) || len(kept(t, inner)) != len(before)-1 {
		t.Errorf("Sweep = %d, %v, and %v are left", n, err, kept(t, inner))
	}
	same(t, read(t, b), want)

	// When nothing says where lines are, what there is may be all that has them.
	c, err := b.find(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	commit(t, inner, func(x *tidemark.Batch) {
		x.Deletes = []tidemark.Precondition{{Key: keyOf(log), Version: c.version}}
	})
	before = kept(t, inner)
	if n, err := b.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	same(t, kept(t, inner), before)
	commit(t, inner, func(x *tidemark.Batch) { x.Drops = []tidemark.Key{log} })
	if n, err := b.Sweep(t.Context()); n != len(before) || err != nil {
		t.Errorf("Sweep = %d, %v, of %d", n, err, len(before))
	}
}

func segmentName(k tidemark.Key) string {
	_, name, _ := segmentOf(k)
	return name
}

func TestALineThatFillsManyPiecesComesBackWhole(t *testing.T) {
	inner := memory.New()
	b := over(inner, newShelf()).To(Here)
	noise := make([]byte, 2*pieceBytes+1)
	for i, x := 0, uint64(1); i < len(noise); i++ {
		x = x*6364136223846793005 + 1442695040888963407
		noise[i] = byte(x >> 56)
	}
	a := talk(1, 3)
	a.Lines[1].Body = noise
	a.Lines[1].Sum = a.Lines[1].Checksum(log)
	commit(t, b, func(x *tidemark.Batch) { x.Appends = []tidemark.Append{a} })
	want := read(t, b)
	if did, err := b.Move(t.Context(), log); err != nil || did.Lines != 2 {
		t.Fatalf("Move = %+v, %v", did, err)
	}
	if got := read(t, b); len(got) != 3 || string(got[1].Body) != string(want[1].Body) {
		t.Error("it is not what it was")
	}
}

func TestSealedLinesAreNotPacked(t *testing.T) {
	b := over(memory.New(), newShelf())
	a := talk(1, 9)
	for i := range a.Lines {
		a.Lines[i].Chain = []byte("a chain")
		a.Lines[i].Sum = a.Lines[i].Checksum(log)
	}
	commit(t, b, func(x *tidemark.Batch) {
		x.Puts, x.Appends = []tidemark.Record{backendtest.NewRecord(log, 1, `{}`)}, []tidemark.Append{a}
	})
	count := func(b *Backend) (n int) {
		for _, err := range b.Quiet(context.Background(), later()) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	if here, elsewhere := count(b.To(Here)), count(b); here != 0 || elsewhere != 1 {
		t.Errorf("%d and %d logs are quiet", here, elsewhere)
	}
}

func TestALongLogHasFewSegmentsInTheStore(t *testing.T) {
	b := Over(memory.New(), NewPlaces(nil), Here)
	for segments, want := range map[int]int{0: 128 << 10, 63: 128 << 10, 64: 256 << 10, 200: 1 << 20, 100_000: 1 << 20} {
		if got := b.segmentBytes(segments); got != want {
			t.Errorf("after %d segments the next has %d bytes, want %d", segments, got, want)
		}
	}
}
