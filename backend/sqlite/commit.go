package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"

	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// A group is what one transaction carries out. The bounds keep its first batch, and
// whoever waits for the lock file, from waiting for a very long transaction: a large
// batch has one of its own.
const (
	groupBatches = 512
	groupBytes   = 64 << 10
)

// checkpointMillis is how long a purge waits for readers before it leaves the
// emptying of the -wal file to a later commit.
const checkpointMillis = 200

// writer is the connection for writing and the queue in front of it. The first
// caller to arrive leads: it takes the lock file and begins a transaction, then
// takes everything that has queued up until then, commits it at once and answers
// all. Then the next caller in the queue leads.
type writer struct {
	b       *Backend
	c       *conn
	lock    *durable.Lock
	version int64 // of the schema
	file    fs.FileInfo

	mu      sync.Mutex
	queue   []*pending
	leading bool

	// Used by the leader only:
	standings map[tidemark.Key]*standing // valid while data is unchanged
	data      int64                      // SQLite's count of changes made by others
	purged    bool                       // a log was dropped in this transaction
	sparing   bool                       // there is hardly any space left
	ahead     ahead
	broken    error // not nil: nothing is acknowledged any more

	// Lines that have arrived, see arrived.go:
	leastLogs int
	waiting   *waiting // nil: not known
	move      *move    // under way
	arriving  bool     // lines of this transaction are written where they arrive
	stuck     bool     // what has arrived cannot be moved
	answered  int      // how many the last group had
	rowBytes  int      // the most that a row of arrived lines holds
}

// pending is a batch, or another job of the writer, that waits for its answer.
type pending struct {
	batch   *tidemark.Batch
	job     *job // instead of a batch
	receipt tidemark.Receipt
	err     error
	done    chan bool // true: answered, false: lead
	room    tidemark.Batch
}

// pendings are used again: with its batch and its channel, one is half a kilobyte.
var pendings = sync.Pool{New: func() any { return &pending{done: make(chan bool, 1)} }}

func (b *Backend) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	if err := b.enter(ctx); err != nil {
		return tidemark.Receipt{}, err
	}
	defer b.leave()
	if err := batch.Check(); err != nil {
		return tidemark.Receipt{}, err
	}
	if b.writer == nil {
		return tidemark.Receipt{}, tidemark.Storagef("store %s: opened for reading only", b.path)
	}
	p := pendings.Get().(*pending)
	p.room = batch
	p.batch = &p.room
	receipt, err := b.writer.answer(ctx, p)
	// Whoever led has let go of it before the answer, and nothing is left in done.
	*p = pending{done: p.done}
	pendings.Put(p)
	return receipt, err
}

// answer queues p and returns when it is answered.
func (w *writer) answer(ctx context.Context, p *pending) (tidemark.Receipt, error) {
	if p.done == nil {
		p.done = make(chan bool, 1)
	}
	w.mu.Lock()
	w.queue = append(w.queue, p)
	first := !w.leading
	lead := first
	w.leading = true
	w.mu.Unlock()
	if !lead {
		select {
		case answered := <-p.done:
			lead = !answered
		case <-ctx.Done():
			if w.withdraw(p) {
				return tidemark.Receipt{}, ctx.Err()
			}
			lead = !<-p.done
		}
	}
	if lead {
		w.lead(ctx, p, first)
	}
	return p.receipt, p.err
}

// withdraw takes p out of the queue, and reports false when it is too late: p
// has been answered, or told to lead.
func (w *writer) withdraw(p *pending) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, p)
	if i < 0 || len(p.done) > 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

// lead carries out one group, which includes p, and hands the lead to the next
// caller. A caller is the first when nobody leads.
func (w *writer) lead(ctx context.Context, p *pending, first bool) {
	defer w.handOver()
	w.b.rest.used()
	// Callers that were just answered get the time to queue their next batch; that
	// makes the groups of 64 writers a third larger. It is before the lock: a process
	// with much to do may come back to this only after a while. A writer that is alone
	// goes on at once: it would be taken up again by another thread, woken for it.
	if !first || w.answered > 1 {
		runtime.Gosched()
	}
	if err := w.lock.Acquire(ctx); err != nil {
		w.remove(p)
		p.err = err
		if ctx.Err() == nil {
			p.err = tidemark.Storagef("store %s: %w", w.b.path, err)
		}
		return
	}
	var group []*pending
	if p.job != nil {
		w.remove(p)
		p.err = w.explained(w.perform(ctx, p.job))
		group = []*pending{p}
	} else {
		group = w.carryOut()
	}
	w.answered = len(group)
	w.lock.Release()
	w.b.grown.wake()
	for _, g := range group {
		if g != p {
			g.done <- true
		}
	}
}

func (w *writer) remove(p *pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.queue, p); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
}

func (w *writer) handOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		w.queue[0].done <- false
	} else {
		w.leading = false
	}
}

// takeQueue returns the batches that have queued up, the leader's own first.
func (w *writer) takeQueue() []*pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, bytes := 0, 0
	for n < len(w.queue) && w.queue[n].batch != nil && n < groupBatches {
		if bytes += size(w.queue[n].batch); n > 0 && bytes > groupBytes {
			break
		}
		n++
	}
	group := slices.Clone(w.queue[:n])
	w.queue = slices.Delete(w.queue, 0, n)
	return group
}

func size(b *tidemark.Batch) (n int) {
	for i := range b.Puts {
		n += len(b.Puts[i].Body)
	}
	for _, appends := range [][]tidemark.Append{b.Appends, b.Fills} {
		for i := range appends {
			for j := range appends[i].Lines {
				n += len(appends[i].Lines[j].Body)
			}
		}
	}
	return n
}

// carryOut answers a group, in one transaction if it can. When a damaged place
// in the file or a full disk stops it, each batch is tried on its own, so that
// the others do not fail with it.
func (w *writer) carryOut() []*pending {
	group, err := w.transact(nil)
	spoilt := isCorrupt(err) || primary(err) == lib.SQLITE_CONSTRAINT
	if err == nil || w.broken != nil || !isFull(err) && (len(group) == 1 || !spoilt) {
		for _, g := range group {
			if err != nil {
				g.receipt, g.err = tidemark.Receipt{}, w.explained(err)
			}
		}
		return group
	}
	for _, g := range group {
		if err := w.alone(g); err != nil {
			g.receipt, g.err = tidemark.Receipt{}, w.explained(err)
		}
	}
	return group
}

// alone carries out one batch in a transaction of its own; on a full disk with
// the reserve, if it may use it.
func (w *writer) alone(g *pending) error {
	again := func() error {
		_, err := w.transact([]*pending{g})
		return err
	}
	err := again()
	if isFull(err) && w.mayUseReserve(g) {
		err = w.onReserve(err, again)
	}
	return err
}

func (w *writer) explained(err error) error {
	if primary(err) == lib.SQLITE_CONSTRAINT {
		return &tidemark.Damage{Place: w.b.path, What: "a row is there that should not be: " + err.Error()}
	}
	return w.b.named(err)
}

// transact carries out a group, or the queue when it is nil. The error is not
// nil when the whole transaction failed, and then none of it happened.
func (w *writer) transact(group []*pending) ([]*pending, error) {
	begin := w.begin()
	if group == nil {
		// The queue is taken as late as possible, to include whoever arrived
		// meanwhile.
		group = w.takeQueue()
	}
	if begin != nil {
		return group, begin
	}
	tight, err := w.fits(group)
	if err != nil {
		return group, w.rollBack(err)
	}
	if !tight {
		w.lengthen()
	}
	w.purged = false
	w.arriving = !tight && w.mayArrive(group)
	wrote := false
	for _, g := range group {
		g.receipt, g.err = w.apply(g.batch)
		switch {
		case g.err == nil:
			wrote = true
		case !refused(g.err):
			return group, w.rollBack(g.err)
		}
	}
	if !wrote {
		return group, w.rollBack(nil)
	}
	if err := w.flushArrived(); err != nil {
		return group, w.rollBack(err)
	}
	if err := w.c.do("COMMIT", nil, nil); err != nil {
		return group, w.failed(err)
	}
	if w.arriving {
		w.b.mover.arrived(w.waiting.bytes)
	}
	if w.purged || tight {
		w.clearWAL()
	}
	return group, nil
}

// refused reports whether err refuses a batch that changed nothing.
func refused(err error) bool {
	var half *halfDone
	return !errors.As(err, &half) && (errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrExists) ||
		errors.Is(err, tidemark.ErrUnsupported) || isDamage(err) || isTrimmed(err))
}

func isTrimmed(err error) bool {
	var trimmed *tidemark.TrimmedError
	return errors.As(err, &trimmed)
}

// begin opens a transaction for writing, and discards what is cached of the
// store when somebody else has written to it.
func (w *writer) begin() error {
	if w.broken != nil {
		return w.broken
	}
	// After a repair, or when a copy was put in its place, this process has a
	// file open that nobody else can find.
	if now, err := os.Stat(w.b.path); err != nil || !os.SameFile(now, w.file) {
		return tidemark.Storagef("store %s: another file took its place, open it again", w.b.path)
	}
	if err := w.c.do("BEGIN IMMEDIATE", nil, nil); err != nil {
		return err
	}
	data, err := w.c.number("PRAGMA data_version")
	if err != nil {
		return w.rollBack(err)
	}
	if data != w.data || w.waiting == nil {
		if err := w.loadWaiting(); err != nil {
			return w.rollBack(err)
		}
	}
	if data == w.data && w.standings != nil && len(w.standings) < maxStandings {
		return nil
	}
	w.data, w.standings = data, make(map[tidemark.Key]*standing)
	have, err := schemaVersion(w.c)
	if err != nil {
		return w.rollBack(err)
	}
	if have != w.version {
		return w.rollBack(unsupported(w.b.path, "it was upgraded to format %d meanwhile; start the program again in its new version", have))
	}
	return nil
}

// rollBack ends the transaction without a change and returns err.
func (w *writer) rollBack(err error) error {
	if err != nil {
		w.standings, w.waiting = nil, nil
	}
	if !w.c.autocommit() {
		if undo := w.c.do("ROLLBACK", nil, nil); undo != nil && !w.c.autocommit() {
			w.broken = tidemark.Storagef("store %s: a transaction could not be undone, open it again: %w", w.b.path, undo)
		}
	}
	return err
}

// failed handles a COMMIT that returned an error. A full disk and a busy
// database occur before the record that makes a transaction count is written.
// After any other error that record may be in the file although nobody was told:
// the store then acknowledges nothing more, because what the kernel holds is
// unknown.
func (w *writer) failed(err error) error {
	if code := primary(err); code != lib.SQLITE_FULL && code != lib.SQLITE_BUSY {
		w.broken = tidemark.Storagef("store %s: a commit failed, open the store again: %w", w.b.path, err)
	}
	return w.rollBack(err)
}

// clearWAL writes everything back and empties the -wal file, which still holds
// what was purged. It is tried again by later checkpoints when readers are in
// the way.
func (w *writer) clearWAL() {
	w.c.busyTimeout(checkpointMillis)
	w.c.do("PRAGMA wal_checkpoint(TRUNCATE)", nil, nil)
	w.c.busyTimeout(busyMillis)
}

// close is called when no commit is in progress.
func (w *writer) close() {
	if w.c != nil {
		w.c.close()
	}
	w.lock.Close()
}
