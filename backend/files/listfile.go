package files

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// The rows of some kinds are kept in lists/KIND, so that a process that begins need not
// read every record to find the newest. Each row has the stamps of the files that it was
// made from, and is used only while they have them: whoever changes a record or a log,
// an earlier program included, is seen. So the file may be old, torn or removed at any
// time; it is neither synced nor locked by who reads it. Behind the rows stands a dot for
// each record that a process changed before it ended. When they are many, the rows are
// written anew.

const listsDir = "lists"

const (
	listMagic  = "tidemark list 1\n"
	listHeader = len(listMagic) + 8 + 4 + 4 // how long the rest is, how many rows, and its sum
	// maxListBytes bounds what is read: maxRows of them, and long groups.
	maxListBytes = 256 << 20
)

// worthWriting says whether so many of the rows have changed that they are written anew:
// to read them again then takes a process about as long as the rest of a list.
func worthWriting(changed, rows int) bool { return changed >= max(128, rows/16) }

// appendList writes the file of a table.
func appendList(dst []byte, t *table) []byte {
	start := len(dst)
	dst = append(append(dst, listMagic...), make([]byte, 16)...)
	for _, f := range t.folders {
		dst = binary.LittleEndian.AppendUint64(dst, f.ID)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(f.Changed))
	}
	for _, l := range t.rows {
		dst = appendRow(dst, l)
	}
	sealList(dst[start:], len(t.rows))
	return dst
}

// sealList fills in the header of a list.
func sealList(list []byte, rows int) []byte {
	head, body := list[len(listMagic):], list[listHeader:]
	binary.LittleEndian.PutUint64(head, uint64(len(body)))
	binary.LittleEndian.PutUint32(head[8:], uint32(rows))
	binary.LittleEndian.PutUint32(head[12:], crc32.Checksum(body, castagnoli))
	return list
}

const (
	rowHasLog = 1 << iota
	rowAlone
	rowUnknown // only its name is known: its files changed a moment ago, are damaged, or end in what no sync has kept
)

func appendRow(dst []byte, l *listed) []byte {
	flags := byte(0)
	if l.hasLog {
		flags |= rowHasLog
	}
	if l.alone {
		flags |= rowAlone
	}
	if l.damage != nil || !l.solid || l.record == (stamp{}) || len(l.group)|len(l.state) > 255 {
		return appendString8(append(dst, flags|rowUnknown), l.id)
	}
	dst = appendString8(append(dst, flags), l.id)
	dst = appendString8(appendString8(dst, l.group), l.state)
	dst = appendStamp(dst, l.record)
	if flags&rowHasLog != 0 {
		dst = appendStamp(dst, l.log)
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.due))
	return binary.LittleEndian.AppendUint64(dst, uint64(l.touched))
}

// appendString8 writes a text of at most 255 bytes, as ids, groups and states are.
func appendString8(dst []byte, s string) []byte { return append(append(dst, byte(len(s))), s...) }

func appendStamp(dst []byte, s stamp) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, s.id)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.size))
	return binary.LittleEndian.AppendUint64(dst, uint64(s.changed))
}

// parseListHeader returns how long the rows are and how many, and their sum.
func parseListHeader(b []byte) (length int64, rows int, sum uint32, ok bool) {
	if len(b) < listHeader || string(b[:len(listMagic)]) != listMagic {
		return 0, 0, 0, false
	}
	b = b[len(listMagic):]
	length, rows = int64(binary.LittleEndian.Uint64(b)), int(binary.LittleEndian.Uint32(b[8:]))
	return length, rows, binary.LittleEndian.Uint32(b[12:]), length >= 0 && length <= maxListBytes && rows <= maxRows
}

// parseList reads what appendList wrote, nil where that is not there whole.
func parseList(b []byte) *table {
	length, n, sum, ok := parseListHeader(b)
	if !ok || length > int64(len(b)-listHeader) {
		return nil
	}
	b = b[listHeader : listHeader+int(length)]
	if sum != crc32.Checksum(b, castagnoli) || n > len(b)/2 {
		return nil
	}
	r := listedReader{b: b, s: string(b)}
	t := &table{rows: make([]*listed, n)}
	for i := range t.folders {
		t.folders[i] = durable.Folder{ID: r.number(), Changed: int64(r.number())}
	}
	rows := make([]listed, n)
	for i := range rows {
		r.row(&rows[i])
		t.rows[i] = &rows[i]
	}
	if r.bad || len(r.b) > 0 {
		return nil
	}
	return t
}

// listedReader reads rows from b, the end of s, with whose memory they share their texts.
type listedReader struct {
	b   []byte
	s   string
	bad bool
}

func (r *listedReader) row(l *listed) {
	flags := r.take(1)[0]
	l.hasLog, l.alone, l.due, l.touched = flags&rowHasLog != 0, flags&rowAlone != 0, noTime, noTime
	l.id = r.text()
	r.bad = r.bad || flags >= 2*rowUnknown || tidemark.CheckID(l.id) != nil
	if flags&rowUnknown != 0 {
		return
	}
	l.group, l.state, l.solid = r.text(), r.text(), true
	l.record = r.stamp()
	if l.hasLog {
		l.log = r.stamp()
	}
	l.due, l.touched = int64(r.number()), int64(r.number())
}

var noBytes [8]byte

// take returns the next n bytes, at most 8, or zeros when there are not as many.
func (r *listedReader) take(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return noBytes[:n]
	}
	got := r.b[:n]
	r.b = r.b[n:]
	return got
}

func (r *listedReader) text() string {
	n := int(r.take(1)[0])
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return ""
	}
	at := len(r.s) - len(r.b)
	r.b = r.b[n:]
	return r.s[at : at+n]
}

func (r *listedReader) number() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *listedReader) stamp() stamp {
	return stamp{r.number(), int64(r.number()), int64(r.number())}
}

// loadList takes in the rows that are kept of a kind, before its first listing.
func (b *Backend) loadList(kind string) {
	if !slices.Contains(b.lists, kind) {
		return
	}
	if b.list.of(kind) != nil {
		return
	}
	if data, err := b.readList(kind); err == nil {
		if t := parseList(data); t != nil {
			b.list.keep(kind, t, 0)
		}
	}
}

func (b *Backend) readList(kind string) ([]byte, error) {
	f, err := b.fs.OpenFile(listsDir+"/"+kind, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size > maxListBytes || !info.Mode.IsRegular() {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	data := make([]byte, info.Size)
	n, err := f.ReadAt(data, 0)
	if n < len(data) {
		return nil, err
	}
	return data, nil
}

// keepList writes the rows of a kind when so many have changed that it is worth it. A
// list that cannot be written is not worth an error.
func (b *Backend) keepList(kind string, t *table, changed int) {
	if b.readOnly || b.broken.Load() != nil || !slices.Contains(b.lists, kind) || !worthWriting(changed, len(t.rows)) {
		return
	}
	if f := b.openList(kind); f != nil {
		defer f.Close()
		b.writeList(f, t)
		b.list.written(kind)
	}
}

// openList opens the list of a kind for who writes it, nil when somebody else does.
func (b *Backend) openList(kind string) durable.File {
	name := listsDir + "/" + kind
	f, err := b.fs.OpenFile(name, os.O_RDWR|os.O_CREATE)
	if errors.Is(err, fs.ErrNotExist) {
		b.fs.Mkdir(listsDir)
		f, err = b.fs.OpenFile(name, os.O_RDWR|os.O_CREATE)
	}
	if err != nil {
		return nil
	}
	if ok, err := f.TryLock(); !ok || err != nil {
		f.Close()
		return nil
	}
	return f
}

func (b *Backend) writeList(f durable.File, t *table) {
	data := appendList(nil, t)
	if _, err := f.WriteAt(data, 0); err != nil {
		f.Truncate(0) // gives back the room
		return
	}
	f.Truncate(int64(len(data)))
}

// countChanges counts the records that this process changed, of kinds whose lists are kept.
func (b *Backend) countChanges(batch *tidemark.Batch) {
	if len(b.lists) == 0 {
		return
	}
	b.changes.Lock()
	defer b.changes.Unlock()
	for i := range batch.Puts {
		b.countChange(batch.Puts[i].Key)
	}
	for i := range batch.Appends {
		b.countChange(batch.Appends[i].Log)
	}
	for i := range batch.Deletes {
		b.countChange(batch.Deletes[i].Key)
	}
	for _, log := range batch.Drops {
		if slices.Contains(b.lists, log.Kind) {
			b.dropped = append(b.dropped, log.Kind)
		}
	}
}

func (b *Backend) countChange(key tidemark.Key) {
	if len(b.changed) >= maxRows || !slices.Contains(b.lists, key.Kind) {
		return
	}
	if b.changed == nil {
		b.changed = make(map[tidemark.Key]struct{})
	}
	b.changed[key] = struct{}{}
}

// leaveLists notes, at the end of this process, how much it changed, or writes the lists
// anew where that has become worth it.
func (b *Backend) leaveLists() {
	if b.broken.Load() != nil {
		return
	}
	changed := make(map[string]int)
	b.changes.Lock()
	for key := range b.changed {
		changed[key.Kind]++
	}
	b.changes.Unlock()
	for _, kind := range b.lists {
		if n := changed[kind]; n > 0 {
			b.leaveList(kind, n)
		}
	}
}

// leaveFor is how long a process that ends looks at the store to write a list: enough for
// 100,000 sessions on a disk, and not for a network to keep it.
const leaveFor = 2 * time.Second

func (b *Backend) leaveList(kind string, changed int) {
	f := b.openList(kind)
	if f == nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	var buf [listHeader]byte
	n, _ := f.ReadAt(buf[:], 0)
	length, rows, _, ok := parseListHeader(buf[:n])
	dots := info.Size
	if ok {
		dots -= int64(listHeader) + length
	}
	// What was purged leaves the list at once.
	if changed += int(max(dots, 0)); !worthWriting(changed, rows) && !slices.Contains(b.dropped, kind) {
		f.WriteAt(slices.Repeat([]byte{'.'}, changed-int(max(dots, 0))), info.Size)
		return
	}
	b.loadList(kind)
	time.Sleep(durable.FolderSettles) // of our own changes
	ctx, stop := context.WithTimeout(context.Background(), leaveFor)
	defer stop()
	if t, _, err := b.refreshed(ctx, kind, affix{}, b.list.of(kind)); err == nil {
		b.writeList(f, t)
	} else if slices.Contains(b.dropped, kind) {
		f.Truncate(0)
	}
}
