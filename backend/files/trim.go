package files

import (
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// A log that is without its oldest lines begins with a mark instead of a line: a
// row that says up to which one they are gone. Trimming and filling write a new
// file beside the log, which takes its name in one step; whoever reads the old one
// goes on with that.

const maxMark = 100 // bytes of a mark, at most

func appendMark(dst []byte, log tidemark.Key, upto int64) []byte {
	if upto == 0 {
		return dst
	}
	start := len(dst)
	dst = append(dst, `{"trimmed":`...)
	dst = strconv.AppendInt(dst, upto, 10)
	sum := headSum(log, dst[start:])
	dst = append(dst, `,"sum":"`...)
	dst = appendHex32(dst, sum)
	return append(dst, "\"}\n"...)
}

// parseMark returns what a row says is gone, 0 when it is no mark of the log.
func parseMark(b []byte, log tidemark.Key) (upto int64) {
	if len(b) > maxMark {
		return 0
	}
	s := scanner{b: b}
	if !s.literal(`{"trimmed":`) || !s.number(&upto) {
		return 0
	}
	sum, want := uint32(0), crc32.Update(crc32.Update(0, castagnoli, []byte(log.String())), castagnoli, b[:s.i])
	if !s.literal(`,"sum":"`) || !s.hex32(&sum) || !s.literal(`"}`) || !s.done() || sum != want {
		return 0
	}
	return upto
}

// markOf returns what the mark of a log says, and where its lines begin.
func markOf(f durable.File, log tidemark.Key) (upto, begin int64, err error) {
	var buf [maxMark]byte
	n, err := f.ReadAt(buf[:], 0)
	if err != nil && err != io.EOF {
		return 0, 0, err
	}
	for i, c := range buf[:n] {
		if c == '\n' {
			if upto = parseMark(buf[:i], log); upto > 0 {
				begin = int64(i) + 1
			}
			break
		}
	}
	return upto, begin, nil
}

// intentTrim and intentFill are a Trim and a fill in an intent.
type intentTrim struct {
	tidemark.Key
	Upto int64 `json:"upto"`
}

type intentFill struct {
	tidemark.Key
	First int64  `json:"first"`
	Last  int64  `json:"last"`
	Lines string `json:"lines"`
}

// fillOf returns lines as they stand in the file. How they were once appended is
// not known any more, and counts only for the newest lines of a log: each stands
// alone.
func fillOf(a tidemark.Append) intentFill {
	var data []byte
	for i := range a.Lines {
		l := line{Line: a.Lines[i], batchAt: a.Lines[i].At, part: 1, parts: 1}
		data = appendLine(data, a.Log, &l)
	}
	return intentFill{a.Log, a.Lines[0].Seq, a.Lines[len(a.Lines)-1].Seq, string(data)}
}

// checkTrims checks what the batch says of the logs that it trims and fills.
func (c *commit) checkTrims() error {
	look := func(log tidemark.Key, check func(tidemark.Head) error) error {
		t, err := c.b.target(log)
		if err != nil {
			return err
		}
		defer c.b.handles.keepLog(t)
		return check(t.st.Head)
	}
	for _, t := range c.batch.Trims {
		if err := look(t.Log, func(h tidemark.Head) error { return h.Trims(t) }); err != nil {
			return err
		}
	}
	for _, a := range c.batch.Fills {
		if err := look(a.Log, func(h tidemark.Head) error { return h.Fills(a) }); err != nil {
			return err
		}
	}
	return nil
}

// swap is a file that is to take the place of a log.
type swap struct {
	tmp string
	log tidemark.Key
}

// stageFills and stageTrims write the new files of logs, unless that was done before
// by a process that died. A damaged log is left as it is.
func (a *applying) stageFills() error {
	for _, f := range a.in.Fills {
		err := a.stageLog(f.Key, &a.fills, func(t *target, w *fileWriter) error {
			if t.st.Trimmed != f.Last {
				return errDone
			}
			_, begin, err := markOf(t.f, t.log)
			if err == nil {
				err = w.write(append(appendMark(nil, t.log, f.First-1), f.Lines...))
			}
			if err == nil {
				err = w.copy(t.f, begin, t.st.end)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *applying) stageTrims() error {
	for _, trim := range a.in.Trims {
		err := a.stageLog(trim.Key, &a.trims, func(t *target, w *fileWriter) error {
			if t.st.Trimmed >= trim.Upto {
				return errDone
			}
			rest, from, err := t.after(trim.Upto)
			if err == nil {
				err = w.write(append(appendMark(nil, t.log, trim.Upto), rest...))
			}
			if err == nil {
				err = w.copy(t.f, from, t.st.end)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// errDone says that a step was done before.
var errDone = errors.New("done already")

func (a *applying) stageLog(log tidemark.Key, swaps *[]swap, fill func(*target, *fileWriter) error) error {
	t, err := a.b.target(log)
	if errors.Is(err, tidemark.ErrCorrupt) {
		return nil
	}
	if err != nil {
		return err
	}
	defer a.b.handles.keepLog(t)
	if t.f == nil {
		return nil
	}
	s := swap{a.b.tmpName(), log}
	f, err := a.b.fs.OpenFile(s.tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	defer f.Close()
	err = fill(t, &fileWriter{f: f})
	if err == nil {
		err = durable.SyncFile(f, s.tmp)
	}
	if err == nil {
		*swaps = append(*swaps, s)
		return nil
	}
	if gone := a.b.fs.Remove(s.tmp); gone != nil {
		return &stuckError{errors.Join(err, gone)}
	}
	if err == errDone {
		return nil
	}
	return err
}

// after finds where the lines behind seq begin. The first of them may be the rest of
// an append that is cut here: those are returned, as an append of their own, and
// what follows them begins at the offset.
func (t *target) after(seq int64) (rest []byte, at int64, err error) {
	r, err := seek(t.f, t.log, &t.st, seq+1)
	if err != nil {
		return nil, 0, err
	}
	var cut []line
	for {
		row, err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		var l line
		if parseLine(row.bytes, t.log, &l) != nil {
			if len(cut) > 0 {
				break // a damaged line, which stays as it is, with what follows
			}
			at = row.stop
			continue
		}
		if l.Seq <= seq || at == 0 {
			at = row.at
		}
		if l.Seq <= seq {
			at = row.stop
			continue
		}
		if l.part == 1 || len(cut) > 0 && cut[len(cut)-1].part == cut[len(cut)-1].parts {
			break
		}
		l.scratch = nil
		cut, at = append(cut, l), row.stop
	}
	for i := range cut {
		cut[i].part, cut[i].parts = int64(i+1), int64(len(cut))
		if len(cut) == 1 {
			cut[i].by = ""
		}
		rest = appendLine(rest, t.log, &cut[i])
	}
	return rest, at, nil
}

// fileWriter writes a file from its beginning.
type fileWriter struct {
	f  durable.File
	at int64
}

func (w *fileWriter) write(b []byte) error {
	_, err := w.f.WriteAt(b, w.at)
	w.at += int64(len(b))
	return err
}

func (w *fileWriter) copy(from durable.File, begin, end int64) error {
	n, err := io.Copy(io.NewOffsetWriter(w.f, w.at), io.NewSectionReader(from, begin, end-begin))
	w.at += n
	return err
}

// swap puts a staged file in the place of a log. The head goes first and durably:
// it says where the old file ends.
func (b *Backend) swap(s swap) error {
	err := b.fs.Remove(headPath(s.log))
	if err == nil {
		err = durable.SyncDir(b.fs, path.Dir(headPath(s.log)))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if t := b.handles.takeLog(s.log); t != nil {
		t.close()
	}
	if err := b.fs.Rename(s.tmp, logPath(s.log)); err != nil {
		return err
	}
	if err := durable.SyncDir(b.fs, path.Dir(logPath(s.log))); err != nil {
		return err
	}
	b.keys.forget(s.log)
	b.list.forget(s.log)
	t, err := b.target(s.log) // which writes the head
	if err != nil {
		return err
	}
	b.handles.keepLog(t)
	return nil
}
