package files

import (
	"context"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// FilesOf returns the files of a record and of a log of one line, by name.
func FilesOf(k tidemark.Key, r tidemark.Record, l tidemark.Line, at time.Time) map[string][]byte {
	r.UpdatedAt, r.Batch = at, "made"
	row := line{Line: l, batchAt: at, part: 1, parts: 1}
	row.Batch = "made"
	log := appendLine(nil, k, &row)
	h := head{Head: tidemark.Head{Length: l.Seq, UpdatedAt: at, Position: l.Position, Chain: l.Chain}, end: int64(len(log)), life: "made"}
	return map[string][]byte{
		recordPath(k): appendRecord(nil, &r),
		logPath(k):    log,
		headPath(k):   appendHead(nil, k, &h),
	}
}

// IntentOf returns the file of a batch that is under way.
func IntentOf(batch tidemark.Batch) []byte {
	b, err := intentOf(&batch, make([]int64, len(batch.Puts))).encode()
	if err != nil {
		panic(err)
	}
	return b
}

// Recalled reports whether what the files of a session say is remembered.
func (b *Backend) Recalled(key tidemark.Key) (log, record bool) {
	b.recall.mu.Lock()
	defer b.recall.mu.Unlock()
	return b.recall.logs[key].stamp != stamp{}, b.recall.records[key].stamp != stamp{}
}

// NeverJournals is more batches than a test carries out.
const NeverJournals = 1 << 30

// OpenJournaling opens a store that uses its journal after so many batches, and syncs
// what is in it when it has so many bytes.
func OpenJournaling(dir string, o *Options, from, bytes int64) (*Backend, error) {
	set := here
	set.journalFrom, set.journalStep, set.journalBytes, set.syncAfter = from, bytes/2, bytes, 0
	return open(context.Background(), dir, o, set)
}

// EntriesIn returns how many entries a journal begins with.
func EntriesIn(journal []byte) int { return len(parseJournal(journal)) }

// SyncBehind syncs what is in the journal.
func (b *Backend) SyncBehind(ctx context.Context) error { return b.syncBehind(ctx) }
