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

// The reserve is a file beside the store that holds room. Every commit is
// written to the -wal file first, also one that deletes, and a full disk has no
// room for that. Then the reserve is given up, the commit is made in a way that
// takes little, and the reserve is filled again.
const (
	reserveEnd   = ".reserve"
	reserveBytes = 256 << 10
)

// fillReserve takes the room, as far as there is some. It is called while the
// lock is held.
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
	f.Sync() // takes the room now, not when the system gets round to it
}

// giveUpReserve reports whether there is more room now.
func (w *writer) giveUpReserve() bool {
	f := w.openReserve(os.O_RDWR)
	if f == nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && info.Size > 0 && f.Truncate(0) == nil && f.Sync() == nil
}

// lowBytes is when a disk counts as nearly full.
const lowBytes = 4 * reserveBytes

// makeRoom gives up the reserve on a disk that is nearly full, before the store
// is opened. The first to open it needs room for the memory that processes
// share, and a system that finds none ends the access to it.
func (w *writer) makeRoom() (low bool) {
	free, err := freeBytes(filepath.Dir(w.b.path))
	if err != nil || free >= lowBytes {
		return false
	}
	w.giveUpReserve()
	return true
}

// settle makes a commit that changes nothing, so that the room for the shared
// memory is taken before the reserve is filled again.
func (w *writer) settle(version int64) {
	w.c.run(fmt.Sprintf("PRAGMA user_version=%d", version))
	w.clearWAL()
}

// openReserve returns nil where there is none.
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

// How a connection writes when there is hardly any room: the pages that nobody
// needs any more are not overwritten by the commit that frees them, but behind
// it, some at a time.
var (
	sparing = []string{"secure_delete=FAST", "cache_spill=OFF"}
	usual   = []string{"secure_delete=ON", "cache_spill=ON"}
)

// onReserve does again what found no room.
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

// setAside gives a log that is dropped a key that nobody asks for. That takes
// little room, whatever its length; its lines go behind the commit.
func (w *writer) setAside(number int64) error {
	return w.c.do(`UPDATE log SET kind = '', id = ?2 WHERE number = ?1`, func(s *stmt) {
		s.setInt(1, number)
		s.setText(2, strconv.FormatInt(number, 10))
	}, nil)
}

// resumeDrops goes on where somebody died over the lines of a log that was set
// aside.
func (w *writer) resumeDrops() {
	if err := w.finishDrops(); isFull(err) {
		w.onReserve(err, func() error { return nil })
	}
}

// mostLines is how many lines are deleted in one commit at most.
const mostLines = 1024

// finishDrops deletes what was set aside, from the end of each log, as many
// lines at a time as there is room for.
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
	err = w.c.do(`DELETE FROM line WHERE id BETWEEN ?1 AND ?2`, func(s *stmt) {
		s.setInt(1, first)
		s.setInt(2, last)
	}, nil)
	if err != nil {
		return err
	}
	return w.unindexLines(first, last)
}

// tightBytes is when a disk is watched: four times what the -wal file holds
// before it is written back in the ordinary way.
const tightBytes = 16 << 20

// fits reports whether the disk is so full that what is committed has to be
// written back at once. What waits in the -wal file needs as much room again in
// the store, and what cannot be written back is in the way of everything else:
// so a commit for which that room is not there finds none.
func (w *writer) fits(group []*pending) (tight bool, err error) {
	free, err := freeBytes(filepath.Dir(w.b.path))
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

// mayUseReserve reports whether a batch is a step to free room, or goes into
// room that the file has inside.
func (w *writer) mayUseReserve(p *pending) bool {
	if p.batch.FreesRoom() {
		return true
	}
	free, err := w.c.number("PRAGMA freelist_count")
	return err == nil && free > 64+int64(2*size(p.batch))/pageBytes0
}

// scrubPages is how many pages are overwritten in one commit: they fit into the
// reserve, each with its head in the -wal file.
const scrubPages = 32

// scrub overwrites free pages that still hold something. It is stopped by a
// reader that keeps the -wal file from being written back, and goes on when the
// store is compacted.
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
