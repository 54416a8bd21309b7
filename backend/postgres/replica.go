package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// A replica is a standby that answers reads. Whether it may is decided anew for each query,
// in the same round trip: it says how far it is before it answers. So it does not matter
// what is behind its address, or whether it was exchanged meanwhile. What is known of it
// from before only keeps requests from asking in vain.

const (
	// replicaEvery is how often a replica is asked how far it is.
	replicaEvery = time.Second
	// probeTimeout is how long it may take to say so, and replicaTimeout how long a query
	// may take: after that the primary is asked.
	probeTimeout   = time.Second
	replicaTimeout = 2 * time.Second
	// replicaWait is how long a request waits for its own writes to arrive. Streaming takes a few
	// milliseconds.
	replicaWait  = 100 * time.Millisecond
	replicaAgain = 5 * time.Millisecond
	// replicaLag is how far behind a replica may be at most. It is what other servers
	// may take to hear that somebody was kept out.
	replicaLag = 5 * time.Second
	// positionTimeout is how long the primary may take to say how far it is.
	positionTimeout = 3 * time.Second
	// replicaConnect is how long logging in and the self-test may take.
	replicaConnect = 30 * time.Second
	// lagMemory is how many positions of the primary are remembered, one for each
	// replicaEvery in which it came farther.
	lagMemory = 3600
)

// ReplicaState is what a replica is good for now.
type ReplicaState string

// The states.
const (
	ReplicaReady   ReplicaState = "ready"   // it answers reads
	ReplicaBehind  ReplicaState = "behind"  // by more than five seconds
	ReplicaAway    ReplicaState = "away"    // it does not answer
	ReplicaForeign ReplicaState = "foreign" // it follows another database or timeline, takes writes, or would not keep tenants apart
)

// ReplicaStates are all of them.
var ReplicaStates = []ReplicaState{ReplicaReady, ReplicaBehind, ReplicaAway, ReplicaForeign}

// errReplica says that a replica is not to be used now.
var errReplica = tidemark.Invalidf("it cannot answer reads")

type replica struct {
	primary *Database
	url     string
	name    string // host and port
	wake    chan struct{}

	db    atomic.Pointer[Database] // nil: it never answered
	reads atomic.Int64
	given atomic.Int64 // how often the primary had to answer in its place

	mu    sync.Mutex
	state ReplicaState
	at    tidemark.CommitPosition
	lag   time.Duration
	err   error
}

// Replica is how a replica is doing.
type Replica struct {
	Name  string
	State ReplicaState
	At    tidemark.CommitPosition
	// Lag is the age of the oldest change that it does not have, to the second.
	Lag time.Duration
	// Reads are the queries that it answered, and GivenUp how often it was asked and the
	// primary had to answer.
	Reads, GivenUp int64
	Err            error // why it is not ready; nil: it is, or was never asked
}

// Replicas returns how the replicas are doing. It asks nobody.
func (db *Database) Replicas() (all []Replica) {
	for _, r := range db.replicas {
		r.mu.Lock()
		all = append(all, Replica{r.name, r.state, r.at, r.lag, r.reads.Load(), r.given.Load(), r.err})
		r.mu.Unlock()
	}
	return all
}

// follow begins to ask replicas how they are doing. None of them has to answer.
func (db *Database) follow(urls []string) error {
	for _, url := range urls {
		config, err := configOf(url)
		if err != nil {
			return err
		}
		db.replicas = append(db.replicas, &replica{primary: db, url: url, wake: make(chan struct{}, 1), state: ReplicaAway,
			name: fmt.Sprintf("%s:%d", config.ConnConfig.Host, config.ConnConfig.Port)})
	}
	if len(db.replicas) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { db.progress.watch(ctx, db) })
	for _, r := range db.replicas {
		work.Go(func() { r.watch(ctx) })
	}
	db.unfollow = func() {
		cancel()
		work.Wait()
		for _, r := range db.replicas {
			if there := r.db.Load(); there != nil {
				go there.Close() // a server that hangs would keep everybody waiting
			}
		}
	}
	return nil
}

// progress is how far the primary was when.
type progress struct {
	mu  sync.Mutex
	was []progressed // in order of both
}

type progressed struct {
	at   tidemark.CommitPosition
	when time.Time
}

// watch notes how far the primary comes.
func (p *progress) watch(ctx context.Context, db *Database) {
	tick := time.NewTicker(replicaEvery)
	defer tick.Stop()
	for {
		if at, err := db.position.now(ctx, db); err == nil {
			p.note(progressed{at, time.Now()})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *progress) note(now progressed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := len(p.was); {
	case n > 0 && now.at == p.was[n-1].at:
		return
	case n > 0 && now.at.Compare(p.was[n-1].at) < 0, n > 0 && now.at.Timeline != p.was[n-1].at.Timeline:
		p.was = nil // another database took over
	case n >= lagMemory:
		p.was = p.was[1:]
	}
	p.was = append(p.was, now)
}

// lag returns the age of the oldest change that somebody at a position does not have; false
// when the primary is on another timeline.
func (p *progress) lag(at tidemark.CommitPosition, now time.Time) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, was := range p.was {
		switch {
		case was.at.Timeline != at.Timeline:
			return 0, false
		case !at.Has(was.at):
			return now.Sub(was.when), true
		}
	}
	return 0, true
}

// watch asks a replica how it is doing, from time to time and when it did not answer.
func (r *replica) watch(ctx context.Context) {
	tick := time.NewTicker(replicaEvery)
	defer tick.Stop()
	for {
		err := r.look(ctx)
		if ctx.Err() != nil {
			return
		}
		r.judge(err)
		select {
		case <-tick.C:
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// look connects when there is no connection yet, and asks how far the replica is.
func (r *replica) look(ctx context.Context) error {
	if r.db.Load() == nil {
		within, cancel := context.WithTimeout(ctx, replicaConnect)
		defer cancel()
		db, err := connectReplica(within, r.url, r.primary)
		if err != nil {
			return err
		}
		r.db.Store(db)
	}
	within, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := r.ask(within)
	return err
}

// judge notes what came of looking.
func (r *replica) judge(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	switch {
	case errors.Is(err, errReplica), errors.Is(err, tidemark.ErrDenied), errors.Is(err, tidemark.ErrUnsupported), errors.Is(err, tidemark.ErrNoStore):
		r.state = ReplicaForeign
	case err != nil:
		r.state = ReplicaAway
	default:
		lag, same := r.primary.progress.lag(r.at, time.Now())
		switch r.lag = lag; {
		case !same:
			r.state, r.err = ReplicaForeign, fmt.Errorf("%w: it follows another timeline than the primary", errReplica)
		case lag > replicaLag:
			r.state = ReplicaBehind
		default:
			r.state = ReplicaReady
		}
	}
}

// lost notes that a replica did not answer, until it does.
func (r *replica) lost(err error) {
	r.mu.Lock()
	r.state, r.err = ReplicaAway, err
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it is being asked already
	}
}

// known returns whether the replica is ready, and how far it was.
func (r *replica) known() (ready bool, at tidemark.CommitPosition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == ReplicaReady, r.at
}

// sqlReplica asks a standby how far it is. What it shows afterwards is at least that far.
// The files that say the timeline are written a little later than it is followed, never earlier.
const sqlReplica = `select case when pg_is_in_recovery() then greatest((select timeline_id from pg_control_checkpoint()), (select min_recovery_end_timeline from pg_control_recovery()))::bigint end,
  case when pg_is_in_recovery() then (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint end`

// saw notes how far a replica is. errReplica: it is no standby.
func (r *replica) saw(at tidemark.CommitPosition) error {
	if at == (tidemark.CommitPosition{}) {
		return fmt.Errorf("%w: it is no standby", errReplica)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = at
	return nil
}

// ask asks the replica how far it is.
func (r *replica) ask(ctx context.Context) (tidemark.CommitPosition, error) {
	at, err := scanPosition(r.db.Load().pool.QueryRow(ctx, sqlReplica))
	if err == nil {
		err = r.saw(at)
	}
	return at, err
}

// reached returns the first replica that has come as far as asked. It waits a little for one
// that is about to; nil: there is none.
func reached(ctx context.Context, replicas []*replica, asked tidemark.CommitPosition) *replica {
	ctx, cancel := context.WithTimeout(ctx, replicaWait)
	defer cancel()
	for {
		var late *replica // that was to answer
		for _, r := range replicas {
			ready, at := r.known()
			if !ready || asked.Timeline != 0 && at.Timeline != asked.Timeline {
				continue
			}
			if asked.Timeline == 0 || at.Has(asked) {
				return r
			}
			if at, err := r.ask(ctx); err == nil && at.Has(asked) {
				return r
			}
			if late == nil {
				late = r
			}
		}
		if late == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			late.given.Add(1)
			return nil
		case <-time.After(replicaAgain):
		}
	}
}

// query sends queries of b, and returns how far the replica was before it answered them. After an
// error the primary is to be asked.
func (r *replica) query(ctx context.Context, b *Backend, asked tidemark.CommitPosition, n namedLogs, queue func(*pgx.Batch)) (at tidemark.CommitPosition, err error) {
	db := r.db.Load()
	done, err := db.gates.of(ctx, toRead).enter(ctx, b.who)
	if err != nil {
		return at, err
	}
	defer done()
	if ready, _ := r.known(); !ready { // while this one waited for its turn
		r.given.Add(1)
		return at, errReplica
	}
	within, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	batch := &pgx.Batch{}
	batch.Queue(sqlReplica).QueryRow(func(row pgx.Row) (err error) {
		at, err = scanPosition(row)
		return err
	})
	b.settings(db, batch, n)
	queue(batch)
	began := time.Now()
	err = db.pool.SendBatch(within, batch).Close()
	if err == nil {
		err = r.saw(at)
	}
	if err == nil && asked.Timeline != 0 && !at.Has(asked) {
		err = fmt.Errorf("%w: it went back", errReplica)
	}
	db.reads.add(began, err != nil && ctx.Err() == nil)
	switch {
	case err == nil:
		r.reads.Add(1)
		return at, nil
	case ctx.Err() != nil:
		return at, ctx.Err()
	case isAway(err) || within.Err() != nil || errors.Is(err, errReplica):
		r.lost(err)
	}
	r.given.Add(1)
	return at, err
}

// sqlIdentity tells clusters, databases and roles apart.
const sqlIdentity = `select system_identifier, current_database()::text, current_user::text from pg_control_system()`

// connectReplica logs in at a replica of a database, with the same checks. ErrDenied: it would not keep
// tenants apart. errReplica: it is no standby of that database.
func connectReplica(ctx context.Context, url string, of *Database) (*Database, error) {
	db, err := Connect(ctx, url, &Options{connectWithin: replicaTimeout})
	if err != nil {
		return nil, err
	}
	if err := db.isReplicaOf(ctx, of); err != nil {
		go db.Close()
		return nil, err
	}
	return db, nil
}

// CheckReplica logs in at a replica as a server would, and returns how many bytes of the write-ahead log it
// does not have yet. ErrInvalid: it is no replica of this database. ErrDenied: it would not keep tenants apart.
func (db *Database) CheckReplica(ctx context.Context, url string) (behind int64, err error) {
	now, err := db.position.now(ctx, db)
	if err != nil {
		return 0, db.named(err)
	}
	there, err := connectReplica(ctx, url, db)
	if err != nil {
		return 0, err
	}
	defer there.Close()
	at, err := scanPosition(there.pool.QueryRow(ctx, sqlReplica))
	switch {
	case err != nil:
		return 0, there.named(err)
	case at.Timeline != now.Timeline:
		return 0, fmt.Errorf("database %s: %w: it follows timeline %d, and the primary is on %d", there.place, errReplica, at.Timeline, now.Timeline)
	case at.Has(now):
		return 0, nil
	}
	return int64(now.LSN - at.LSN), nil
}

// isReplicaOf returns errReplica when db is no standby of another database, asked as the same role.
func (db *Database) isReplicaOf(ctx context.Context, of *Database) error {
	type identity struct {
		system     int64
		name, role string
	}
	var here, there identity
	for who, at := range map[*identity]*Database{&here: db, &there: of} {
		if err := at.pool.QueryRow(ctx, sqlIdentity).Scan(&who.system, &who.name, &who.role); err != nil {
			return at.named(err)
		}
	}
	at, err := scanPosition(db.pool.QueryRow(ctx, sqlReplica))
	switch {
	case err != nil:
		return db.named(err)
	case here.system != there.system || here.name != there.name:
		return fmt.Errorf("database %s: %w: it is none of %s", db.place, errReplica, of.place)
	case here.role != there.role:
		return fmt.Errorf("database %s: %w: it is asked as %s, and the primary as %s", db.place, errReplica, here.role, there.role)
	case at == (tidemark.CommitPosition{}):
		return fmt.Errorf("database %s: %w: it is no standby", db.place, errReplica)
	}
	return nil
}
