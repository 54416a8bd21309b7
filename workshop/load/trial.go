package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/nodes"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

// trial is one run.
type trial struct {
	o       options
	book    *book
	random  *rand.Rand
	place   *nodes.Place
	nodes   []*nodes.Node
	cluster *pgtest.Cluster // nil: the store is a file
	standby *pgtest.Cluster // nil: the database has none, or it has taken over
	db      *pgtest.Database
	homes   homes                // the databases that the tenant moves between; empty: it stays
	storage *placetest.S3Server  // of older lines; nil: they stay
	calm    []tidemark.SessionID // which nobody goes on with
	client  *nodes.Client        // of writers
	streams *nodes.Client        // of followers

	program  string // the one to try
	upgraded int    // steps of the way there from the one that ran at first

	turn  int          // number of the next node to strike
	heard atomic.Int64 // events that arrived

	mu    sync.Mutex
	count int64         // entries that were acknowledged
	begun int           // blows
	grew  chan struct{} // closed when count or begun changed
}

// try prepares everything, lets clients write and follow while servers are
// struck, and checks the result. The book is nil when it did not begin.
func try(ctx context.Context, o options) (*book, error) {
	t := &trial{o: o, random: o.random(), grew: make(chan struct{})}
	if !o.sqlite {
		cluster, err := pgtest.Run(pgtest.Options{Synced: true})
		if pgtest.IsMissing(err) {
			return nil, &skipped{err.Error()}
		}
		if err != nil {
			return nil, err
		}
		defer cluster.End()
		t.cluster = cluster
	}
	if o.failover {
		standby, err := t.cluster.Standby(true)
		if err != nil {
			return nil, err
		}
		defer standby.End()
		t.standby = standby
	}
	done, err := t.prepare(ctx)
	defer done()
	if err != nil {
		return nil, err
	}
	if err := t.sessions(ctx); err != nil {
		return nil, err
	}
	if err := t.quiet(ctx); err != nil {
		return nil, err
	}
	within, stop := context.WithCancel(ctx)
	defer stop()
	if err := t.listen(within); err != nil {
		return nil, err
	}
	fmt.Fprintf(o.log, "load: %d followers are there, %d write\n", o.followers, o.writers)
	began := time.Now()
	err = t.load(within)
	if err == nil {
		err = t.arrive(within)
	}
	stop()
	for _, f := range t.book.followers {
		<-f.done
	}
	t.book.took = time.Since(began)
	if err == nil {
		err = t.look(ctx)
	}
	if err == nil {
		err = t.lookAtAudit(ctx)
	}
	return t.book, err
}

// prepare makes a database and starts the servers. What it returns ends them,
// also after an error.
func (t *trial) prepare(ctx context.Context) (done func(), err error) {
	work, err := os.MkdirTemp("", "tidemark-load-")
	if err != nil {
		return func() {}, err
	}
	home := filepath.Join(work, "home")
	done = func() {
		for _, n := range t.nodes {
			n.Kill()
		}
		for _, end := range t.homes.end {
			end()
		}
		if t.storage != nil {
			t.storage.Kill()
		}
		if t.o.dir != "" {
			t.keepLogs(home)
		}
		os.RemoveAll(work)
	}
	if err := os.Mkdir(home, 0o700); err != nil {
		return done, err
	}
	program := t.o.bin
	if program == "" {
		program = filepath.Join(work, "tidemark")
		build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/tidemark-sessions/tidemark/cmd/tidemark")
		if out, err := build.CombinedOutput(); err != nil {
			return done, fmt.Errorf("%s: %w\n%s", build, err, out)
		}
	}
	if t.program, err = filepath.Abs(program); err != nil {
		return done, err
	}
	first, err := filepath.Abs(cmp.Or(t.o.from, program))
	if err != nil {
		return done, err
	}
	t.place = &nodes.Place{Program: first, Dir: home, Env: os.Environ(), Store: "sqlite:" + filepath.Join(home, "store.db")}
	if t.cluster != nil {
		if t.db, err = t.cluster.Make(ctx); err != nil {
			return done, err
		}
		t.place.Store = t.db.Server + "&tenant=load&as=ada"
		if t.standby != nil {
			t.place.Store = t.db.Anywhere(t.standby) + "&tenant=load&as=ada"
		}
		if err := t.place.Migrate(ctx, t.db.Owner); err != nil {
			return done, err
		}
		if t.o.moves > 0 {
			if err := t.otherHomes(ctx, home); err != nil {
				return done, err
			}
		}
		if t.o.chills > 0 {
			if err := t.coldPlace(work); err != nil {
				return done, err
			}
		}
	}
	for range t.o.nodes {
		n, err := t.place.Start(ctx)
		if n != nil {
			t.nodes = append(t.nodes, n)
		}
		if err != nil {
			return done, err
		}
	}
	if t.client, err = t.place.Client(t.o.writers); err != nil {
		return done, err
	}
	t.streams, err = t.place.Client(t.o.followers)
	return done, err
}

// keepLogs copies the logs of the servers to where somebody wants to read them.
func (t *trial) keepLogs(home string) {
	logs, _ := filepath.Glob(filepath.Join(home, "node-*.log")) // the pattern is good
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(t.o.dir, filepath.Base(path)), text, 0o600)
		}
		if err != nil {
			fmt.Fprintln(t.o.log, "load:", err)
		}
	}
}

// sessions creates a session for each writer.
func (t *trial) sessions(ctx context.Context) error {
	t.book = &book{o: t.o, refused: make(map[string]int)}
	for w := range t.o.writers {
		s := &session{name: fmt.Sprintf("writer %d", w), acks: make([]atomic.Int64, t.o.entries), seqs: make([]int64, t.o.entries), wrote: make(chan struct{})}
		id, err := t.client.Create(ctx, t.nodes[w%len(t.nodes)].URL, s.name)
		if err != nil {
			return err
		}
		s.id = id
		t.book.sessions = append(t.book.sessions, s)
	}
	return nil
}

// listen starts the followers, spread over sessions and nodes, and waits until
// all of them are there.
func (t *trial) listen(ctx context.Context) error {
	t.book.began = time.Now()
	for i := range t.o.followers {
		s := t.book.sessions[i%t.o.writers]
		f := &follower{name: fmt.Sprintf("follower %d of %s", i, s.name), seen: newSeen(s), node: i/t.o.writers + i, arrived: make([]int64, t.o.entries),
			there: make(chan struct{}), done: make(chan struct{})}
		t.book.followers = append(t.book.followers, f)
		go t.follow(ctx, f)
	}
	late := time.After(entryTimeout)
	for _, f := range t.book.followers {
		select {
		case <-f.there:
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("%s is not there after %s: %v", f.name, entryTimeout, t.book.reasons())
		}
	}
	return nil
}

// load runs all writers, and strikes meanwhile.
func (t *trial) load(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, t.o.writers+1)
	var wait, reading sync.WaitGroup
	within, end := context.WithCancel(ctx)
	reading.Go(func() { t.readAll(within) })
	defer reading.Wait()
	defer end()
	for w := range t.o.writers {
		wait.Go(func() {
			if errs[w] = t.write(ctx, w); errs[w] != nil {
				stop()
			}
		})
	}
	wait.Go(func() {
		if errs[t.o.writers] = t.strike(ctx); errs[t.o.writers] != nil {
			stop()
		}
	})
	wait.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// acknowledged records how far the writers are.
func (t *trial) acknowledged(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count = max(t.count, n)
	t.tell()
}

// tell wakes the waiters of until; the lock is held.
func (t *trial) tell() {
	close(t.grew)
	t.grew = make(chan struct{})
}

// until waits until a condition is fulfilled.
func (t *trial) until(ctx context.Context, fulfilled func() bool) error {
	for {
		t.mu.Lock()
		done, grew := fulfilled(), t.grew
		t.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// keepStep holds back a writer that is about to write entry n until the blows
// that belong before it have begun, except the last: entries written after all
// blows prove nothing.
func (t *trial) keepStep(ctx context.Context, n int) error {
	blows := t.o.drains + t.o.kills + t.o.cuts + t.o.crashes + t.o.moves + t.o.chills + t.o.upgrades()
	if t.o.failover {
		blows++
	}
	due := n*blows/t.o.entries - 1
	return t.until(ctx, func() bool { return t.begun >= due })
}

// strike deals the blows in random order, spread over the writing.
func (t *trial) strike(ctx context.Context) error {
	var blows []func(context.Context) error
	for range t.o.drains {
		blows = append(blows, t.drain)
	}
	for range t.o.kills {
		blows = append(blows, t.kill)
	}
	for range t.o.cuts {
		blows = append(blows, t.cut)
	}
	for range t.o.crashes {
		blows = append(blows, t.crash)
	}
	for range t.o.moves {
		blows = append(blows, t.move)
	}
	for range t.o.chills {
		blows = append(blows, t.chill)
	}
	for range t.o.upgrades() {
		blows = append(blows, t.upgrade)
	}
	if t.o.failover {
		blows = append(blows, t.failOver)
	}
	t.random.Shuffle(len(blows), func(i, j int) { blows[i], blows[j] = blows[j], blows[i] })
	all := int64(t.o.writers * t.o.entries)
	for i, blow := range blows {
		each := all / int64(len(blows)+1)
		at := each*int64(i) + each/2 + t.random.Int64N(each+1)
		if err := t.until(ctx, func() bool { return t.count >= at }); err != nil {
			return err
		}
		t.mu.Lock()
		t.begun++
		t.tell()
		t.mu.Unlock()
		if err := blow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// next is the node to strike: the one that the clients of the previous one have
// moved to.
func (t *trial) next() *nodes.Node {
	t.turn++
	return t.nodes[t.turn%len(t.nodes)]
}

func (t *trial) drain(ctx context.Context) error {
	t.book.struck.drains++
	n := t.next()
	if err := n.Drain(); err != nil {
		return err
	}
	return t.again(ctx, n)
}

// again starts a server again. Programs of schema 7 and before do not start on newer
// tables; who looks after them starts the newer program then.
func (t *trial) again(ctx context.Context, n *nodes.Node) error {
	err := n.Again(ctx)
	if err != nil && t.upgraded > 0 && n.Program != t.program {
		n.Program = t.program
		t.book.struck.upgrades++
		err = n.Again(ctx)
	}
	return err
}

func (t *trial) kill(ctx context.Context) error {
	t.book.struck.kills++
	n := t.next()
	if err := n.Kill(); err != nil {
		return err
	}
	return t.again(ctx, n)
}

// cut ends about half of the database's client connections.
func (t *trial) cut(ctx context.Context) error {
	for _, db := range t.databases() {
		c, err := pgx.Connect(ctx, db.Super)
		if err != nil {
			return err
		}
		var n int
		err = c.QueryRow(ctx, `select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid() and random() < 0.5`).Scan(&n)
		c.Close(ctx)
		if err != nil {
			return err
		}
		t.book.struck.cut += n
	}
	return nil
}

// crash kills the database and restarts it, while the servers keep running.
func (t *trial) crash(context.Context) error {
	t.book.struck.crashes++
	return t.cluster.Crash()
}

// failOver kills the database, and its standby takes over.
func (t *trial) failOver(context.Context) error {
	t.book.struck.failovers++
	if err := t.cluster.Stop(); err != nil {
		return err
	}
	if err := t.standby.Promote(); err != nil {
		return err
	}
	t.cluster, t.db, t.standby = t.standby, t.db.At(t.standby), nil
	return nil
}

// upgrades is how many steps lead from the program that runs at first to the one to
// try: one for the schema, and one for each server.
func (o options) upgrades() int {
	if o.from == "" {
		return 0
	}
	return 1 + o.nodes
}

// upgrade takes the next of these steps. A server that is struck before its turn goes
// on with the program that it had.
func (t *trial) upgrade(ctx context.Context) error {
	t.upgraded++
	if t.upgraded == 1 {
		t.place.Program = t.program
		return t.place.Migrate(ctx, t.db.Owner, "--backed-up")
	}
	n := t.nodes[t.upgraded-2]
	if n.Program == t.program {
		return nil
	}
	n.Program = t.program
	t.book.struck.upgrades++
	if err := n.Drain(); err != nil {
		return err
	}
	return n.Again(ctx)
}

// arrive waits until every follower has everything, or nothing has arrived
// for long.
func (t *trial) arrive(ctx context.Context) error {
	all := make(chan struct{})
	go func() {
		defer close(all)
		for _, f := range t.book.followers {
			<-f.done
		}
	}()
	for {
		before := t.heard.Load()
		select {
		case <-all:
			return ctx.Err()
		case <-time.After(entryTimeout / 3):
			if t.heard.Load() == before {
				return nil // the book lists what is missing
			}
		}
	}
}

// look reads every session through a freshly started node.
func (t *trial) look(ctx context.Context) error {
	if err := t.finishMoves(ctx); err != nil {
		return err
	}
	n := t.nodes[0]
	if err := n.Drain(); err != nil {
		return err
	}
	if err := n.Again(ctx); err != nil {
		return err
	}
	if err := t.lookAtStorage(ctx, n.URL); err != nil {
		return err
	}
	for _, s := range t.book.sessions {
		entries, err := t.client.Log(ctx, n.URL, s.id)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		v := newSeen(s)
		for _, e := range entries {
			i, wrong := v.take(e.Seq, e.Text())
			if wrong == "" && s.acks[i].Load() != 0 && s.seqs[i] != e.Seq {
				v.disorder++
				wrong = fmt.Sprintf("entry %d is at %d, and was acknowledged at %d", i, e.Seq, s.seqs[i])
			}
			if wrong != "" {
				t.book.fault("%s: %s", s.name, wrong)
			}
		}
		v.lost = v.missing()
		t.book.kept.add(v.count)
	}
	return nil
}
