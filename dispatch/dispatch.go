// Package dispatch hands out the jobs of a fleet to several machines that share
// one store on PostgreSQL, by River.
//
// A job of River only says that a job of the store is due: it has ids and no
// content, and is completed when a node has begun the job. Who runs a job, how
// many run at once and what became of it is in the store, under leases. The
// record of a job that waits is the outbox: what River lost, or never heard of,
// is told to it again.
//
// It never decides whether a job runs, and holds nothing that would be missed.
//
//	d, err := dispatch.New(ctx, url, principal, s, nil)
//	fleet.NewDaemon(fleet.DaemonOptions{Dispatch: d, …}).Run(ctx)
//	d.Close()
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// DefaultSchema is where River has its tables.
const DefaultSchema = "river"

// Options are what a caller may choose. Nil, and each zero field, means the
// default.
type Options struct {
	Schema string // the default is DefaultSchema
	// PollOnly is for a connection that cannot listen, such as one through
	// pgbouncer in transaction mode: a job begins up to half a second later.
	PollOnly bool
	// Log is told what River does, without content. The default tells nobody.
	Log *slog.Logger
}

// How River is used.
const (
	// hands is how many jobs a node takes at a time to begin them. Beginning is
	// short, and all of them wait for the same records, so more would not be
	// quicker; fewer jobs at a time are spread better over the nodes.
	hands = 16
	// fetchEvery bounds how often a node asks for jobs while there are some;
	// pollEvery is how often it asks when it heard of none, or cannot hear.
	fetchEvery = 20 * time.Millisecond
	pollEvery  = 500 * time.Millisecond
	// handTimeout ends an attempt to begin a job, rescueAfter is when River takes
	// it for lost with its node. It is short because no run is held by River.
	handTimeout = 20 * time.Second
	rescueAfter = 30 * time.Second
	// keepCompleted is how long River keeps what it handed out, for people who
	// look at its tables.
	keepCompleted = 10 * time.Minute
	// closeTimeout bounds how long Close waits for what is being begun.
	closeTimeout = handTimeout + 5*time.Second
)

// Dispatch hands out the jobs of the fleet of one principal. It is what a
// fleet.Daemon wants, and serves one of them. Its methods may be called
// concurrently.
type Dispatch struct {
	s      *fleet.Store
	of     tidemark.Principal
	queue  string
	log    *slog.Logger
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	closed chan struct{}

	mu      sync.Mutex
	start   func(context.Context, tidemark.Job) error // nil until the daemon is there
	outbox  outbox
	waiting map[string][]*waiter // by agent, those that wait longest first
	began   map[string]time.Time // by agent, when one of its jobs last began here
}

// New connects to River for the fleet of p, whose jobs s keeps. Nothing is
// handed out before the first HandOut. The schema has to be there: see Migrate.
func New(ctx context.Context, url string, p tidemark.Principal, s *fleet.Store, o *Options) (*Dispatch, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Schema == "" {
		opts.Schema = DefaultSchema
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	pool, err := connect(ctx, url, opts.PollOnly)
	if err != nil {
		return nil, err
	}
	d := &Dispatch{s: s, of: p, queue: queueOf(p), log: opts.Log, pool: pool, closed: make(chan struct{}),
		outbox: outbox{depth: make(map[string]int)}, waiting: make(map[string][]*waiter), began: make(map[string]time.Time)}
	if err := d.open(ctx, opts); err != nil {
		pool.Close()
		return nil, err
	}
	return d, nil
}

// open makes sure of the schema and makes the client.
func (d *Dispatch) open(ctx context.Context, o Options) error {
	driver := riverpgxv5.New(d.pool)
	m, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: o.Schema, Logger: d.log})
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	v, err := m.Validate(ctx, nil)
	if err != nil {
		return fmt.Errorf("river: schema %s: %w", o.Schema, err)
	}
	if !v.OK {
		return tidemark.Unsupportedf("river: schema %s is not of this version: %v", o.Schema, v.Messages)
	}
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, &worker{d: d}); err != nil {
		return fmt.Errorf("river: %w", err)
	}
	d.client, err = river.NewClient(driver, &river.Config{
		Schema: o.Schema, PollOnly: o.PollOnly, Logger: d.log, Workers: workers,
		Queues:        map[string]river.QueueConfig{d.queue: {MaxWorkers: hands}},
		FetchCooldown: fetchEvery, FetchPollInterval: pollEvery,
		JobTimeout: handTimeout, RescueStuckJobsAfter: rescueAfter,
		// What goes wrong is not tried again by River: the record still waits,
		// so it is told again.
		MaxAttempts:                 1,
		CompletedJobRetentionPeriod: keepCompleted,
		CancelledJobRetentionPeriod: keepCompleted,
		DiscardedJobRetentionPeriod: keepCompleted,
		// Only the owner of an index may make it anew, and a node is not.
		ReindexerIndexNames: []string{},
	})
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	return nil
}

// queueOf is the queue of the fleet of a principal. Whoever works on a queue
// takes any job in it, so each fleet has its own.
func queueOf(p tidemark.Principal) string { return "fleet-" + tidemark.IDOf("fleet", p.Tenant, p.User) }

// connect opens connections to PostgreSQL. What a store's address says about
// whose it is means nothing to PostgreSQL.
func connect(ctx context.Context, address string, pooled bool) (*pgxpool.Pool, error) {
	if u, err := url.Parse(address); err == nil && u.Scheme != "" {
		q := u.Query()
		for _, ours := range []string{"tenant", "as", "workspace"} {
			q.Del(ours)
		}
		u.RawQuery = q.Encode()
		address = u.String()
	}
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, tidemark.Invalidf("river: %w", err)
	}
	if pooled { // a statement that was prepared may be on another connection next time
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	return pool, nil
}

// HandOut begins to hand out jobs, if it has not yet, and tells River of those
// that are due and that it does not have.
func (d *Dispatch) HandOut(ctx context.Context, now time.Time, start func(context.Context, tidemark.Job) error) error {
	if err := d.serve(ctx, start); err != nil {
		return fmt.Errorf("river: %w", err)
	}
	d.again(ctx)
	if err := d.sweep(ctx, now); err != nil {
		return fmt.Errorf("river: %w", err)
	}
	return nil
}

// serve lets River hand out jobs until ctx ends.
func (d *Dispatch) serve(ctx context.Context, start func(context.Context, tidemark.Job) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.start != nil {
		return nil
	}
	d.start = start // before the first job comes
	if err := d.client.Start(ctx); err != nil {
		d.start = nil
		return err
	}
	return nil
}

// Close lets what is being begun begin, and ends the connection. Jobs that run
// are not touched.
func (d *Dispatch) Close() error {
	d.mu.Lock()
	select {
	case <-d.closed:
		d.mu.Unlock()
		return nil
	default:
	}
	close(d.closed)
	started := d.start != nil
	d.mu.Unlock()
	defer d.pool.Close()
	if !started {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := d.client.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("river: %w", err)
	}
	return nil
}
