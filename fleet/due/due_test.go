package due

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tables hold on machines without a time zone database, too

	"github.com/google/go-cmp/cmp"
	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// at reads a time in UTC: the day alone, or with minutes, seconds, or more.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04:05.000"} {
		if v, err := time.Parse(layout, text); err == nil {
			return v
		}
	}
	t.Fatalf("%q is not a time of the tests", text)
	return time.Time{}
}

func texts(times []time.Time) []string {
	var all []string
	for _, v := range times {
		all = append(all, strings.TrimSuffix(strings.TrimSuffix(v.Format("2006-01-02T15:04:05.000"), ".000"), ":00"))
	}
	return all
}

// chain returns the instants after a time, n of them.
func chain(t testing.TB, b *Book, timing Timing, id string, after time.Time, n int) []time.Time {
	t.Helper()
	var all []time.Time
	for range n {
		next, err := b.Next(timing, id, after)
		if err != nil {
			t.Fatal(err)
		}
		if !next.After(after) || next.Location() != time.UTC {
			t.Fatalf("Next(%s) = %s, want a later time in UTC", after, next)
		}
		all, after = append(all, next), next
	}
	return all
}

func TestCronInstantsAreTheWallTimesOfTheZone(t *testing.T) {
	for _, c := range []struct{ what, cron, zone, after, want string }{
		{"a time that does not exist runs once, shifted", "30 2 * * *", "Europe/Berlin", "2026-03-28", "2026-03-28T01:30 2026-03-29T01:30 2026-03-30T00:30"},
		{"a time that exists twice runs once, the first", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-25T00:30 2026-10-26T01:30"},
		{"asked between the two, it has been", "30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:01", "2026-10-26T01:30"},
		{"each hour in spring", "0 * * * *", "Europe/Berlin", "2026-03-28T23:30", "2026-03-29T00:00 2026-03-29T01:00 2026-03-29T02:00"},
		{"each hour in autumn, by wall time", "0 * * * *", "Europe/Berlin", "2026-10-24T22:30", "2026-10-24T23:00 2026-10-25T00:00 2026-10-25T02:00"},
		{"spring", "30 2 * * *", "America/New_York", "2026-03-07T12:00", "2026-03-08T07:30 2026-03-09T06:30"},
		{"autumn", "30 1 * * *", "America/New_York", "2026-10-31T12:00", "2026-11-01T05:30 2026-11-02T06:30"},
		{"half an hour forward", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03", "2026-10-03T15:45 2026-10-04T15:15"},
		{"half an hour back", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04", "2026-04-04T14:45 2026-04-05T15:15"},
		{"shifted ones keep their places among the others", "*/20 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", "2026-10-03T15:30 2026-10-03T15:40 2026-10-03T15:50 2026-10-04T15:00"},
		{"an odd offset", "0 0 * * *", "Asia/Kathmandu", "2026-01-01", "2026-01-01T18:15 2026-01-02T18:15"},
		{"a quarter of an hour forward", "5 0 * * *", "Asia/Kathmandu", "1985-12-31", "1985-12-31T18:35 1986-01-01T18:20"},
		{"a day that does not exist falls on the next", "0 12 * * *", "Pacific/Apia", "2011-12-28T23:00", "2011-12-29T22:00 2011-12-30T22:00 2011-12-31T22:00"},
		{"and alone it runs, too", "0 12 30 * *", "Pacific/Apia", "2011-12-01", "2011-12-30T22:00 2012-01-29T22:00"},
		{"its midnight is the jump", "0 0 30 12 *", "Pacific/Apia", "2011-12-01", "2011-12-30T10:00 2012-12-29T10:00"},
		{"a midnight that does not exist", "@daily", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-04T03:00 2018-11-05T02:00"},
		{"a last hour that exists twice", "30 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00", "2018-02-18T01:30 2018-02-19T02:30"},
		{"back for Ramadan", "30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00", "2026-02-15T01:30 2026-02-16T02:30"},
		{"and forward again", "30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00", "2026-03-22T02:30 2026-03-23T01:30"},
		{"leap days", "0 0 29 2 *", "", "2024-03-01", "2028-02-29T00:00 2032-02-29T00:00"},
		{"the last day of a leap year that a zone knows by rule alone", "0 12 * * *", "Europe/Berlin", "2040-12-30T12:00", "2040-12-31T11:00 2041-01-01T11:00"},
		{"over a century without one", "0 0 29 2 *", "", "2096-03-01", "2104-02-29T00:00"},
		{"the 31st", "0 0 31 * *", "", "2026-01-31T12:00", "2026-03-31T00:00 2026-05-31T00:00 2026-07-31T00:00"},
		{"each year", "@yearly", "Asia/Tokyo", "2026-06-01", "2026-12-31T15:00 2027-12-31T15:00"},
		{"each week, on Sunday", "@weekly", "", "2026-11-15", "2026-11-22T00:00"},
		{"seconds", "*/20 59 23 31 12 *", "", "2026-01-01", "2026-12-31T23:59 2026-12-31T23:59:20 2026-12-31T23:59:40 2027-12-31T23:59"},
		{"a day of the month or of the week", "0 0 13 * FRI", "", "2026-11-11", "2026-11-13T00:00 2026-11-20T00:00 2026-11-27T00:00 2026-12-04T00:00 2026-12-11T00:00 2026-12-13T00:00"},
		{"names in capitals, over the end of the week", "0 0 * * THU-MON", "", "2026-11-16", "2026-11-19T00:00 2026-11-20T00:00 2026-11-21T00:00 2026-11-22T00:00 2026-11-23T00:00 2026-11-26T00:00"},
		{"7 is Sunday", "0 0 * * 7", "", "2026-11-16", "2026-11-22T00:00"},
	} {
		t.Run(c.zone+" "+c.what, func(t *testing.T) {
			want := strings.Fields(c.want)
			got := texts(chain(t, new(Book), Timing{Cron: c.cron, Zone: c.zone}, "a/b", at(t, c.after), len(want)))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", c.cron, c.zone, diff)
			}
		})
	}
}

func TestIntervalsCountFromTheAnchorWithoutDrift(t *testing.T) {
	b, created := new(Book), at(t, "2026-11-15T10:00:00.250")
	timing := Timing{Every: 90 * time.Second, Anchor: created}
	first, err := b.First(timing, "a/b", created)
	if err != nil {
		t.Fatal(err)
	}
	got := texts(append([]time.Time{first}, chain(t, b, timing, "a/b", first, 2)...))
	if diff := cmp.Diff([]string{"2026-11-15T10:01:30.250", "2026-11-15T10:03:00.250", "2026-11-15T10:04:30.250"}, got); diff != "" {
		t.Error(diff)
	}
	next, err := b.Next(timing, "a/b", created.Add(100*365*24*time.Hour))
	if err != nil || next.Sub(created)%timing.Every != 0 {
		t.Errorf("a century later: %s, %v: not on the grid", next, err)
	}
	same, err := b.Next(Timing{Cron: " @Every 1m30s", Anchor: created}, "a/b", created)
	if err != nil || !same.Equal(first) {
		t.Errorf("@every = %s, %v, want %s", same, err, first)
	}
	if _, err := b.Next(Timing{Every: time.Hour}, "a/b", created); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("without an anchor: %v, want ErrInvalid", err)
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		timing Timing
		want   string
	}{
		{Timing{}, "neither every nor cron"},
		{Timing{Every: time.Hour, Cron: "@daily"}, "want one of them"},
		{Timing{Every: time.Millisecond}, "at least 1s"},
		{Timing{Every: -time.Hour}, "at least 1s"},
		{Timing{Every: 1<<63 - 1}, "at most a hundred years"},
		{Timing{Every: time.Second + 1}, "whole milliseconds"},
		{Timing{Every: time.Hour, Jitter: time.Hour}, "jitter 1h0m0s"},
		{Timing{Every: time.Hour, Jitter: -1}, "jitter"},
		{Timing{Every: time.Hour, Grace: -1}, "grace"},
		{Timing{Every: time.Hour, From: "end"}, `from "end"`},
		{Timing{Every: time.Hour, Missed: "never"}, `missed "never"`},
		{Timing{Every: time.Hour, Overlap: "both"}, `overlap "both"`},
		{Timing{Every: time.Hour, Zone: "Europe/Atlantis"}, `zone "Europe/Atlantis"`},
		{Timing{Cron: "@daily", Zone: "../../etc/passwd"}, "is not a time zone"},
		{Timing{Cron: "@daily", Zone: strings.Repeat("A", 1000)}, "is not a time zone"},
		{Timing{Cron: "@daily", From: fleet.FromCompletion}, "goes with every"},
		{Timing{Cron: "0 0 30 2 *"}, "never fires"},
		{Timing{Cron: "0 0 31 4,6,9,11 *"}, "never fires"},
		{Timing{Cron: "TZ=UTC"}, "zone"},
		{Timing{Cron: "CRON_TZ=Asia/Tokyo 0 0 * * *"}, "zone"},
		{Timing{Cron: "@every"}, "want @every and one duration"},
		{Timing{Cron: "@every soon"}, "want @every and one duration"},
		{Timing{Cron: "@reboot"}, "@reboot"},
		{Timing{Cron: " "}, "is empty"},
		{Timing{Cron: ", * * * *"}, "empty part"},
		{Timing{Cron: "0 0 * * FRI-MON/2"}, "name the days"},
		{Timing{Cron: "61 * * * *"}, "61"},
		{Timing{Cron: "0 24-3 * * *"}, `"24": want 0 to 23`},
		{Timing{Cron: "0 0 *-5 * *"}, `"*": want 1 to 31`},
		{Timing{Cron: "*/60 * * * *"}, "want a number from 1 to 59"},
		{Timing{Cron: "0 0 L * *"}, "want 1 to 31"},
		{Timing{Cron: "* * * *"}, "5 to 6"},
		{Timing{Cron: "* * * * * * *"}, "5 to 6"},
		{Timing{Cron: strings.Repeat("1,", 1000) + "1 * * * *"}, "at most"},
	} {
		err := c.timing.Check()
		if !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Check(%.80s) = %v, want ErrInvalid with %q", fmt.Sprintf("%+v", c.timing), err, c.want)
		}
	}
	for _, good := range []Timing{{Every: time.Second}, {Cron: "@midnight", Zone: "Local"}, {Cron: "0 0 29 2 *"}, {Cron: "0 0 30 2 mon"}} {
		if err := good.Check(); err != nil {
			t.Errorf("Check(%+v) = %v", good, err)
		}
	}
}

// told is a Plan in short words.
func told(p Plan) string {
	var words []string
	for _, s := range p.Skipped {
		word := s.Why + " " + texts([]time.Time{s.From})[0]
		if s.Count > 1 {
			word += fmt.Sprintf("..%s x%d", texts([]time.Time{s.To})[0], s.Count)
		}
		words = append(words, word)
	}
	if p.Replace {
		words = append(words, "replace")
	}
	for _, r := range texts(p.Run) {
		words = append(words, "run "+r)
	}
	if p.Waits {
		words = append(words, "waits")
	}
	words = append(words, "next "+texts([]time.Time{p.Next})[0])
	if !p.Settled.IsZero() {
		words = append(words, "settled "+texts([]time.Time{p.Settled})[0])
	}
	return strings.ReplaceAll(strings.Join(words, ", "), "2026-11-15T", "")
}

func TestWhatIsDueRunsWaitsOrIsSkippedAsTheTimingSays(t *testing.T) {
	for _, c := range []struct {
		what            string
		missed, overlap string
		next, settled   string
		job, since, now string
		want            string
	}{
		{"nothing is due", "", "", "11:00", "", "", "", "10:59", "next 11:00"},
		{"a clock set back finds nothing due", "all", "replace", "11:00", "", "job-1", "11:00", "03:00", "next 11:00"},
		{"on time", "skip", "", "11:00", "", "", "", "11:00", "run 11:00, next 12:00"},
		{"within the grace", "skip", "", "11:00", "", "", "", "11:01", "run 11:00, next 12:00"},
		{"after it", "skip", "", "11:00", "", "", "", "11:02", "missed 11:00, next 12:00"},
		{"some missed, one on time", "skip", "", "11:00", "", "", "", "13:00", "missed 11:00, missed 12:00, run 13:00, next 14:00"},
		{"the newest for all", "", "", "11:00", "", "", "", "13:30", "newer 11:00, newer 12:00, run 13:00, next 14:00"},
		{"each", "all", "", "11:00", "", "", "", "13:30", "run 11:00, run 12:00, run 13:00, next 14:00"},
		{"a next that is off the grid runs", "", "", "11:17", "", "", "", "11:20", "run 11:17, next 12:00"},
		{"it still runs", "", "skip", "11:00", "", "job-1", "10:00", "11:00", "running 11:00, next 12:00"},
		{"it still runs, and is replaced", "", "replace", "11:00", "", "job-1", "10:00", "11:00", "replace, run 11:00, next 12:00"},
		{"many replace it at once", "", "replace", "11:00", "", "job-1", "10:00", "13:00", "replaced 11:00, replaced 12:00, replace, run 13:00, next 14:00"},
		{"it waits", "", "queue", "11:00", "", "job-1", "10:00", "11:00", "waits, next 11:00, settled 11:00"},
		{"one that is seen late waits, too", "skip", "queue", "11:00", "", "job-1", "10:00", "11:30", "waits, next 11:00, settled 11:00"},
		{"it goes on waiting", "", "queue", "11:00", "11:00", "job-1", "10:00", "11:30", "waits, next 11:00, settled 11:00"},
		{"only one waits", "", "queue", "11:00", "11:00", "job-1", "10:00", "12:00", "waiting 12:00, waits, next 11:00, settled 12:00"},
		{"the end comes", "skip", "queue", "11:00", "12:00", "", "", "12:30", "run 11:00, next 13:00"},
		{"the end comes after a downtime", "skip", "queue", "11:00", "12:00", "", "", "15:30", "run 11:00, next 13:00"},
		{"and what the downtime left is next", "skip", "queue", "13:00", "", "job-2", "15:30", "15:31", "missed 13:00, missed 14:00, missed 15:00, next 16:00"},
		{"of which the newest waits", "once", "queue", "13:00", "", "job-2", "15:30", "15:31", "newer 13:00, newer 14:00, waits, next 15:00, settled 15:00"},
		{"of which each will run", "all", "queue", "13:00", "", "job-2", "15:30", "15:31", "waits, next 13:00"},
		{"missed ones wait for the end when each runs", "all", "skip", "13:00", "", "job-2", "15:30", "17:00", "waits, next 13:00"},
		{"so do they while it has not started", "all", "skip", "13:00", "", "job-2", "", "15:31", "waits, next 13:00"},
		{"overlap changed while one waits", "", "skip", "11:00", "11:00", "job-1", "10:00", "12:00", "waiting 12:00, waits, next 11:00, settled 12:00"},
		{"missed before, came since", "once", "skip", "11:00", "", "job-1", "12:30", "14:00", "newer 11:00, newer 12:00, running 13:00, running 14:00, next 15:00"},
	} {
		t.Run(c.what, func(t *testing.T) {
			on := func(clock string) time.Time {
				if clock == "" {
					return time.Time{}
				}
				return at(t, "2026-11-15T"+clock)
			}
			timing := Timing{Every: time.Hour, Anchor: on("00:00"), Missed: c.missed, Overlap: c.overlap}
			for _, timing := range []Timing{timing, {Cron: "0 * * * *", Missed: c.missed, Overlap: c.overlap}} {
				plan, err := new(Book).Due(timing, "a/b", Standing{on(c.next), on(c.settled), c.job, on(c.since)}, on(c.now))
				if err != nil {
					t.Fatal(err)
				}
				if got := told(plan); got != c.want {
					t.Errorf("%+v:\n got %s\nwant %s", timing, got, c.want)
				}
			}
		})
	}
}

func TestSkipsSayWhyToPeople(t *testing.T) {
	timing := Timing{Cron: "0 * * * *"}
	plan, err := new(Book).Due(timing, "a/b", Standing{Next: at(t, "2026-11-15T11:00"), Job: "job-2026-11-15-3y0e8d"}, at(t, "2026-11-15T11:00"))
	if err != nil || len(plan.Skipped) != 1 || plan.Skipped[0].Reason != "still running job job-2026-11-15-3y0e8d" {
		t.Errorf("Due = %+v, %v", plan, err)
	}
	if _, err := new(Book).Due(timing, "a/b", Standing{}, time.Now()); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("without a next instant: %v, want ErrInvalid", err)
	}
}

func TestYearsOfDowntimeAreCountedNotWalked(t *testing.T) {
	next, now := at(t, "2016-11-15"), at(t, "2026-11-15")
	seconds := int64(now.Sub(next)/time.Second) + 1
	// Ten autumns in Berlin have an hour of wall times that were there before.
	autumns := int64(10 * 3600)
	for _, c := range []struct {
		timing Timing
		due    int64
	}{
		{Timing{Every: time.Second, Anchor: next}, seconds},
		{Timing{Cron: "* * * * * *"}, seconds},
		{Timing{Cron: "* * * * * *", Jitter: time.Hour}, seconds},
		{Timing{Cron: "* * * * * *", Zone: "Europe/Berlin"}, seconds - autumns},
	} {
		c.timing.Missed = fleet.MissedSkip
		plan, err := new(Book).Due(c.timing, "a/b", Standing{Next: next}, now)
		if err != nil {
			t.Fatal(err)
		}
		var skipped int64
		for _, s := range plan.Skipped {
			skipped += s.Count
		}
		// With jitter the last second may be due only after now.
		if got := skipped + int64(len(plan.Run)); len(plan.Skipped) != 1 || len(plan.Run) != 1 || got != c.due && (c.timing.Jitter == 0 || got != c.due-1) {
			t.Errorf("%+v: %d skipped in %d, run %v, want %d in all", c.timing, skipped, len(plan.Skipped), plan.Run, c.due)
		}
	}
}

func TestAllMissedRunInRounds(t *testing.T) {
	b, timing := new(Book), Timing{Every: time.Minute, Anchor: at(t, "2026-11-15"), Missed: fleet.MissedAll}
	now, s := at(t, "2026-11-15T01:00:30"), Standing{Next: at(t, "2026-11-15T00:01")}
	var ran []time.Time
	for !s.Next.After(now) {
		plan, err := b.Due(timing, "a/b", s, now)
		if err != nil || len(plan.Run) == 0 || len(plan.Run) > MaxRuns || len(plan.Skipped) > 0 {
			t.Fatalf("Due = %+v, %v", plan, err)
		}
		ran, s.Next = append(ran, plan.Run...), plan.Next
	}
	if len(ran) != 60 || !ran[0].Equal(at(t, "2026-11-15T00:01")) || !ran[59].Equal(at(t, "2026-11-15T01:00")) {
		t.Errorf("%d ran: %v", len(ran), texts(ran))
	}
}

func TestFromCompletionOneInstantIsDueAtATime(t *testing.T) {
	b, timing := new(Book), Timing{Every: time.Hour, From: fleet.FromCompletion, Missed: fleet.MissedSkip}
	due := func(next, job, now string) string {
		plan, err := b.Due(timing, "a/b", Standing{Next: at(t, "2026-11-15T"+next), Job: job}, at(t, "2026-11-15T"+now))
		if err != nil {
			t.Fatal(err)
		}
		return told(plan)
	}
	for _, c := range []struct{ next, job, now, want string }{
		{"10:00", "", "10:00", "run 10:00, next 11:00"},
		{"11:00", "job-1", "11:00", "waits, next 12:00"},
		{"10:00", "", "20:00", "missed 10:00, next 21:00"},
	} {
		if got := due(c.next, c.job, c.now); got != c.want {
			t.Errorf("due %s at %s: %s, want %s", c.next, c.now, got, c.want)
		}
	}
	if next, err := b.Next(timing, "a/b", at(t, "2026-11-15T11:40")); err != nil || !next.Equal(at(t, "2026-11-15T12:40")) {
		t.Errorf("after an end at 11:40: %s, %v", next, err)
	}
}

func TestBookStaysSmall(t *testing.T) {
	b := new(Book)
	for i := range 5 * bookSize {
		if err := b.Check(Timing{Cron: fmt.Sprintf("%d %d %d * *", i%60, i/60%24, 1+i/1440)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.crons.young) + len(b.crons.old); n > 2*bookSize {
		t.Errorf("%d expressions are kept, want at most %d", n, 2*bookSize)
	}
}
