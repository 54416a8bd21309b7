package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// replicated is a primary with two replicas, and a Database that reads from both.
type replicated struct {
	t       *testing.T
	primary *pgtest.Cluster
	made    *pgtest.Database
	first   *pgtest.Cluster
	second  *pgtest.Cluster
	db      *Database
	lines   int64
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	c := &replicated{t: t, primary: pgtest.New(t, pgtest.Options{Durable: true})}
	c.made = c.primary.Database(t)
	if err := Migrate(t.Context(), c.made.Owner, c.made.Role); err != nil {
		t.Fatal(err)
	}
	c.first, c.second = pgtest.NewStandby(t, c.primary, false), pgtest.NewStandby(t, c.primary, false)
	c.db = connected(t, c.made.Server, &Options{Replicas: []string{c.made.At(c.first).Server, c.made.At(c.second).Server}})
	c.untilState(0, ReplicaReady)
	c.untilState(1, ReplicaReady)
	return c
}

// untilTrue waits for something that has to come.
func untilTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within minutes", what)
		}
	}
}

func (c *replicated) untilState(i int, want ReplicaState) {
	c.t.Helper()
	untilTrue(c.t, fmt.Sprintf("replica %d is %s", i, want), func() bool { return c.db.Replicas()[i].State == want })
}

var replicatedLog = tidemark.Key{Kind: "session", ID: string(session)}

// write appends a line as a request does, and returns the position of its answer.
func (c *replicated) write() tidemark.CommitPosition {
	c.t.Helper()
	c.lines++
	ctx, reading := c.db.Reading(c.t.Context(), ReadFrom{Primary: true})
	_, err := c.db.For(ada).Commit(ctx, tidemark.Batch{ID: tidemark.NewBatchID(), Appends: []tidemark.Append{{Log: replicatedLog, Lines: []tidemark.Line{line(replicatedLog, c.lines, "user", "{}")}}}})
	if err != nil {
		c.t.Fatal(err)
	}
	at, ok := reading.Position(c.t.Context())
	if !ok || at == tidemark.UnknownCommitPosition {
		c.t.Fatalf("position after a commit = %v, %v", at, ok)
	}
	return at
}

// length reads, as a request does, how many lines there are.
func (c *replicated) length(from ReadFrom) (int64, tidemark.CommitPosition) {
	c.t.Helper()
	ctx, reading := c.db.Reading(c.t.Context(), from)
	r, err := c.db.For(ada).Get(ctx, replicatedLog)
	if err != nil {
		c.t.Fatal(err)
	}
	at, _ := reading.Position(c.t.Context())
	return r.Head.Length, at
}

// answered counts what each replica answered.
func (c *replicated) answered() (n int64) {
	for _, r := range c.db.Replicas() {
		n += r.Reads
	}
	return n
}

// readsOwn checks that what was just written is read.
func (c *replicated) readsOwn(when string) {
	c.t.Helper()
	at := c.write()
	if got, seen := c.length(ReadFrom{At: at}); got != c.lines || !seen.Has(at) {
		c.t.Errorf("%s: %d lines are read at %v of those up to %v, want %d", when, got, seen, at, c.lines)
	}
}

func TestReplicasAnswerReadsAndEverybodyReadsTheirOwnWrites(t *testing.T) {
	t.Parallel()
	c := newReplicated(t)
	c.write()
	untilTrue(t, "replicas answered a hundred reads", func() bool {
		c.readsOwn("while all is well")
		return c.answered() >= 100
	})

	t.Run("without a position the primary is asked and says one", func(t *testing.T) {
		before := c.answered()
		got, at := c.length(ReadFrom{})
		if got != c.lines || at == (tidemark.CommitPosition{}) || c.answered() != before {
			t.Errorf("%d lines at %v, replicas answered %d", got, at, c.answered()-before)
		}
		for _, from := range []ReadFrom{{At: at}, {Any: true}} {
			before := c.answered()
			untilTrue(t, fmt.Sprintf("a replica answers %+v", from), func() bool {
				if got, seen := c.length(from); !from.Any && (got != c.lines || !seen.Has(at)) {
					t.Errorf("%d lines at %v, of those up to %v", got, seen, at)
				}
				return c.answered() > before
			})
		}
	})
	t.Run("a request that writes goes on at the primary", func(t *testing.T) {
		_, at := c.length(ReadFrom{})
		ctx, reading := c.db.Reading(t.Context(), ReadFrom{At: at})
		b := c.db.For(ada)
		if _, err := b.Get(ctx, replicatedLog); err != nil {
			t.Fatal(err)
		}
		before := c.answered()
		_, err := b.Commit(ctx, tidemark.Batch{ID: tidemark.NewBatchID(), Require: []tidemark.Precondition{{Key: tidemark.Key{Kind: "lease", ID: "none"}, Version: 7}}})
		if !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("Commit = %v, want ErrConflict", err)
		}
		if _, err := b.Get(ctx, replicatedLog); err != nil || c.answered() != before {
			t.Errorf("after a commit %d reads were answered by replicas, %v", c.answered()-before, err)
		}
		if now, ok := reading.Position(t.Context()); !ok || !now.Has(at) {
			t.Errorf("position after a conflict = %v, %v", now, ok)
		}
	})
	t.Run("who holds a log, and who may do what, is asked at the primary", func(t *testing.T) {
		before := c.answered()
		ctx, _ := c.db.Reading(t.Context(), ReadFrom{Any: true})
		for b, key := range map[*Backend]tidemark.Key{c.db.For(ada): {Kind: "lease", ID: string(session)}, c.db.For(tidemark.Operator()): {Kind: "tenant", ID: "acme"}} {
			if _, err := b.Get(ctx, key); !errors.Is(err, tidemark.ErrNotFound) {
				t.Error(err)
			}
		}
		if n := c.answered() - before; n != 0 {
			t.Errorf("replicas answered %d of them", n)
		}
	})
	t.Run("row security holds at a replica", func(t *testing.T) {
		before := c.answered()
		c.untilState(0, ReplicaReady)
		for _, other := range []tidemark.Principal{tidemark.TenantOf("acme", "bob"), tidemark.TenantOf("globex", "ada")} {
			ctx, _ := c.db.Reading(t.Context(), ReadFrom{Any: true})
			b := c.db.For(other)
			if _, err := b.Get(ctx, replicatedLog); !errors.Is(err, tidemark.ErrNotFound) {
				t.Errorf("another reads a session at a replica: %v", err)
			}
			for l, err := range b.Lines(ctx, replicatedLog) {
				t.Errorf("another reads line %d at a replica: %v", l.Seq, err)
			}
			for k, err := range b.Walk(ctx, tidemark.Key{}) {
				t.Errorf("another sees %s at a replica: %v", k, err)
			}
		}
		if c.answered() == before {
			t.Error("no replica was asked")
		}
	})
	t.Run("a replica that lags and one that hangs leave it to the primary", c.lagAndHang)
}

// lagAndHang has one replica show nothing new, and the other say nothing at all.
func (c *replicated) lagAndHang(t *testing.T) {
	if err := c.first.HoldReplay(); err != nil {
		t.Fatal(err)
	}
	if err := c.second.Suspend(); err != nil {
		t.Fatal(err)
	}
	defer c.second.Resume()
	for range 20 {
		c.readsOwn("with one replica that lags and one that hangs")
	}
	c.untilState(0, ReplicaBehind)
	c.untilState(1, ReplicaAway)
	before := c.answered()
	for range 20 {
		c.readsOwn("when that is known")
		c.length(ReadFrom{Any: true})
	}
	if n := c.answered() - before; n != 0 {
		t.Errorf("%d reads were answered by replicas that are not ready", n)
	}
	for i, r := range c.db.Replicas() {
		if i == 0 && r.Lag <= replicaLag || i == 1 && r.Err == nil {
			t.Errorf("replica %d: %+v", i, r)
		}
	}
	if err := errors.Join(c.first.ResumeReplay(), c.second.Resume()); err != nil {
		t.Fatal(err)
	}
	c.untilState(0, ReplicaReady)
	c.untilState(1, ReplicaReady)
	before = c.answered()
	untilTrue(t, "replicas answer again", func() bool {
		c.readsOwn("when both are back")
		return c.answered() > before
	})
	c.first.Kill(t)
	for range 20 {
		c.readsOwn("with one replica that is gone")
	}
	c.untilState(0, ReplicaAway)
}

func TestAPositionThatAFailoverLostIsReadAtThePrimary(t *testing.T) {
	t.Parallel()
	primary := pgtest.New(t, pgtest.Options{Durable: true})
	made := primary.Database(t)
	if err := Migrate(t.Context(), made.Owner, made.Role); err != nil {
		t.Fatal(err)
	}
	next, stays := pgtest.NewStandby(t, primary, false), pgtest.NewStandby(t, primary, false)
	c := &replicated{t: t, primary: primary, made: made}
	c.db = connected(t, made.Anywhere(next), &Options{Replicas: []string{made.At(next).Server, made.At(stays).Server}})
	c.write()
	if err := primary.CaughtUp(); err != nil {
		t.Fatal(err)
	}
	c.untilState(0, ReplicaReady)
	c.untilState(1, ReplicaReady)
	if err := next.Hold(); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		c.write() // what the next primary never gets
	}
	lost := c.write()
	untilTrue(t, "the other replica has it", func() bool { return c.db.Replicas()[1].At.Has(lost) })
	primary.Kill(t)
	if err := next.Promote(); err != nil {
		t.Fatal(err)
	}
	// Neither is a replica of the new primary: one is it, the other has what it never had.
	c.untilState(0, ReplicaForeign)
	c.untilState(1, ReplicaForeign)
	got, at := c.length(ReadFrom{At: lost})
	if got != 1 || at.Timeline != 2 || lost.Timeline != 1 {
		t.Errorf("with a position that was lost (%v) %d lines are read at %v, want 1 on timeline 2", lost, got, at)
	}
	c.lines = 1
	for range 5 {
		c.readsOwn("after the failover")
	}
	if n, _ := c.length(ReadFrom{Any: true}); n != c.lines {
		t.Errorf("%d lines are read without a position after the failover, want %d", n, c.lines)
	}
}

func TestAReplicaThatIsNoneIsNotAsked(t *testing.T) {
	t.Parallel()
	primary := pgtest.New(t, pgtest.Options{Durable: true})
	made := primary.Database(t)
	if err := Migrate(t.Context(), made.Owner, made.Role); err != nil {
		t.Fatal(err)
	}
	standby := pgtest.NewStandby(t, primary, false)
	there := made.At(standby)
	c := &replicated{t: t, db: connected(t, made.Server, &Options{Replicas: []string{
		there.Super, there.Owner, made.Server, ready(t, Migration{}).Server, "postgres://nobody@127.0.0.1:1/none?connect_timeout=1"}})}
	for i := range 4 {
		c.untilState(i, ReplicaForeign)
	}
	untilTrue(t, "one that is not there is away", func() bool { return c.db.Replicas()[4].Err != nil })
	c.untilState(4, ReplicaAway)
	c.write()
	if n, _ := c.length(ReadFrom{Any: true}); n != 1 || c.answered() != 0 {
		t.Errorf("%d lines are read, replicas answered %d", n, c.answered())
	}
	for i, want := range []error{tidemark.ErrDenied, tidemark.ErrDenied, errReplica, errReplica} {
		if err := c.db.Replicas()[i].Err; !errors.Is(err, want) {
			t.Errorf("replica %d: %v, want %v", i, err, want)
		}
	}
	if _, err := Connect(context.Background(), made.Server, &Options{Replicas: []string{"mysql://x"}}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Connect with a replica that is no database = %v, want ErrInvalid", err)
	}
}

func TestTheLagIsTheAgeOfTheOldestChangeThatIsMissing(t *testing.T) {
	t.Parallel()
	var p progress
	began := time.Now()
	at := func(timeline uint32, lsn uint64) tidemark.CommitPosition {
		return tidemark.CommitPosition{Timeline: timeline, LSN: lsn}
	}
	for i, lsn := range []uint64{10, 20, 20, 30} {
		p.note(progressed{at(1, lsn), began.Add(time.Duration(i) * time.Second)})
	}
	now := began.Add(10 * time.Second)
	for lsn, want := range map[uint64]time.Duration{5: 10 * time.Second, 10: 9 * time.Second, 19: 9 * time.Second, 20: 7 * time.Second, 30: 0, 40: 0} {
		if got, same := p.lag(at(1, lsn), now); got != want || !same {
			t.Errorf("lag at %d = %v, %v, want %v", lsn, got, same, want)
		}
	}
	p.note(progressed{at(2, 15), now})
	if _, same := p.lag(at(1, 40), now); same {
		t.Error("a replica of the old timeline seems to follow the new one")
	}
	if got, same := p.lag(at(2, 15), now); got != 0 || !same {
		t.Errorf("lag on the new timeline = %v, %v", got, same)
	}
}
