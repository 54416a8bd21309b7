package due

import (
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// Timing is when a schedule is due, and what happens to occurrences at which
// it cannot run. Either Every or Cron is set.
type Timing struct {
	Every  time.Duration // at least a second, in whole milliseconds
	Anchor time.Time     // with FromStart, Every counts from here: the creation of the schedule
	Cron   string        // five fields, six with seconds first, or @yearly … @hourly; @every 90s is Every
	Zone   string        // zone of Cron, such as Europe/Berlin; "" is UTC, Local the machine's
	// Jitter delays each instant by less than this, by an amount that depends
	// only on the id and the instant. It never changes the order of instants.
	Jitter time.Duration
	// Grace is how late an instant may be noticed and still be on time; 0
	// is DefaultGrace.
	Grace   time.Duration
	From    string // one of the From constants; "" is start
	Missed  string // one of the Missed constants; "" is once
	Overlap string // one of the Overlap constants; "" is skip
}

// DefaultGrace is long enough for a busy machine, and short compared to
// what people call missed.
const DefaultGrace = time.Minute

// The shortest and the longest interval.
const (
	minEvery = time.Second
	maxEvery = 100 * 365 * 24 * time.Hour
)

// Check returns ErrInvalid with what is wrong with t, including a cron
// expression that never fires and a zone that this machine does not know.
func (t Timing) Check() error { return new(Book).Check(t) }

// Check is Timing.Check, and caches what it parsed.
func (b *Book) Check(t Timing) error {
	t, err := t.complete()
	if err != nil {
		return err
	}
	if t.Cron == "" {
		_, err = b.zones.get(t.Zone, LoadZone)
		return err
	}
	_, err = b.cron(t.Cron, t.Zone)
	return err
}

// First returns the first instant of a schedule created at created. With
// FromStart an interval counts from there: created has to be the Anchor later.
func (b *Book) First(t Timing, id string, created time.Time) (time.Time, error) {
	t.Anchor = created
	return b.Next(t, id, created)
}

// Next returns the first instant strictly after a time, in UTC and whole
// milliseconds. With FromCompletion, after is the end of the last run; if the
// clock was set back meanwhile, pass the instant that ran instead, so that
// none comes twice.
func (b *Book) Next(t Timing, id string, after time.Time) (time.Time, error) {
	t, err := t.complete()
	if err != nil {
		return time.Time{}, err
	}
	if t.From == fleet.FromCompletion {
		return t.afterRun(id, after), nil
	}
	g, err := b.grid(t, id)
	if err != nil {
		return time.Time{}, err
	}
	at, ok := g.next(after.UnixMilli())
	if !ok {
		return time.Time{}, tidemark.Invalidf("cron %.60q: does not fire within years after %s", t.Cron, after.UTC().Format(time.RFC3339))
	}
	return instant(at), nil
}

// complete returns t with its defaults, after checking everything but
// the cron expression and the zone.
func (t Timing) complete() (Timing, error) {
	if text, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(t.Cron)), "@every"); ok {
		every, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || t.Every != 0 {
			return t, tidemark.Invalidf("cron %.60q: want @every and one duration such as 1h30m", t.Cron)
		}
		t.Every, t.Cron = every, ""
	}
	t.From, t.Missed, t.Overlap = orElse(t.From, fleet.FromStart), orElse(t.Missed, fleet.MissedOnce), orElse(t.Overlap, fleet.OverlapSkip)
	if t.Grace == 0 {
		t.Grace = DefaultGrace
	}
	switch {
	case t.Every != 0 && t.Cron != "":
		return t, tidemark.Invalidf("every %s and cron %.60q: want one of them", t.Every, t.Cron)
	case t.Every == 0 && t.Cron == "":
		return t, tidemark.Invalidf("neither every nor cron: want one of them")
	case t.Cron == "" && (t.Every < minEvery || t.Every > maxEvery):
		return t, tidemark.Invalidf("every %s: want at least %s and at most a hundred years", t.Every, minEvery)
	case t.Every%time.Millisecond != 0:
		return t, tidemark.Invalidf("every %s: want whole milliseconds", t.Every)
	case t.Jitter < 0 || t.Cron == "" && t.Jitter >= t.Every:
		return t, tidemark.Invalidf("jitter %s: want less than the interval, and not less than nothing", t.Jitter)
	case t.Grace < 0:
		return t, tidemark.Invalidf("grace %s: want more than nothing", t.Grace)
	case t.From != fleet.FromStart && t.From != fleet.FromCompletion:
		return t, tidemark.Invalidf("from %.40q: want start or completion", t.From)
	case t.From == fleet.FromCompletion && t.Cron != "":
		return t, tidemark.Invalidf("from completion: goes with every, not with cron %.60q", t.Cron)
	case t.Missed != fleet.MissedSkip && t.Missed != fleet.MissedOnce && t.Missed != fleet.MissedAll:
		return t, tidemark.Invalidf("missed %.40q: want skip, once or all", t.Missed)
	case t.Overlap != fleet.OverlapSkip && t.Overlap != fleet.OverlapQueue && t.Overlap != fleet.OverlapReplace:
		return t, tidemark.Invalidf("overlap %.40q: want skip, queue or replace", t.Overlap)
	}
	return t, nil
}

// grid returns the instants of a complete t that does not count from
// completion.
func (b *Book) grid(t Timing, id string) (grid, error) {
	var g grid
	if t.Cron == "" {
		if t.Anchor.IsZero() {
			return nil, tidemark.Invalidf("every %s: counts from nothing; want an anchor, the time at which the schedule came to be", t.Every)
		}
		g = everyGrid{t.Anchor.UnixMilli(), t.Every.Milliseconds()}
	} else {
		c, err := b.cron(t.Cron, t.Zone)
		if err != nil {
			return nil, err
		}
		g = c
	}
	if jitter := t.Jitter.Milliseconds(); jitter > 1 {
		g = jitterGrid{g, id, jitter}
	}
	return g, nil
}

// afterRun returns the next instant after a run that ended.
func (t Timing) afterRun(id string, ended time.Time) time.Time {
	at := ended.UnixMilli() + t.Every.Milliseconds()
	return instant(at + delay(id, at, t.Jitter.Milliseconds()))
}

func instant(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

func orElse(word, otherwise string) string {
	if word == "" {
		return otherwise
	}
	return word
}

// maxSplay bounds how much earlier than one interval after its creation a schedule
// is first due: enough to spread hundreds of agents, and too little for people to
// notice.
const maxSplay = time.Minute

// Splay is how long before the creation of a schedule its interval begins to
// count: less than the interval, and always the same for an id. So schedules
// with the same interval that were created together are not due together. A
// cron expression has no splay, since it says itself when it is due.
func (t Timing) Splay(id string) time.Duration {
	t, err := t.complete()
	if err != nil || t.Cron != "" {
		return 0
	}
	return time.Duration(delay(id, 0, min(t.Every, maxSplay).Milliseconds())) * time.Millisecond
}
