package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// The journal is where batches of several steps are decided: an entry holds the exact
// bytes of a batch, and one sync of it makes the batch durable. The files that the batch
// changes are written right away, for readers, and are synced later, many batches
// together; then their entries are let go. Until then a power cut may take the files back
// to any state they had, and whoever opens the store next puts into them what the
// newest entry says of each.
//
// There are two files, so that one takes entries while the batches of the other are
// synced. They are overwritten in place: a sync then need not make any metadata
// durable. locks/journal says where the next entry goes, and its lock is taken to write
// one. It is not synced: after a power cut, the entries are found by reading.
const (
	journalDir  = "journal"
	journalLock = locksDir + "/journal"
	turnLock    = locksDir + "/turn"

	// journalStep is how much a journal has at first, and what it grows by.
	journalStep = 64 << 10
	// maxJournal is how full a journal becomes before its batches are synced. One entry
	// may be larger.
	maxJournal = 1 << 20
	// journalReserve is room behind the last entry, so that it can be cancelled on a
	// full disk.
	journalReserve = 1 << 10
)

var journalFiles = [2]string{journalDir + "/0", journalDir + "/1"}

// entry is a batch in the journal. What goes into the files follows its description, as it
// is: the files of the records, then the lines of the logs.
type entry struct {
	number  int64
	Batch   string         `json:"batch,omitempty"`
	At      *time.Time     `json:"at,omitempty"`
	Puts    []entryPut     `json:"puts,omitempty"`
	Deletes []tidemark.Key `json:"deletes,omitempty"`
	Appends []entryAppend  `json:"appends,omitempty"`
	Cancels int64          `json:"cancels,omitempty"` // an entry that could not be carried out and was taken back
}

type entryPut struct {
	tidemark.Key
	Bytes int `json:"bytes"`
	file  []byte
}

// entryAppend says where lines stand in the file of their log, so that writing them again
// needs no look at what is before them.
type entryAppend struct {
	tidemark.Key
	At    int64 `json:"at"`
	Bytes int   `json:"bytes"`
	lines []byte
}

// appendEntry writes an entry: a line with its place in the journal, the lengths of what
// follows and the sum over all; its description; what goes into the files.
func appendEntry(dst []byte, chain string, number int64, e *entry) ([]byte, error) {
	about, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	data := 0
	for _, p := range e.Puts {
		data += len(p.file)
	}
	for _, a := range e.Appends {
		data += len(a.lines)
	}
	start := len(dst)
	dst = append(append(append(dst, `{"chain":"`...), chain...), `","entry":`...)
	dst = strconv.AppendInt(dst, number, 10)
	dst = append(dst, `,"about":`...)
	dst = strconv.AppendInt(dst, int64(len(about)+1), 10)
	dst = append(dst, `,"data":`...)
	dst = strconv.AppendInt(dst, int64(data), 10)
	dst = append(dst, `,"sum":"`...)
	summed := len(dst)
	dst = append(dst, "00000000\"}\n"...)
	dst = append(append(dst, about...), '\n')
	for _, p := range e.Puts {
		dst = append(dst, p.file...)
	}
	for _, a := range e.Appends {
		dst = append(dst, a.lines...)
	}
	sum := crc32.Update(crc32.Checksum(dst[start:summed], castagnoli), castagnoli, dst[summed+8:])
	appendHex32(dst[:summed], sum)
	return dst, nil
}

// parseEntry reads the entry that begins at b, and returns how long it is. What is not
// whole, or not one, is none.
func parseEntry(b []byte) (chain string, e *entry, size int, ok bool) {
	s := scanner{b: b[:min(len(b), 160)]}
	e = &entry{}
	var about, data int64
	if !s.literal(`{"chain":"`) {
		return "", nil, 0, false
	}
	t, ok := s.text()
	if !ok || !s.literal(`,"entry":`) || !s.number(&e.number) || !s.literal(`,"about":`) || !s.number(&about) ||
		!s.literal(`,"data":`) || !s.number(&data) || !s.literal(`,"sum":"`) {
		return "", nil, 0, false
	}
	summed, sum := s.i, uint32(0)
	if !s.hex32(&sum) || !s.literal("\"}\n") || about < 0 || data < 0 || about > int64(len(b)-s.i) || data > int64(len(b)-s.i)-about {
		return "", nil, 0, false
	}
	end := s.i + int(about) + int(data)
	if sum != crc32.Update(crc32.Checksum(b[:summed], castagnoli), castagnoli, b[summed+8:end]) {
		return "", nil, 0, false
	}
	if json.Unmarshal(b[s.i:s.i+int(about)], e) != nil || !e.take(b[s.i+int(about):end]) {
		return "", nil, 0, false
	}
	return string(t), e, end, true
}

// take cuts what goes into the files apart. It also keeps a forged entry from naming a
// file outside the store.
func (e *entry) take(data []byte) bool {
	part := func(n int) (b []byte, ok bool) {
		if n < 0 || n > len(data) {
			return nil, false
		}
		b, data = data[:n:n], data[n:]
		return b, true
	}
	for i := range e.Puts {
		p := &e.Puts[i]
		var ok bool
		if p.file, ok = part(p.Bytes); !ok || !nameable(p.Key) {
			return false
		}
	}
	for i := range e.Appends {
		a := &e.Appends[i]
		var ok bool
		if a.lines, ok = part(a.Bytes); !ok || !nameable(a.Key) || a.At < 0 {
			return false
		}
	}
	for _, k := range e.Deletes {
		if !nameable(k) {
			return false
		}
	}
	return len(data) == 0
}

// parseJournal returns the entries at the beginning of a journal. What follows them is
// of an earlier use of the file, or was never finished.
func parseJournal(b []byte) (all []*entry) {
	chain := ""
	for {
		c, e, size, ok := parseEntry(b)
		if !ok || len(all) > 0 && (c != chain || e.number != all[len(all)-1].number+1) {
			return all
		}
		chain, all, b = c, append(all, e), b[size:]
	}
}

// place is where the next entry goes.
type place struct {
	File  int    `json:"file"`
	Chain string `json:"chain"` // of the entries that are in that file
	Last  int64  `json:"last"`  // the newest of them, or of the other file
	End   int64  `json:"end"`   // of them
	Size  int64  `json:"size"`  // of the file, at least
	Fresh bool   `json:"fresh"` // the beginning of the file is to be overwritten first, durably, and so is the mark of the store
}

const placeBytes = 256

func (j *journal) readPlace() (p place, err error) {
	var buf [placeBytes]byte
	n, err := j.state.ReadAt(buf[:], 0)
	if err != nil && err != io.EOF {
		return p, err
	}
	if n != placeBytes || json.Unmarshal(buf[:], &p) != nil || p.File&^1 != 0 || p.Chain == "" || p.End < 0 {
		return p, errNoPlace
	}
	return p, nil
}

func (j *journal) writePlace(p place) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	b = append(b, bytes.Repeat([]byte{' '}, placeBytes-1-len(b))...)
	_, err = j.state.WriteAt(append(b, '\n'), 0)
	return err
}

var (
	errNoPlace = errors.New(journalLock + " does not say where the journal ends")
	// errJournalFull says that the batches in the journal are to be synced first.
	errJournalFull = errors.New("the journal is full")
)

// journal is what a process has open of the journal of a store.
type journal struct {
	b *Backend

	mu      sync.Mutex // held to write an entry, outside of the file lock
	state   durable.File
	files   [2]durable.File
	room    []byte
	written mark // the newest entry of this process

	syncing sync.Mutex
	synced  mark
	failed  error

	turning sync.Mutex // held to sync batches and let go of them, outside of the file lock
	turn    durable.File
	timer   *time.Timer
	waits   bool // the timer runs
}

// mark is the end of an entry.
type mark struct {
	chain string
	end   int64
}

func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.timer != nil {
		j.timer.Stop()
	}
	for _, f := range []durable.File{j.state, j.files[0], j.files[1], j.turn} {
		if f != nil {
			f.Close()
		}
	}
}

// open opens the files, and makes those that are missing.
func (j *journal) open() error {
	if j.state != nil {
		return nil
	}
	if err := durable.MkdirAll(j.b.fs, journalDir); err != nil {
		return err
	}
	var err error
	for i, name := range journalFiles {
		if j.files[i] != nil {
			continue
		}
		if j.files[i], err = j.b.fs.OpenFile(name, os.O_RDWR|os.O_CREATE); err != nil {
			return err
		}
	}
	if j.turn == nil {
		if j.turn, err = j.b.fs.OpenFile(turnLock, os.O_RDWR|os.O_CREATE); err != nil {
			return err
		}
	}
	j.state, err = j.b.fs.OpenFile(journalLock, os.O_RDWR|os.O_CREATE)
	return err
}

// isOpen opens the journal, and reports whether it is known where its end is.
func (j *journal) isOpen() bool {
	if j.lock() != nil {
		return false
	}
	defer j.unlock()
	_, err := j.readPlace()
	return err == nil
}

// lock takes the journal of the store. It is held for a few calls, never for a sync of
// many files.
func (j *journal) lock() error {
	j.mu.Lock()
	err := j.open()
	if err == nil {
		err = waitFor(context.Background(), j.state, journalLock)
	}
	if err != nil {
		j.mu.Unlock()
	}
	return err
}

func (j *journal) unlock() {
	j.state.Unlock()
	j.mu.Unlock()
}

// write appends an entry and makes it durable: then its batch will be there, whatever
// crashes. With an error that is no *durable.SyncError, it will not.
func (j *journal) write(e *entry) error {
	file, at, err := j.place(e)
	if err != nil {
		return err
	}
	return j.sync(file, at)
}

// place writes an entry without a sync.
func (j *journal) place(e *entry) (file int, at mark, err error) {
	if err := j.lock(); err != nil {
		return 0, at, err
	}
	defer j.unlock()
	p, err := j.readPlace()
	if err != nil {
		return 0, at, err
	}
	f := j.files[p.File]
	if p.Fresh {
		if err := blank(f, journalFiles[p.File], 0); err != nil {
			return 0, at, err
		}
		// Whoever made the file and marked the store may have died before that was durable.
		for _, dir := range []string{journalDir, "."} {
			if err := durable.SyncDir(j.b.fs, dir); err != nil {
				return 0, at, err
			}
		}
		p.Fresh = false
	}
	e.number = p.Last + 1
	if j.room, err = appendEntry(j.room[:0], p.Chain, e.number, e); err != nil {
		return 0, at, err
	}
	data := j.room
	if cap(data) > 4*journalStep {
		j.room = nil
	}
	end := p.End + int64(len(data))
	if p.End > 0 && end > j.b.set.journalBytes && e.Cancels == 0 {
		return 0, at, errJournalFull
	}
	if end+journalReserve > p.Size && e.Cancels == 0 {
		step := j.b.set.journalStep
		p.Size = (end + journalReserve + step - 1) / step * step
		data = append(data, make([]byte, p.Size-end)...)
	}
	if n, err := f.WriteAt(data, p.End); err != nil {
		if n > 0 { // it may be there whole, and must not be found after a power cut
			if err := blank(f, journalFiles[p.File], p.End); err != nil {
				return 0, at, &stuckError{err}
			}
		}
		if p.End > 0 && durable.IsFull(err) && e.Cancels == 0 {
			err = errJournalFull
		}
		return 0, at, err
	}
	p.Last, p.End = e.number, end
	if err := j.writePlace(p); err != nil {
		return 0, at, &stuckError{err}
	}
	j.written = mark{p.Chain, p.End}
	j.b.syncSoon(p.End > j.b.set.journalBytes/2)
	return p.File, j.written, nil
}

// blankBytes is more than the beginning of an entry without which there is none.
const blankBytes = 32

// blank durably overwrites the beginning of the entry at an offset: what is left behind it
// leads nowhere. Without that, before a file is used again, a torn write could leave
// some entries of an earlier use and not the ones after them.
func blank(f durable.File, name string, at int64) error {
	if _, err := f.WriteAt(make([]byte, blankBytes), at); err != nil {
		return err
	}
	return durable.SyncFile(f, name)
}

// sync makes an entry durable, together with those that others wrote meanwhile.
func (j *journal) sync(file int, at mark) error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if j.failed != nil {
		return j.failed // the next sync may say yes and not know
	}
	if j.synced.chain == at.chain && j.synced.end >= at.end {
		return nil
	}
	j.mu.Lock()
	upto := j.written
	j.mu.Unlock()
	if j.failed = durable.SyncFile(j.files[file], journalFiles[file]); j.failed != nil {
		return j.failed
	}
	j.synced = upto
	return nil
}

// entries returns what is in both files, the oldest first. The caller has the lock, or
// only reads.
func (b *Backend) entries() (all []*entry, err error) {
	of, err := b.entriesByFile()
	if len(of[0]) > 0 && len(of[1]) > 0 && of[0][0].number > of[1][0].number {
		of[0], of[1] = of[1], of[0]
	}
	return append(of[0], of[1]...), err
}

func (b *Backend) entriesByFile() (of [2][]*entry, err error) {
	for i, name := range journalFiles {
		data, err := durable.ReadFile(b.fs, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return of, err
		}
		of[i] = parseJournal(data)
	}
	return of, nil
}

func newChain() string {
	var id [8]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// wipe overwrites both files, durably, and says that the next entry is the first.
// The caller holds all locks, and everything in them is synced.
func (j *journal) wipe() error {
	if err := j.lock(); err != nil {
		return err
	}
	defer j.unlock()
	if err := j.writePlace(place{Chain: newChain(), Fresh: true}); err != nil {
		return err
	}
	step := j.b.set.journalStep
	for i, f := range j.files {
		info, err := f.Stat()
		if err == nil && info.Size > step {
			err = f.Truncate(step)
		}
		if err == nil && info.Size > 0 {
			_, err = f.WriteAt(make([]byte, min(info.Size, step)), 0)
		}
		if err != nil {
			return err
		}
		if err := durable.SyncFile(f, journalFiles[i]); err != nil {
			return err
		}
	}
	return nil
}

// entryOf returns the batch as an entry, with the bytes that its appends add to the logs.
func (c *commit) entryOf() *entry {
	b := c.batch
	e := &entry{Batch: b.ID, At: &b.At}
	for i, r := range b.Puts {
		r = b.Stamp(r)
		r.Head = tidemark.Head{Length: c.floors[i]}
		file := appendRecord(nil, &r)
		e.Puts = append(e.Puts, entryPut{r.Key, len(file), file})
	}
	for _, n := range b.Deletes {
		e.Deletes = append(e.Deletes, n.Key)
	}
	for i, t := range c.targets {
		lines := t.behindEnd(encodeLines(nil, b, i))
		e.Appends = append(e.Appends, entryAppend{t.log, t.st.end, len(lines), lines})
	}
	return e
}
