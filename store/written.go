package store

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// written are the logs that this Store appended to and has not indexed.
type written struct {
	mu    sync.Mutex
	logs  map[tidemark.Key]bool
	since time.Time // when the first of them was appended to
	taken time.Time // the same of those that are being indexed; zero: none are
}

func (w *written) add(logs ...tidemark.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logs == nil {
		w.logs, w.since = make(map[tidemark.Key]bool), time.Now()
	}
	for _, log := range logs {
		w.logs[log] = true
	}
}

func (w *written) take() (logs []tidemark.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for log := range w.logs {
		logs = append(logs, log)
	}
	if len(logs) > 0 {
		w.taken = w.since
	}
	w.logs = nil
	return logs
}

// settle ends what take began. Logs that were not indexed wait on, since when they did.
func (w *written) settle(logs []tidemark.Key, err error) {
	if err != nil && len(logs) > 0 {
		w.add(logs...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && !w.taken.IsZero() {
		w.since = w.taken
	}
	w.taken = time.Time{}
}

// oldest is when the first was appended to of what is not indexed; zero: all is.
func (w *written) oldest() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.taken.IsZero():
		return w.taken
	case len(w.logs) > 0:
		return w.since
	}
	return time.Time{}
}

// untilSometimes is how long the index may go on with what a process wrote itself,
// before it looks for what others left.
const untilSometimes = 10 * time.Minute

// behindBytes is how much is gathered behind a writer.
const behindBytes = 8 << 20

// smallMerge is how many lines are merged behind a writer: a fraction of a second.
const smallMerge = 20_000

// indexWritten indexes what this Store appended, and what others left if nobody
// looked within a time.
func (s *Store) indexWritten(ctx context.Context, within time.Duration) error {
	logs := s.written.take()
	if s.beside.Load() != nil {
		within = -1 // what an import appends is indexed beside it
	}
	_, err := s.index.CatchUp(ctx, source{s: s}, index.Pace{Bytes: behindBytes, Only: logs, Within: within, Stamp: untilSometimes})
	s.written.settle(logs, err)
	if err != nil {
		return err
	}
	return s.tend(ctx, smallMerge)
}

// tend merges segments, and takes out of them what is left out.
func (s *Store) tend(ctx context.Context, most int) error {
	if err := s.index.Rewrite(ctx); err != nil {
		return err
	}
	return s.mergeAll(ctx, most)
}

// mergeAll merges segments of at most so many lines together, 0: of however many,
// as long as there is something to merge.
func (s *Store) mergeAll(ctx context.Context, most int) error {
	for {
		merged, err := s.index.Merge(ctx, most)
		if err != nil || !merged {
			if index.IsBusy(err) {
				err = nil
			}
			return err
		}
	}
}

// mergeBeside starts a goroutine for merges that take long: nothing waits for
// them, neither who writes nor what is indexed meanwhile. It returns a function that
// has it look, and one that ends it.
func (s *Store) mergeBeside(ctx context.Context) (look, end func()) {
	if s.index == nil {
		return func() {}, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	asked := make(chan struct{}, 1)
	var merging sync.WaitGroup
	merging.Go(func() {
		for range asked {
			// What fails is tried again later. If something is wrong with the store,
			// whoever indexes meets it, too.
			_ = s.mergeAll(ctx, 0)
		}
	})
	look = func() {
		select {
		case asked <- struct{}{}:
		default:
		}
	}
	return look, func() {
		cancel()
		close(asked)
		merging.Wait()
	}
}
