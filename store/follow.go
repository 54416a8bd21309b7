package store

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// followPoll is how often a follower looks when its Backend cannot wake it.
const followPoll = 250 * time.Millisecond

// Follow yields the entries after seq as they are written, by whatever
// process, until ctx ends; then its last error is ctx's.
func (v *View) Follow(ctx context.Context, seq int64) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		for {
			segments, err := v.trail(ctx)
			if err != nil {
				yield(tidemark.Entry{}, err)
				return
			}
			for e, err := range v.entries(ctx, segments, seq+1, 1<<62) {
				// Damage that is of no entry is that of the whole log: there
				// is nothing behind it.
				if !yield(e, err) || err != nil && (e.Seq <= seq || !errors.Is(err, tidemark.ErrCorrupt)) {
					return
				}
				seq = e.Seq
			}
			if err := v.s.wait(ctx, v.log(), seq-v.sharedUpTo()); err != nil {
				yield(tidemark.Entry{}, err)
				return
			}
		}
	}
}

// wait returns when log may be longer than after.
func (s *Store) wait(ctx context.Context, log tidemark.Key, after int64) error {
	if err := s.backend.Wait(ctx, log, after); !errors.Is(err, tidemark.ErrUnsupported) {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(followPoll):
		return nil
	}
}
