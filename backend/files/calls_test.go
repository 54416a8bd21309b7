package files_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
)

// Beside the write and the sync, an append takes the lock and gives it back, looks whether
// the store was upgraded, whether a writer died, whether the log and the lease are as they
// were, and writes the head.
func TestAnAppendMakesNoMoreCallsThanItNeeds(t *testing.T) {
	disk := crashfs.New()
	b, err := openOn(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	log, lease := tidemark.Key{Kind: "session", ID: "7f3a"}, tidemark.Record{Key: tidemark.Key{Kind: "lease", ID: "7f3a"}, Version: 1, Body: []byte("{}")}
	lease.Sum = lease.Checksum()
	commit := func(batch tidemark.Batch) int {
		t.Helper()
		disk.Inject(crashfs.Fault{})
		batch.ID, batch.At = tidemark.NewBatchID(), at
		if _, err := b.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		return disk.Calls()
	}
	commit(tidemark.Batch{Puts: []tidemark.Record{lease}})
	for seq := int64(1); seq <= 5; seq++ {
		l := tidemark.Line{Seq: seq, Kind: "user", At: at, Body: fmt.Append(nil, `{"n":`, seq, `}`)}
		l.Sum = l.Checksum(log)
		n := commit(tidemark.Batch{Require: []tidemark.Precondition{{Key: lease.Key, Version: 1}}, Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}})
		if seq > 2 && n != 8 {
			t.Errorf("append %d made %d calls, want 8", seq, n)
		}
	}
}
