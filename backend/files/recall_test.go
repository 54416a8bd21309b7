package files_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
)

// settle has all files of a store look as if they were written long ago, those of
// later calls later.
func settle(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	at := listNoon.Add(after)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err != nil || time.Since(info.ModTime()) > time.Hour {
			return err
		}
		return os.Chtimes(name, at, at)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reading is what a reader sees of a session, in several ways.
func reading(t *testing.T, b *files.Backend, key tidemark.Key) (all []string) {
	t.Helper()
	r, err := b.Get(t.Context(), key)
	all = append(all, fmt.Sprintf("%v %s %v", r, r.Body, err))
	n := r.Head.Length
	for _, span := range []tidemark.Span{{Newest: 20, Backwards: true}, {From: n / 2, To: n / 2}, {To: n/2 - 1, Newest: 20, Backwards: true}, {From: n / 3, Newest: 30}} {
		for l, err := range b.Lines(t.Context(), key, span) {
			all = append(all, fmt.Sprintf("%v %s %v", l.Seq, l.Body, err))
		}
	}
	return all
}

func TestWhatIsRememberedOfFilesIsWhatTheySay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	w := open(t, dir, &files.Options{Create: true})
	defer w.Close()
	reader := open(t, dir, &files.Options{ReadOnly: true})
	defer reader.Close()
	random := rand.New(rand.NewPCG(1, 2))
	version, length := int64(0), int64(0)
	for round := range 120 {
		switch op := random.IntN(8); {
		case version == 0 || op == 0: // another body of the same length
			keep(t, w, backendtest.NewRecord(sessA, version+1, fmt.Sprintf(`{"v":%03d}`, round)))
			version++
		case op == 1:
			keep(t, w, run(sessA, length+1, length+300))
			length += 300
		case op == 2 && length > 0: // removed, and made again with as many lines
			if _, err := w.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: listNoon,
				Deletes: []tidemark.Precondition{{Key: sessA, Version: version}}, Drops: []tidemark.Key{sessA}}); err != nil {
				t.Fatal(err)
			}
			if n := len(reading(t, reader, sessA)); n != 1 {
				t.Fatalf("round %d: %d lines of a log that was removed", round, n-1)
			}
			version = 1
			keep(t, w, backendtest.NewRecord(sessA, 1, fmt.Sprintf(`{"v":%03d}`, round)), run(sessA, 1, length))
		default:
			keep(t, w, run(sessA, length+1, length+1))
			length++
		}
		settle(t, dir, time.Duration(round)*time.Second)
		fresh := open(t, dir, &files.Options{ReadOnly: true})
		want := reading(t, fresh, sessA)
		fresh.Close()
		for again := range random.IntN(4) {
			if diff := cmp.Diff(want, reading(t, reader, sessA)); diff != "" {
				t.Fatalf("round %d, reading %d: a reader that remembers sees something else (-fresh +remembered):\n%s", round, again, diff)
			}
		}
	}
	if logs, records := reader.Recalled(sessA); !logs || !records {
		t.Errorf("after all that, the log is remembered: %v, the record: %v", logs, records)
	}
}

func TestFilesThatJustChangedAreNotRemembered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	b := open(t, dir, &files.Options{Create: true})
	defer b.Close()
	keep(t, b, backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 5))
	now := time.Now().Add(time.Hour) // whatever the time is now
	for _, name := range []string{"records/session/a.json", "logs/session/a.ndjson"} {
		if err := os.Chtimes(filepath.Join(dir, name), now, now); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		reading(t, b, sessA)
	}
	if logs, records := b.Recalled(sessA); logs || records {
		t.Errorf("the log is remembered: %v, the record: %v", logs, records)
	}
}

// A body belongs to who read it.
func TestRememberedRecordsAreNotThoseOfTheirReaders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	b := open(t, dir, &files.Options{Create: true})
	defer b.Close()
	keep(t, b, backendtest.NewRecord(sessA, 1, `{"title":"tide"}`))
	settle(t, dir, 0)
	for range 5 {
		r, err := b.Get(t.Context(), sessA)
		if err != nil || !strings.Contains(string(r.Body), "tide") {
			t.Fatalf("%s %v", r.Body, err)
		}
		clear(r.Body)
	}
}
