package sqlite

import (
	"encoding/binary"
	"io"
	"os"
	"strings"
	"time"
)

// The file begins with 100 bytes that SQLite needs before it can read anything.
// Nearly all of them are the same in every store of ours, so a damaged one can
// be recognized and rewritten.
const (
	headerBytes = 100

	// The sizes of a page in stores that we make, and that we made before. On small
	// pages two lines of a conversation hardly fit beside each other, and a third of
	// the file is empty; with larger ones an append writes more.
	wideBytes   = 8192
	narrowBytes = 4096

	atPageSize  = 16
	atPageCount = 28
	atVacuum    = 52 // not 0 in a file with pointer-map pages; ours have none
	atVersion   = 60
	atStepwise  = 64 // likewise
	atAppID     = 68
)

// fixed are the parts of the header that are the same in every store.
var fixed = []struct {
	at   int
	name string
	want string
}{
	{0, "the mark of SQLite", "SQLite format 3\x00"},
	{atPageSize, "the size of a page", ""}, // as pageBytes has it
	{20, "the layout of a page", "\x00\x40\x20\x20"},
	{44, "the format of the schema", "\x00\x00\x00\x04"},
	{atVacuum, "the kind of vacuum", "\x00\x00\x00\x00"},
	{56, "the encoding of text", "\x00\x00\x00\x01"},
	{atVersion, "the format of the store", "\x00\x00\x00"}, // the last byte is the version
	{atStepwise, "the kind of vacuum", "\x00\x00\x00\x00"},
	{atAppID, "the mark of Tidemark", "tide"},
}

// A header that differs in more bytes than this is not a damaged one of ours,
// but that of another file.
const mostBytesWrong = 4

// header is the beginning of a file, as it is on disk.
type header struct {
	bytes [headerBytes]byte
	size  int64 // of the file
	tree  bool  // its second page is one of a tree
	page  bool  // where the second page of a file with small pages would be, a tree begins
	wide  bool  // its first page has a row where a small one has ended
	quiet bool  // the -wal file is empty, so the file is complete on its own
}

// sqlHeader names the two pages: with a bound, SQLite would go through all of the file.
const sqlHeader = `SELECT pgno, data FROM sqlite_dbpage WHERE pgno IN (1, 2)`

// headerOf reads the header through SQLite, with a connection that was opened
// when the files were in the state before. Opening and closing a file of the
// store by other means would release this process's locks on it.
func headerOf(c *conn, path string, before *fileState) (*header, error) {
	h := new(header)
	err := c.do(sqlHeader, nil, func(s *stmt) {
		data := s.view(1)
		if s.int(0) == 1 {
			copy(h.bytes[:], data)
			h.wide = isWide(data)
			h.page = len(data) > narrowBytes && beginsPage(data[narrowBytes:])
		} else if len(data) > 0 {
			h.tree = treeKind(data[0]) != 0
			h.page = h.page || len(data) == narrowBytes && beginsPage(data)
		}
	})
	if err != nil {
		return nil, err
	}
	h.look(path, before)
	return h, nil
}

// rawHeader reads the header of a file that SQLite cannot open.
func rawHeader(path string) (*header, error) {
	before := fileStateOf(path)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := new(header)
	if _, err := f.ReadAt(h.bytes[:], 0); err != nil && err != io.EOF {
		return nil, err
	}
	var first [headerBytes + 10]byte
	if _, err := f.ReadAt(first[:], 0); err == nil {
		h.wide = isWide(first[:])
	}
	var second [8]byte
	if _, err := f.ReadAt(second[:], narrowBytes); err == nil {
		h.page = beginsPage(second[:])
	}
	h.look(path, before)
	if _, err := f.ReadAt(second[:], h.pageBytes()); err == nil {
		h.tree = treeKind(second[0]) != 0
	}
	return h, nil
}

// isWide reports whether the first page has a row where a small page has ended: whatever
// the header says, it is a larger one.
func isWide(first []byte) bool {
	return len(first) >= headerBytes+10 && first[headerBytes] == leafTable && binary.BigEndian.Uint16(first[headerBytes+8:]) >= narrowBytes
}

// beginsPage reports whether a page of a tree of small pages may begin like this. The
// text of the schema, which is there in a file with larger ones, does not.
func beginsPage(b []byte) bool {
	if len(b) < 8 || treeKind(b[0]) == 0 {
		return false
	}
	cells, content := int(binary.BigEndian.Uint16(b[3:])), int(binary.BigEndian.Uint16(b[5:]))
	return 8+2*cells <= content && content <= narrowBytes
}

// fileState is the state of the files of a store: everything that changes when
// somebody writes.
type fileState struct {
	size, wal int64
	mod       time.Time
}

func fileStateOf(path string) *fileState {
	var l fileState
	if info, err := os.Stat(path); err == nil {
		l.size, l.mod = info.Size(), info.ModTime()
	}
	if info, err := os.Stat(path + "-wal"); err == nil {
		l.wal = info.Size()
	}
	return &l
}

// look records what belongs with the header. While somebody writes, the header
// and the size of the file are not from the same moment.
func (h *header) look(path string, before *fileState) {
	now := fileStateOf(path)
	h.size, h.quiet = now.size, now.wal == 0 && now.size == before.size && before.wal == 0 && now.mod.Equal(before.mod)
}

// faults names what is wrong with a header of ours; nil for an intact one, and
// for one that is another program's. The size of a page and the kind of vacuum
// can be changed with a shell: the size counts as wrong when the file is not
// readable with it.
func (h *header) faults(readable bool) (names []string) {
	wrong := 0
	for _, f := range fixed {
		n, want := 0, h.want(f.at, f.want)
		for i := range want {
			if h.bytes[f.at+i] != want[i] {
				n++
			}
		}
		switch {
		case f.at == atPageSize && readable && h.sized() && !h.contradicted(), (f.at == atVacuum || f.at == atStepwise) && !h.tree:
			n = 0
		case f.at == atAppID && n > 1:
			return nil
		}
		if n > 0 {
			names = append(names, f.name)
		}
		wrong += n
	}
	if wrong > mostBytesWrong {
		return nil
	}
	for i, name := range []string{"who may write", "who may read"} {
		if v := h.bytes[18+i]; v != 1 && v != 2 {
			names = append(names, name)
		}
	}
	if h.bytes[atVersion+3] == 0 {
		names = append(names, "the format of the store")
	}
	if n := h.pageBytes(); h.quiet && h.counted() && h.sized() && h.pages() != h.size/n && h.size%n == 0 {
		names = append(names, "the number of pages")
	}
	return names
}

// want is what the header has to say at a place.
func (h *header) want(at int, fixed string) string {
	if at == atPageSize {
		return string(binary.BigEndian.AppendUint16(nil, uint16(h.pageBytes())))
	}
	return fixed
}

// pageBytes is the size of a page of the file: what the header says, unless that is
// neither of ours, or the number of pages contradicts it; then the one that the file
// looks like.
func (h *header) pageBytes() int64 {
	said := h.saidBytes()
	if (said == narrowBytes || said == wideBytes) && !h.contradicted() {
		return said
	}
	if h.page && !h.wide {
		return narrowBytes
	}
	return wideBytes
}

// contradicted reports whether the header has one of our sizes, and the file has the
// other one: the number of pages is right for that, or the first page is too large. A
// program that knew only small pages may have "repaired" it like this.
func (h *header) contradicted() bool {
	said := h.saidBytes()
	if said != narrowBytes && said != wideBytes {
		return false
	}
	return said == narrowBytes && h.wide || h.quiet && h.counted() && h.pages()*(narrowBytes+wideBytes-said) == h.size
}

func (h *header) saidBytes() int64 { return int64(binary.BigEndian.Uint16(h.bytes[atPageSize:])) }

// sized reports whether the size of a page is one that SQLite knows.
func (h *header) sized() bool {
	n := h.saidBytes()
	return n == 1 || n >= 512 && n&(n-1) == 0 && h.size%n == 0
}

// counted reports whether SQLite uses the number of pages in the header.
func (h *header) counted() bool {
	return string(h.bytes[24:28]) == string(h.bytes[92:96])
}

func (h *header) pages() int64 {
	return int64(binary.BigEndian.Uint32(h.bytes[atPageCount:]))
}

// mended returns the header as it should be. A format that was lost is taken to
// be the one that this program writes; whether the tables match it is checked
// once the file can be read.
func (h *header) mended() []byte {
	b := h.bytes
	for _, f := range fixed {
		copy(b[f.at:], h.want(f.at, f.want))
	}
	b[18], b[19] = 2, 2
	if b[atVersion+3] == 0 {
		b[atVersion+3] = Format
	}
	binary.BigEndian.PutUint32(b[atPageCount:], uint32(h.size/h.pageBytes()))
	copy(b[92:96], b[24:28])
	return b[:]
}

// fault is the damage of a header, nil if there is none.
func (h *header) fault(path string, readable bool) error {
	names := h.faults(readable)
	if len(names) == 0 {
		return nil
	}
	return &unreadable{path, "the first bytes of the file are damaged: " + strings.Join(names, ", ")}
}

// rawFault is the damage of the header of a file that SQLite refuses.
func rawFault(path string) error {
	h, err := rawHeader(path)
	if err != nil {
		return nil // opening the file reports why
	}
	return h.fault(path, false)
}
