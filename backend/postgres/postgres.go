// Package postgres is a Backend on PostgreSQL (15 or later) for a team: rows of
// many tenants and users in the same tables, kept apart by row-level security.
// The principal is set for each transaction, in the same round trip as the
// query; without it no rows are visible.
//
// It never keeps anything in a connection from one transaction to the next, so
// that it works behind pgbouncer in transaction mode; logs in as the owner of
// the tables only to migrate; and serves nothing when its role could bypass a
// policy.
//
//	db, err := postgres.Connect(ctx, url, nil)
//	b := db.For(tidemark.TenantOf("acme", "ada"))
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-sessions/tidemark"
)

// Options say how a database is used. Nil means defaults.
type Options struct {
	// MaxConns bounds the connections of this process, unless the URL sets
	// pool_max_conns. 0: defaultConns.
	MaxConns int32
	// Pooler says whether there is a pooler in transaction mode in front of the
	// database. If so, no statement is prepared by name, and followers can only
	// poll.
	Pooler Pooler
	// Replicas are the URLs of standbys that answer reads; see Reading. They need not
	// answer now.
	Replicas []string
	// Unchecked skips the self-test when connecting. For tests and repair.
	Unchecked bool

	connectWithin time.Duration // unless the URL says connect_timeout; 0: no limit
}

// Pooler says what is between this program and the database.
type Pooler int

const (
	// Detect finds out: when the backend process that serves a connection is not
	// the one that greeted it, there is a pooler in between.
	Detect Pooler = iota
	// Direct says that there is none.
	Direct
	// Pooled says that there is one.
	Pooled
)

// defaultConns is enough to keep a few cores of a database busy, and leaves
// room for other processes in its default of 100.
const defaultConns = 16

// Database is a pool of connections that Backends share. All methods may be
// called concurrently.
type Database struct {
	pool   *pgxpool.Pool
	pooled bool
	place  string // the name used in messages: no password

	gates   gates // who uses a connection next
	mu      sync.Mutex
	writers map[lane]*writer
	fences  fences
	hints   hints
	close   sync.Once

	reads, commits trips

	replicas []*replica
	unfollow func() // nil: there are no replicas
	position position
	progress progress
}

// Connect connects to a database that Migrate has made ready, and tests whether
// it keeps tenants apart (see SelfTest). The parameters tenant, as and workspace
// of the URL are for Open and are ignored.
//
// ErrUnavailable: the database does not answer. ErrUnsupported: it lacks migrations, or
// has later ones. ErrDenied: it would not keep tenants apart.
func Connect(ctx context.Context, url string, o *Options) (*Database, error) {
	if o == nil {
		o = &Options{}
	}
	config, err := configOf(url)
	if err != nil {
		return nil, err
	}
	db := &Database{place: placeOf(config.ConnConfig), writers: make(map[lane]*writer)}
	if err := db.detect(ctx, config, o); err != nil {
		return nil, err
	}
	if config.MaxConns = o.MaxConns; config.MaxConns <= 0 {
		config.MaxConns = defaultConns
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = o.connectWithin
	}
	if n := maxConnsIn(url); n > 0 {
		config.MaxConns = n
	}
	if err := db.pooling(ctx, config); err != nil {
		return nil, db.named(err)
	}
	if !o.Unchecked {
		if err := db.SelfTest(ctx); err != nil {
			db.Close()
			return nil, err
		}
	}
	if err := db.follow(o.Replicas); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// pooling makes the pool of connections, and begins to listen.
func (db *Database) pooling(ctx context.Context, config *pgxpool.Config) (err error) {
	if db.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	db.gates = newGates(int(config.MaxConns))
	db.hints.start(db, config.ConnConfig)
	return nil
}

// detect finds out whether a pooler is in between and chooses how statements
// are sent and planned. Named statements belong to one connection of the server; a pooler
// gives the next transaction another one.
func (db *Database) detect(ctx context.Context, config *pgxpool.Config, o *Options) error {
	db.pooled = o.Pooler == Pooled
	if o.Pooler == Detect {
		probe := config.ConnConfig.Copy()
		probe.DefaultQueryExecMode = pgx.QueryExecModeExec
		c, err := pgx.ConnectConfig(ctx, probe)
		if err != nil {
			return db.named(err)
		}
		defer c.Close(context.WithoutCancel(ctx))
		var pid uint32
		if err := c.QueryRow(ctx, `select pg_backend_pid()`).Scan(&pid); err != nil {
			return db.named(err)
		}
		db.pooled = pid != c.PgConn().PID()
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if db.pooled {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	} else {
		maps.Copy(config.ConnConfig.RuntimeParams, planSettings)
		showProgram(config.ConnConfig.RuntimeParams)
	}
	return nil
}

// showProgram has the database show which program a connection is of, to whoever asks
// who is connected. A pooler would have to say it again for each transaction.
func showProgram(params map[string]string) {
	if params["application_name"] == "" {
		host, _ := os.Hostname() // without one, the process is named alone
		params["application_name"] = fmt.Sprintf("tidemark (schema %d), process %d on %s", Schema, os.Getpid(), host)
	}
}

// Close closes the connections. Calls of its Backends fail from then on.
func (db *Database) Close() {
	db.close.Do(func() {
		if db.unfollow != nil {
			db.unfollow()
		}
		db.hints.stop()
		db.pool.Close()
	})
}

// Ping returns nil when the database answers, and ErrUnavailable when it does not.
func (db *Database) Ping(ctx context.Context) error { return db.named(db.pool.Ping(ctx)) }

// Writable returns nil when the database takes writes, ErrReadOnly when it is a
// standby or was made read-only, and ErrUnavailable when it does not answer.
func (db *Database) Writable(ctx context.Context) error {
	var no bool
	var err error
	for range queryTries {
		err = db.pool.QueryRow(ctx, `select pg_is_in_recovery() or current_setting('default_transaction_read_only')::boolean`).Scan(&no)
		if err == nil || ctx.Err() != nil || !isAway(err) {
			break
		}
	}
	if err == nil && no {
		db.pool.Reset() // the next connection may find the primary
		return tidemark.Storagef("database %s: %w", db.place, ErrReadOnly)
	}
	return db.named(err)
}

// Pool is how the connections of a Database are used.
type Pool struct {
	Most, Busy, Idle int
	// Asked is how often a connection was asked for, Waited how often there was
	// none, and Waiting how long everybody waited together.
	Asked, Waited int64
	Waiting       time.Duration
	// Reads and Commits are the round trips that read and that wrote.
	Reads, Commits Trips
}

// Trips are round trips to the database, those that failed among them, and how long
// all took together.
type Trips struct {
	N, Failed int64
	Took      time.Duration
}

// trips counts round trips.
type trips struct{ n, failed, took atomic.Int64 }

func (t *trips) add(began time.Time, failed bool) {
	t.n.Add(1)
	t.took.Add(int64(time.Since(began)))
	if failed {
		t.failed.Add(1)
	}
}

func (t *trips) now() Trips {
	return Trips{N: t.n.Load(), Failed: t.failed.Load(), Took: time.Duration(t.took.Load())}
}

// Pool returns how the connections are used.
func (db *Database) Pool() Pool {
	s := db.pool.Stat()
	p := Pool{Most: int(s.MaxConns()), Busy: int(s.AcquiredConns()), Idle: int(s.IdleConns()),
		Asked: s.AcquireCount(), Waited: s.EmptyAcquireCount(), Waiting: s.EmptyAcquireWaitTime(), Reads: db.reads.now(), Commits: db.commits.now()}
	db.gates.use(&p)
	return p
}

// Size returns how many bytes the tables and their indexes take, for all tenants
// together.
func (db *Database) Size(ctx context.Context) (bytes int64, err error) {
	err = db.pool.QueryRow(ctx, `select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
  from pg_class c where c.relnamespace = 'tidemark'::regnamespace and c.relkind = 'r'`).Scan(&bytes)
	return bytes, db.named(err)
}

// Backend keeps the records and logs of one principal.
type Backend struct {
	db    *Database
	who   who
	also  []id     // its workspaces, in the order given
	set   string   // the same, as a PostgreSQL array
	wrong error    // not nil: the principal is invalid
	alone bool     // closing it closes the database
	of    *id      // the only owner that is read; nil: the principal, and what others share
	keeps *id      // the principal is this workspace itself: of others, only what is shared with it is seen
	from  *Backend // the Backend that Of was called on, and that it closes with

	mu     sync.RWMutex // held for reading by every call
	closed bool
}

// who is the owner of the rows that a Backend writes.
type who struct{ tenant, user id }

var (
	_ tidemark.Backend = (*Backend)(nil)
	_ tidemark.Checker = (*Backend)(nil)
	_ tidemark.Sharer  = (*Backend)(nil)
)

// For returns the Backend of a principal. It costs nothing and shares the
// connections of db; closing it leaves them open. When p has anything but UUIDs,
// every call of the Backend returns ErrInvalid.
func (db *Database) For(p tidemark.Principal) *Backend {
	b := &Backend{db: db}
	b.who.tenant, b.wrong = parseID("tenant", p.Tenant)
	user, err := parseID("user", p.User)
	b.who.user, b.wrong = user, errors.Join(b.wrong, err)
	for _, w := range p.Workspaces {
		ws, err := parseID("workspace", w)
		b.also, b.wrong = append(b.also, ws), errors.Join(b.wrong, err)
	}
	b.set = idList(b.also)
	return b
}

// Open connects as the one principal that the URL names:
//
//	postgres://…/db?tenant=NAME&as=USER&workspace=W&workspace=W2
//
// Without tenant it is the tenant "default", without as the tenant itself.
// Closing the Backend closes the connections.
func Open(ctx context.Context, url string, o *Options) (*Backend, error) {
	p, err := PrincipalIn(url)
	if err != nil {
		return nil, err
	}
	db, err := Connect(ctx, url, o)
	if err != nil {
		return nil, err
	}
	b := db.For(p)
	b.alone = true
	return b, nil
}

var errClosed = errors.New("postgres: closed")

// Close waits for calls in progress.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && b.alone {
		b.db.Close()
	}
	b.closed = true
	return nil
}

// enter keeps the Backend open until leave is called.
func (b *Backend) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.wrong != nil {
		return b.wrong
	}
	if b.from != nil {
		return b.from.enter(ctx)
	}
	b.mu.RLock()
	if b.closed {
		b.mu.RUnlock()
		return errClosed
	}
	return nil
}

func (b *Backend) leave() {
	if b.from != nil {
		b.from.leave()
		return
	}
	b.mu.RUnlock()
}

// The kinds that belong to a session and are shared with it. The schema has the
// same list.
var sessionKinds = []string{"session", "notes", "past", "worker", "checkpoint", "file", "name", "fork", kindCold}

// kindCold is of the records that say where the older lines of a log are.
const kindCold = "cold"

// Pooled reports whether a pooler in transaction mode is in front of the
// database, through which nobody can listen.
func (b *Backend) Pooled() bool { return b.db.pooled }
