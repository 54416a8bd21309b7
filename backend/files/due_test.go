package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
)

// What is due is remembered between listings. Whoever changes a record, this store
// or another one over the same folder, is seen by the next listing.
func TestWhatIsDueIsListedAsItChanges(t *testing.T) {
	dir := t.TempDir()
	open := func() *files.Backend {
		b, err := files.Open(t.Context(), dir, &files.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	b, other := open(), open()
	noon := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	batches := 0
	commit := func(to *files.Backend, batch tidemark.Batch) {
		t.Helper()
		batches++
		batch.ID = fmt.Sprint("batch-", batches)
		if _, err := to.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	record := func(id string, version int64, due time.Time) tidemark.Record {
		r := tidemark.Record{Key: tidemark.Key{Kind: "schedule", ID: id}, Version: version, Due: due, State: "idle", Body: []byte(`{}`)}
		r.Sum = r.Checksum()
		return r
	}
	// long makes the folder look as if it was last changed a while ago.
	ago := time.Hour
	long := func() {
		ago -= time.Minute
		at := time.Now().Add(-ago)
		if err := os.Chtimes(filepath.Join(dir, "records", "schedule"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	due := func(by time.Time, state string) (ids []string) {
		t.Helper()
		for r, err := range b.List(t.Context(), tidemark.Query{Kind: "schedule", DueBy: by, State: state, Order: tidemark.ByDue}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		return ids
	}
	wants := func(by time.Time, want ...string) {
		t.Helper()
		for range 2 { // the second time from what the first remembered
			if d := cmp.Diff(want, due(by, "")); d != "" {
				t.Errorf("due by %s (-want +got):\n%s", by.Format(time.TimeOnly), d)
			}
		}
	}
	commit(b, tidemark.Batch{Puts: []tidemark.Record{record("c", 1, noon), record("b", 1, noon.Add(time.Hour)), record("a", 1, time.Time{}), record("d", 1, noon)}})
	long()
	wants(noon.Add(-time.Second))
	wants(noon, "c", "d")
	wants(noon.Add(time.Hour), "c", "d", "b")
	if got := due(noon.Add(time.Hour), "gone"); got != nil {
		t.Errorf("%q are due in a state that none is in", got)
	}
	commit(other, tidemark.Batch{Puts: []tidemark.Record{record("a", 2, noon)}})
	wants(noon, "a", "c", "d")
	long()
	wants(noon, "a", "c", "d")
	commit(b, tidemark.Batch{Puts: []tidemark.Record{record("c", 2, noon.Add(2*time.Hour))}})
	wants(noon, "a", "d")
	long()
	wants(noon, "a", "d")
	commit(other, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: tidemark.Key{Kind: "schedule", ID: "d"}, Version: 1}}})
	wants(noon, "a")
}
