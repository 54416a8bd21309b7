package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

var errKilled = errors.New("killed")

// mortal is a store whose process dies at a commit, before it is carried out
// or after.
type mortal struct {
	*memory.Backend
	left  int
	after bool
}

func (m *mortal) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	m.left--
	if m.left < 0 || m.left == 0 && !m.after {
		return tidemark.Receipt{}, errKilled
	}
	r, err := m.Backend.Commit(ctx, b)
	if m.left == 0 {
		return r, errKilled
	}
	return r, err
}

// large fills a store that takes many commits to read.
func large(t testing.TB, be tidemark.Backend) *filler {
	f := small(t, be)
	for i := range 6 {
		id := fmt.Sprint("large", i)
		f.put(key("session", id), strings.Repeat("r", 1_500_000))
		for range 3 {
			f.lines(key("session", id), strings.Repeat("l", 900_000), "short", strings.Repeat("m", 800_000))
		}
	}
	return f
}

// killed reads an archive into a place that was made by begin, once for each
// commit that it can be killed at, then reads it again, and wants what is in
// want.
func killed(t *testing.T, data []byte, begin func() *memory.Backend, want tidemark.Backend, look func(tidemark.Backend)) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			dst := begin()
			place := &mortal{dst, n, after}
			_, err := archive.Read(ctx, bytes.NewReader(data), place, nil)
			if err == nil {
				if n < 6 {
					t.Errorf("only %d commits: the test kills too little", n)
				}
				same(t, want, dst)
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatalf("killed at commit %d: Read = %v", n, err)
			}
			look(dst)
			read(t, data, dst)
			same(t, want, dst)
		}
	}
}

func TestAReadThatWasKilledGoesOn(t *testing.T) {
	src := memory.New()
	large(t, src)
	data, _ := write(t, src, nil)
	killed(t, data, memory.New, src, func(be tidemark.Backend) { recordsHaveTheirLines(t, be) })
}

func TestAnIncrementThatWasKilledGoesOn(t *testing.T) {
	src := memory.New()
	f := large(t, src)
	whole, m := write(t, src, nil)
	f.delete(key("session", "a"))
	f.delete(key("session", "b"))
	f.lines(key("session", "b"), "began again")
	f.put(key("session", "large0"), strings.Repeat("new", 500_000))
	f.put(key("lease", "a"), "new")
	f.lines(key("session", "large1"), "more")
	f.lines(key("session", "new"), strings.Repeat("n", 5_000_000))
	data, _ := write(t, src, &archive.WriteOptions{Since: &m})
	begin := func() *memory.Backend {
		dst := memory.New()
		read(t, whole, dst)
		return dst
	}
	killed(t, data, begin, src, func(tidemark.Backend) {})
	// A base that was not read to its end is noticed.
	dst := memory.New()
	_, err := archive.Read(ctx, bytes.NewReader(whole), &mortal{dst, 7, true}, nil)
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if _, err := archive.Read(ctx, bytes.NewReader(data), dst, nil); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("an increment on half a base: Read = %v, want ErrConflict", err)
	}
}

// recordsHaveTheirLines wants every session that is visible to be whole.
func recordsHaveTheirLines(t testing.TB, be tidemark.Backend) {
	t.Helper()
	for r, err := range be.List(ctx, tidemark.Query{Kind: "session", Order: tidemark.ByID}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Head.Length == 0 {
			t.Errorf("%s is visible without its lines", r.Key)
		}
	}
}

func TestEveryArchiveThatWasCutOffIsRefused(t *testing.T) {
	src := memory.New()
	small(t, src)
	data, _ := write(t, src, nil)
	for n := range data {
		dst := memory.New()
		_, err := archive.Read(ctx, bytes.NewReader(data[:n]), dst, nil)
		switch {
		case n == 0:
			if !errors.Is(err, tidemark.ErrInvalid) {
				t.Errorf("an empty file: Read = %v, want ErrInvalid", err)
			}
		case !errors.Is(err, tidemark.ErrCorrupt) || !strings.Contains(err.Error(), "was cut off after"):
			t.Errorf("cut at byte %d: Read = %v", n, err)
		}
		if _, err := archive.Inspect(ctx, bytes.NewReader(data[:n])); err == nil {
			t.Errorf("cut at byte %d: Inspect finds nothing", n)
		}
		read(t, data, dst)
		same(t, src, dst)
	}
}

func TestEveryChangedByteIsFound(t *testing.T) {
	src := memory.New()
	small(t, src)
	data, _ := write(t, src, nil)
	want := all(t, src)
	for n := range data {
		for _, bit := range []byte{0x01, 0x80} {
			changed := bytes.Clone(data)
			changed[n] ^= bit
			dst := memory.New()
			_, err := archive.Read(ctx, bytes.NewReader(changed), dst, nil)
			if !errors.Is(err, tidemark.ErrCorrupt) && !errors.Is(err, tidemark.ErrInvalid) {
				t.Errorf("byte %d changed by %02x: Read = %v", n, bit, err)
			}
			for name, thing := range all(t, dst) {
				if thing != want[name] && !strings.HasSuffix(name, " head") {
					t.Errorf("byte %d changed by %02x: %s is kept as %s", n, bit, name, thing)
				}
			}
		}
	}
	if _, err := archive.Read(ctx, bytes.NewReader(append(bytes.Clone(data), 0)), memory.New(), nil); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("with a byte behind the end: Read = %v, want ErrCorrupt", err)
	}
}

func TestWhatDiffersIsAConflictAndStays(t *testing.T) {
	a := key("session", "a")
	for name, spoil := range map[string]func(*filler){
		"another record":  func(f *filler) { f.put(a, "mine") },
		"another line":    func(f *filler) { f.lines(a, "mine") },
		"another version": func(f *filler) { f.put(a, "x"); f.put(a, "y"); f.put(a, "z") },
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := memory.New(), memory.New()
			small(t, src)
			spoil(fill(t, dst))
			before := all(t, dst)
			data, _ := write(t, src, nil)
			for _, dry := range []bool{true, false} {
				_, err := archive.Read(ctx, bytes.NewReader(data), dst, &archive.ReadOptions{DryRun: dry})
				if !errors.Is(err, tidemark.ErrConflict) || !strings.Contains(err.Error(), a.String()) {
					t.Errorf("Read = %v, want ErrConflict that names %s", err, a)
				}
			}
			after := all(t, dst)
			for name, thing := range before {
				if after[name] != thing {
					t.Errorf("%s was overwritten: %s", name, after[name])
				}
			}
		})
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	src, dst := memory.New(), memory.New()
	large(t, src)
	data, wrote := write(t, src, nil)
	m, err := archive.Read(ctx, bytes.NewReader(data), dst, &archive.ReadOptions{DryRun: true})
	if err != nil || m.Lines != wrote.Lines {
		t.Errorf("Read = %+v, %v", m, err)
	}
	if n := len(all(t, dst)); n != 0 {
		t.Errorf("%d things were kept", n)
	}
}

func TestSealedAndPlainAreNotMixed(t *testing.T) {
	ring := key("keyring", "keyring")
	sealed := func(with string) *memory.Backend {
		be := memory.New()
		f := small(t, be)
		f.put(ring, with)
		return be
	}
	plain := memory.New()
	small(t, plain)
	fromPlain, _ := write(t, plain, nil)
	fromSealed, m := write(t, sealed("one"), nil)
	if !m.Sealed || !m.Keyring {
		t.Errorf("manifest %+v", m)
	}
	for name, c := range map[string]struct {
		data []byte
		into *memory.Backend
	}{
		"a plain archive into a sealed store": {fromPlain, sealed("one")},
		"a sealed archive into a plain store": {fromSealed, plain.Again()},
		"an archive with other keys":          {fromSealed, sealed("two")},
	} {
		before := all(t, c.into)
		if _, err := archive.Read(ctx, bytes.NewReader(c.data), c.into, nil); !errors.Is(err, tidemark.ErrConflict) || !strings.Contains(err.Error(), "sealed") {
			t.Errorf("%s: Read = %v, want ErrConflict", name, err)
		}
		if d := cmp.Diff(before, all(t, c.into)); d != "" {
			t.Errorf("%s: the target changed: %s", name, d)
		}
	}
	// An increment does not bring the keyring, and still wants the same one.
	src := sealed("one")
	_, base := write(t, src, nil)
	increment, m := write(t, src, &archive.WriteOptions{Since: &base})
	if !m.Sealed || m.Keyring {
		t.Errorf("manifest %+v", m)
	}
	if _, err := archive.Read(ctx, bytes.NewReader(increment), sealed("two"), nil); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("an increment into other keys: Read = %v, want ErrConflict", err)
	}
}

func TestAWriterThatTakesNoMoreEndsTheWriting(t *testing.T) {
	src := memory.New()
	large(t, src)
	data, _ := write(t, src, nil)
	for _, n := range []int{0, 5, 20, 1000, len(data) - 40, len(data) - 1} {
		w := &full{left: n}
		_, err := archive.Write(ctx, w, src, nil)
		// Each archive has a time in it, so that one may be a few bytes shorter than
		// another, and fit.
		if errors.Is(err, errFull) != w.refused || !w.refused && n < len(data)-40 {
			t.Errorf("after %d bytes: Write = %v", n, err)
		}
	}
}

var errFull = errors.New("no room")

type full struct {
	left    int
	refused bool
}

func (w *full) Write(b []byte) (int, error) {
	if len(b) > w.left {
		n := w.left
		w.left, w.refused = 0, true
		return n, errFull
	}
	w.left -= len(b)
	return len(b), nil
}

// spoiled is a store in which a record is damaged.
type spoiled struct {
	*memory.Backend
	record tidemark.Key
}

func (s *spoiled) Get(ctx context.Context, k tidemark.Key) (tidemark.Record, error) {
	if k == s.record {
		return tidemark.Record{Key: k, Version: 1}, &tidemark.Damage{Key: k, What: "spoiled"}
	}
	return s.Backend.Get(ctx, k)
}

func TestDamageIsToldAndTheRestIsWritten(t *testing.T) {
	src := memory.New()
	small(t, src)
	place := &spoiled{Backend: src, record: key("session", "b")}
	if _, err := archive.Write(ctx, new(bytes.Buffer), place, nil); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Write = %v, want ErrCorrupt", err)
	}
	var told []string
	data, m := write(t, place, &archive.WriteOptions{Damaged: func(err error) { told = append(told, err.Error()) }})
	if len(told) != 1 || m.Damaged != 1 {
		t.Errorf("told %q", told)
	}
	dst := memory.New()
	read(t, data, dst)
	if got, want := len(all(t, dst)), len(all(t, src)); got != want { // a listing still finds the record
		t.Errorf("%d of %d things came", got, want)
	}
}
