package transfer

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/store"
)

// A file that only grew since it was imported is read from its bookmark on, and of
// the log here only the end is looked at. Whatever does not fit, such as a change
// before the bookmark, another program, or an entry that refers to one that nobody
// remembers, costs a reading of the whole file, which alone decides what is here.

// bookmarkFrom is how large the part of a file is that is worth a bookmark. Tests
// change it.
var bookmarkFrom = int64(64 << 10)

// bookmarkFor is for how long after a change a file is expected to grow.
const bookmarkFor = 7 * 24 * time.Hour

// keptBookmark is a bookmark in the ledger.
type keptBookmark struct {
	convert.Bookmark
	Program string `json:"program"` // that made it: another one may read the file in another way
	File    uint64 `json:"file"`    // the number of the file
	Sum     string `json:"sum"`     // of samples of what is before the bookmark
	Others  string `json:"others"`  // the other files of the unit
	Beside  string `json:"beside"`  // those that hold none of its entries
}

// logEnd is what an import wants back from a bookmark: the end of the log.
type logEnd struct {
	Tip    int64  `json:"tip"` // the seq of the last entry before the bookmark
	Prompt string `json:"prompt,omitempty"`
}

// thisProgram tells programs apart: "" if that is not possible.
var thisProgram = sync.OnceValue(func() string {
	file, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %d %d", readingVersion, info.Size(), info.ModTime().UnixNano())
})

// Samples of a file before a bookmark: so many, of so many bytes.
const (
	samples     = 16
	sampleBytes = 1 << 10
)

// sampled is a hash of samples of the first bytes of a file, the beginning and the
// end among them; "" if they cannot be read.
func sampled(fsys fs.FS, file string, size int64) string {
	f, err := fsys.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok {
		return ""
	}
	sum, part := sha256.New(), make([]byte, min(size, sampleBytes))
	for i := range int64(samples) {
		if _, err := r.ReadAt(part, (size-int64(len(part)))*i/(samples-1)); err != nil {
			return ""
		}
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// sumOfText is a short hash of what tells files apart.
func sumOfText(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// bookmark encodes the bookmark of a unit; nil if it is not worth it, or cannot be
// kept.
func (l *ledger) bookmark(unit string, at convert.Bookmark) []byte {
	f := l.units[unit]
	if f == nil || at.Offset < bookmarkFrom || thisProgram() == "" || f.rows == "" && (!f.named || l.at.Sub(f.newest) > bookmarkFor) {
		return nil
	}
	k := keptBookmark{Bookmark: at, Program: thisProgram()}
	if f.rows == "" { // what rows were like is in the state of the converter
		k.File, k.Sum, k.Others, k.Beside = f.file, sampled(l.fsys, unit, at.Offset), sumOfText(f.others), sumOfText(f.beside)
	}
	raw, err := json.Marshal(k)
	if err != nil || k.Sum == "" && f.rows == "" || l.s.MaskText(string(raw)) != string(raw) {
		return nil // a secret stays where it is
	}
	packed, err := l.pack(raw)
	if err != nil || len(packed) > store.MaxUnitState {
		return nil
	}
	return packed
}

// pack compresses a bookmark. The compressor is kept: a new one takes more than a
// megabyte, for each session of an import.
func (l *ledger) pack(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	if l.packer == nil {
		var err error
		if l.packer, err = flate.NewWriter(&out, flate.BestSpeed); err != nil {
			return nil, err
		}
	}
	l.packer.Reset(&out)
	if _, err := l.packer.Write(raw); err != nil {
		return nil, err
	}
	err := l.packer.Close()
	return out.Bytes(), err
}

// growth returns the bookmark of a unit, if what is before it and the other files
// are as they were. Of rows of a database the converter knows that.
func growth(ctx context.Context, s *store.Store, fsys fs.FS, src store.Source, unit string, f *fileStamps) (g convert.Growth, ok bool) {
	rows := strings.HasPrefix(unit, convert.SessionUnit)
	if !rows && (f == nil || !f.named) {
		return g, false
	}
	packed, err := s.SourceBookmark(ctx, src, unit)
	if err != nil || packed == nil {
		return g, false
	}
	var k keptBookmark
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxUnpacked))
	if err != nil || json.Unmarshal(raw, &k) != nil || k.Program != thisProgram() {
		return g, false
	}
	if rows {
		return convert.Growth{Bookmark: k.Bookmark}, true
	}
	if k.Offset > f.size || k.File != f.file || k.Others != sumOfText(f.others) {
		return g, false
	}
	if k.Sum != sampled(fsys, unit, k.Offset) {
		return g, false
	}
	return convert.Growth{Bookmark: k.Bookmark, Beside: k.Beside != sumOfText(f.beside)}, true
}

// maxUnpacked bounds a bookmark in memory.
const maxUnpacked = 4 << 20

// growth implements convert.Source.Growth.
func (l *ledger) growth(ctx context.Context) func(unit string) (convert.Growth, bool) {
	return func(unit string) (convert.Growth, bool) {
		was, ok := l.known[unit]
		if !ok || !l.used {
			return convert.Growth{}, false
		}
		g, ok := growth(ctx, l.s, l.fsys, l.source, unit, l.units[unit])
		g.Known = was.State
		return g, ok
	}
}

// stampsOf looks at the files of a unit, as a ledger does.
func stampsOf(fsys fs.FS, unit string, files []convert.SourceFile) (*fileStamps, error) {
	s := &fileStamps{sum: [sha256.Size]byte{readingVersion}}
	for _, f := range files {
		info, err := fs.Stat(fsys, f.Path)
		if err != nil {
			return nil, err
		}
		line := stampText(make([]byte, sha256.Size), f.Path, info)
		text := line[sha256.Size:]
		s.add(line, info.ModTime())
		switch {
		case f.Path == unit:
			s.named, s.size, s.file = true, info.Size(), durable.FileID(info)
		case f.Beside:
			s.beside = append(s.beside, text...)
		default:
			s.others = append(s.others, text...)
		}
	}
	return s, nil
}

// stampText adds what tells whether a file was changed.
func stampText(to []byte, path string, info fs.FileInfo) []byte {
	to = append(append(to, path...), 0)
	for _, n := range []uint64{uint64(info.Size()), uint64(info.ModTime().UnixNano()), durable.FileID(info)} {
		to = binary.LittleEndian.AppendUint64(to, n)
	}
	return to
}

// endLooked is how many entries before a bookmark are looked at.
const endLooked = 256

// lookAtEnd is look for entries that go on at a bookmark. convert.ErrWhole: the log
// is not as it was left.
func (l *logImport) lookAtEnd(ctx context.Context) error {
	var end logEnd
	if json.Unmarshal(l.from.From.Caller, &end) != nil || l.here == nil || l.here.Base != nil || l.handed != nil || l.under != "" || end.Tip <= 0 {
		return convert.ErrWhole
	}
	l.view, l.prompt = l.here, end.Prompt
	begin, tip := l.keysBegin(l.under), l.keyOf(l.under, l.from.From.After)
	for e, err := range l.here.Unmasked().LogRange(ctx, max(end.Tip-endLooked, 1), 0) {
		if err != nil {
			return err
		}
		switch {
		case e.Seq > end.Tip && e.Kind != tidemark.KindBranch && e.Kind != tidemark.KindInterrupted && !strings.HasPrefix(e.Key, begin):
			return convert.ErrWhole // something was appended here
		case e.Seq == end.Tip && e.Key != tip:
			return convert.ErrWhole
		case e.Seq == end.Tip:
			l.at = e.At
		}
		l.moved = movedHere(e, begin)
		if l.end = e.Seq; e.Key != "" {
			l.kept[shortSumOf(e.Key)] = keptEntry{e.Seq, e.Parent, sumOf(e), costOf(e)}
		}
	}
	if l.last = end.Tip; l.end < end.Tip {
		return convert.ErrWhole
	}
	for id, cost := range l.from.Costs {
		have, ok := l.kept[shortSumOf(l.keyOf(l.under, id))]
		if !ok {
			return convert.ErrWhole
		}
		if cost != have.cost {
			l.costs[have.seq] = cost
		}
	}
	return nil
}

// seqOf is the seq of an entry by the tool's id, also of one before the bookmark.
func (l *logImport) seqOf(id string) (seq int64, ok bool) {
	if seq, ok = l.seqs.of(id); ok || l.from.From == nil || l.worker != "" {
		return seq, ok
	}
	have, ok := l.kept[shortSumOf(l.keyOf(l.under, id))]
	return have.seq, ok
}

// mark takes the bookmarks of the files that the entries were in, of a log to which
// everything came from there, in that order.
func (l *logImport) mark() {
	if l.odd || l.appended || l.handed != nil || l.under != "" || l.from.Fork != nil || l.DryRun || l.worker != "" || l.reports == nil {
		return
	}
	final := l.end - int64(len(l.drafts))
	for _, u := range l.from.Units {
		if u.Bookmark == nil {
			continue
		}
		at, ok := u.Bookmark()
		if !ok {
			continue
		}
		seq, ok := l.seqOf(at.After)
		if !ok || seq <= 0 || seq > final {
			continue
		}
		caller, err := json.Marshal(logEnd{Tip: seq, Prompt: l.prompt})
		if err != nil {
			continue
		}
		if at.Caller = caller; l.reports.bookmarks == nil {
			l.reports.bookmarks = make(map[string]convert.Bookmark)
		}
		l.reports.bookmarks[u.Name] = at
	}
}
