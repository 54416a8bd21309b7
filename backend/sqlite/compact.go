package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

const (
	// mergePages is how much of the search index one transaction merges, so that
	// commits can run in between.
	mergePages = 500
	// A file is made smaller when an eighth of it, and a megabyte, is free.
	worthShare = 8
	worthPages = 256
)

// NoSpaceError says that a file could not be made smaller for lack of disk space.
// Nothing is lost: its free pages will be reused.
type NoSpaceError struct {
	Path       string
	Need, Free int64 // bytes
}

func (e *NoSpaceError) Error() string {
	return fmt.Sprintf("store %s: making it smaller needs %.1f MB on its disk, %.1f MB are free; what is free inside is used again", e.Path, float64(e.Need)/(1<<20), float64(e.Free)/(1<<20))
}

// Is makes a NoSpaceError answer to ErrStorage.
func (e *NoSpaceError) Is(target error) bool { return target == tidemark.ErrStorage }

// Compact merges the search index into one piece, which also takes the words of
// purged lines out of it; empties the -wal file; and makes the file smaller when
// much of it is free. That last step rewrites the store, and commits wait for
// it. A *NoSpaceError: there is no disk space for that.
func (b *Backend) Compact(ctx context.Context) (int64, error) {
	before := b.fileBytes()
	err := b.mergeIndex(ctx)
	if isFull(err) {
		// There is no space to merge the index. Emptying it frees some, and it
		// can be rebuilt.
		err = b.runJob(ctx, &job{frees: true, do: emptyIndex})
	}
	if err == nil {
		err = b.runJob(ctx, &job{alone: true, do: (*writer).scrub})
	}
	if shrunk := b.runJob(ctx, &job{alone: true, do: shrink}); shrunk != nil {
		err = errors.Join(err, shrunk)
	}
	return max(before-b.fileBytes(), 0), err
}

func (b *Backend) fileBytes() (n int64) {
	for _, end := range []string{"", "-wal"} {
		if info, err := os.Stat(b.path + end); err == nil {
			n += info.Size()
		}
	}
	return n
}

// mergeIndex has FTS5 merge all segments, step by step. The first step,
// requested by a negative number, marks them.
func (b *Backend) mergeIndex(ctx context.Context) error {
	for pages := -mergePages; ; pages = mergePages {
		changes := int64(0)
		err := b.runJob(ctx, &job{do: func(w *writer) error {
			before, err := w.c.number("SELECT total_changes()")
			if err != nil {
				return err
			}
			err = w.c.do(`INSERT INTO word (word, rank) VALUES ('merge', ?1)`, func(s *stmt) { s.setInt(1, int64(pages)) }, nil)
			if err != nil {
				return err
			}
			after, err := w.c.number("SELECT total_changes()")
			changes = after - before
			return err
		}})
		if err != nil {
			return err
		}
		if changes < 2 && pages > 0 { // its own row counts as one
			return nil
		}
	}
}

// temporary guards the directory of SQLite's temporary files, which is one for
// the whole process. All other connections keep theirs in memory.
var temporary sync.Mutex

// shrink empties the -wal file and, if it is worth it, removes the free pages.
func shrink(w *writer) error {
	w.clearWAL()
	var n [3]int64
	for i, pragma := range []string{"page_size", "page_count", "freelist_count"} {
		var err error
		if n[i], err = w.c.number("PRAGMA " + pragma); err != nil {
			return err
		}
	}
	size, all, free := n[0], n[1], n[2]
	if free < worthPages || free*worthShare < all {
		return nil
	}
	// The store is copied beside itself, and then back through the -wal file.
	need := 2 * (all - free) * size
	have, err := freeBytes(filepath.Dir(w.b.path))
	if err == nil && have < need && w.giveUpReserve() {
		defer w.fillReserve()
		have, err = freeBytes(filepath.Dir(w.b.path))
	}
	if err == nil && have < need {
		return &NoSpaceError{Path: w.b.path, Need: need, Free: have}
	}
	temporary.Lock()
	defer temporary.Unlock()
	dir := strings.ReplaceAll(filepath.Dir(w.b.path), "'", "''")
	err = w.c.run("PRAGMA temp_store_directory='" + dir + "'; PRAGMA temp_store=FILE; VACUUM")
	if back := w.c.run("PRAGMA temp_store=MEMORY; PRAGMA temp_store_directory=''"); err == nil {
		err = back
	}
	w.clearWAL()
	return err
}
