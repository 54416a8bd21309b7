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

// opening counts how often logs are opened.
type opening struct {
	durable.FS
	logs int
}

func (o *opening) OpenFile(name string, flag int) (durable.File, error) {
	if strings.HasSuffix(name, ".ndjson") {
		o.logs++
	}
	return o.FS.OpenFile(name, flag)
}

// A search asks for many blocks of its index in one call.
func TestManySpansOfALogOpenItOnce(t *testing.T) {
	disk := crashfs.New()
	keep(t, open(t, "store", &files.Options{FS: disk, Create: true}), backendtest.NewRecord(sessA, 1, `{}`), run(sessA, 1, 50))
	counted := &opening{FS: disk}
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
