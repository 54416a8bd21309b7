package sqlite

import (
	"context"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
)

// job is work for the writer that is not a batch. It waits in the same queue,
// and has a transaction of its own.
type job struct {
	do func(*writer) error
	// alone: do begins its own transactions, or runs where there may be none.
	alone bool
}

// runJob has the writer run a job. When the context ends, a running job is stopped
// and leaves no change.
func (b *Backend) runJob(ctx context.Context, j *job) error {
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
// power cut may undo it, as a whole, and it is then done again. The next batch
// makes it durable together with itself.
func (w *writer) perform(ctx context.Context, j *job) (err error) {
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
		// No interrupt may hit the COMMIT: its outcome would be unknown.
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
