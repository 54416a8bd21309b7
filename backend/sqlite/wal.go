package sqlite

import (
	"os"
	"path/filepath"
	"unsafe"

	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// While the -wal file grows, each sync also has to record its new size, and takes half
// as long again. So the writer makes the file longer some commits ahead. The zeros are
// written, because a sync has as much to record where room is only reserved. They reach
// the disk with the sync of the commit, and SQLite takes them for the end of the log, as
// it does any page without the salt and the sum that belong there.
//
// Nothing else changes: a purge empties the file, and so does the last program to close
// the store.

const (
	// aheadFrom is how long the log is before the file is made longer: a program that
	// commits once or twice gains nothing by it.
	aheadFrom = 64 << 10
	// aheadMost is how many zeros are written at once: the sync of that commit takes a
	// quarter of a millisecond longer.
	aheadMost = 256 << 10
	// aheadLeast is how much of the file is left when it is made longer again: what a
	// usual commit needs.
	aheadLeast = 32 << 10
	// aheadUpTo is how long the log usually is when it is written back and begun anew.
	aheadUpTo = backFrames * (frameHeader + wideBytes)

	// backFrames is how many pages the log has when SQLite writes it back.
	backFrames = 1000
	// frameHeader is in front of each page in the log.
	frameHeader = 24
)

var zeros [aheadMost]byte

// ahead is what the writer knows of the -wal file.
type ahead struct {
	used int64 // by commits, at the last look
	size int64 // as large as the file is at least, unless somebody has emptied it
}

// lengthen makes the -wal file longer if little of it is left. It is called in a
// transaction that writes, where nobody else changes the size of the file; to open and
// close it takes no lock away, because SQLite has none on this file. What fails is left
// to SQLite, which makes the file as long as it needs it.
func (w *writer) lengthen() {
	a, used := &w.ahead, w.c.walBytes()
	if used < a.used {
		a.size = 0 // the log was begun anew, and the file may have been emptied
	}
	a.used = used
	if used < aheadFrom || used > aheadUpTo || a.size-used >= aheadLeast {
		return
	}
	dir, err := durable.OpenDir(filepath.Dir(w.b.path))
	if err != nil {
		return
	}
	defer dir.Close()
	f, err := dir.OpenFile(filepath.Base(w.b.path)+"-wal", os.O_RDWR)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size < used {
		return
	}
	if a.size = info.Size; a.size-used >= aheadLeast {
		return
	}
	n := min(used, aheadMost)
	if _, err := f.WriteAt(zeros[:n], a.size); err != nil {
		f.Truncate(a.size) // the commit may need the room that the first of them took
		return
	}
	a.size += n
}

// writeBack writes the log back once it is half as long as where SQLite would do it, as
// a part of somebody's commit. What a reader is in the way of is written back later.
func (w *writer) writeBack() error {
	if frames, _ := w.c.walFrames(); frames >= backFrames/2 {
		w.c.run("PRAGMA wal_checkpoint(PASSIVE)")
	}
	return nil
}

// walBytes is how much of the -wal file is used by commits, as far as the last
// transaction saw.
func (c *conn) walBytes() int64 {
	frames, page := c.walFrames()
	if frames == 0 {
		return 0
	}
	return walHeader + frames*(frameHeader+page)
}

// walFrames returns how many pages are in the log, and how large they are. It looks
// where SQLite keeps it: the pragma that says so also writes the log back.
func (c *conn) walFrames() (frames, pageBytes int64) {
	db := *(**lib.Tsqlite3)(unsafe.Pointer(&c.db))
	main := *(**lib.TDb)(unsafe.Pointer(&db.FaDb)) // the first of those that are open
	tree := *(**lib.TBtree)(unsafe.Pointer(&main.FpBt))
	shared := *(**lib.TBtShared)(unsafe.Pointer(&tree.FpBt))
	pager := *(**lib.TPager)(unsafe.Pointer(&shared.FpPager))
	if pager.FpWal == 0 {
		return 0, 0
	}
	wal := *(**lib.TWal)(unsafe.Pointer(&pager.FpWal))
	return int64(wal.Fhdr.FmxFrame), int64(wal.FszPage)
}
