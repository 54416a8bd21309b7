package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// stripe is one lock of a store: a token inside the process, then a file lock
// between processes.
type stripe struct {
	turn chan struct{} // holds one token while nobody has the stripe
	file durable.File  // opened when first needed
}

func (b *Backend) initLocks() {
	for i := range b.locks {
		b.locks[i].turn = make(chan struct{}, 1)
		b.locks[i].turn <- struct{}{}
	}
}

func (b *Backend) closeLocks() {
	for i := range b.locks {
		if f := b.locks[i].file; f != nil {
			f.Close()
		}
	}
	if b.flags != nil {
		b.flags.Close()
	}
}

// How long a writer waits before it retries a lock that another process has: at
// first less than a sync takes, then longer.
const (
	firstLockWait = 50 * time.Microsecond
	maxLockWait   = 5 * time.Millisecond
)

func (b *Backend) take(ctx context.Context, i int) error {
	s := &b.locks[i]
	select {
	case <-s.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := s.lock(ctx, b.fs, i)
	if err != nil {
		s.turn <- struct{}{}
	}
	return err
}

func lockPath(i int) string { return fmt.Sprintf("%s/%02x", locksDir, i) }

func (s *stripe) lock(ctx context.Context, fsys durable.FS, i int) error {
	if s.file == nil {
		name := lockPath(i)
		f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return fmt.Errorf("lock %s: %w", name, err)
		}
		s.file = f
	}
	return waitFor(ctx, s.file, lockPath(i))
}

// waitFor takes the lock of a file.
func waitFor(ctx context.Context, f durable.File, name string) error {
	for wait := firstLockWait; ; wait = min(2*wait, maxLockWait) {
		ok, err := f.TryLock()
		if err != nil {
			return fmt.Errorf("lock %s: %w", name, err)
		}
		if ok {
			return nil
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *Backend) release(which []int) {
	for _, i := range which {
		b.locks[i].file.Unlock()
		b.locks[i].turn <- struct{}{}
	}
}

// releaseOthers gives back all but those that are kept.
func (b *Backend) releaseOthers(which, keep []int) {
	for _, i := range which {
		if !slices.Contains(keep, i) {
			b.release([]int{i})
		}
	}
}

// takeSome takes the stripes in order, so that no two writers wait for each
// other. The store may have been upgraded during the wait.
func (b *Backend) takeSome(ctx context.Context, which []int) error {
	for n, i := range which {
		if err := b.take(ctx, i); err != nil {
			b.release(which[:n])
			return err
		}
	}
	if err := b.current(); err != nil {
		b.release(which)
		return err
	}
	return nil
}

var everyStripe = func() (all []int) {
	for i := range stripes {
		all = append(all, i)
	}
	return all
}()

func (b *Backend) takeAll(ctx context.Context) (release func(), err error) {
	if err := b.takeSome(ctx, everyStripe); err != nil {
		return nil, b.writeError(err)
	}
	return func() { b.release(everyStripe) }, nil
}

// lock takes the stripes of a batch. When a flag says that a writer died
// half-way, it first completes what that writer began, under all locks, so that
// nobody else can be writing.
func (b *Backend) lock(ctx context.Context, batch *tidemark.Batch) ([]int, error) {
	which := stripesOf(batch)
	for {
		take := which
		if b.marked.Load() != nil && needsEmptyJournal(batch) {
			take = everyStripe
		}
		if err := b.takeSome(ctx, take); err != nil {
			return nil, b.writeError(err)
		}
		flagged, err := b.flagged(take)
		if err == nil && !flagged {
			if b.marked.Load() == nil || !needsEmptyJournal(batch) {
				b.releaseOthers(take, which)
				return which, nil
			}
			if len(take) == len(everyStripe) {
				if err = b.emptyJournal(); err == nil {
					b.releaseOthers(take, which)
					return which, nil
				}
			}
		}
		b.release(take)
		if err == nil && flagged {
			err = b.recover(ctx)
		}
		if err != nil {
			return nil, b.writeError(err)
		}
	}
}

func stripesOf(batch *tidemark.Batch) []int {
	var buf [8]int
	which := buf[:0]
	add := func(k tidemark.Key) {
		if i := stripeOf(k); !slices.Contains(which, i) {
			which = append(which, i)
		}
	}
	for _, n := range batch.Require {
		add(n.Key)
	}
	for _, r := range batch.Puts {
		add(r.Key)
	}
	for _, n := range batch.Deletes {
		add(n.Key)
	}
	for _, a := range batch.Appends {
		add(a.Log)
	}
	for _, k := range batch.Drops {
		add(k)
	}
	for _, t := range batch.Trims {
		add(t.Log)
	}
	for _, a := range batch.Fills {
		add(a.Log)
	}
	slices.Sort(which)
	return which
}

// Each stripe has a flag, a byte in the file locks/flags. It is set during work
// of several steps, so a process that gets the lock of a writer that died
// between two of them knows, without reading a directory, that there is
// something to complete. The bytes exist from the beginning, so that setting one
// needs no space on a full disk.
const (
	flagsFile = locksDir + "/flags"
	flagClear = '-'
	flagSet   = '!'
)

// openFlags opens the flags, and makes the file when it is missing. A flag that
// cannot be read counts as set.
func (b *Backend) openFlags() error {
	if b.flags != nil {
		return nil
	}
	f, err := b.fs.OpenFile(flagsFile, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	b.flags = f
	return nil
}

func (b *Backend) flagged(which []int) (bool, error) {
	var all [stripes]byte
	n, err := b.flags.ReadAt(all[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	for _, i := range which {
		if i >= n || all[i] != flagClear {
			return true, nil
		}
	}
	return false, nil
}

// setFlags need not be durable: after a power cut, every writer opens the store
// again and looks for leftovers itself.
func (b *Backend) setFlags(which []int, value byte) error {
	for _, i := range which {
		if _, err := b.flags.WriteAt([]byte{value}, int64(i)); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) clearFlags() error {
	_, err := b.flags.WriteAt(bytes.Repeat([]byte{flagClear}, stripes), 0)
	return err
}
