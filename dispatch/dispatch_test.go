package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/dispatch"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(nodeStore) != "" {
		beNode()
	}
	os.Exit(pgtest.Main(m))
}

// stage is a fleet of several nodes in this process: one store, one River, and
// agents that do as they are told.
type stage struct {
	t     *testing.T
	db    *pgtest.Database
	store *fleet.Store
	of    tidemark.Principal

	mu   sync.Mutex
	ran  map[string][]string // by job, the nodes that ran it
	now  map[string]int      // by agent, and "" for all, how many run
	most map[string]int
	hold chan struct{} // runs wait until it is closed; nil: they do not
}

func newStage(t *testing.T) *stage {
	t.Parallel() // they mostly wait
	return on(t, river(t))
}

func on(t *testing.T, db *pgtest.Database) *stage {
	return &stage{t: t, db: db, store: fleet.Over(store.New(memory.New(), nil)), of: tidemark.TenantOf(t.Name(), ""),
		ran: map[string][]string{}, now: map[string]int{}, most: map[string]int{}}
}

// river is a database with River's tables. Its roles are those of all of them.
func river(t testing.TB) *pgtest.Database {
	t.Helper()
	return pgtest.Start(t).Prepared(t, "", func(db *pgtest.Database) error {
		return dispatch.Migrate(t.Context(), db.Owner, "", db.Role)
	})
}

// play is a runner on one node.
type play struct {
	*stage
	node string
}

func (p play) Run(ctx context.Context, t runner.Task) (runner.Outcome, error) {
	p.mu.Lock()
	p.ran[t.Job] = append(p.ran[t.Job], p.node)
	for _, who := range []string{t.Agent, ""} {
		p.now[who]++
		p.most[who] = max(p.most[who], p.now[who])
	}
	hold := p.hold
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.now[t.Agent]--
		p.now[""]--
		p.mu.Unlock()
	}()
	if hold != nil {
		select {
		case <-ctx.Done():
			return runner.Outcome{ExitReason: tidemark.ExitCancelled}, context.Cause(ctx)
		case <-hold:
		}
	}
	return runner.Outcome{ExitReason: tidemark.ExitSuccess}, nil
}

func agent(name string, most int) file.Agent {
	return file.Agent{Name: name, Runner: fleet.RunnerCommand, Limits: file.Limits{MaxConcurrent: most}, Retries: file.Retries{Attempts: 1}, RunMode: fleet.RunAutonomous}
}

// up runs a node until the test ends, or until the func that it returns is
// called.
func (s *stage) up(name string, f *file.File, url string, o *dispatch.Options) (stop func()) {
	s.t.Helper()
	d, err := dispatch.New(s.t.Context(), url, s.of, s.store, o)
	if err != nil {
		s.t.Fatal(err)
	}
	daemon := daemon.New(daemon.Options{Store: s.store, Holder: tidemark.Holder{Program: name, PID: 1, Host: name}, File: f, Dispatch: d,
		Runner: func(file.Agent) (runner.Runner, error) { return play{s, name}, nil },
		Tell: func(agent, text string) {
			if agent == "" {
				s.t.Logf("%s: %s", name, text)
			}
		}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := errors.Join(daemon.Run(ctx), d.Close()); err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	s.t.Cleanup(stop)
	return stop
}

func (s *stage) add(j tidemark.Job) string {
	s.t.Helper()
	j.Trigger = tidemark.TriggerManual
	added, err := s.store.AddJob(s.t.Context(), j)
	if err != nil {
		s.t.Fatal(err)
	}
	return added.ID
}

// count is how many jobs there are in each state.
func (s *stage) count() map[string]int {
	n := make(map[string]int)
	for j, err := range s.store.Jobs(s.t.Context(), fleet.JobFilter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		n[j.Status]++
	}
	return n
}

// patience is for machines that do many other things.
const patience = 2 * time.Minute

// until waits for something to become true. River works in real time.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}

func (s *stage) done(n int) {
	s.t.Helper()
	until(s.t, fmt.Sprintf("%d jobs are completed", n), func() bool { return s.count()[tidemark.JobCompleted] >= n })
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, nodes := range s.ran {
		if len(nodes) != 1 {
			s.t.Errorf("%s ran on %v", id, nodes)
		}
	}
}

func (s *stage) sql(url, sql string, args ...any) {
	s.t.Helper()
	if err := query(s.t, url, nil, sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

// query runs a statement, and scans its one value into to, unless that is nil.
func query(t *testing.T, url string, to any, sql string, args ...any) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if to != nil {
		return conn.QueryRow(t.Context(), sql, args...).Scan(to)
	}
	_, err = conn.Exec(t.Context(), sql, args...)
	return err
}

func TestEveryJobRunsOnceAndLimitsHoldOverThreeNodes(t *testing.T) {
	s := newStage(t)
	f := &file.File{Limits: file.FleetLimits{MaxConcurrent: 4}, Agents: []file.Agent{agent("a", 3), agent("b", 1), agent("c", 5)}}
	for i := range 90 {
		s.add(tidemark.Job{Agent: string("abc"[i%3])})
	}
	for _, node := range []string{"one", "two", "three"} {
		s.up(node, f, s.db.Server, nil)
	}
	s.done(90)
	s.mu.Lock()
	defer s.mu.Unlock()
	for who, limit := range map[string]int{"a": 3, "b": 1, "c": 5, "": 4} {
		if s.most[who] > limit {
			t.Errorf("agent %q: %d jobs at a time, allowed are %d", who, s.most[who], limit)
		}
	}
}

func TestLongQueueOfOneAgentDoesNotHideTheOthers(t *testing.T) {
	s := newStage(t)
	s.hold = make(chan struct{})
	for range 1100 { // more than one sweep looks at
		s.add(tidemark.Job{Agent: "slow"})
	}
	s.up("one", &file.File{Agents: []file.Agent{agent("slow", 1), agent("quick", 1)}}, s.db.Server, nil)
	until(t, "a job runs", func() bool { return s.count()[tidemark.JobRunning] == 1 })
	last := s.add(tidemark.Job{Agent: "quick"})
	until(t, "the job of the other agent runs", func() bool {
		j, err := s.store.Job(t.Context(), last)
		return err == nil && j.Status == tidemark.JobRunning
	})
}

func TestEmptiedRiverLosesNothing(t *testing.T) {
	s := newStage(t)
	s.hold = make(chan struct{})
	for range 8 {
		s.add(tidemark.Job{Agent: "a"})
	}
	s.up("one", &file.File{Agents: []file.Agent{agent("a", 1)}}, s.db.Server, nil)
	until(t, "a job runs", func() bool { return s.count()[tidemark.JobRunning] == 1 })
	s.sql(s.db.Owner, "truncate river.river_job")
	close(s.hold)
	s.done(8)
}

func TestJobHandedToADeadNodeBeginsElsewhere(t *testing.T) {
	s := newStage(t)
	id := s.add(tidemark.Job{Agent: "a"})
	dead, err := dispatch.New(t.Context(), s.db.Server, s.of, s.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.store.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dead.Added(t.Context(), []tidemark.Job{j}), dead.Close()); err != nil {
		t.Fatal(err)
	}
	s.sql(s.db.Owner, `update river.river_job set state = 'running', attempt = 1, attempted_at = now() - interval '1 minute', attempted_by = array['dead']`)
	s.up("one", &file.File{Agents: []file.Agent{agent("a", 1)}}, s.db.Server, nil)
	s.done(1)
}

func TestCancelledJobThatWaitsNeverRuns(t *testing.T) {
	s := newStage(t)
	s.hold = make(chan struct{})
	s.up("one", &file.File{Agents: []file.Agent{agent("a", 1)}}, s.db.Server, nil)
	s.add(tidemark.Job{Agent: "a"})
	until(t, "a job runs", func() bool { return s.count()[tidemark.JobRunning] == 1 })
	waits := s.add(tidemark.Job{Agent: "a"})
	until(t, "river has the one that waits", func() bool {
		var n int
		return query(t, s.db.Owner, &n, "select count(*) from river.river_job where args->>'job' = $1", waits) == nil && n == 1
	})
	if ended, err := s.store.CancelJob(t.Context(), waits, tidemark.Holder{}); err != nil || !ended {
		t.Fatalf("cancel: %v, %v", ended, err)
	}
	close(s.hold)
	s.done(1)
	until(t, "river has nothing to hand out", func() bool {
		var n int
		return query(t, s.db.Owner, &n, "select count(*) from river.river_job where state <> 'completed'") == nil && n == 0
	})
	if s.mu.Lock(); s.ran[waits] != nil {
		t.Errorf("it ran on %v", s.ran[waits])
	}
	s.mu.Unlock()
}

func TestRunningJobIsCancelledFromAnywhere(t *testing.T) {
	s := newStage(t)
	s.hold = make(chan struct{})
	s.up("one", &file.File{Agents: []file.Agent{agent("a", 1)}}, s.db.Server, nil)
	id := s.add(tidemark.Job{Agent: "a"})
	until(t, "a job runs", func() bool { return s.count()[tidemark.JobRunning] == 1 })
	if _, err := s.store.CancelJob(t.Context(), id, tidemark.Holder{Program: "jobs", Host: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	until(t, "it is cancelled", func() bool { return s.count()[tidemark.JobCancelled] == 1 })
}

func TestJobGoesToTheNodeThatHasItsAgent(t *testing.T) {
	s := newStage(t)
	for i := range 20 {
		s.add(tidemark.Job{Agent: string("ab"[i%2])})
	}
	s.up("has a", &file.File{Agents: []file.Agent{agent("a", 2)}}, s.db.Server, nil)
	s.up("has b", &file.File{Agents: []file.Agent{agent("b", 2)}}, s.db.Server, nil)
	s.done(20)
	for j, err := range s.store.Jobs(t.Context(), fleet.JobFilter{}) {
		if err != nil || j.Node != "has "+j.Agent {
			t.Errorf("the job of %s ran on %q, %v", j.Agent, j.Node, err)
		}
	}
}

func TestJobThatNobodyCanRunIsLeftAloneUntilSomebodyCan(t *testing.T) {
	s := newStage(t)
	id := s.add(tidemark.Job{Agent: "bee"})
	s.up("one", &file.File{Agents: []file.Agent{agent("ant", 1)}}, s.db.Server, nil)
	var state string
	until(t, "it is put off for long", func() bool {
		err := query(t, s.db.Super, &state, `select coalesce(max(state::text), '') from river.river_job where scheduled_at > now() + interval '1 minute'`)
		return err == nil && state == "scheduled"
	})
	s.up("two", &file.File{Agents: []file.Agent{agent("bee", 1)}}, s.db.Server, nil)
	s.done(1)
	if s.ran[id][0] != "two" {
		t.Errorf("it ran on %v", s.ran[id])
	}
}

func TestJobThatIsToWaitWaits(t *testing.T) {
	s := newStage(t)
	at := time.Now().Add(3 * time.Second)
	id := s.add(tidemark.Job{Agent: "a", NotBefore: at})
	j, err := s.store.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dispatch.New(t.Context(), s.db.Server, s.of, s.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Added(t.Context(), []tidemark.Job{j}), d.Close()); err != nil {
		t.Fatal(err)
	}
	s.up("one", &file.File{Agents: []file.Agent{agent("a", 1)}}, s.db.Server, nil)
	s.done(1)
	if j, err = s.store.Job(t.Context(), id); err != nil || j.StartedAt.Before(at.Truncate(time.Microsecond)) {
		t.Errorf("started at %v, %v; not before %v", j.StartedAt, err, at)
	}
}

func TestFleetsThatShareRiverDoNotMeet(t *testing.T) {
	t.Parallel()
	db := river(t)
	one, two := on(t, db), on(t, db)
	two.of = tidemark.TenantOf("another", "")
	f := &file.File{Agents: []file.Agent{agent("a", 2)}}
	for _, s := range []*stage{one, two} {
		for range 10 {
			s.add(tidemark.Job{Agent: "a"})
		}
		s.up("node", f, db.Server, nil)
	}
	one.done(10)
	two.done(10)
	if len(one.ran) != 10 || len(two.ran) != 10 {
		t.Errorf("%d and %d jobs ran", len(one.ran), len(two.ran))
	}
	var queues int
	if err := query(t, db.Owner, &queues, "select count(distinct queue) from river.river_job"); err != nil || queues != 2 {
		t.Errorf("%d queues, %v", queues, err)
	}
}

func TestRiverHasIDsAndNoContent(t *testing.T) {
	s := newStage(t)
	s.up("one", &file.File{Agents: []file.Agent{agent("reader-of-mail", 2)}}, s.db.Server, nil)
	s.add(tidemark.Job{Agent: "reader-of-mail", Prompt: "xyzzy", SessionID: "0f-session"})
	s.done(1)
	var all string
	if err := query(t, s.db.Owner, &all, "select string_agg(to_jsonb(j)::text, '') from river.river_job j"); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"xyzzy", "reader-of-mail", "0f-session"} {
		if strings.Contains(all, content) {
			t.Errorf("river knows %q: %s", content, all)
		}
	}
	if !strings.Contains(all, s.of.Tenant) {
		t.Errorf("river does not say whose it is: %s", all)
	}
}

func TestNodeThatStopsLeavesWhatWaitsToTheOthers(t *testing.T) {
	s := newStage(t)
	s.hold = make(chan struct{})
	f := &file.File{Agents: []file.Agent{agent("a", 1)}}
	stop := s.up("one", f, s.db.Server, nil)
	for range 5 {
		s.add(tidemark.Job{Agent: "a"})
	}
	until(t, "a job runs", func() bool { return s.count()[tidemark.JobRunning] == 1 })
	stop() // what ran is not finished: it ends as the runner says
	close(s.hold)
	s.up("two", f, s.db.Server, nil)
	s.done(4)
}

func TestPoolerIsEnoughForANodeThatPolls(t *testing.T) {
	s := newStage(t)
	url := pgtest.Bouncer(t, s.db)
	f := &file.File{Agents: []file.Agent{agent("a", 2)}}
	s.up("one", f, url, &dispatch.Options{PollOnly: true})
	s.up("two", f, url, &dispatch.Options{PollOnly: true})
	for range 30 {
		s.add(tidemark.Job{Agent: "a"})
	}
	s.done(30)
}

func TestNodesGoOnWhenTheDatabaseComesBack(t *testing.T) {
	t.Parallel()
	c := pgtest.New(t, pgtest.Options{Durable: true})
	db := c.Database(t)
	if err := dispatch.Migrate(t.Context(), db.Owner, "", db.Role); err != nil {
		t.Fatal(err)
	}
	s := on(t, db)
	f := &file.File{Agents: []file.Agent{agent("a", 2)}}
	s.up("one", f, db.Server, nil)
	s.up("two", f, db.Server, nil)
	s.add(tidemark.Job{Agent: "a"})
	s.done(1)
	late, err := dispatch.New(t.Context(), db.Server, s.of, s.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := func() error {
		return late.HandOut(t.Context(), time.Now(), func(context.Context, tidemark.Job) error { return tidemark.ErrUnsupported })
	}
	c.Kill(t)
	if err := begin(); err == nil {
		t.Error("a node begins without a database")
	}
	for range 10 {
		s.add(tidemark.Job{Agent: "a"})
	}
	c.Restart(t)
	until(t, "a node that could not begin does", func() bool { return begin() == nil })
	s.done(11)
	if err := late.Close(); err != nil {
		t.Error(err)
	}
}

func TestMigrateMayRunTwiceAndAtTheSameTime(t *testing.T) {
	db := pgtest.Start(t).Database(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := dispatch.Migrate(t.Context(), db.Owner, "other", db.Role); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	d, err := dispatch.New(t.Context(), db.Server, tidemark.TenantOf("x", ""), fleet.Over(store.New(memory.New(), nil)), &dispatch.Options{Schema: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

func TestWithoutItsTablesNothingBegins(t *testing.T) {
	db := pgtest.Start(t).Database(t)
	p, s := tidemark.TenantOf("x", ""), fleet.Over(store.New(memory.New(), nil))
	if _, err := dispatch.New(t.Context(), db.Server, p, s, nil); err == nil || !strings.Contains(err.Error(), "schema river") {
		t.Errorf("without the schema: %v", err)
	}
	if _, err := dispatch.New(t.Context(), "postgres://[", p, s, nil); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("not an address: %v", err)
	}
	if err := dispatch.Migrate(t.Context(), db.Owner, "", db.Role); err != nil {
		t.Fatal(err)
	}
	if err := query(t, db.Owner, nil, "delete from river.river_migration where version = 8"); err != nil {
		t.Fatal(err)
	}
	if _, err := dispatch.New(t.Context(), db.Server, p, s, nil); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("with an older schema: %v", err)
	}
}

func TestRoleOfANodeMayWorkOnQueuesAndNothingElse(t *testing.T) {
	db := river(t)
	for _, sql := range []string{
		"create table river.mine (n int)",
		"drop table river.river_job",
		"alter table river.river_job add column mine int",
		"truncate river.river_job",
		"insert into river.river_migration (line, version) values ('main', 99)",
		"delete from river.river_migration",
		"drop schema river cascade",
	} {
		if err := query(t, db.Server, nil, sql); err == nil {
			t.Errorf("it may: %s", sql)
		}
	}
	other := pgtest.Start(t).Database(t)
	var may bool
	if err := query(t, db.Super, &may, "select has_schema_privilege($1, 'river', 'usage')", other.Role); err != nil || may {
		t.Errorf("another role may look into the schema: %v, %v", may, err)
	}
}

func TestStoreAddressIsUnderstood(t *testing.T) {
	db := river(t)
	d, err := dispatch.New(t.Context(), db.Server+"&tenant=acme&as=ada&workspace=w", tidemark.TenantOf("acme", "ada"), fleet.Over(store.New(memory.New(), nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

var _ daemon.Dispatch = (*dispatch.Dispatch)(nil)
