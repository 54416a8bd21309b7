package index

import (
	"context"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// A search asks its segments for a few blocks at a time, and none knows before the
// last blocks are there which ones are next. Where a call takes a round trip, segments
// are asked together: all that they want at one time is one call.

// round is the segments that are asked together. It sends what they want when every
// one of them waits for blocks or is done.
type round struct {
	gatherer tidemark.Gatherer

	mu     sync.Mutex
	active int     // segments that are not done
	wants  []*want // of those that wait
}

// want is what one segment waits for.
type want struct {
	asked tidemark.LogLines
	lines []tidemark.Line
	there chan struct{}
}

type roundKey struct{}

// together is how segments are asked: nil where each reads what it wants for itself
// just as well.
func (ix *Index) together(ctx context.Context) segment.Together {
	gatherer, ok := tidemark.Gathers(ctx, ix.k.Backend())
	if !ok {
		return nil
	}
	return func(ctx context.Context, n int, do func(context.Context, int)) {
		r := &round{gatherer: gatherer, active: n}
		ctx = context.WithValue(ctx, roundKey{}, r)
		var wait sync.WaitGroup
		for i := range n {
			wait.Go(func() {
				defer r.leave(ctx)
				do(ctx, i)
			})
		}
		wait.Wait()
	}
}

// gather returns lines of a segment that are asked for within a round, those that could
// be read; none outside of one.
func gather(ctx context.Context, log tidemark.Key, seqs []int64) []tidemark.Line {
	r, _ := ctx.Value(roundKey{}).(*round)
	if r == nil {
		return nil
	}
	w := &want{asked: tidemark.LogLines{Log: log, Seqs: seqs}, there: make(chan struct{})}
	r.mu.Lock()
	r.wants = append(r.wants, w)
	all := r.complete()
	r.mu.Unlock()
	r.send(ctx, all)
	<-w.there
	return w.lines
}

func (r *round) leave(ctx context.Context) {
	r.mu.Lock()
	r.active--
	all := r.complete()
	r.mu.Unlock()
	r.send(ctx, all)
}

// complete returns what is wanted when nobody else will want anything before it is
// there. The caller has r.mu.
func (r *round) complete() (all []*want) {
	if len(r.wants) < r.active {
		return nil
	}
	all, r.wants = r.wants, nil
	return all
}

// send reads what is wanted. What cannot be read so is left out: who wants it
// reads it alone then, and learns why.
func (r *round) send(ctx context.Context, all []*want) {
	if len(all) == 0 {
		return
	}
	asked := make([]tidemark.LogLines, len(all))
	for i, w := range all {
		asked[i] = w.asked
	}
	got, err := r.gatherer.LinesOf(ctx, asked)
	for i, w := range all {
		if err == nil && i < len(got) {
			w.lines = got[i]
		}
		close(w.there)
	}
}
