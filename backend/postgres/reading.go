package postgres

import (
	"context"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// ReadFrom says where a request may read.
type ReadFrom struct {
	// Primary means that nothing is read anywhere else: the request changes something.
	Primary bool
	// At is what has to be there. Without it the asker may have written something that
	// nobody remembers, and only the primary is sure to have it, unless Any is set: then
	// any replica will do that is not far behind.
	At  tidemark.CommitPosition
	Any bool
}

// Reading is what one request reads. All of it comes from one replica, or from the primary
// from some moment on, so that nothing that was read is gone again in the same request.
// All methods may be called concurrently.
type Reading struct {
	db *Database
	o  ReadFrom

	mu      sync.Mutex
	chosen  bool
	from    *replica // nil: the primary
	changed bool     // the request may have changed something
	seen    tidemark.CommitPosition
}

type readingKey struct{}

// Reading returns a context for a request, and what to ask for its position afterwards.
// Without replicas it is nil, and the context is ctx.
func (db *Database) Reading(ctx context.Context, o ReadFrom) (context.Context, *Reading) {
	if len(db.replicas) == 0 {
		return ctx, nil
	}
	r := &Reading{db: db, o: o, chosen: o.Primary, changed: o.Primary}
	return context.WithValue(ctx, readingKey{}, r), r
}

// readingOf returns the reading that b takes part in; nil: everything is asked at the primary, and
// nobody wants to know a position. Who may do what is never read from a replica:
// whoever was kept out is out at once.
func (b *Backend) readingOf(ctx context.Context) *Reading {
	r, _ := ctx.Value(readingKey{}).(*Reading)
	if r == nil || r.db != b.db || idText(b.who.user) == tidemark.Operator().User {
		return nil
	}
	return r
}

// Position returns what the next request has to name to see what this one saw and
// changed, and false when there is nothing to name.
func (r *Reading) Position(ctx context.Context) (tidemark.CommitPosition, bool) {
	if r == nil {
		return tidemark.CommitPosition{}, false
	}
	r.mu.Lock()
	changed, seen := r.changed, r.seen
	r.mu.Unlock()
	if changed {
		now, err := r.db.position.now(ctx, r.db)
		if err != nil {
			return tidemark.UnknownCommitPosition, true
		}
		return now, true
	}
	return seen, seen != tidemark.CommitPosition{}
}

// stay has the rest be read at the primary. r may be nil.
func (r *Reading) stay(changed bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chosen, r.from = true, nil
	r.changed = r.changed || changed
}

// saw notes how far the database was that something was read from.
func (r *Reading) saw(at tidemark.CommitPosition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Compare(r.seen) > 0 {
		r.seen = at
	}
}

// choose returns the replica that is read; nil: the primary. Users have a replica of
// their own as long as it keeps up, whose memory then has what they read.
func (r *Reading) choose(ctx context.Context, of who) *replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.chosen {
		return r.from
	}
	r.chosen = true
	if r.o.Any || r.o.At != (tidemark.CommitPosition{}) {
		first := int(of.user[len(of.user)-1]) % len(r.db.replicas)
		r.from = reached(ctx, slices.Concat(r.db.replicas[first:], r.db.replicas[:first]), r.o.At)
	}
	return r.from
}

// fromReplica sends queries to the replica of a reading, and reports false when they are to be sent to
// the primary.
func (b *Backend) fromReplica(ctx context.Context, r *Reading, n namedLogs, queue func(*pgx.Batch)) bool {
	if r == nil {
		return false
	}
	from := r.choose(ctx, b.who)
	if from == nil {
		return false
	}
	at, err := from.query(ctx, b, r.o.At, n, queue)
	if err != nil {
		r.stay(false)
		return false
	}
	r.saw(at)
	return true
}

// sqlPosition asks a primary how far it is. Anything that a statement before it saw is at or
// before that. A standby has no such position.
const sqlPosition = `select case when not pg_is_in_recovery() then ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint end,
  case when not pg_is_in_recovery() then (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint end`

// scanPosition reads a timeline and a place; both may be null.
func scanPosition(row pgx.Row, more ...any) (p tidemark.CommitPosition, err error) {
	var timeline, lsn *int64
	if err := row.Scan(append([]any{&timeline, &lsn}, more...)...); err != nil || timeline == nil || lsn == nil {
		return p, err
	}
	return tidemark.CommitPosition{Timeline: uint32(*timeline), LSN: uint64(*lsn)}, nil
}

// position asks the primary how far it is, once for all who want to know at the same time.
type position struct {
	mu   sync.Mutex
	busy bool
	next *positionAnswer // of the question that was not sent yet
}

type positionAnswer struct {
	done chan struct{}
	at   tidemark.CommitPosition
	err  error
}

// now returns a position that includes everything that was committed before the call.
func (p *position) now(ctx context.Context, db *Database) (tidemark.CommitPosition, error) {
	p.mu.Lock()
	if p.next == nil {
		p.next = &positionAnswer{done: make(chan struct{})}
	}
	mine := p.next
	if !p.busy {
		p.busy = true
		go p.ask(db)
	}
	p.mu.Unlock()
	select {
	case <-mine.done:
		return mine.at, mine.err
	case <-ctx.Done():
		return tidemark.CommitPosition{}, ctx.Err()
	}
}

// ask sends questions until nobody has one.
func (p *position) ask(db *Database) {
	for {
		p.mu.Lock()
		mine := p.next
		p.next = nil
		if p.busy = mine != nil; !p.busy {
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), positionTimeout)
		mine.at, mine.err = scanPosition(db.pool.QueryRow(ctx, sqlPosition))
		if mine.err == nil && mine.at == (tidemark.CommitPosition{}) {
			mine.err = ErrReadOnly
		}
		cancel()
		close(mine.done)
	}
}
