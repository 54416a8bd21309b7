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
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// A file is made smaller when an eighth of it, and a megabyte, is free.
const (
	worthShare = 8
	worthBytes = 1 << 20
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

// Compact overwrites what free pages still hold, empties the -wal file, and makes
// the file smaller when much of it is free. That last step rewrites the store, and
// commits wait for it. A *NoSpaceError: there is no disk space for that.
func (b *Backend) Compact(ctx context.Context) (int64, error) {
	before := b.fileBytes()
	err := b.runJob(ctx, &job{alone: true, do: (*writer).scrub})
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
	if free*size < worthBytes || free*worthShare < all {
		return nil
	}
	// The store is copied beside itself, and then back through the -wal file.
	need := 2 * (all - free) * size
	have, err := durable.FreeBytes(filepath.Dir(w.b.path))
	if err == nil && have < need && w.giveUpReserve() {
		defer w.fillReserve()
		have, err = durable.FreeBytes(filepath.Dir(w.b.path))
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
