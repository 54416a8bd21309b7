package cold

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
)

// shelf is a place in memory whose keeper may be asleep, lie, or die.
type shelf struct {
	mu     sync.Mutex
	blobs  map[string][]byte
	asleep bool
	before func(call, name string) error // what a call fails with
	reads  int
}

var errAsleep = tidemark.Storagef("nobody answers")

func newShelf() *shelf { return &shelf{blobs: make(map[string][]byte)} }

func (s *shelf) open(context.Context, string) (Place, error) { return s, nil }

func (s *shelf) call(call, name string) error {
	if s.before != nil {
		if err := s.before(call, name); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asleep {
		return errAsleep
	}
	return nil
}

func (s *shelf) Get(_ context.Context, name string) ([]byte, error) {
	if err := s.call("get", name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	data, ok := s.blobs[name]
	if !ok {
		return nil, tidemark.NotFoundf("%s: not found", name)
	}
	return slices.Clone(data), nil
}

func (s *shelf) PutNew(_ context.Context, name string, data []byte) error {
	if err := s.call("put", name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.blobs[name]; there {
		return tidemark.Existsf("%s: there", name)
	}
	s.blobs[name] = slices.Clone(data)
	return nil
}

func (s *shelf) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := s.call("list", prefix); err != nil {
			yield("", err)
			return
		}
		for _, name := range s.names() {
			if strings.HasPrefix(name, prefix) && !yield(name, nil) {
				return
			}
		}
	}
}

func (s *shelf) Delete(_ context.Context, name string) error {
	if err := s.call("delete", name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.blobs, name)
	return nil
}

func (s *shelf) Close() error { return nil }

func (s *shelf) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.blobs))
}

func (s *shelf) sleep(asleep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep = asleep
}

// tiny moves nearly everything, in segments of a few lines.
var tiny = limits{hot: 1, least: 1, segment: 600, here: 600}

// over returns a Backend that moves nearly everything when it is told to.
func over(inner tidemark.Backend, s *shelf) *Backend {
	b := Over(inner, NewPlaces(s.open), "shelf:")
	b.limits = tiny
	return b
}

// eager is a Backend that moves the lines of a log as soon as they are there.
type eager struct {
	*Backend
	t testing.TB
}

func (e *eager) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	r, err := e.Backend.Commit(ctx, batch)
	if err != nil {
		return r, err
	}
	for _, a := range batch.Appends {
		if !movable(a.Log) {
			continue
		}
		if _, err := e.Move(context.Background(), a.Log); err != nil && !errors.Is(err, tidemark.ErrConflict) && !errors.Is(err, tidemark.ErrNotFound) {
			e.t.Errorf("Move(%s) = %v", a.Log, err)
		}
	}
	return r, nil
}

// TestBackend runs the suite on a Backend nearly all of whose lines are elsewhere.
func TestBackend(t *testing.T) {
	for name, place := range map[string]backendtest.Place{
		"memory": func(testing.TB) func() tidemark.Backend {
			b := memory.New()
			return func() tidemark.Backend { return b.Again() }
		},
		"sqlite": func(t testing.TB) func() tidemark.Backend {
			path := t.TempDir() + "/tidemark.db"
			return func() tidemark.Backend {
				b, err := sqlite.Open(context.Background(), path, &sqlite.Options{Create: true})
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
		},
		"files": func(t testing.TB) func() tidemark.Backend {
			dir := t.TempDir()
			return func() tidemark.Backend {
				b, err := files.Open(context.Background(), dir, &files.Options{Create: true})
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
		},
	} {
		for _, url := range []string{"shelf:", Here} {
			t.Run(name+" to "+url, func(t *testing.T) {
				backendtest.Run(t, func(t testing.TB) func() tidemark.Backend {
					open, s := place(t), newShelf()
					return func() tidemark.Backend {
						b := over(open(), s)
						b.url, b.limits.segment, b.limits.here = url, 20_000, 20_000 // a long log is not to have thousands
						return &eager{b, t}
					}
				})
			})
		}
	}
}

var log = tidemark.Key{Kind: "session", ID: "7f3a"}

// talk returns an append of lines of some length, every third with a key.
func talk(from, to int64) tidemark.Append {
	a := tidemark.Append{Log: log}
	for seq := from; seq <= to; seq++ {
		l := backendtest.NewLine(log, seq, fmt.Sprintf(`{"n":%d,"text":%q}`, seq, strings.Repeat("canary ", 20)))
		if seq%3 == 0 {
			l.Key = fmt.Sprint("key-", seq)
		}
		l.Sum = l.Checksum(log)
		a.Lines = append(a.Lines, l)
	}
	return a
}

func commit(t *testing.T, b tidemark.Backend, change func(*tidemark.Batch)) {
	t.Helper()
	batch := newBatch()
	change(&batch)
	if _, err := b.Commit(t.Context(), batch); err != nil {
		t.Fatalf("Commit = %v", err)
	}
}

// quiet returns a Backend with a session of n lines, all but one of which were moved.
func quiet(t *testing.T, inner tidemark.Backend, s *shelf, n int64) (*Backend, []tidemark.Line) {
	t.Helper()
	b := over(inner, s)
	commit(t, b, func(x *tidemark.Batch) {
		x.Puts = []tidemark.Record{backendtest.NewRecord(log, 1, `{}`)}
		x.Appends = []tidemark.Append{talk(1, n)}
	})
	want := read(t, b)
	did, err := b.Move(t.Context(), log)
	if err != nil || did.Lines != n-1 || did.Packed == 0 || did.Bytes == 0 {
		t.Fatalf("Move = %+v, %v", did, err)
	}
	if r, err := inner.Get(t.Context(), log); err != nil || r.Head.Trimmed != n-1 {
		t.Fatalf("underneath: %+v, %v", r.Head, err)
	}
	return b, want
}

func read(t *testing.T, b tidemark.Backend, spans ...tidemark.Span) (lines []tidemark.Line) {
	t.Helper()
	for l, err := range b.Lines(t.Context(), log, spans...) {
		if err != nil {
			t.Fatalf("Lines = %v", err)
		}
		lines = append(lines, l)
	}
	return lines
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func TestOnlyTheSegmentsOfARangeAreRead(t *testing.T) {
	s := newShelf()
	b, want := quiet(t, memory.New(), s, 60)
	if n := len(s.names()); n < 10 {
		t.Fatalf("%d segments", n)
	}
	s.reads = 0
	b.places = NewPlaces(s.open)
	same(t, read(t, b, tidemark.Span{From: 30, To: 31}), want[29:31])
	if s.reads > 2 {
		t.Errorf("%d segments were read for two lines", s.reads)
	}
	s.reads = 0
	same(t, read(t, b, tidemark.Span{From: 30, To: 31}), want[29:31])
	same(t, read(t, b, tidemark.Span{Newest: 1}), want[59:])
	if s.reads != 0 {
		t.Errorf("%d segments were read again", s.reads)
	}
	same(t, read(t, b), want)
	same(t, read(t, b, tidemark.Span{From: 58}, tidemark.Span{To: 61, Newest: 4, Backwards: true}, tidemark.Span{From: 2, To: 3}),
		[]tidemark.Line{want[57], want[58], want[59], want[59], want[58], want[57], want[56], want[1], want[2]})
}

func TestAPlaceThatLiesIsDamageAndNeverOtherContent(t *testing.T) {
	for name, lie := range map[string]func(s *shelf, name, other string){
		"missing":   func(s *shelf, name, _ string) { delete(s.blobs, name) },
		"truncated": func(s *shelf, name, _ string) { s.blobs[name] = s.blobs[name][:len(s.blobs[name])/2] },
		"empty":     func(s *shelf, name, _ string) { s.blobs[name] = nil },
		"flipped":   func(s *shelf, name, _ string) { s.blobs[name][len(s.blobs[name])/2] ^= 1 },
		"swapped":   func(s *shelf, name, other string) { s.blobs[name] = s.blobs[other] },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf()
			b, want := quiet(t, memory.New(), s, 30)
			c, err := b.find(t.Context(), log)
			if err != nil {
				t.Fatal(err)
			}
			bad := c.Segments[2]
			lie(s, bad.Name, c.Segments[3].Name)
			b.places = NewPlaces(s.open)
			damaged := 0
			for i, err := range b.Lines(t.Context(), log) {
				var d *tidemark.Damage
				inside := i.Seq >= bad.First && i.Seq <= bad.Last
				switch {
				case inside && (!errors.As(err, &d) || d.Seq != i.Seq || d.Key != log || !strings.Contains(d.Place, bad.Name)):
					t.Errorf("line %d of a bad segment: %v", i.Seq, err)
				case inside:
					damaged++
				case err != nil:
					t.Errorf("line %d: %v", i.Seq, err)
				default:
					same(t, i, want[i.Seq-1])
				}
			}
			if int64(damaged) != bad.Last-bad.First+1 {
				t.Errorf("%d lines are damaged", damaged)
			}
			// What cannot be brought back whole is not brought back, and the log says why.
			batch := newBatch()
			batch.Appends = []tidemark.Append{talk(31, 31)}
			if _, err := b.Commit(t.Context(), batch); !errors.Is(err, tidemark.ErrCorrupt) {
				t.Errorf("an append = %v", err)
			}
			same(t, read(t, b, tidemark.Span{From: 30}), want[29:])
		})
	}
}

func TestAPlaceThatIsGoneLeavesWhatIsHere(t *testing.T) {
	s := newShelf()
	b, want := quiet(t, memory.New(), s, 30)
	b.places = NewPlaces(s.open)
	reads := s.reads
	s.sleep(true)
	same(t, read(t, b, tidemark.Span{Newest: 1}), want[29:])
	if r, err := b.Get(t.Context(), log); err != nil || r.Head.Length != 30 || r.Head.Trimmed != 0 {
		t.Errorf("Get = %+v, %v", r, err)
	}
	n := 0
	for _, err := range b.Lines(t.Context(), log) {
		n++
		if !errors.Is(err, tidemark.ErrStorage) || !strings.Contains(err.Error(), "shelf:") {
			t.Errorf("Lines = %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
	batch := newBatch()
	batch.Appends = []tidemark.Append{talk(31, 31)}
	if _, err := b.Commit(t.Context(), batch); !errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("an append = %v", err)
	}
	commit(t, b, func(x *tidemark.Batch) { x.Puts = []tidemark.Record{backendtest.NewRecord(log, 2, `{}`)} })
	s.sleep(false)
	// Whoever reads a moment later does not wait for it again; then it is asked.
	for _, err := range b.Lines(t.Context(), log) {
		if !errors.Is(err, tidemark.ErrColdAway) {
			t.Errorf("Lines = %v", err)
		}
	}
	same(t, s.reads, reads)
	b.places.now = func() time.Time { return time.Now().Add(silentFor) }
	commit(t, b, func(x *tidemark.Batch) { x.Appends = []tidemark.Append{talk(31, 31)} })
	same(t, read(t, b)[:30], want)
	same(t, s.names(), []string(nil))
	if c := b.places.Counts(); c.FailedReads != 3 || c.Reads == 0 || c.Read == 0 {
		t.Errorf("Counts = %+v", c)
	}
}

func TestAnAppendKnowsKeysThatWereAway(t *testing.T) {
	s := newShelf()
	b, _ := quiet(t, memory.New(), s, 30)
	batch := newBatch()
	again := talk(31, 31)
	again.Lines[0].Key = "key-6"
	again.Lines[0].Sum = again.Lines[0].Checksum(log)
	batch.Appends = []tidemark.Append{again}
	r, err := b.Commit(t.Context(), batch)
	if !errors.Is(err, tidemark.ErrExists) {
		t.Fatalf("Commit = %v", err)
	}
	same(t, r.Duplicates, []tidemark.Duplicate{{Log: log, Key: "key-6", Seq: 6}})
}

func TestAPurgeLeavesNothingAtThePlace(t *testing.T) {
	drop := func(x *tidemark.Batch) {
		x.Drops = []tidemark.Key{log, {Kind: "notes", ID: log.ID}}
		x.Deletes = []tidemark.Precondition{{Key: log, Version: 1}}
	}
	t.Run("at once", func(t *testing.T) {
		s := newShelf()
		b, _ := quiet(t, memory.New(), s, 30)
		commit(t, b, drop)
		same(t, s.names(), []string(nil))
		if err := b.Left(t.Context()); err != nil {
			t.Error(err)
		}
		if st, err := b.Status(t.Context()); err != nil || st.Logs+st.Segments+st.Left != 0 {
			t.Errorf("Status = %+v, %v", st, err)
		}
		commit(t, b, func(x *tidemark.Batch) { x.Appends = []tidemark.Append{talk(1, 2)} })
	})
	t.Run("when the place answers again", func(t *testing.T) {
		s := newShelf()
		b, _ := quiet(t, memory.New(), s, 30)
		s.sleep(true)
		commit(t, b, drop)
		if err := b.Left(t.Context()); !errors.Is(err, tidemark.ErrStorage) || !strings.Contains(err.Error(), "shelf:") {
			t.Errorf("Left = %v", err)
		}
		if n, err := b.Sweep(t.Context()); n != 0 || !errors.Is(err, tidemark.ErrStorage) {
			t.Errorf("Sweep = %d, %v", n, err)
		}
		s.sleep(false)
		there := len(s.names())
		if n, err := b.Sweep(t.Context()); n != there || n == 0 || err != nil {
			t.Errorf("Sweep = %d, %v, of %d", n, err, there)
		}
		same(t, s.names(), []string(nil))
		if err := b.Left(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestADeathAnywhereLosesNothing ends a move, a way back and a purge at each call of
// the place and after it, as a kill would: nothing is done after it by that program.
func TestADeathAnywhereLosesNothing(t *testing.T) {
	errDead := errors.New("dead")
	for name, work := range map[string]func(context.Context, *Backend) error{
		"move": func(ctx context.Context, b *Backend) error { _, err := b.Move(ctx, log); return err },
		"back": func(ctx context.Context, b *Backend) error {
			if _, err := b.Move(ctx, log); err != nil {
				return err
			}
			return b.BringBack(ctx, log)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for at := 0; ; at++ {
				inner, s := memory.New(), newShelf()
				b := over(inner, s)
				commit(t, b, func(x *tidemark.Batch) {
					x.Puts = []tidemark.Record{backendtest.NewRecord(log, 1, `{}`)}
					x.Appends = []tidemark.Append{talk(1, 12)}
				})
				want := read(t, b)
				calls, dead := 0, false
				s.before = func(string, string) error {
					if calls++; calls > at {
						dead = true
						return errDead // it, and all that follows
					}
					return nil
				}
				work(t.Context(), &Backend{inner: mortal{inner, &dead}, places: NewPlaces(s.open), url: b.url, limits: tiny})
				died := dead
				s.before = nil
				next := over(inner, s)
				same(t, read(t, next), want)
				next.places.now = func() time.Time { return time.Now().Add(30 * time.Hour) }
				if _, err := next.Sweep(t.Context()); err != nil {
					t.Fatalf("Sweep = %v", err)
				}
				same(t, read(t, over(inner, s)), want)
				st, err := next.Status(t.Context())
				if err != nil || st.Segments != len(s.names()) {
					t.Fatalf("after death at call %d: %d objects, %+v, %v", at, len(s.names()), st, err)
				}
				for err := range next.Check(t.Context()) {
					t.Errorf("Check: %v", err)
				}
				if !died {
					return
				}
			}
		})
	}
}

// mortal commits nothing once it is dead.
type mortal struct {
	tidemark.Backend
	dead *bool
}

func (m mortal) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if *m.dead {
		return tidemark.Receipt{}, errors.New("dead")
	}
	return m.Backend.Commit(ctx, b)
}

func TestTheSweepLeavesWhatIsYoungAndWhatIsOfOthers(t *testing.T) {
	s := newShelf()
	b, want := quiet(t, memory.New(), s, 12)
	other, theirs := quiet(t, memory.New(), s, 12)
	prefix, err := b.prefix(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	young := prefix + time.Now().UTC().Format(hourForm) + "/" + random()
	old := prefix + time.Now().UTC().Add(-26*time.Hour).Format(hourForm) + "/" + random()
	s.blobs[young], s.blobs[old] = []byte("x"), []byte("x")
	before := len(s.names())
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil || s.blobs[old] != nil || len(s.names()) != before-1 {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	b.places, other.places = NewPlaces(s.open), NewPlaces(s.open)
	same(t, read(t, b), want)
	same(t, read(t, other), theirs)
}

func TestNamesAtThePlaceSayNothing(t *testing.T) {
	s := newShelf()
	quiet(t, memory.New(), s, 30)
	for _, name := range s.names() {
		if strings.Contains(name, log.ID) || strings.Trim(name, "0123456789abcdef/") != "" {
			t.Errorf("an object is called %s", name)
		}
	}
}

func TestNobodyAboveSeesOrChangesTheRecords(t *testing.T) {
	b, _ := quiet(t, memory.New(), newShelf(), 30)
	if _, err := b.Get(t.Context(), keyOf(log)); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("Get = %v", err)
	}
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: Kind}) {
		t.Errorf("List yields %v, %v", r, err)
	}
	for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
		if k.Kind == Kind || err != nil {
			t.Errorf("Walk yields %v, %v", k, err)
		}
	}
	for _, change := range []func(*tidemark.Batch){
		func(x *tidemark.Batch) { x.Puts = []tidemark.Record{backendtest.NewRecord(keyOf(log), 2, `{}`)} },
		func(x *tidemark.Batch) { x.Deletes = []tidemark.Precondition{{Key: keyOf(log), Version: 1}} },
		func(x *tidemark.Batch) { x.Drops = []tidemark.Key{keyOf(log)} },
	} {
		batch := newBatch()
		change(&batch)
		if _, err := b.Commit(t.Context(), batch); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("Commit = %v", err)
		}
	}
}

func TestFewLinesStayAndALongLogIsMovedInParts(t *testing.T) {
	inner, s := memory.New(), newShelf()
	b := Over(inner, NewPlaces(s.open), "shelf:")
	commit(t, b, func(x *tidemark.Batch) { x.Appends = []tidemark.Append{talk(1, 80)} })
	if did, err := b.Move(t.Context(), log); err != nil || did != (Moved{}) || len(s.names()) != 0 {
		t.Errorf("few lines: %+v, %v", did, err)
	}
	b.limits = limits{hot: 64, least: 1000, segment: 300}
	commit(t, b, func(x *tidemark.Batch) { x.Appends = []tidemark.Append{talk(81, 200)} })
	want := read(t, b)
	did, err := b.Move(t.Context(), log)
	if err != nil || did.Lines != 136 || len(s.names()) <= atOnce {
		t.Fatalf("%+v, %v, %d objects", did, err, len(s.names()))
	}
	same(t, read(t, b), want)
	var quiet []tidemark.Key
	for r, err := range b.Quiet(t.Context(), time.Now().Add(time.Hour)) {
		if err != nil {
			t.Fatal(err)
		}
		quiet = append(quiet, r.Key)
	}
	same(t, quiet, []tidemark.Key(nil)) // it has no record, so it is no session's
}
