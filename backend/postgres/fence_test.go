package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// fencedSession makes a session with a lease and one line.
func checked(t *testing.T, b *Backend) {
	t.Helper()
	for err := range b.Check(t.Context()) {
		t.Error(err)
	}
}

func fencedSession(t testing.TB, b *Backend) (log, lease tidemark.Key) {
	t.Helper()
	log = key("session", string(tidemark.NewSessionID()))
	lease = key("lease", log.ID)
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, "{}"), record(lease, 1, "{}")},
		Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 1, "user", "{}")}}}})
	return log, lease
}

// under is a batch of one line that requires records.
func under(log tidemark.Key, seq int64, require ...tidemark.Precondition) tidemark.Batch {
	return tidemark.Batch{Require: require, Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, seq, "user", "{}")}}}}
}

// keptFence is what the row of a log says.
func keptFence(t *testing.T, db *pgtest.Database, log tidemark.Key) string {
	t.Helper()
	return tellOne[string](t, db.Super, fmt.Sprintf(`select coalesce(lease::text, '-') || ' ' || coalesce(record::text, '-') from tidemark.log where id = '%s' and kind = 'session'`, log.ID))
}

func TestALogKeepsItsLeaseUntilThatChanges(t *testing.T) {
	made := ready(t, Migration{})
	db := connected(t, made.Server, nil)
	b, elsewhere := db.For(ada), connected(t, made.Server, nil).For(ada)
	for name, change := range map[string]struct {
		do    func(t *testing.T, log, lease tidemark.Key)
		fence string
	}{
		"taken": {func(t *testing.T, _, lease tidemark.Key) {
			keep(t, elsewhere, tidemark.Batch{Puts: []tidemark.Record{record(lease, 2, "{}")}})
		}, "- -"},
		"deleted": {func(t *testing.T, _, lease tidemark.Key) {
			keep(t, elsewhere, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: lease, Version: 1}}})
		}, "- -"},
		"deleted and made anew": {func(t *testing.T, _, lease tidemark.Key) {
			keep(t, elsewhere, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: lease, Version: 1}}})
			keep(t, elsewhere, tidemark.Batch{Puts: []tidemark.Record{record(lease, 1, "{}")}})
			keep(t, elsewhere, tidemark.Batch{Puts: []tidemark.Record{record(lease, 2, "{}")}})
		}, "- -"},
		"in the trash": {func(t *testing.T, log, _ tidemark.Key) {
			keep(t, elsewhere, tidemark.Batch{Puts: []tidemark.Record{record(log, 2, `{"state":"trash"}`)}})
		}, "- -"},
		"changed by hand": {func(t *testing.T, _, lease tidemark.Key) {
			tell(t, made.Super, fmt.Sprintf(`update tidemark.record set version = 2 where kind = 'lease' and id = '%s'`, lease.ID))
		}, "- -"},
		"another's": {func(t *testing.T, _, _ tidemark.Key) {
			_, lease := fencedSession(t, elsewhere)
			keep(t, elsewhere, tidemark.Batch{Puts: []tidemark.Record{record(lease, 2, "{}")}})
		}, "1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			log, lease := fencedSession(t, b)
			both := []tidemark.Precondition{{Key: lease, Version: 1}, {Key: log, Version: 1}}
			for seq := int64(2); seq <= 4; seq++ {
				keep(t, b, under(log, seq, both...))
			}
			if got := keptFence(t, made, log); got != "1 1" {
				t.Fatalf("the log keeps %q", got)
			}
			change.do(t, log, lease)
			if got := keptFence(t, made, log); got != change.fence {
				t.Errorf("the log keeps %q, want %q", got, change.fence)
			}
			err := commit(b, under(log, 5, both...))
			if want := change.fence != "1 1"; errors.Is(err, tidemark.ErrConflict) != want {
				t.Errorf("Commit = %v, conflict: want %v", err, want)
			}
		})
	}
}

// A log that knows nothing yet, or less than a batch requires, has both looked
// up; what it does not know is never taken for true.
func TestALogThatKeepsNothingHasItsLeaseLookedUp(t *testing.T) {
	made := ready(t, Migration{})
	b := connected(t, made.Server, nil).For(ada)
	log, lease := fencedSession(t, b)
	leased, stands := tidemark.Precondition{Key: lease, Version: 1}, tidemark.Precondition{Key: log, Version: 1}
	keep(t, b, under(log, 2, leased))
	if got := keptFence(t, made, log); got != "1 -" {
		t.Errorf("the log keeps %q", got)
	}
	keep(t, b, under(log, 3, leased, stands))
	tell(t, made.Super, `update tidemark.log set lease = null, record = null`)
	keep(t, b, under(log, 4, leased, stands)) // refused at first, and then looked up
	keep(t, b, under(log, 5, leased, stands))
	if got := keptFence(t, made, log); got != "1 1" {
		t.Errorf("the log keeps %q", got)
	}
	checked(t, b)
	tell(t, made.Super, fmt.Sprintf(`update tidemark.log set lease = 7 where id = '%s'`, log.ID))
	var damage *tidemark.Damage
	for err := range b.Check(t.Context()) {
		if !errors.As(err, &damage) || damage.Key != log {
			t.Errorf("Check says %v", err)
		}
	}
	if damage == nil {
		t.Error("Check does not see a lease that does not stand")
	}
	tell(t, made.Super, `update tidemark.log set lease = null`)
	for _, wrong := range [][]tidemark.Precondition{{{Key: lease, Version: 2}}, {leased, {Key: log, Version: 2}}, {{Key: lease, Version: 3}, stands}} {
		if err := commit(b, under(log, 6, wrong...)); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("%v: Commit = %v, want a conflict", wrong, err)
		}
	}
}

// A takeover that is under way holds the append up, and then it is refused.
func TestAnAppendWaitsForATakeoverAndIsRefused(t *testing.T) {
	made := ready(t, Migration{})
	b := connected(t, made.Server, nil).For(ada)
	log, lease := fencedSession(t, b)
	leased := tidemark.Precondition{Key: lease, Version: 1}
	keep(t, b, under(log, 2, leased))
	keep(t, b, under(log, 3, leased))
	refused := make(chan error, 1)
	err := b.inTransaction(t.Context(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `update tidemark.record set version = 2 where kind = 'lease' and id = $1`, lease.ID); err != nil {
			return err
		}
		go func() { refused <- commit(b, under(log, 4, leased)) }()
		const waits = `select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query like 'select tidemark.append%' and datname = current_database())`
		for !tellOne[bool](t, made.Super, waits) {
			select {
			case err := <-refused:
				return fmt.Errorf("the append did not wait: %v", err)
			case <-t.Context().Done():
				return t.Context().Err()
			default:
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("Commit = %v, want a conflict", err)
	}
}

// Writers go on with the lease they know while others take it from them. After a
// takeover no line of an older lease is behind the lines that were there.
func TestNoLineOfAnOlderLeaseIsBehindATakeover(t *testing.T) {
	made := ready(t, Migration{})
	for name, url := range map[string]string{"directly": made.Server, "behind a pooler": pgtest.Bouncer(t, made)} {
		t.Run(name, func(t *testing.T) {
			if stale, taken := contend(t, url); stale > 0 || taken == 0 {
				t.Errorf("%d lines of older leases behind %d takeovers", stale, taken)
			}
		})
	}
	t.Run("the test sees it", func(t *testing.T) {
		copied := ready(t, Migration{})
		tell(t, copied.Owner, `drop trigger look_again on tidemark.record`)
		if _, err := Connect(t.Context(), copied.Server, nil); !errors.Is(err, tidemark.ErrDenied) {
			t.Errorf("the self-test says %v", err)
		}
		b := connected(t, copied.Server, &Options{Unchecked: true}).For(ada)
		log, lease := fencedSession(t, b)
		leased := tidemark.Precondition{Key: lease, Version: 1}
		keep(t, b, under(log, 2, leased))
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(lease, 2, "{}")}})
		if err := commit(b, under(log, 3, leased)); err != nil {
			t.Errorf("without the trigger the lost lease was noticed: %v; then what keeps it is another thing", err)
		}
		if err := Migrate(t.Context(), copied.Owner, copied.Role); err != nil {
			t.Fatal(err)
		}
		if err := commit(b, under(log, 4, leased)); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("what was lost without the trigger is still kept: %v", err)
		}
		checked(t, b)
		if stale, _ := contend(t, copied.Server); stale > 0 {
			t.Errorf("migrating again did not make the trigger anew: %d lines of older leases", stale)
		}
	})
}

// contend returns how many lines of an older lease are behind a takeover, and how
// many takeovers there were.
func contend(t *testing.T, url string) (stale, takeovers int) {
	const logs, writers, takes, between = 3, 2, 25, 8
	// Each log has another user, and writers in two processes, in which lines of
	// all of them are committed together.
	nodes := []*Database{connected(t, url, nil), connected(t, url, nil)}
	owners := make(map[tidemark.Key]*Backend)
	var mu sync.Mutex
	lengths := make(map[tidemark.Key]map[int64]int64) // of each log, after the takeover that made a version of its lease
	var wg sync.WaitGroup
	for i := range logs {
		who := person(fmt.Sprint("user-", i))
		owner := nodes[0].For(who)
		log, lease := fencedSession(t, owner)
		owners[log] = owner
		lengths[log] = make(map[int64]int64)
		var newest atomic.Int64 // the version of the lease that writers hear of
		newest.Store(1)
		written, over := make(chan struct{}), make(chan struct{})
		for w := range writers {
			b := nodes[w].For(who)
			wg.Go(func() { writeOn(t, b, log, lease, &newest, written, over) })
		}
		b := connected(t, url, &Options{MaxConns: 2}).For(who)
		wg.Go(func() {
			defer close(over)
			for v := int64(2); v < takes+2 && !t.Failed(); v++ {
				for range between {
					<-written
				}
				if err := commit(b, tidemark.Batch{Puts: []tidemark.Record{record(lease, v, "{}")}}); err != nil {
					t.Errorf("the takeover to version %d: %v", v, err)
					return
				}
				r, err := b.Get(context.Background(), log)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				lengths[log][v] = r.Head.Length
				mu.Unlock()
				newest.Store(v)
			}
		})
	}
	wg.Wait()
	for log, after := range lengths {
		takeovers += len(after)
		for l, err := range owners[log].Lines(context.Background(), log) {
			if err != nil {
				t.Fatal(err)
			}
			var of int64
			fmt.Sscanf(string(l.Body), `{"lease":%d}`, &of)
			for v, length := range after {
				if v > max(of, 1) && l.Seq > length {
					stale++
				}
			}
		}
	}
	return stale, takeovers
}

// writeOn appends until it is over, under the lease that it knows until that is
// refused.
func writeOn(t *testing.T, b *Backend, log, lease tidemark.Key, newest *atomic.Int64, written chan<- struct{}, over <-chan struct{}) {
	v := newest.Load()
	for {
		r, err := b.Get(context.Background(), log)
		if err != nil {
			t.Error(err)
		}
		l := line(log, r.Head.Length+1, "user", fmt.Sprintf(`{"lease":%d}`, v))
		err = commit(b, tidemark.Batch{Require: []tidemark.Precondition{{Key: lease, Version: v}}, Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}})
		tell := written
		switch {
		case errors.Is(err, tidemark.ErrConflict):
			v, tell = newest.Load(), nil
		case err != nil:
			t.Error(err)
		}
		select {
		case <-over:
			return
		default:
		}
		if tell != nil {
			select {
			case <-over:
				return
			case tell <- struct{}{}:
			}
		}
	}
}

func TestWhatIsRememberedOfLogsIsBounded(t *testing.T) {
	var f fences
	one := who{}
	for i := range maxFences + 10 {
		log := key("session", fmt.Sprint(i))
		f.settle([]*growing{{Append: &tidemark.Append{Log: log}, under: fence{lease: 1}, checked: true}}, true)
		if !f.has(one, log, fence{lease: 1}) || f.has(one, log, fence{lease: 2}) || !f.has(one, log, fence{}) {
			t.Fatalf("log %d is remembered wrongly", i)
		}
	}
	if len(f.of) > maxFences {
		t.Errorf("%d are remembered", len(f.of))
	}
	last := key("session", fmt.Sprint(maxFences+9))
	f.settle([]*growing{{Append: &tidemark.Append{Log: last}, under: fence{lease: 1}}}, false)
	if f.has(one, last, fence{lease: 1}) {
		t.Error("what was refused is remembered")
	}
}
