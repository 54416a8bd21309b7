package convert

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// MaxLine bounds one line of a foreign file: longer ones are skipped without
// being held in memory.
const MaxLine = tidemark.MaxBodyBytes

// Line is one line of a file.
type Line struct {
	Number int
	Start  Mark   // where it begins
	End    Mark   // where the next one begins
	Text   []byte // without its newline; valid until the next one is read
	Torn   bool   // the last one, without a newline
}

// lineReaders are the buffers of Lines: most files are smaller than one of them,
// and are read several times.
var lineReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 1<<16) }}

// Lines yields the lines of a file that are not empty, split only at newlines:
// tools write other separators raw inside strings. A line over MaxLine is
// yielded as its Number with a *Skip; an error of the file ends it.
func Lines(fsys fs.FS, name string) iter.Seq2[Line, error] {
	return LinesFrom(fsys, name, Mark{})
}

// LinesFrom is Lines without what is before a Mark, which is not read.
func LinesFrom(fsys fs.FS, name string, from Mark) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		f, err := fsys.Open(name)
		if err != nil {
			yield(Line{}, err)
			return
		}
		defer f.Close()
		if err := skipTo(f, from.Offset); err != nil {
			yield(Line{}, err)
			return
		}
		r := lineReaders.Get().(*bufio.Reader)
		r.Reset(f)
		defer func() {
			r.Reset(nil)
			lineReaders.Put(r)
		}()
		var buf []byte
		for n, start, size := from.Lines+1, from.Offset, int64(0); ; n, start = n+1, start+size {
			text, long, read, err := readLine(r, buf[:0])
			buf, size = text, read
			begin, end := Mark{start, n - 1}, Mark{start + size, n}
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Line{Number: n, Start: begin, End: begin}, err)
				return
			}
			last := err != nil
			switch line := (Line{Number: n, Start: begin, End: end, Text: bytes.TrimSuffix(text, []byte("\r")), Torn: last}); {
			case long:
				if !yield(Line{Number: n, Start: begin, End: end, Torn: last}, Skipf(name, "line %d is longer than %d bytes", n, MaxLine)) {
					return
				}
			case len(bytes.TrimSpace(line.Text)) == 0:
			case !yield(line, nil):
				return
			}
			if last {
				return
			}
		}
	}
}

// Objects yields the lines of a file that are JSON objects, with their numbers;
// ctx ends it. Any other line is a *Skip, and so is one that is being written.
func Objects(ctx context.Context, fsys fs.FS, name string) iter.Seq2[NumberedObject, error] {
	return ObjectsFrom(ctx, fsys, name, Mark{})
}

// ObjectsFrom is Objects without what is before a Mark.
func ObjectsFrom(ctx context.Context, fsys fs.FS, name string, from Mark) iter.Seq2[NumberedObject, error] {
	return func(yield func(NumberedObject, error) bool) {
		for l, err := range LinesFrom(fsys, name, from) {
			o := NumberedObject{Line: l.Number, Size: len(l.Text), Start: l.Start, End: l.End, Torn: l.Torn}
			if ctx.Err() != nil {
				yield(o, ctx.Err())
				return
			}
			if err == nil {
				if bad := json.Unmarshal(l.Text, &o.Object); bad != nil || o.Object == nil {
					why := "is damaged"
					if l.Torn {
						why = "is cut off"
					}
					err = Skipf(fmt.Sprintf("%s line %d", name, l.Number), "%s", why)
				}
			}
			if !yield(o, err) || err != nil && !IsSkip(err) {
				return
			}
		}
	}
}

// NumberedObject is an object in a file of lines.
type NumberedObject struct {
	Object
	Line       int
	Size       int // in bytes
	Start, End Mark
	Torn       bool // see Line
}

// Place names an entry after its line, for one without an id.
func (o NumberedObject) Place() string { return fmt.Sprintf("line.%d", o.Line) }

// skipTo goes to an offset of a file that was opened.
func skipTo(f fs.File, offset int64) error {
	if offset == 0 {
		return nil
	}
	if s, ok := f.(io.Seeker); ok {
		_, err := s.Seek(offset, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, f, offset)
	return err
}

// readLine reads up to a newline, and holds no more than MaxLine of it. Size is how
// much it read.
func readLine(r *bufio.Reader, buf []byte) (text []byte, long bool, size int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		if len(buf)+len(part) > MaxLine+1 {
			buf, long = buf[:0], true
		}
		if !long {
			buf = append(buf, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSuffix(buf, []byte("\n")), long, size, err
	}
}

// MaxFile bounds a foreign file that has to be read whole.
const MaxFile = 256 << 20

// ReadFile reads a file whole: a *Skip when it is over MaxFile.
func ReadFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > MaxFile {
		return nil, Skipf(name, "is larger than %d bytes", MaxFile)
	}
	return b, nil
}
