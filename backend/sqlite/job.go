package sqlite

import (
	"context"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
)

// job is work of the writer that is not a batch. It waits in the same queue,
// and it has a transaction, and what others see of it, to itself.
type job struct {
	do func(*writer) error
	// alone: do begins its own transactions, or runs where there may be none.
	alone bool
	// frees: it is a step to free room, and may use the reserve.
	frees bool
}

// work has the writer do a job. The context ends a job under way, too; then
// nothing of it is kept.
func (b *Backend) work(ctx context.Context, j *job) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.leave()
	if b.writer == nil {
		return tidemark.Storagef("store %s: opened for reading only", b.path)
	}
	_, err := b.writer.answer(ctx, &pending{job: j})
	return err
}

// perform runs a job while the lock file is held. Its commit is not synced: a
// power cut may take it away, whole, and it is made again then. The next batch
// makes it durable together with itself.
func (w *writer) perform(ctx context.Context, j *job) error {
	err := w.performOnce(ctx, j)
	if isFull(err) && j.frees {
		err = w.onReserve(err, func() error { return w.performOnce(ctx, j) })
	}
	return err
}

func (w *writer) performOnce(ctx context.Context, j *job) (err error) {
	defer func() {
		if ctx.Err() != nil && err != nil {
			err = ctx.Err()
		}
	}()
	if w.broken != nil {
		return w.broken
	}
	if err := w.c.run("PRAGMA synchronous=NORMAL"); err != nil {
		return err
	}
	defer func() {
		if full := w.c.run("PRAGMA synchronous=FULL"); full != nil {
			w.broken = fmt.Errorf("store %s: commits would not be durable, open it again: %w", w.b.path, full)
		}
	}()
	do := func() error {
		// No interrupt may meet the COMMIT: nobody would know what became of it.
		defer w.c.interruptOn(ctx)()
		return j.do(w)
	}
	if j.alone {
		return do()
	}
	if err := w.begin(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return w.rollBack(err)
	}
	if err := w.c.do("COMMIT", nil, nil); err != nil {
		return w.failed(err)
	}
	return nil
}
