package chat_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model"
)

// BenchmarkDelta is what each piece of a streamed answer costs beside showing
// it.
func BenchmarkDelta(b *testing.B) {
	r := newRig(b, memory.New(), nil)
	r.o.Show = func(chat.Event) {}
	text := slices.Repeat([]string{"word "}, 100_000)
	r.model.answer = func(model.Request) reply { return reply{text: text} }
	for b.Loop() {
		b.StopTimer()
		c := r.new()
		b.StartTimer()
		r.send(c, "go")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(text)), "ns/delta")
}

// BenchmarkResume opens sessions of very different lengths, which has to cost
// the same.
func BenchmarkResume(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			kept, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "s.db"), &sqlite.Options{Create: true})
			if err != nil {
				b.Fatal(err)
			}
			defer kept.Close()
			r := newRig(b, kept, nil)
			c := r.new()
			r.send(c, "hello")
			r.close(c)
			w, err := r.store.Attach(b.Context(), c.ID(), r.o.Holder)
			if err != nil {
				b.Fatal(err)
			}
			for range n / 100 {
				var batch []tidemark.Entry
				for i := range 50 {
					batch = append(batch, tidemark.Say(tidemark.User, fmt.Sprint("q", i)), tidemark.Say(tidemark.Assistant, fmt.Sprint("a", i)))
				}
				if _, err := w.Append(b.Context(), batch...); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
			c = r.resume(c.ID())
			r.send(c, "hello again") // compacts
			r.close(c)
			b.ResetTimer()
			for b.Loop() {
				c, err := chat.Resume(context.Background(), r.o, w.ID())
				if err != nil {
					b.Fatal(err)
				}
				if err := c.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
