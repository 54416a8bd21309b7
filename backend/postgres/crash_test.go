//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// Writers append while the database is taken from under them. What was
// acknowledged must be there, once and in order, and what was refused must
// not. Trouble comes by the count of acknowledged batches, never by the clock.

// batchesEach is how many batches a writer appends; the environment asks for
// long runs.
func batchesEach(t *testing.T, usual int) int {
	t.Helper()
	s := os.Getenv("TIDEMARK_CRASH_BATCHES")
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("TIDEMARK_CRASH_BATCHES: %v", err)
	}
	return n
}

func TestAcknowledgedLinesSurviveTheServersDeath(t *testing.T) {
	c := pgtest.New(t, pgtest.Options{Durable: true})
	db := c.Database(t)
	migrated(t, db)
	n := batchesEach(t, 60)
	ordeal(t, db.Server, db.Server, n, n, func() { c.Restart(t) })
}

func TestAcknowledgedLinesSurviveTerminatedConnections(t *testing.T) {
	db := pgtest.Start(t).Database(t)
	migrated(t, db)
	super, err := pgx.Connect(t.Context(), db.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(context.Background())
	ordeal(t, db.Server, db.Server, batchesEach(t, 60), 5, func() {
		const victims = `select pg_terminate_backend(pid) from pg_stat_activity where usename = $1 order by random() limit 2`
		if _, err := super.Exec(t.Context(), victims, db.Role); err != nil {
			t.Error(err)
		}
	})
}

func TestAcknowledgedLinesSurviveCutConnections(t *testing.T) {
	c := pgtest.Start(t)
	db := c.Database(t)
	migrated(t, db)
	p := c.CutAtRandom(t, someBatches, nil)
	ordeal(t, p.Through(t, db.Server), db.Server, batchesEach(t, 60), 50, func() {})
	if p.Cuts() == 0 {
		t.Error("no connection was cut: the test tested nothing")
	}
}

// someBatches is how many bytes a connection lives for at most: some dozens of
// batches.
const someBatches = 40_000

func migrated(t testing.TB, db *pgtest.Database) {
	t.Helper()
	if err := postgres.Migrate(t.Context(), db.Owner, db.Role); err != nil {
		t.Fatal(err)
	}
}

// open connects as another process would, however often it takes.
func open(t *testing.T, url string, who tidemark.Principal) tidemark.Backend {
	t.Helper()
	return connect(t, url).For(who)
}

func connect(t *testing.T, url string) *postgres.Database {
	t.Helper()
	for t.Context().Err() == nil {
		db, err := postgres.Connect(t.Context(), url, &postgres.Options{MaxConns: 4})
		switch {
		case err == nil:
			t.Cleanup(db.Close)
			return db
		case !errors.Is(err, postgres.ErrUnavailable):
			t.Fatal(err)
		}
		breathe()
	}
	t.Fatal(t.Context().Err())
	return nil
}

// writer is one who appends to a log that another one appends to as well.
type writer struct {
	name string
	log  tidemark.Key
	be   tidemark.Backend
	rng  *rand.Rand

	lease   tidemark.Key               // must stand for every batch, as for a writer of package store
	count   tidemark.Key               // a record that is put with every batch: its version counts them
	kept    map[string][]tidemark.Line // what was acknowledged, by batch
	refused map[string]bool            // batches that were said to have changed nothing
	unknown int
	t       *testing.T
}

// ordeal runs eight writers on four logs until each has n batches
// acknowledged, makes trouble after every so many acknowledgements, and looks,
// directly, at what is there.
func ordeal(t *testing.T, url, direct string, n, every int, trouble func()) {
	const writers, logs = 8, 4
	owner := tidemark.TenantOf("crash", "writer")
	var acknowledged atomic.Int64
	leases := tidemark.Batch{ID: tidemark.NewBatchID(), At: now()}
	for i := range logs {
		leases.Puts = append(leases.Puts, backendtest.NewRecord(tidemark.Key{Kind: "lease", ID: logOf(i).ID}, 1, `{}`))
	}
	if _, err := open(t, direct, owner).Commit(t.Context(), leases); err != nil {
		t.Fatal(err)
	}
	quiet := make(chan struct{})
	all := make([]*writer, writers)
	var wg sync.WaitGroup
	for i := range all {
		be := open(t, url, owner)
		defer be.Close()
		w := &writer{
			t: t, be: be, name: fmt.Sprint("w", i),
			log:  logOf(i % logs),
			rng:  rand.New(rand.NewPCG(uint64(i), 7)),
			kept: make(map[string][]tidemark.Line), refused: make(map[string]bool),
			count: tidemark.Key{Kind: "agent", ID: fmt.Sprint("w", i)},
		}
		w.lease = tidemark.Key{Kind: "lease", ID: w.log.ID}
		all[i] = w
		wg.Go(func() {
			for range n {
				if !w.append(t.Context()) {
					return
				}
				acknowledged.Add(1)
			}
		})
	}
	go func() { wg.Wait(); close(quiet) }()
	troubles := 0
	for done := false; !done; {
		select {
		case <-quiet:
			done = true
		case <-time.After(time.Millisecond): // only looks: what happens is decided by the count
			if acknowledged.Load() >= int64((troubles+1)*every) {
				trouble()
				troubles++
			}
		}
	}
	unknown := 0
	for _, w := range all {
		unknown += w.unknown
	}
	t.Logf("%d batches acknowledged, %d troubles, %d outcomes unknown at first", acknowledged.Load(), troubles, unknown)
	inspect(t, open(t, direct, owner), all)
}

func logOf(i int) tidemark.Key {
	return tidemark.Key{Kind: "session", ID: tidemark.IDOf("session", fmt.Sprint("crash", i))}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// append keeps one batch, whatever it takes. It reports false when the test
// has failed.
func (w *writer) append(ctx context.Context) bool {
	b := w.batch(ctx)
	uncertain := false // an earlier try may yet succeed
	for ctx.Err() == nil {
		_, err := w.be.Commit(ctx, b)
		switch {
		case err == nil:
			return w.keep(b)
		case errors.Is(err, tidemark.ErrUnknown):
			w.unknown++
			if w.there(ctx, b) {
				return w.keep(b)
			}
			uncertain = true
		case errors.Is(err, tidemark.ErrConflict):
			if w.there(ctx, b) {
				if !uncertain {
					w.t.Errorf("%s: batch %s is a conflict and is there: %v", w.name, b.ID, err)
				}
				return w.keep(b)
			}
			// The log has passed it by: no try can succeed any more.
			w.refused[b.ID] = true
			b, uncertain = w.batch(ctx), false
		case errors.Is(err, tidemark.ErrExists), errors.Is(err, tidemark.ErrInvalid):
			w.t.Errorf("%s: Commit = %v", w.name, err)
			return false
		default: // the database is away, and the batch did not happen
			if !uncertain {
				w.refused[b.ID] = true
				b.ID = tidemark.NewBatchID()
			}
			breathe()
		}
	}
	return false
}

func (w *writer) keep(b tidemark.Batch) bool {
	w.kept[b.ID] = b.Appends[0].Lines
	return true
}

// batch makes one that goes on where the log ends now.
func (w *writer) batch(ctx context.Context) tidemark.Batch {
	from := w.length(ctx) + 1
	a := tidemark.Append{Log: w.log}
	for i := range 1 + w.rng.Int64N(4) {
		a.Lines = append(a.Lines, backendtest.NewLine(w.log, from+i, fmt.Sprintf(`{"by":%q,"n":%d}`, w.name, from+i)))
	}
	return tidemark.Batch{
		ID: tidemark.NewBatchID(), At: now(), Appends: []tidemark.Append{a},
		Require: []tidemark.Precondition{{Key: w.lease, Version: 1}},
		Puts:    []tidemark.Record{backendtest.NewRecord(w.count, int64(len(w.kept)+1), `{}`)},
	}
}

// length asks until somebody answers.
func (w *writer) length(ctx context.Context) int64 {
	for ctx.Err() == nil {
		r, err := w.be.Get(ctx, w.log)
		if err == nil {
			return r.Head.Length
		}
		if errors.Is(err, tidemark.ErrNotFound) {
			return 0
		}
		breathe()
	}
	return 0
}

// there reads whether the batch took effect, until somebody answers.
func (w *writer) there(ctx context.Context, b tidemark.Batch) bool {
	first := b.Appends[0].Lines[0].Seq
asking:
	for ctx.Err() == nil {
		for l, err := range w.be.Lines(ctx, w.log, tidemark.Span{From: first, To: first}) {
			if err != nil {
				breathe()
				continue asking
			}
			return l.Batch == b.ID
		}
		return false
	}
	return false
}

// breathe lets a server come back.
func breathe() { time.Sleep(5 * time.Millisecond) }

// inspect compares what is there with what the writers were told.
func inspect(t *testing.T, be tidemark.Backend, all []*writer) {
	t.Helper()
	defer be.Close()
	seen := make(map[tidemark.Key][]tidemark.Line)
	for _, w := range all {
		if seen[w.log] != nil {
			continue
		}
		for l, err := range be.Lines(t.Context(), w.log) {
			if err != nil {
				t.Fatal(err)
			}
			seen[w.log] = append(seen[w.log], l)
			if n := int64(len(seen[w.log])); l.Seq != n {
				t.Fatalf("%s: line %d stands at %d", w.log, l.Seq, n)
			}
		}
	}
	kept := 0
	for _, w := range all {
		for id, lines := range w.kept {
			kept += len(lines)
			for _, want := range lines {
				got := tidemark.Line{}
				if want.Seq <= int64(len(seen[w.log])) {
					got = seen[w.log][want.Seq-1]
				}
				if got.Batch != id || string(got.Body) != string(want.Body) {
					t.Errorf("%s: line %d of batch %s was acknowledged; there is %q of batch %q", w.log, want.Seq, id, got.Body, got.Batch)
				}
			}
		}
		if r, err := be.Get(t.Context(), w.count); err != nil || r.Version != int64(len(w.kept)) {
			t.Errorf("%s: %d batches were acknowledged, and its record counts %d, %v", w.name, len(w.kept), r.Version, err)
		}
		for _, l := range seen[w.log] {
			if w.refused[l.Batch] {
				t.Errorf("%s: line %d of batch %s is there; its writer was told that nothing had changed", w.log, l.Seq, l.Batch)
			}
		}
	}
	total := 0
	for _, lines := range seen {
		total += len(lines)
	}
	if total != kept {
		t.Errorf("%d lines are there, %d were acknowledged", total, kept)
	}
}
