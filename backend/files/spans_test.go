package files_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
)

// reads counts how often logs are opened, and how much is read of them.
type reads struct {
	durable.FS
	logs, bytes int
}

func (r *reads) OpenFile(name string, flag int) (durable.File, error) {
	f, err := r.FS.OpenFile(name, flag)
	if err != nil || !strings.HasSuffix(name, ".ndjson") {
		return f, err
	}
	r.logs++
	return readFile{f, r}, nil
}

type readFile struct {
	durable.File
	of *reads
}

func (f readFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	f.of.bytes += n
	return n, err
}

// A search asks for many blocks of its index in one call.
func TestManySpansOfALogOpenItOnce(t *testing.T) {
	disk := crashfs.New()
	keep(t, open(t, "store", &files.Options{FS: disk, Create: true}), backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 50))
	counted := &reads{FS: disk}
	b := open(t, "store", &files.Options{FS: counted, ReadOnly: true})
	counted.logs = 0
	var got []int64
	for l, err := range b.Lines(ctx, sessA, tidemark.Span{From: 3, To: 3}, tidemark.Span{From: 40, To: 41}, tidemark.Span{From: 60, To: 70},
		tidemark.Span{From: 7, To: 9, Backwards: true}, tidemark.Span{From: 1, To: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l.Seq)
	}
	if want := []int64{3, 40, 41, 9, 8, 7, 1}; !slices.Equal(got, want) || counted.logs != 1 {
		t.Errorf("read %v, want %v; the log was opened %d times, want once", got, want, counted.logs)
	}
}

// The blocks of an index are long lines: what follows one is not read along with it.
func TestOneLineOfALogIsFoundWithoutReadingMuchOfIt(t *testing.T) {
	disk := crashfs.New()
	log := run(sessA, 1, 0)
	for seq := int64(1); seq <= 1000; seq++ {
		log.Lines = append(log.Lines, backendtest.NewLine(sessA, seq, `{"block":"`+strings.Repeat("x", 3000+int(seq%1000))+`"}`))
	}
	keep(t, open(t, "store", &files.Options{FS: disk, Create: true}), backendtest.NewRecord(sessA, 1, `{}`), log)
	counted := &reads{FS: disk}
	b := open(t, "store", &files.Options{FS: counted, ReadOnly: true})
	for _, seq := range []int64{1, 2, 17, 250, 500, 731, 999, 1000} {
		counted.bytes = 0
		var got []int64
		for l, err := range b.Lines(ctx, sessA, tidemark.Span{From: seq, To: seq}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, l.Seq)
		}
		if !slices.Equal(got, []int64{seq}) || counted.bytes > 1<<20 {
			t.Errorf("line %d: read %v, and %d kB of 3500", seq, got, counted.bytes>>10)
		}
	}
}
