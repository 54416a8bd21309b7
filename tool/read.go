package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

const (
	// readLines is how many lines read shows by default.
	readLines = 2000
	// lineBytes bounds one shown line: minified code has lines of megabytes.
	lineBytes = 2000
	// MaxImage is the largest image that models accept, in bytes: some count it
	// as base64, and take 5 MiB of that.
	MaxImage = 5 << 20 / 4 * 3
)

type readArguments struct {
	Path   string `json:"path" say:"the file: a path in the workspace (relative to its root), or session:FOLDER/NAME for the durable storage of this session, where FOLDER is memory, artifacts, buffers or meta" need:"yes"`
	Offset int    `json:"offset" say:"the first line to show, counted from 1; default 1"`
	Limit  int    `json:"limit" say:"how many lines to show; default 2000"`
}

func (b *Box) readTool() Tool {
	return Tool{
		Name: "read",
		Description: "Reads a text file of the workspace, or with session:FOLDER/NAME one of the session's durable storage, with line numbers. " +
			"Images are shown; other binary files are refused. The user is asked before a file outside of the workspace is read.",
		Schema: schemaOf(readArguments{}),
		Effect: Reads,
		Scope:  func(input json.RawMessage) string { return b.scopeOf(input, place.readScope) },
		Run: func(ctx context.Context, input json.RawMessage) (Result, error) {
			var a readArguments
			if err := readArgs(input, &a); err != nil {
				return failed(err.Error()), nil
			}
			p, err := b.locate(a.Path)
			if err != nil {
				return failed(err.Error()), nil
			}
			return b.read(ctx, p, a)
		},
	}
}

// scopeOf returns the scope of a call with a path. Unreadable input has
// none: Run refuses it before it touches anything.
func (b *Box) scopeOf(input json.RawMessage, scope func(place) string) string {
	var a struct{ Path string }
	fields, err := readObject(input)
	if err != nil || json.Unmarshal(fields["path"], &a.Path) != nil {
		return ""
	}
	p, err := b.locate(a.Path)
	if err != nil {
		return ""
	}
	return scope(p)
}

func (b *Box) read(ctx context.Context, p place, a readArguments) (Result, error) {
	f, size, done, err := b.open(ctx, p)
	if err != nil {
		return b.explain(ctx, p, err)
	}
	defer done()
	r := bufio.NewReaderSize(f, 64<<10)
	start, err := r.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return b.explain(ctx, p, err)
	}
	if looksBinary(start) || ImageType(start) != "" {
		return showBinary(p, r, size, start)
	}
	if len(start) == 0 {
		return Result{Text: "(" + p.shown + " is empty)"}, nil
	}
	res, err := b.numbered(ctx, r, max(a.Offset, 1), a.Limit)
	if err != nil {
		return b.explain(ctx, p, err)
	}
	return res, nil
}

var errNoFile = errors.New("not a regular file")

// open opens a regular file. A pipe or a device could block forever or never
// end.
func (b *Box) open(ctx context.Context, p place) (f fs.File, size int64, done func(), err error) {
	fsys, closeView, err := b.view(ctx, p)
	if err != nil {
		return nil, 0, nil, err
	}
	info, err := fs.Stat(fsys, p.name)
	switch {
	case err != nil:
	case info.IsDir():
		err = errors.New("this is a folder; list it with ls")
	case !info.Mode().IsRegular():
		err = errNoFile
	default:
		f, err = fsys.Open(p.name)
	}
	if err != nil {
		closeView()
		return nil, 0, nil, err
	}
	return f, info.Size(), func() { f.Close(); closeView() }, nil
}

// whole reads a file of at most max bytes.
func (b *Box) whole(ctx context.Context, p place, most int64) ([]byte, error) {
	f, size, done, err := b.open(ctx, p)
	if err != nil {
		return nil, err
	}
	defer done()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it has %d bytes, and this tool takes at most %d; use bash", size, most)
	}
	return data, err
}

// numbered shows lines with their numbers, as many as fit.
func (b *Box) numbered(ctx context.Context, r *bufio.Reader, offset, limit int) (Result, error) {
	if limit <= 0 {
		limit = readLines
	}
	var out strings.Builder
	n, shown := 0, 0
	for {
		line, cut, err := readLine(r, lineBytes)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Result{}, err
		}
		n++
		if n%1000 == 0 && ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		if n < offset {
			continue
		}
		text := fmt.Sprintf("%6d\t%s", n, valid(line))
		if cut > 0 {
			text += fmt.Sprintf(" [… %d bytes more]", cut)
		}
		if shown == limit || shown > 0 && out.Len()+len(text)+1 > b.o.OutputBytes {
			fmt.Fprintf(&out, "[there is more: go on with offset %d]\n", n)
			return Result{Text: out.String(), Truncated: true}, nil
		}
		out.WriteString(text + "\n")
		shown++
	}
	if shown == 0 {
		return failed(fmt.Sprintf("the file has only %d lines", n)), nil
	}
	return Result{Text: out.String()}, nil
}

// readLine reads a line without its end, keeps at most most bytes of it, and
// returns how many it dropped.
func readLine(r *bufio.Reader, most int) (line string, cut int, err error) {
	var buf []byte
	some := false
	for {
		part, err := r.ReadSlice('\n')
		some = some || len(part) > 0
		part = bytes.TrimSuffix(part, []byte("\n"))
		k := min(len(part), most-len(buf))
		buf = append(buf, part[:k]...)
		cut += len(part) - k
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (!errors.Is(err, io.EOF) || !some) {
			return "", 0, err
		}
		if cut > 0 {
			return wholeEnd(string(buf)), cut, nil
		}
		return strings.TrimSuffix(string(buf), "\r"), 0, nil
	}
}

// ImageType returns the media type of an image that models accept, by its first
// bytes; "" for anything else, whatever its name says.
func ImageType(start []byte) string {
	switch kind := http.DetectContentType(start); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return kind
	}
	return ""
}

func showBinary(p place, r io.Reader, size int64, start []byte) (Result, error) {
	kind := http.DetectContentType(start)
	if ImageType(start) == "" || size > MaxImage {
		return failed(fmt.Sprintf("%s is binary (%s, %d bytes) and cannot be shown as text; look at it with bash, with file or xxd for example", p.shown, kind, size)), nil
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxImage))
	if err != nil {
		return failed(p.shown + ": " + err.Error()), nil
	}
	return Result{
		Text:   fmt.Sprintf("%s: an image (%s, %d bytes)", p.shown, kind, len(data)),
		Blocks: []tidemark.Block{{Type: tidemark.BlockImage, MediaType: kind, Data: data}},
	}, nil
}
