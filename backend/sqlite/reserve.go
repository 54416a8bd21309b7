package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// The reserve is a file beside the store that only occupies space. Every commit
// is written to the -wal file first, even one that deletes, and a full disk has
// no space for that. Then the reserve is given up, the commit is made in a way
// that needs little space, and the reserve is filled again.
const (
	reserveEnd   = ".reserve"
	reserveBytes = 512 << 10
)

// fillReserve allocates the reserve, as far as there is space. It is called
// while the lock is held.
func (w *writer) fillReserve() {
	f := w.openReserve(os.O_RDWR | os.O_CREATE)
	if f == nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size >= reserveBytes {
		return
	}
	chunk := bytes.Repeat([]byte("reserve\n"), 4096/8)
	for at := int64(0); at < reserveBytes; at += int64(len(chunk)) {
		if _, err := f.WriteAt(chunk, at); err != nil {
			break
		}
	}
	f.Sync() // allocates the space now, not when the system gets round to it
}

// giveUpReserve reports whether it freed any space.
func (w *writer) giveUpReserve() bool {
	f := w.openReserve(os.O_RDWR)
	if f == nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && info.Size > 0 && f.Truncate(0) == nil && f.Sync() == nil
}

// lowBytes is the free space below which a disk counts as nearly full.
const lowBytes = 4 * reserveBytes

// makeRoom gives up the reserve on a nearly full disk, before the store is
// opened. The first process to open it needs space for the memory that processes
// share, and a system that finds none kills the process that uses it.
func (w *writer) makeRoom() (low bool) {
	free, err := durable.FreeBytes(filepath.Dir(w.b.path))
	if err != nil || free >= lowBytes {
		return false
	}
	w.giveUpReserve()
	return true
}

// occupy makes a commit that changes nothing, so that the space for the shared
// memory is allocated before the reserve is filled again.
func (w *writer) occupy() {
	if format, err := w.c.number("PRAGMA user_version"); err == nil {
		w.c.run(fmt.Sprintf("PRAGMA user_version=%d", format))
	}
	w.clearWAL()
}

// openReserve returns nil when there is none.
func (w *writer) openReserve(flag int) durable.File {
	dir, err := durable.OpenDir(filepath.Dir(w.b.path))
	if err != nil {
		return nil
	}
	defer dir.Close()
	f, err := dir.OpenFile(filepath.Base(w.b.path)+reserveEnd, flag)
	if err != nil {
		return nil
	}
	return f
}

// How a connection writes when there is hardly any space: freed pages are not
// overwritten by the commit that frees them, but after it, some at a time.
var (
	sparing = []string{"secure_delete=FAST", "cache_spill=OFF"}
	usual   = []string{"secure_delete=ON", "cache_spill=ON"}
)

// onReserve repeats what found no space, with the reserve given up.
func (w *writer) onReserve(full error, again func() error) error {
	if !w.giveUpReserve() {
		return full
	}
	defer w.fillReserve()
	w.clearWAL()
	for _, p := range sparing {
		if err := w.c.run("PRAGMA " + p); err != nil {
			return err
		}
	}
	w.sparing = true
	err := again()
	w.clearWAL()
	if err == nil {
		err = w.finishDrops()
	}
	w.sparing = false
	for _, p := range usual {
		if back := w.c.run("PRAGMA " + p); back != nil {
			w.broken = w.b.named(back)
		}
	}
	if err == nil {
		err = w.scrub()
	}
	return err
}

// setAside moves a dropped log to a key that nobody uses. That needs little
// space, whatever its length; its lines are deleted after the commit.
func (w *writer) setAside(number int64) error {
	return w.c.do(`UPDATE log SET kind = '', id = ?2 WHERE number = ?1`, func(s *stmt) {
		s.setInt(1, number)
		s.setText(2, strconv.FormatInt(number, 10))
	}, nil)
}

// resumeDrops continues deleting the lines of a log that was set aside, if a
// process died doing so.
func (w *writer) resumeDrops() {
	if err := w.finishDrops(); isFull(err) {
		w.onReserve(err, func() error { return nil })
	}
}

// mostLines is the maximum number of lines deleted in one commit.
const mostLines = 1024

// finishDrops deletes the logs that were set aside, each from its end, as many
// lines at a time as there is space for.
func (w *writer) finishDrops() error {
	for most := int64(mostLines); ; {
		number, err := w.c.number(`SELECT ifnull(min(number), 0) FROM log WHERE kind = ''`)
		if err != nil || number == 0 {
			return err
		}
		err = w.begin()
		if err == nil {
			if err = w.dropSome(number, most); err != nil {
				w.rollBack(err)
			} else if err = w.c.do("COMMIT", nil, nil); err != nil {
				w.failed(err)
			}
		}
		switch {
		case isFull(err) && most > 1:
			most /= 4
		case err != nil:
			return err
		}
		w.clearWAL()
	}
}

// dropSome deletes the newest lines of a log that was set aside, and then the
// log.
func (w *writer) dropSome(number, most int64) error {
	first, last := int64(0), number<<seqBits|maxSeq
	err := w.c.do(`SELECT ifnull(min(id), 0) FROM (SELECT id FROM line WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3)`, func(s *stmt) {
		s.setInt(1, number<<seqBits)
		s.setInt(2, last)
		s.setInt(3, most)
	}, func(s *stmt) { first = s.int(0) })
	if err != nil {
		return err
	}
	if first == 0 {
		return w.c.do(`DELETE FROM log WHERE number = ?1`, func(s *stmt) { s.setInt(1, number) }, nil)
	}
	return w.c.do(`DELETE FROM line WHERE id BETWEEN ?1 AND ?2`, func(s *stmt) {
		s.setInt(1, first)
		s.setInt(2, last)
	}, nil)
}

// tightBytes is the free space below which a disk is watched: four times what
// the -wal file holds before it is normally written back.
const tightBytes = 16 << 20

// fits reports whether the disk is so full that a commit has to be written back
// at once. What waits in the -wal file needs the same space again in the store,
// and if it cannot be written back it blocks everything else: so a commit
// without that much space is refused as if the disk were full.
func (w *writer) fits(group []*pending) (tight bool, err error) {
	free, err := durable.FreeBytes(filepath.Dir(w.b.path))
	if err != nil || free >= tightBytes {
		return false, nil
	}
	need, frees := int64(0), true
	for _, p := range group {
		need += 2 * int64(size(p.batch))
		frees = frees && p.batch.FreesRoom()
	}
	if !frees && !w.sparing && free < need+reserveBytes {
		return true, &sqliteError{lib.SQLITE_FULL, "database or disk is full"}
	}
	return true, nil
}

// mayUseReserve reports whether a batch is a step towards freeing space, or fits
// into free pages of the file.
func (w *writer) mayUseReserve(p *pending) bool {
	if p.batch.FreesRoom() {
		return true
	}
	free, err := w.c.number("PRAGMA freelist_count")
	return err == nil && free > 64+int64(2*size(p.batch))/narrowBytes
}

// scrubPages is how many pages are overwritten in one commit: they fit into the
// reserve, each with its head in the -wal file.
const scrubPages = 32

// scrub overwrites free pages that still hold content. It is stopped by a reader
// that keeps the -wal file from being written back, and continues when the store
// is compacted.
func (w *writer) scrub() error {
	done := make(map[int64]bool)
	for {
		if err := w.begin(); err != nil {
			return err
		}
		n, err := w.scrubSome(done)
		if err != nil || n == 0 {
			return w.rollBack(err)
		}
		if err := w.c.do("COMMIT", nil, nil); err != nil {
			return w.failed(err)
		}
		w.clearWAL()
	}
}

func (w *writer) scrubSome(done map[int64]bool) (n int, err error) {
	free, err := freePages(w.c)
	if err != nil {
		return 0, err
	}
	for page, leaf := range free {
		if done[page] || n == scrubPages {
			continue
		}
		done[page] = true
		var clean []byte // nil: it is clean
		err := w.c.do(`SELECT data FROM sqlite_dbpage WHERE pgno = ?1`, func(s *stmt) { s.setInt(1, page) }, func(s *stmt) {
			data, used := s.view(0), 0
			if !leaf {
				used = min(8+4*int(binary.BigEndian.Uint32(data[4:])), len(data))
			}
			if len(bytes.Trim(data[used:], "\x00")) > 0 {
				clean = append(make([]byte, 0, len(data)), data[:used]...)[:len(data)]
			}
		})
		if err == nil && clean != nil {
			n++
			err = w.c.do(`UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1`, func(s *stmt) {
				s.setInt(1, page)
				s.setBytes(2, clean, false)
			}, nil)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func isFull(err error) bool { return primary(err) == lib.SQLITE_FULL }
