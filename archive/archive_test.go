package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
)

var (
	ctx   = context.Background()
	begun = time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)
)

func key(kind, id string) tidemark.Key { return tidemark.Key{Kind: kind, ID: id} }

// filler makes stores that look like those of people: sessions with logs,
// notes without records, records that were put several times, things deleted.
type filler struct {
	testing.TB
	be   tidemark.Backend
	now  time.Time
	made int
}

func fill(t testing.TB, be tidemark.Backend) *filler { return &filler{TB: t, be: be, now: begun} }

func (f *filler) commit(b tidemark.Batch) {
	f.Helper()
	f.now = f.now.Add(1234567 * time.Microsecond)
	b.ID, b.At = tidemark.NewBatchID(), f.now
	if _, err := f.be.Commit(ctx, b); err != nil {
		f.Fatalf("Commit = %v", err)
	}
}

func (f *filler) at(k tidemark.Key) tidemark.Record {
	f.Helper()
	r, err := f.be.Get(ctx, k)
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		f.Fatal(err)
	}
	return r
}

func (f *filler) put(k tidemark.Key, body string) {
	f.Helper()
	f.made++
	r := tidemark.Record{Key: k, Version: f.at(k).Version + 1, Body: []byte(body), Group: "g\xff", State: "live"}
	if f.made%2 == 0 {
		r.Group, r.State, r.Due = "", "", f.now.Add(time.Hour)
	}
	r.Sum = r.Checksum()
	f.commit(tidemark.Batch{Puts: []tidemark.Record{r}})
}

func (f *filler) lines(log tidemark.Key, bodies ...string) {
	f.Helper()
	a := tidemark.Append{Log: log}
	length := f.at(log).Head.Length
	for i, body := range bodies {
		f.made++
		l := tidemark.Line{Seq: length + int64(i) + 1, Kind: "user", At: f.now, Body: []byte(body),
			Position: tidemark.Position{Parent: length + int64(i), Depth: 3, Nodes: 2, Turn: 1}}
		if f.made%3 == 0 {
			l.Key, l.Chain = fmt.Sprintf("key-%d", f.made), []byte{1, 2, byte(f.made)}
		}
		l.Sum = l.Checksum(log)
		a.Lines = append(a.Lines, l)
	}
	f.commit(tidemark.Batch{Appends: []tidemark.Append{a}})
}

func (f *filler) delete(k tidemark.Key) {
	f.Helper()
	b := tidemark.Batch{Drops: []tidemark.Key{k}}
	if v := f.at(k).Version; v > 0 {
		b.Deletes = []tidemark.Precondition{{Key: k, Version: v}}
	}
	f.commit(b)
}

// small fills a store with a little of everything.
func small(t testing.TB, be tidemark.Backend) *filler {
	t.Helper()
	f := fill(t, be)
	for _, id := range []string{"a", "b", "UPPER"} {
		f.put(key("session", id), `{"title":"first"}`)
		f.lines(key("session", id), `{"text":"one"}`, "", "\x00\xff\n", `{"text":"`+strings.Repeat("x", 2000)+`"}`)
		f.lines(key("notes", id), `{"label":"mark"}`)
		f.lines(key("session", id), `{"text":"five"}`)
		f.put(key("session", id), `{"title":"second"}`)
	}
	f.put(key("lease", "a"), "")
	f.put(key("gone", "a"), "x")
	f.delete(key("gone", "a"))
	return f
}

func open(t testing.TB, kind string) tidemark.Backend {
	t.Helper()
	var (
		be  tidemark.Backend
		err error
	)
	switch kind {
	case "memory":
		be = memory.New()
	case "files":
		be, err = files.Open(ctx, t.TempDir(), &files.Options{Create: true})
	case "sqlite":
		be, err = sqlite.Open(ctx, filepath.Join(t.TempDir(), "tidemark.db"), &sqlite.Options{Create: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	return be
}

func write(t testing.TB, from tidemark.Backend, o *archive.WriteOptions) ([]byte, archive.Manifest) {
	t.Helper()
	var b bytes.Buffer
	m, err := archive.Write(ctx, &b, from, o)
	if err != nil {
		t.Fatalf("Write = %v", err)
	}
	return b.Bytes(), m
}

func read(t testing.TB, data []byte, into tidemark.Backend) archive.Manifest {
	t.Helper()
	m, err := archive.Read(ctx, bytes.NewReader(data), into, nil)
	if err != nil {
		t.Fatalf("Read = %v", err)
	}
	return m
}

// all returns everything that a store keeps as text, by its name: bodies as
// what they hash to, since they are long.
func all(t testing.TB, be tidemark.Backend) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for k, err := range be.Walk(ctx, tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := be.Get(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		if r.Version > 0 {
			found[k.String()] = fmt.Sprintf("v%d %q %q %v %v %s %08x %x", r.Version, r.Group, r.State, r.Due, r.UpdatedAt, r.Batch, r.Sum, sha256.Sum256(r.Body))
		}
		if r.Head.Length > 0 {
			found[k.String()+" head"] = fmt.Sprintf("%d %v %v %x", r.Head.Length, r.Head.UpdatedAt, r.Head.Position, r.Head.Chain)
		}
		for l, err := range be.Lines(ctx, k) {
			if err != nil {
				t.Fatal(err)
			}
			found[fmt.Sprintf("%s@%d", k, l.Seq)] = fmt.Sprintf("%q %q %v %v %x %s %08x %x", l.Kind, l.Key, l.At, l.Position, l.Chain, l.Batch, l.Sum, sha256.Sum256(l.Body))
		}
	}
	return found
}

func same(t testing.TB, a, b tidemark.Backend) {
	t.Helper()
	if d := cmp.Diff(all(t, a), all(t, b)); d != "" {
		t.Errorf("the two stores differ (-want +got):\n%.2000s", d)
	}
	if err := archive.Same(ctx, a, b, nil); err != nil {
		t.Errorf("Same = %v", err)
	}
}

var kinds = []string{"memory", "files", "sqlite"}

func TestWhatIsReadIsWhatWasWritten(t *testing.T) {
	for _, from := range kinds {
		for _, into := range kinds {
			t.Run(from+" to "+into, func(t *testing.T) {
				src, dst := open(t, from), open(t, into)
				small(t, src)
				data, wrote := write(t, src, &archive.WriteOptions{Describe: map[string]string{"store": from}})
				got := read(t, data, dst)
				same(t, src, dst)
				if got.Records != 4 || got.Lines != 18 || got.Digest != wrote.Digest || got.Describe["store"] != from || got.Keyring {
					t.Errorf("manifest %+v", got)
				}
				again, _ := write(t, dst, nil)
				twice := open(t, "memory")
				read(t, again, twice)
				same(t, src, twice)
				read(t, data, dst) // everything is there
				same(t, src, dst)
			})
		}
	}
}

// random draws a store.
func random(r *rapid.T, f *filler) {
	ids := rapid.SampledFrom([]string{"a", "b", "a.b", "C"})
	ks := rapid.SampledFrom([]string{"session", "notes", "job"})
	bodies := rapid.SampledFrom([]string{"", "{}", "\x00\xff", strings.Repeat("word ", 700), strings.Repeat("q", 300_000)})
	for range rapid.IntRange(0, 12).Draw(r, "steps") {
		k := key(ks.Draw(r, "kind"), ids.Draw(r, "id"))
		switch rapid.IntRange(0, 5).Draw(r, "step") {
		case 0, 1:
			f.put(k, bodies.Draw(r, "body"))
		case 2, 3:
			f.lines(k, rapid.SliceOfN(bodies, 1, 6).Draw(r, "bodies")...)
		case 4:
			many := make([]string, rapid.IntRange(1, 2500).Draw(r, "lines"))
			f.lines(k, many...)
		case 5:
			f.delete(k)
		}
	}
}

func TestAnyStoreComesBackTheSame(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		src, dst := memory.New(), memory.New()
		random(r, fill(t, src))
		data, _ := write(t, src, nil)
		read(t, data, dst)
		same(t, src, dst)
		if _, err := archive.Inspect(ctx, bytes.NewReader(data)); err != nil {
			t.Fatalf("Inspect = %v", err)
		}
	})
}

func TestAnIncrementGivesWhatTheWholeWouldGive(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		src, dst := memory.New(), memory.New()
		f := fill(t, src)
		random(r, f)
		data, m := write(t, src, nil)
		read(t, data, dst)
		for range rapid.IntRange(1, 3).Draw(r, "increments") {
			random(r, f)
			if rapid.Bool().Draw(r, "from what is kept") {
				var err error
				if m, err = archive.Inspect(ctx, bytes.NewReader(data)); err != nil {
					t.Fatal(err)
				}
			}
			data, m = write(t, src, &archive.WriteOptions{Since: &m})
			read(t, data, dst)
			same(t, src, dst)
			read(t, data, dst)
			same(t, src, dst)
		}
	})
}

func TestAnIncrementOfNothingIsSmall(t *testing.T) {
	src := memory.New()
	small(t, src)
	_, m := write(t, src, nil)
	_, next := write(t, src, &archive.WriteOptions{Since: &m})
	if next.Records != 0 || next.Lines != 0 || next.Since.Digest != m.Digest || len(next.Keys) != len(m.Keys) {
		t.Errorf("increment %+v", next)
	}
}

func TestAnIncrementNeedsWhatCameBefore(t *testing.T) {
	src, dst := memory.New(), memory.New()
	f := small(t, src)
	_, m := write(t, src, nil)
	f.lines(key("session", "a"), "six")
	data, _ := write(t, src, &archive.WriteOptions{Since: &m})
	_, err := archive.Read(ctx, bytes.NewReader(data), dst, nil)
	if !errors.Is(err, tidemark.ErrConflict) || !strings.Contains(err.Error(), "session/a") {
		t.Errorf("Read = %v, want ErrConflict", err)
	}
}

func TestCopyBringsEverything(t *testing.T) {
	for _, into := range kinds {
		t.Run(into, func(t *testing.T) {
			src, dst := open(t, "memory"), open(t, into)
			small(t, src)
			fill(t, dst).put(key("other", "mine"), "stays")
			s, err := archive.Copy(ctx, src, dst, nil)
			if err != nil || s.Records != 4 || s.Lines != 18 {
				t.Fatalf("Copy = %+v, %v", s, err)
			}
			skip := func(k tidemark.Key) bool { return k.Kind == "other" }
			if err := archive.Same(ctx, src, dst, skip); err != nil {
				t.Error(err)
			}
			if err := archive.Same(ctx, src, dst, nil); !errors.Is(err, tidemark.ErrConflict) {
				t.Errorf("Same = %v, want ErrConflict for what only one has", err)
			}
			if _, err := archive.Copy(ctx, src, dst, nil); err != nil {
				t.Errorf("a second Copy = %v", err)
			}
		})
	}
}

func TestRecordsMayBeFiledOtherwise(t *testing.T) {
	src := memory.New()
	f := small(t, src)
	change := func(r tidemark.Record) (tidemark.Record, error) {
		r.Group = "other"
		if r.Kind == "lease" {
			r.ID = "hash-of-" + r.ID
		}
		r.Sum = r.Checksum()
		return r, nil
	}
	data, m := write(t, src, nil)
	read1, copied := memory.New(), memory.New()
	for range 2 {
		if _, err := archive.Read(ctx, bytes.NewReader(data), read1, &archive.ReadOptions{Change: change}); err != nil {
			t.Fatalf("Read = %v", err)
		}
		if _, err := archive.Copy(ctx, src, copied, &archive.CopyOptions{Change: change}); err != nil {
			t.Fatalf("Copy = %v", err)
		}
	}
	same(t, read1, copied)
	if r, err := read1.Get(ctx, key("lease", "hash-of-a")); err != nil || r.Group != "other" {
		t.Errorf("Get = %+v, %v", r, err)
	}
	f.put(key("lease", "a"), "again")
	data, _ = write(t, src, &archive.WriteOptions{Since: &m})
	if _, err := archive.Read(ctx, bytes.NewReader(data), read1, &archive.ReadOptions{Change: change}); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("Read = %v, want ErrUnsupported", err)
	}
}
