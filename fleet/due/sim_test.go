package due

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/fleet"
	"pgregory.net/rapid"
)

// The simulation has two daemons with clocks of their own and one store. A
// daemon reads what is kept of a schedule, thinks, and commits what it thought
// if nobody else did meanwhile. Clocks jump, runs take their time, and there
// are times in which no daemon lives. In the end every occurrence has exactly
// one answer.

const simID = "agent/schedule"

type simStore struct {
	next, settled time.Time
	job           string
	since, end    time.Time
}

type sim struct {
	t        *rapid.T
	book     *Book
	timing   Timing
	store    simStore
	ran      []time.Time
	skipped  []Skip
	latest   time.Time // that any clock showed at a commit
	runs     int
	duration *rapid.Generator[int]
}

// commit does what a daemon thought of what it had read, if that still stands.
func (s *sim) commit(seen simStore, now time.Time) {
	job := seen.job
	if !seen.end.After(now) {
		job = ""
	}
	plan, err := s.book.Due(s.timing, simID, Standing{seen.next, seen.settled, job, seen.since}, now)
	if err != nil {
		s.t.Fatal(err)
	}
	if !seen.next.Equal(s.store.next) || !seen.settled.Equal(s.store.settled) {
		return
	}
	s.check(seen, job, now, plan)
	if plan.Next.Equal(seen.next) && plan.Settled.Equal(seen.settled) && len(plan.Run)+len(plan.Skipped) == 0 {
		return
	}
	s.store.next, s.store.settled = plan.Next, plan.Settled
	s.ran, s.skipped = append(s.ran, plan.Run...), append(s.skipped, plan.Skipped...)
	if now.After(s.latest) {
		s.latest = now
	}
	if len(plan.Run) > 0 {
		s.runs++
		s.store.job, s.store.since = fmt.Sprint("job-", s.runs), now
		if s.runs%3 == 0 {
			s.store.since = time.Time{} // it does not start at once
		}
		s.store.end = now.Add(time.Duration(s.duration.Draw(s.t, "minutes of run")) * time.Minute)
	}
}

// check holds what is true of every plan.
func (s *sim) check(seen simStore, job string, now time.Time, p Plan) {
	all := s.timing.Missed == fleet.MissedAll
	queued := !seen.settled.IsZero()
	switch {
	case p.Next.Before(seen.next):
		s.t.Fatalf("next moved back from %s to %s", seen.next, p.Next)
	case len(p.Run) > 1 && !all || len(p.Run) > MaxRuns:
		s.t.Fatalf("%d run at once", len(p.Run))
	case len(p.Run) > 0 && job != "" && !p.Replace:
		s.t.Fatalf("%s runs beside %s", p.Run[0], job)
	case p.Replace && (job == "" || s.timing.Overlap != fleet.OverlapReplace):
		s.t.Fatal("replaces without a reason")
	case !p.Next.After(now) && !p.Waits && len(p.Run) == 0:
		s.t.Fatal("nothing happens though something is due")
	}
	for _, at := range p.Run {
		if at.After(now) || s.timing.Missed == fleet.MissedSkip && job == "" && !queued && now.Sub(at) > DefaultGrace {
			s.t.Fatalf("%s runs at %s", at, now)
		}
	}
	for _, skip := range p.Skipped {
		if skip.To.After(now) || skip.To.Before(skip.From) || skip.Reason == "" || all && (skip.Why == SkipMissed || skip.Why == SkipNewer) {
			s.t.Fatalf("at %s: skipped %+v", now, skip)
		}
	}
	if len(p.Skipped) > 2*MaxSkips {
		s.t.Fatalf("%d lines of skips", len(p.Skipped))
	}
}

// live lets the two daemons live through a number of moments.
func (s *sim) live(now time.Time, moments int, reach time.Duration) {
	seen := [2]simStore{s.store, s.store}
	for range moments {
		switch rapid.IntRange(0, 9).Draw(s.t, "what") {
		case 0: // downtime, or a clock set forward
			now = now.Add(reach * time.Duration(rapid.IntRange(1, 100).Draw(s.t, "downtime")) / 100)
		case 1: // a clock set back
			now = now.Add(-reach * time.Duration(rapid.IntRange(1, 100).Draw(s.t, "back")) / 300)
		case 2, 3:
			now = now.Add(time.Duration(rapid.IntRange(1, 3600).Draw(s.t, "seconds")) * time.Second)
		default:
			// A daemon wakes when something is due, give or take.
			if s.store.next.After(now) {
				now = s.store.next
			}
			now = now.Add(time.Duration(rapid.IntRange(-10, 5000).Draw(s.t, "milliseconds")) * time.Millisecond)
		}
		who := rapid.IntRange(0, 1).Draw(s.t, "who")
		if rapid.IntRange(0, 4).Draw(s.t, "reads") > 0 {
			seen[who] = s.store
		}
		s.commit(seen[who], now.Add(time.Duration(who)*700*time.Millisecond))
	}
	// In the end all runs end, and a daemon that lives on has nothing left.
	if now.Before(s.latest) {
		now = s.latest
	}
	s.store.end = now
	for round := 0; !s.store.next.After(now); round++ {
		if round > 1_000_000 {
			s.t.Fatal("something stays due for ever")
		}
		s.commit(s.store, now)
		s.store.end = now
	}
	s.latest = now
}

// account finds the one answer of each occurrence.
func (s *sim) account(occurrences []time.Time) {
	find := func(at time.Time) int {
		i, ok := slices.BinarySearchFunc(occurrences, at, time.Time.Compare)
		if !ok {
			s.t.Fatalf("%s is no occurrence", at)
		}
		return i
	}
	answers := make([]int, len(occurrences)+1)
	for _, at := range s.ran {
		answers[find(at)]++
	}
	for _, skip := range s.skipped {
		from, to := find(skip.From), find(skip.To)
		if int64(to-from+1) != skip.Count {
			s.t.Fatalf("%+v: there are %d", skip, to-from+1)
		}
		for i := from; i <= to; i++ {
			answers[i]++
		}
	}
	for i, at := range occurrences {
		want := 1
		if at.After(s.latest) {
			want = 0
		}
		if answers[i] != want {
			s.t.Fatalf("%s has %d answers, want %d", at, answers[i], want)
		}
	}
}

func drawSim(t *rapid.T, book *Book, crons []string, jitter time.Duration) *sim {
	s := &sim{t: t, book: book, duration: rapid.SampledFrom([]int{0, 0, 1, 10, 90, 1000})}
	s.timing = Timing{
		Missed:  rapid.SampledFrom([]string{fleet.MissedSkip, fleet.MissedOnce, fleet.MissedAll}).Draw(t, "missed"),
		Overlap: rapid.SampledFrom([]string{fleet.OverlapSkip, fleet.OverlapQueue, fleet.OverlapReplace}).Draw(t, "overlap"),
		Zone:    rapid.SampledFrom(oracleZones).Draw(t, "zone"),
		Cron:    rapid.SampledFrom(crons).Draw(t, "cron"),
	}
	if rapid.Bool().Draw(t, "jitters") {
		s.timing.Jitter = time.Duration(rapid.Int64Range(1, int64(jitter)).Draw(t, "jitter"))
	}
	return s
}

func (s *sim) begin(created time.Time) {
	s.timing.Anchor = created
	first, err := s.book.First(s.timing, simID, created)
	if err != nil {
		s.t.Fatal(err)
	}
	s.store.next, s.latest = first, created
}

func TestEveryOccurrenceHasOneAnswer(t *testing.T) {
	book := new(Book)
	rapid.Check(t, func(t *rapid.T) {
		s := drawSim(t, book, []string{"", "", "* * * * *", "*/7 * * * *", "30 2 * * *", "0 */2 * * *", "*/20 0-3 29-31 * 0"}, 2*time.Hour)
		if s.timing.Cron == "" {
			s.timing.Every = time.Duration(rapid.IntRange(60, 40000).Draw(t, "seconds")) * time.Second
			s.timing.Jitter %= s.timing.Every
		}
		// Clocks are put forward or back somewhere in these days, in most zones.
		day := rapid.SampledFrom([]string{"2026-03-05", "2026-03-26", "2026-10-01", "2026-10-23", "2018-11-02", "2018-02-15", "2011-12-27"}).Draw(t, "day")
		created, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		created = created.Add(time.Duration(rapid.IntRange(0, 86399_999).Draw(t, "milliseconds")) * time.Millisecond)
		s.begin(created)
		s.live(created, 60, 6*time.Hour)
		s.account(s.bruteForce(created))
	})
}

// bruteForce returns the occurrences after a schedule came to be, some past
// the latest that any clock showed, by looking at every minute.
func (s *sim) bruteForce(created time.Time) []time.Time {
	end := s.latest.Add(48 * time.Hour)
	var plain []int64
	if s.timing.Cron == "" {
		for at := created.Add(s.timing.Every); at.Before(end); at = at.Add(s.timing.Every) {
			plain = append(plain, at.UnixMilli())
		}
	} else {
		zone, err := time.LoadLocation(s.timing.Zone)
		if err != nil {
			s.t.Fatal(err)
		}
		from := created.Truncate(24*time.Hour).Unix() - daySeconds
		for _, at := range record(zone, from, end.Unix(), 60).instants(naiveCron(s.timing.Cron)) {
			plain = append(plain, at*1000)
		}
	}
	var all []time.Time
	for i, at := range plain {
		span := s.timing.Jitter.Milliseconds()
		if i+1 < len(plain) {
			span = min(span, plain[i+1]-at)
		}
		if due := instant(at + delay(simID, at, span)); due.After(created) {
			all = append(all, due)
		}
	}
	// What lies behind the end of the tape is not known, nor is its jitter.
	return slices.DeleteFunc(all, func(at time.Time) bool { return at.After(s.latest.Add(24 * time.Hour)) })
}

func TestEveryOccurrenceOfManyYearsHasOneAnswer(t *testing.T) {
	book := new(Book)
	rapid.Check(t, func(t *rapid.T) {
		s := drawSim(t, book, []string{"30 2 * * *", "0 0 31 * *", "@weekly", "15 3,15 * * MON-FRI", "0 0 29 2 *", "@yearly", "59 59 23 * * 0"}, 20*time.Hour)
		created := time.Date(rapid.IntRange(1985, 2090).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
		s.begin(created)
		s.live(created, 60, 400*24*time.Hour)
		occurrences := []time.Time{}
		for at := created; !at.After(s.latest); {
			next, err := book.Next(s.timing, simID, at)
			if err != nil {
				t.Fatal(err)
			}
			occurrences, at = append(occurrences, next), next
		}
		s.account(occurrences)
	})
}

func TestFromCompletionRunsNeverOverlapAndAlwaysGoOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		book, now := new(Book), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		timing := Timing{Every: time.Hour, Jitter: 10 * time.Minute, From: fleet.FromCompletion, Missed: rapid.SampledFrom([]string{fleet.MissedSkip, fleet.MissedOnce, fleet.MissedAll}).Draw(t, "missed")}
		next, err := book.First(timing, simID, now)
		var ended, end time.Time
		answers, running := 0, false
		for i := 0; i < 200 && err == nil; i++ {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "seconds")) * time.Second)
			if running && !end.After(now) {
				running, ended = false, end
				next, err = book.Next(timing, simID, end)
				continue
			}
			s := Standing{Next: next}
			if running {
				s.Job = "job-1"
			}
			var plan Plan
			plan, err = book.Due(timing, simID, s, now)
			if len(plan.Run)+len(plan.Skipped) > 0 {
				answers++
			}
			if len(plan.Run) > 0 {
				if running || plan.Run[0].Sub(ended) < timing.Every {
					t.Fatalf("%s runs, the last ended at %s", plan.Run[0], ended)
				}
				running, end = true, now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "minutes"))*time.Minute)
			}
			next = plan.Next
		}
		if err != nil || answers == 0 {
			t.Fatalf("%d answers, %v", answers, err)
		}
	})
}
