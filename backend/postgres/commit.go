package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-sessions/tidemark"
)

// A group is what one transaction carries out; the bounds keep its first batch
// from waiting for a very long transaction.
const (
	groupBatches = 256
	groupBytes   = 16 << 20
)

// lanes is how many transactions of one queue may run at once in this process: two, so
// that the second of few writers does not wait for the first. Beside a crowd, what arrives
// is another group rather than another transaction: see writer.opens. What a transaction
// costs whatever it carries is most of what a small one costs.
const lanes = 2

// slowGroup is when a transaction keeps nobody waiting any longer: it may be waiting for
// a lock itself.
const slowGroup = 200 * time.Millisecond

// idleYields is after how many turns of others that brought nothing the next group is
// taken to be complete.
const idleYields = 4

// A transaction that conflicts with others is retried, after a pause that grows.
const (
	commitTries = 12
	firstPause  = 2 * time.Millisecond
	longPause   = 500 * time.Millisecond
)

// commitTimeout is how long one round trip of a commit may take. A network that
// drops everything must not block commits for ever.
const commitTimeout = time.Minute

// writer is a queue of batches. Whatever has queued up is carried out together,
// in one transaction.
type writer struct {
	db *Database
	of lane

	mu      sync.Mutex
	queue   []*pending
	running int            // active lanes
	flying  int            // batches that lanes carry out
	gathers bool           // a lane is about to take what waits
	began   time.Time      // when the last group was taken
	changed map[owned]bool // by the group that is being taken
	named   map[owned]bool // the same, and what it requires
	uses    int            // guarded by the database's lock
}

// pending is a batch that waits for its answer.
type pending struct {
	who     who
	batch   *tidemark.Batch
	acts    []act // the audit lines written with it
	receipt tidemark.Receipt
	err     error
	done    chan struct{}
}

func (b *Backend) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	if err := b.enter(ctx); err != nil {
		return tidemark.Receipt{}, err
	}
	defer b.leave()
	b.readingOf(ctx).stay(true) // what it is compared with from now on is at the primary
	if err := errors.Join(batch.Check(), b.mayChange()); err != nil {
		return tidemark.Receipt{}, err
	}
	acts, err := b.takeActs(&batch)
	if err != nil {
		return tidemark.Receipt{}, err
	}
	var receipt tidemark.Receipt
	err = b.atHome(ctx, func(db *Database) (err error) {
		receipt, err = b.commitAt(ctx, db, &batch, acts)
		return err
	})
	if errors.Is(err, tidemark.ErrConflict) {
		return receipt, b.notYours(ctx, &batch, err)
	}
	return receipt, err
}

// commitAt is Commit at one database.
func (b *Backend) commitAt(ctx context.Context, db *Database, batch *tidemark.Batch, acts []act) (tidemark.Receipt, error) {
	w := db.writer(db.laneOf(ctx, b.who, batch))
	defer db.letGo(w)
	p := &pending{who: b.who, batch: batch, acts: acts, done: make(chan struct{})}
	if w.add(p) {
		w.lead()
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		if w.withdraw(p) {
			return tidemark.Receipt{}, ctx.Err()
		}
		<-p.done // it is in progress, and cannot be withdrawn
	}
	return p.receipt, p.err
}

// notYours explains why a batch that changes a session shared by somebody else
// can never succeed: the record that it names is not the caller's.
func (b *Backend) notYours(ctx context.Context, batch *tidemark.Batch, conflict error) error {
	for n := range batch.Preconditions() {
		if n.Kind != "session" || n.Version == 0 {
			continue
		}
		id, err := tidemark.ParseSessionID(n.ID)
		if err != nil {
			continue
		}
		if _, owner, err := b.Shared(ctx, id); err == nil && owner != idText(b.who.user) {
			return fmt.Errorf("session %s is shared with you to read; its owner alone can change it: %w", id, tidemark.ErrDenied)
		}
	}
	return conflict
}

// lane is whose batches are carried out together: those of one principal; of
// those that append under a lease, all of a tenant (no user). The search index
// and imports have one of their own, so that nobody who appends waits for them.
type lane struct {
	who    who
	behind bool
}

func (db *Database) laneOf(ctx context.Context, of who, b *tidemark.Batch) lane {
	if isBackground(ctx) {
		return lane{of, true}
	}
	if db.fences.leased(of, b) {
		return lane{who: who{tenant: of.tenant}}
	}
	return lane{of, derived(b)}
}

// derived reports whether a batch changes nothing but what can be made again.
func derived(b *tidemark.Batch) bool {
	for i := range b.Puts {
		if !b.Puts[i].Derived() {
			return false
		}
	}
	for i := range b.Appends {
		if !b.Appends[i].Log.Derived() {
			return false
		}
	}
	if len(b.Trims)+len(b.Fills) > 0 {
		return false
	}
	for i := range b.Deletes {
		if !b.Deletes[i].Derived() {
			return false
		}
	}
	return !slices.ContainsFunc(b.Drops, func(k tidemark.Key) bool { return !k.Derived() })
}

func (db *Database) writer(of lane) *writer {
	db.mu.Lock()
	defer db.mu.Unlock()
	w := db.writers[of]
	if w == nil {
		w = &writer{db: db, of: of}
		db.writers[of] = w
	}
	w.uses++
	return w
}

func (db *Database) letGo(w *writer) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if w.uses--; w.uses == 0 {
		delete(db.writers, w.of)
	}
}

// add puts a batch in the queue, and reports whether the caller is to lead a lane.
func (w *writer) add(p *pending) (leads bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, p)
	if leads = w.running < lanes && w.opens(); leads {
		w.running++
	}
	return leads
}

// opens reports whether what waits is worth a transaction beside those that run: it is as
// much as they carry, or they take long. The caller has w.mu.
func (w *writer) opens() bool {
	return w.running == 0 || !w.gathers && (len(w.queue) >= w.flying || time.Since(w.began) > slowGroup)
}

// lead carries out the first group of a lane, which mostly is the caller's own batch
// alone, without waking anybody for it. What has queued up by then is not the
// caller's to wait for.
func (w *writer) lead() {
	if n := w.carry(); n > 1 || w.more(n) {
		go w.run(n)
	}
}

// run is a lane, after a group of n batches: it carries out groups until it ends.
func (w *writer) run(n int) {
	if n <= 1 { // whose end is noted
		n = w.carry()
	}
	for {
		if n > 1 {
			w.gather()
		}
		if !w.more(n) {
			return
		}
		n = w.carry()
	}
}

// carry carries out the next group, and returns how many batches it had.
func (w *writer) carry() int {
	group := w.take()
	w.answer(group)
	return len(group)
}

// more ends a group of n batches, and reports whether the lane takes another. It ends when
// nothing waits, or what waits is better taken with what another lane has.
func (w *writer) more(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gathers = false
	w.flying -= n
	w.running--
	if len(w.queue) == 0 || !w.opens() {
		return false
	}
	w.running++
	return true
}

// gather lets those who were just answered come back with their next batch, as long as
// anybody does: nobody waits for a clock.
func (w *writer) gather() {
	for had, same := -1, 0; same < idleYields; runtime.Gosched() {
		w.mu.Lock()
		w.gathers = true
		n := len(w.queue)
		w.mu.Unlock()
		if n != had {
			had, same = n, -1
		}
		same++
	}
}

// answer carries out a group and tells who waits for it.
func (w *writer) answer(group []*pending) {
	if len(group) == 0 {
		return
	}
	w.carryOut(group)
	for _, p := range group {
		close(p.done)
	}
}

// withdraw removes p from the queue, and reports false when it is too late.
func (w *writer) withdraw(p *pending) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, p)
	if i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
	return i >= 0
}

// take returns the batches of the next group; it may be empty when the other lane took
// what was there. No
// two batches of a group involve the same thing, unless both only require it; so
// none depends on the outcome of another.
func (w *writer) take() (group []*pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.named == nil {
		w.changed, w.named = make(map[owned]bool), make(map[owned]bool)
	}
	changed, named := w.changed, w.named
	clear(changed)
	clear(named)
	bytes, lines := 0, 0
	w.queue = slices.DeleteFunc(w.queue, func(p *pending) bool {
		if len(group) >= groupBatches || bytes >= groupBytes || len(group) > 0 && p.meets(changed, named) {
			return false
		}
		if n := linesOf(p.batch); w.of.who.user != (id{}) || lines+n <= quickLines || len(group) == 0 {
			lines += n
		} else {
			return false
		}
		p.note(changed, named)
		bytes += size(p.batch)
		group = append(group, p)
		return true
	})
	w.flying, w.began = w.flying+len(group), time.Now()
	return group
}

// owned is a record or log of somebody.
type owned struct {
	who who
	key tidemark.Key
}

func (p *pending) meets(changed, named map[owned]bool) bool {
	for k := range changes(p.batch) {
		if named[owned{p.who, k}] {
			return true
		}
	}
	return slices.ContainsFunc(p.batch.Require, func(n tidemark.Precondition) bool { return changed[owned{p.who, n.Key}] })
}

func (p *pending) note(changed, named map[owned]bool) {
	for k := range changes(p.batch) {
		changed[owned{p.who, k}], named[owned{p.who, k}] = true, true
	}
	for _, n := range p.batch.Require {
		named[owned{p.who, n.Key}] = true
	}
}

// changes yields the keys whose record or log a batch changes.
func changes(b *tidemark.Batch) iter.Seq[tidemark.Key] {
	return func(yield func(tidemark.Key) bool) {
		for i := range b.Appends {
			if !yield(b.Appends[i].Log) {
				return
			}
		}
		for i := range b.Puts {
			if !yield(b.Puts[i].Key) {
				return
			}
		}
		for i := range b.Deletes {
			if !yield(b.Deletes[i].Key) {
				return
			}
		}
		for _, t := range b.Trims {
			if !yield(t.Log) {
				return
			}
		}
		for i := range b.Fills {
			if !yield(b.Fills[i].Log) {
				return
			}
		}
		for _, k := range b.Drops {
			if !yield(k) {
				return
			}
		}
	}
}

func linesOf(b *tidemark.Batch) (n int) {
	for i := range b.Appends {
		n += len(b.Appends[i].Lines)
	}
	return n
}

func size(b *tidemark.Batch) (n int) {
	for i := range b.Puts {
		n += len(b.Puts[i].Body)
	}
	for _, all := range [][]tidemark.Append{b.Appends, b.Fills} {
		for i := range all {
			for j := range all[i].Lines {
				n += len(all[i].Lines[j].Body)
			}
		}
	}
	return n
}

// carryOut answers a group. When the database refuses the transaction for a
// reason of its own, each batch is tried on its own, so that the others do not
// fail with it.
func (w *writer) carryOut(group []*pending) {
	err := w.persist(group)
	switch {
	case errors.Is(err, errApart):
		for _, ofOne := range byUser(group) {
			w.carryOut(ofOne)
		}
		return
	case err != nil && len(group) > 1 && refusedByServer(err) && !isAway(err) && w.db.elsewhereIn(err) == nil:
		for _, p := range group {
			w.carryOut([]*pending{p})
		}
		return
	}
	for _, p := range group {
		if err != nil {
			p.receipt, p.err = tidemark.Receipt{}, w.db.named(err)
		}
		if p.err == nil {
			w.db.hints.grew(p.who, p.batch)
		}
	}
}

// errApart says that nothing has changed, and that each user's batches are to
// be carried out by themselves.
var errApart = errors.New("not for all of them together")

// byUser takes a group apart.
func byUser(group []*pending) (all [][]*pending) {
	at := make(map[who]int)
	for _, p := range group {
		i, again := at[p.who]
		if !again {
			i, at[p.who] = len(all), len(all)
			all = append(all, nil)
		}
		all[i] = append(all[i], p)
	}
	return all
}

// persist retries until the outcome is known, or cannot be.
func (w *writer) persist(group []*pending) (err error) {
	pause := firstPause
	for try := range commitTries {
		var sent bool
		began := time.Now()
		sent, err = w.transact(group)
		w.db.commits.add(began, err != nil)
		switch {
		case err == nil:
			return nil
		case sent && !refusedByServer(err) && !errors.Is(err, errNotCommitted):
			return w.db.unknown(err)
		case !inTheWay(err) && (!isAway(err) || try >= queryTries):
			return err
		}
		time.Sleep(pause/2 + rand.N(pause))
		pause = min(2*pause, longPause)
	}
	return err
}

// unknown is ErrUnknown: the connection broke after COMMIT was sent. The cause
// is for people to read, and answers to no sentinel: an unknown outcome is not
// ErrUnavailable.
func (db *Database) unknown(err error) error {
	return fmt.Errorf("database %s: %w: the connection broke during COMMIT (%v)", db.place, tidemark.ErrUnknown, err)
}

// transact carries out a group in one transaction. sent reports whether COMMIT
// was sent, so that after an error the outcome is unknown.
func (w *writer) transact(group []*pending) (sent bool, err error) {
	// The group outlives its callers: no caller's context ends it.
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	class := toWrite
	if w.of.behind {
		class = unawaited
	}
	done, err := w.db.gates[class].enter(ctx, w.of.who)
	if err != nil {
		return false, err
	}
	defer done()
	c, err := w.db.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer c.Release()
	if q := newQuick(group, &w.db.fences); q != nil {
		sent, err := q.send(ctx, w.db, c)
		w.db.fences.settle(q.logs, err == nil)
		if !errors.Is(err, errOtherwise) {
			return sent, err
		}
	}
	if ofSeveral(group) {
		return false, errApart
	}
	a := newApplying(w.db, group[0].who, group)
	if err := a.look(ctx, c); err != nil {
		rollBack(ctx, c)
		return false, err
	}
	if !a.check() {
		rollBack(ctx, c)
		return false, nil
	}
	if err := a.write(ctx, c); err != nil {
		if refusedByServer(err) {
			rollBack(ctx, c)
		}
		return true, err
	}
	return true, nil
}

// ofSeveral reports whether a group has batches of more than one user.
func ofSeveral(group []*pending) bool {
	return slices.ContainsFunc(group, func(p *pending) bool { return p.who != group[0].who })
}

// rollBack ends a transaction. When that fails, the pool discards the
// connection, and the server rolls the transaction back.
func rollBack(ctx context.Context, c *pgxpool.Conn) {
	if c.Conn().PgConn().TxStatus() != 'I' {
		c.Exec(ctx, "rollback")
	}
}
