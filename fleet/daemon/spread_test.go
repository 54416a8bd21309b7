package daemon

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/due"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

func TestIntervalsThatBeginTogetherAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		f := &file.File{}
		for i := range 300 {
			f.Agents = append(f.Agents, every(fmt.Sprint("agent-", i), 20*time.Second, nil))
		}
		began := time.Now()
		first := map[string]time.Time{}
		for _, name := range []string{"one", "two"} { // two see the same, in whichever order they come
			if err := s.daemon(f, name).sync(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
			at := map[int64]int{}
			for d, err := range s.store.Schedules(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				if wait := d.NextRunAt.Sub(began); wait <= 0 || wait > 20*time.Second {
					t.Errorf("%s is first due after %s", d.Agent, wait)
				}
				if was, ok := first[d.Agent]; ok && !was.Equal(d.NextRunAt) {
					t.Errorf("%s was due at %s, and is at %s", d.Agent, was, d.NextRunAt)
				}
				first[d.Agent] = d.NextRunAt
				at[d.NextRunAt.Unix()]++
			}
			for second, n := range at {
				if n > 45 { // 15 on average
					t.Errorf("%d are due in the second %d", n, second)
				}
			}
		}
	})
}

// Wherever its splay puts a schedule, it is due for the first time within its
// interval, and from then on exactly that far apart.
func TestASplayedIntervalStaysItsInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		created := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "created")).UTC()
		every := time.Duration(rapid.Int64Range(1000, 400_000_000).Draw(t, "every")) * time.Millisecond
		from := rapid.SampledFrom([]string{fleet.FromStart, fleet.FromCompletion}).Draw(t, "from")
		d := tidemark.Schedule{Agent: rapid.StringMatching("[a-z]{1,8}").Draw(t, "agent"), Name: "s", Type: fleet.TypeInterval, Every: every.String(), From: from, CreatedAt: created}
		if rapid.Bool().Draw(t, "as cron") && from == fleet.FromStart {
			d.Type, d.Every, d.Cron = fleet.TypeCron, "", "@every "+every.String()
		}
		b, timing := new(due.Book), timingOf(d)
		at, err := b.First(timing, idOf(d), timing.Anchor)
		if wait := at.Sub(created); err != nil || wait <= 0 || wait > every || wait <= every-time.Minute {
			t.Fatalf("first due after %s, %v", wait, err)
		}
		for range 3 {
			next, err := b.Next(timing, idOf(d), at)
			if err != nil || next.Sub(at) != every {
				t.Fatalf("%s after %s, %v", next, at, err)
			}
			at = next
		}
	})
}

func TestACronExpressionIsNotSplayed(t *testing.T) {
	d := tidemark.Schedule{Agent: "a", Name: "noon", Type: fleet.TypeCron, Cron: "0 12 * * *", CreatedAt: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)}
	timing := timingOf(d)
	if next, err := new(due.Book).First(timing, idOf(d), timing.Anchor); err != nil || !next.Equal(d.CreatedAt.Add(12*time.Hour)) {
		t.Errorf("%s, %v", next, err)
	}
}

func TestAJobBeginsWhenItIsDueAndNotAtTheNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.takes = time.Millisecond
		f := &file.File{Agents: []file.Agent{every("a", 7*time.Second, nil), every("b", 11*time.Second, nil)}}
		s.up(5*time.Minute, s.daemon(f, "one"), s.daemon(f, "two"))
		for _, j := range s.jobs() {
			if late := j.StartedAt.Sub(j.Occurrence); late > lookApart {
				t.Errorf("%s of %s began %s late", j.ID, j.Agent, late)
			}
		}
	})
}
