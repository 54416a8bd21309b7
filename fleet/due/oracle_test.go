package due

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The oracle knows the instants of a cron expression by looking at every
// minute or second, with a reader of expressions of its own.

// naiveCron says of a wall time, in seconds as if it were UTC, whether an
// expression of numbers, lists, ranges and steps names it.
func naiveCron(expression string) func(wall int64) bool {
	fields := strings.Fields(expression)
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	low, high := []int{0, 0, 0, 1, 1, 0}, []int{59, 59, 23, 31, 12, 7}
	var named [6][60]bool
	for i, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			span, step, stepped := strings.Cut(part, "/")
			from, to, ranged := strings.Cut(span, "-")
			a, b, by := low[i], high[i], 1
			if from != "*" {
				a, _ = strconv.Atoi(from)
				if b = a; stepped {
					b = high[i]
				}
			}
			if ranged {
				b, _ = strconv.Atoi(to)
			}
			if stepped {
				by, _ = strconv.Atoi(step)
			}
			for v := a; v <= b; v += by {
				named[i][v] = true
			}
		}
	}
	named[5][0] = named[5][0] || named[5][7]
	either := fields[3] != "*" && fields[5] != "*"
	return func(wall int64) bool {
		if !named[0][floorMod(wall, 60)] || !named[1][floorMod(floorDiv(wall, 60), 60)] {
			return false
		}
		t := time.Unix(wall, 0).UTC()
		dom, dow := named[3][t.Day()], named[5][t.Weekday()]
		if !named[0][t.Second()] || !named[1][t.Minute()] || !named[2][t.Hour()] || !named[4][t.Month()] {
			return false
		}
		return either && (dom || dow) || dom && dow
	}
}

// tape is what the clocks of a zone show, every so many seconds.
type tape struct {
	from, to, step int64
	begin          int64
	walls          []int64
}

func record(zone *time.Location, from, to, step int64) tape {
	r := tape{from: from, to: to, step: step, begin: from - 3*daySeconds}
	for at := r.begin; at < to; at += step {
		_, offset := time.Unix(at, 0).In(zone).Zone()
		r.walls = append(r.walls, at+int64(offset))
	}
	return r
}

// instants returns when the wall times that are named come.
func (r tape) instants(names func(wall int64) bool) []int64 {
	var all []int64
	expected := r.walls[0] // if the clocks run evenly
	passed := expected     // wall times below are over
	for i, wall := range r.walls {
		at := r.begin + int64(i)*r.step
		for jumped := max(expected, passed); jumped < wall; jumped += r.step {
			if names(jumped) {
				all = append(all, at+jumped-expected)
			}
		}
		if wall >= passed {
			if names(wall) {
				all = append(all, at)
			}
			passed = wall + r.step
		}
		expected = wall + r.step
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(at int64) bool { return at < r.from || at >= r.to })
}

var oracleZones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia",
	"America/Sao_Paulo", "Africa/Casablanca", "America/St_Johns", "Pacific/Chatham", "Asia/Tehran", "Antarctica/Troll", "Africa/Cairo", "America/Havana"}

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// agree compares all that a cronGrid says with the instants on a tape.
func agree(t *testing.T, b *Book, cron, zone string, r tape, want []int64) {
	t.Helper()
	from, to := r.from, r.to
	g, err := b.cron(cron, zone)
	if err != nil {
		t.Fatal(err)
	}
	at, got := from-1, 0
	for ; ; got++ {
		next, ok := g.clock.first(at+1, to)
		if !ok {
			break
		}
		if got >= len(want) || next != want[got] {
			t.Fatalf("%s in %s: instant %d after %s is %s, want %v", cron, zone, got, instant(at*1000), instant(next*1000), texts(nearby(want, got)))
		}
		at = next
	}
	if got != len(want) {
		t.Fatalf("%s in %s: %d instants, want %d; next %v", cron, zone, got, len(want), texts(nearby(want, got)))
	}
	// Parts of the time, on an instant, beside it, and anywhere.
	for i := range 12 {
		low, high := from+(to-from)*int64(i)/29, to-(to-from)*int64(i)/23
		if len(want) > 12 && i%3 > 0 {
			low, high = want[i]+int64(i%3)-1, want[len(want)-1-i]+int64(i%3)-1
		}
		a, _ := slices.BinarySearch(want, low)
		z, _ := slices.BinarySearch(want, high)
		if n := g.clock.count(low, high); n != int64(max(0, z-a)) {
			t.Fatalf("%s in %s: count(%s, %s) = %d, want %d", cron, zone, instant(low*1000), instant(high*1000), n, z-a)
		}
		last, ok := g.clock.last(low, high)
		if ok != (z > a) || ok && last != want[z-1] {
			t.Fatalf("%s in %s: last(%s, %s) = %s, %t", cron, zone, instant(low*1000), instant(high*1000), instant(last*1000), ok)
		}
	}
}

func nearby(want []int64, i int) []time.Time {
	var all []time.Time
	for _, at := range want[min(i, len(want)):min(i+3, len(want))] {
		all = append(all, instant(at*1000))
	}
	return all
}

func TestInstantsAreThoseOfWhoLooksAtEveryMinute(t *testing.T) {
	b := new(Book)
	for _, name := range oracleZones {
		zone := zoneOf(t, name)
		for _, year := range []int{2026, 2018, 2011, 2040} {
			from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
			to := time.Date(year+1, 1, 8, 0, 0, 0, 0, time.UTC).Unix()
			tape := record(zone, from, to, 60)
			for _, cron := range []string{"30 2 * * *", "0 * * * *", "*/20 0-3 * * *", "7,37 23,0,1 29-31 * 0", "59 23 31 12 *"} {
				if year != 2026 && cron == "0 * * * *" {
					continue
				}
				agree(t, b, cron, name, tape, tape.instants(naiveCron(cron)))
			}
			if testing.Short() {
				break
			}
		}
	}
}

func TestInstantsAreThoseOfWhoLooksAtEverySecond(t *testing.T) {
	b := new(Book)
	for _, c := range []struct{ zone, day string }{
		{"Europe/Berlin", "2026-03-29"}, {"Europe/Berlin", "2026-10-25"}, {"Australia/Lord_Howe", "2026-10-04"}, {"Australia/Lord_Howe", "2026-04-05"},
		{"Pacific/Apia", "2011-12-30"}, {"America/Sao_Paulo", "2018-11-04"}, {"America/Sao_Paulo", "2018-02-18"},
		// Local mean time was given up by seconds, and a day came twice.
		{"Europe/Amsterdam", "1937-07-01"}, {"Asia/Manila", "1844-12-31"}, {"America/Juneau", "1867-10-19"},
	} {
		from := at(t, c.day).Unix() - daySeconds
		tape := record(zoneOf(t, c.zone), from, from+3*daySeconds, 1)
		for _, cron := range []string{"* * * * * *", "*/7 */13 * * * *", "59 59 23 * * *", "1-3 0,30 1-3 * * *"} {
			agree(t, b, cron, c.zone, tape, tape.instants(naiveCron(cron)))
		}
	}
}

func TestJitterIsBoundedSteadyAndKeepsTheOrder(t *testing.T) {
	b, start := new(Book), at(t, "2026-03-28")
	for _, plain := range []Timing{{Every: 10 * time.Minute, Anchor: start}, {Cron: "*/10 * * * *", Zone: "Europe/Berlin"}, {Cron: "0,1 * * * *"}} {
		late := plain
		late.Jitter = 9 * time.Minute
		spread := map[time.Duration]bool{}
		exact := chain(t, b, plain, "a/b", start, 301)
		got := chain(t, b, late, "a/b", start.Add(late.Jitter), 300)
		// The first plain instants may be due before the start.
		exact = exact[slices.IndexFunc(exact, func(at time.Time) bool { return at.Add(10 * time.Minute).After(got[0]) }):]
		for exact[1].Before(got[0]) {
			exact = exact[1:]
		}
		for i, at := range got[:len(exact)-1] {
			if d := at.Sub(exact[i]); d < 0 || d >= late.Jitter || !at.Before(exact[i+1]) {
				t.Fatalf("%+v: %s is due at %s, next is %s", late, exact[i], at, exact[i+1])
			}
			spread[at.Sub(exact[i]).Truncate(time.Minute)] = true
			// Whoever asks at any time before hears the same.
			for _, ago := range []time.Duration{1, time.Millisecond, at.Sub(exact[i]) + 1} {
				asked := at.Add(-ago)
				if i > 0 && asked.Before(got[i-1]) {
					continue
				}
				if again, err := b.Next(late, "a/b", asked); err != nil || !again.Equal(at) {
					t.Fatalf("Next(%s) = %s, %v, want %s", asked, again, err, at)
				}
			}
		}
		if len(spread) < 5 && plain.Cron != "0,1 * * * *" {
			t.Errorf("%+v: the delays are %v, want all sorts", late, spread)
		}
		countsAndLasts(t, b, late, got)
		if slices.EqualFunc(got, chain(t, b, late, "a/c", start.Add(late.Jitter), 300), time.Time.Equal) {
			t.Errorf("two schedules have the same delays")
		}
	}
}

// countsAndLasts asks a grid about times on, beside and between its instants.
func countsAndLasts(t *testing.T, b *Book, timing Timing, instants []time.Time) {
	t.Helper()
	g, err := b.grid(timing, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	first, end := instants[0].UnixMilli(), instants[len(instants)-1].UnixMilli()
	upTo := func(at int64) int {
		n, _ := slices.BinarySearchFunc(instants, at+1, func(i time.Time, at int64) int { return int(i.UnixMilli() - at) })
		return n
	}
	for i := range int64(200) {
		low, high := first+(end-first)*i/997, end-(end-first)*i/499
		if i%2 == 0 {
			low = instants[i/2].UnixMilli() + i%3 - 1
		}
		if n := g.count(low, high); n != int64(max(0, upTo(high)-upTo(low))) {
			t.Fatalf("%+v: count(%s, %s) = %d, want %d", timing, instant(low), instant(high), n, upTo(high)-upTo(low))
		}
		if last, ok := g.last(low, high); ok != (upTo(high) > upTo(low)) || ok && last != instants[upTo(high)-1].UnixMilli() {
			t.Fatalf("%+v: last(%s, %s) = %s, %t", timing, instant(low), instant(high), instant(last), ok)
		}
	}
}

// FuzzTiming looks for an expression or a zone that panics, hangs, or has an
// instant that is not later than what was asked for.
func FuzzTiming(f *testing.F) {
	for _, cron := range []string{"* * * * *", "*/5 0 1 1 0", "@daily", "@every 5s", "TZ=UTC", "TZ= ", "CRON_TZ=", "H H * * *", "0 0 30 2 *", "0 0 L * *", "0 0 * * FRI#3",
		"1-5/2,7 * * jan-mar mon", "* * * * * * 2026", "-1 * * * *", "1--2 * * * *", "*/0 * * * *", "*/99999999999999999999 * * * *", "\x00", "@", "? ? ? ? ?", "59-0 22-2 31-1 nov-feb sat-sun"} {
		f.Add(cron, "Europe/Berlin", int64(1774746000), int64(0))
		f.Add(cron, "", int64(-1<<40), int64(7000))
	}
	b := new(Book)
	f.Fuzz(func(t *testing.T, cron, zone string, after, jitter int64) {
		limit := time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		asked := time.Unix(after%limit, 0)
		timing := Timing{Cron: cron, Zone: zone, Jitter: time.Duration(jitter), Anchor: time.Unix(0, 0)}
		if b.Check(timing) != nil {
			return
		}
		next, err := b.Next(timing, "a/b", asked)
		if err != nil || !next.After(asked) {
			t.Fatalf("Next(%+v, %s) = %s, %v", timing, asked, next, err)
		}
		now := next.Add(time.Duration(after%1000) * time.Hour)
		plan, err := b.Due(timing, "a/b", Standing{Next: next}, now)
		if err != nil || !plan.Next.After(now) && !now.Before(next) {
			t.Fatalf("Due(%+v, next %s, now %s) = %+v, %v", timing, next, now, plan, err)
		}
	})
}

func BenchmarkDue(b *testing.B) {
	now := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)
	timings := make([]Timing, 10_000)
	for i := range timings {
		timings[i] = Timing{Cron: fmt.Sprintf("%d %d * * *", i%60, i/60%24), Zone: oracleZones[i%len(oracleZones)]}
	}
	run := func(next time.Time) func(b *testing.B) {
		return func(b *testing.B) {
			book := new(Book)
			b.ReportAllocs()
			for b.Loop() {
				for _, t := range timings {
					if _, err := book.Due(t, "agent/schedule", Standing{Next: next}, now); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	}
	b.Run("10000_schedules,nothing_due", run(now.Add(time.Second)))
	b.Run("10000_schedules,all_due", run(now))
	b.Run("10000_schedules,a_week_missed", run(now.AddDate(0, 0, -7)))
	b.Run("every_second,10_years_missed", func(b *testing.B) {
		book := new(Book)
		for b.Loop() {
			if _, err := book.Due(Timing{Cron: "* * * * * *", Zone: "Europe/Berlin"}, "a/b", Standing{Next: now.AddDate(-10, 0, 0)}, now); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if err := (Timing{Cron: "*/5 2-4 * * mon-fri", Zone: "Europe/Berlin"}).Check(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
