package store

import (
	"context"
	"errors"
	"iter"

	"github.com/tidemark-sessions/tidemark"
)

// Follow yields the entries after seq as they are written, by any process, until
// ctx ends; it then yields the error of ctx.
func (v *View) Follow(ctx context.Context, seq int64) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		for {
			segments, err := v.trail(ctx)
			if err != nil {
				yield(tidemark.Entry{}, err)
				return
			}
			for e, err := range v.entries(ctx, segments, seq+1, 1<<62) {
				// Damage without an entry of its own is that of the whole log:
				// nothing can be read after it.
				if !yield(e, err) || err != nil && (e.Seq <= seq || !errors.Is(err, tidemark.ErrCorrupt)) {
					return
				}
				seq = e.Seq
			}
			if err := v.s.k.Wait(ctx, v.log(), seq-v.sharedUpTo()); err != nil {
				yield(tidemark.Entry{}, err)
				return
			}
		}
	}
}
