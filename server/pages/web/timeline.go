package web

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// The dimensions of the picture, in its own units; a browser scales them.
const (
	lineWidth  = 960
	lineMargin = 24 // right of now, where running jobs point to
	lineTop    = 28 // for the clock
	laneHead   = 20 // for the name of a lane
	barHeight  = 18 // of a bar
	barGap     = 4  // below it
	barLeast   = 4  // smallest width of a bar
	glyphRoom  = 16 // a bar at least this wide has its sign inside
	mostRows   = 12 // rows of bars in a lane
	mostTicks  = 8  // lines of the clock
	mostLanes  = 40
	mostBars   = 600 // of a picture; more jobs than that share bars
	leastSlots = 12  // of a lane whose jobs share bars
)

// Timeline is a picture of jobs over time, with a lane for each agent or
// machine.
type Timeline struct {
	From   time.Time `json:"from"`
	Now    time.Time `json:"now"`
	Width  int       `json:"-"`
	Height int       `json:"-"`
	NowX   string    `json:"-"`
	Ticks  []Tick    `json:"-"`
	Lanes  []Lane    `json:"lanes"`
	More   int       `json:"more,omitempty"` // lanes with fewer jobs that are left out
}

// Tick is a line of the clock.
type Tick struct {
	X     string
	Label string
	Day   bool
}

// Lane is what one agent or machine did.
type Lane struct {
	Name string `json:"name"` // "" of jobs that no machine has
	Y    int    `json:"-"`    // of its name
	Line int    `json:"-"`    // of the line above it
	Bars []Bar  `json:"-"`
	Jobs int    `json:"jobs"`
}

// Bar is one job, or several that began close to each other.
type Bar struct {
	Job    JobItem // the first of them
	Count  int     // how many there are
	Failed int     // of them
	Runs   bool    // they do; Job has the status of one that failed
	Last   time.Time
	Under  time.Duration // what each of several took less than; 0: they may have taken any time
	Path   string        // of its shape
	X, Y   string        // of its sign
	Sign   string
	Inside bool // its sign has room in it
}

// signs repeat the meaning of the colours.
var signs = map[string]string{tidemark.JobPending: "…", tidemark.JobRunning: "▸", tidemark.JobCompleted: "✓", tidemark.JobFailed: "✗",
	tidemark.JobCancelled: "–", tidemark.JobInterrupted: "!", tidemark.JobAbandoned: "–"}

// NewTimeline draws jobs from an instant until now. lane returns the lane of a
// job. Jobs that ended before are left out.
func NewTimeline(jobs []JobItem, from, now time.Time, lane func(JobItem) string) *Timeline {
	t := &Timeline{From: from, Now: now, Width: lineWidth, Lanes: []Lane{}}
	scale := float64(lineWidth-lineMargin) / max(now.Sub(from).Seconds(), 1)
	at := func(when time.Time) float64 { return max(when.Sub(from).Seconds()*scale, 0) }
	t.NowX, t.Ticks = units(at(now)), clockLines(from, now, at)
	of := make(map[string][]JobItem)
	for _, j := range jobs {
		if end := endOf(j, now); !end.Before(from) {
			of[lane(j)] = append(of[lane(j)], j)
		}
	}
	names := slices.Sorted(maps.Keys(of))
	if t.More = max(len(names)-mostLanes, 0); t.More > 0 {
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(of[b]), len(of[a])) })
		names = names[:mostLanes]
		slices.Sort(names)
	}
	y := lineTop
	for _, name := range names {
		l := Lane{Name: name, Y: y + laneHead - 6, Line: y, Jobs: len(of[name])}
		rows := l.draw(of[name], max(mostBars/len(names), leastSlots), now, y+laneHead, at, scale)
		y += laneHead + rows*(barHeight+barGap) + barGap
		t.Lanes = append(t.Lanes, l)
	}
	t.Height = y
	return t
}

// endOf is when a job ended, or now if it has not.
func endOf(j JobItem, now time.Time) time.Time {
	switch {
	case j.Status == tidemark.JobRunning || j.Status == tidemark.JobPending:
		return now
	case j.FinishedAt.IsZero():
		return j.StartedAt
	}
	return j.FinishedAt
}

// crowd is how many short jobs in one slot of time are still drawn one above the
// other, and crowdSlot how wide that slot is: room for the number of those that share
// a bar.
const (
	crowd     = 4
	crowdSlot = 2 * glyphRoom
)

// gather puts jobs together that share a bar: each has its own up to most of them,
// unless it is one of a crowd of short ones, and beyond that all that began in one
// slot of time share one, those that run apart from those that ended. under is what a
// job took less than if it is one of a crowd, 0 where all share bars.
func gather(jobs []JobItem, most int, now time.Time, at func(time.Time) float64, scale float64) (all [][]JobItem, slot float64, under time.Duration) {
	slices.SortFunc(jobs, func(a, b JobItem) int { return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID)) })
	type place struct {
		slot int
		runs bool
	}
	slot = float64(lineWidth) / float64(most/2)
	few := len(jobs) <= most
	if few {
		slot = crowdSlot
		under = time.Duration(slot / scale * float64(time.Second))
	}
	placeOf := func(j JobItem) place { return place{int(at(j.StartedAt) / slot), j.Status == tidemark.JobRunning} }
	short := func(j JobItem) bool { return TookLess(j, under, now) }
	n := make(map[place]int)
	for _, j := range jobs {
		if short(j) {
			n[placeOf(j)]++
		}
	}
	in := make(map[place]int)
	for _, j := range jobs {
		p := placeOf(j)
		if few && (n[p] <= crowd || !short(j)) {
			all = append(all, []JobItem{j})
			continue
		}
		i, ok := in[p]
		if !ok {
			i = len(all)
			in[p], all = i, append(all, nil)
		}
		all[i] = append(all[i], j)
	}
	return all, slot, under
}

// TookLess reports whether a job took less than some time, or has so far if it runs.
func TookLess(j JobItem, under time.Duration, now time.Time) bool {
	return endOf(j, now).Sub(j.StartedAt) < under
}

// draw puts the bars of a lane into as many rows as needed to avoid
// overlaps, and returns their number.
func (l *Lane) draw(jobs []JobItem, most int, now time.Time, top int, at func(time.Time) float64, scale float64) int {
	var ends []float64 // of the last bar in each row
	groups, slot, under := gather(jobs, most, now, at, scale)
	for _, g := range groups {
		b := Bar{Job: g[0], Count: len(g), Last: g[len(g)-1].StartedAt, Runs: g[0].Status == tidemark.JobRunning, Under: under}
		x := at(b.Job.StartedAt)
		end := max(at(endOf(b.Job, now)), x+barLeast)
		if len(g) > 1 {
			x = float64(int(x/slot)) * slot
			end = x + slot - 1
		}
		for _, j := range g {
			if j.Status == tidemark.JobFailed {
				b.Failed++
				b.Job.Status = j.Status // what went wrong is what has to be seen
			}
		}
		row := slices.IndexFunc(ends, func(e float64) bool { return e <= x })
		if row < 0 {
			if row = len(ends); row == mostRows {
				row-- // bars overlap rather than letting the page grow without end
			} else {
				ends = append(ends, 0)
			}
		}
		y := float64(top + row*(barHeight+barGap))
		b.Sign, b.Inside, b.X, b.Y = signs[b.Job.Status], end-x >= glyphRoom, units(x+(end-x)/2), units(y+barHeight-5)
		if b.Count > 1 {
			b.Sign = strconv.Itoa(b.Count)
			b.Inside = end-x >= glyphRoom/2*float64(len(b.Sign))
		}
		ends[row] = end + 1
		if b.Job.Status == tidemark.JobRunning {
			// Open at its end, since it still runs.
			tip := end + barHeight/2
			b.Path = "M" + units(x) + " " + units(y) + "H" + units(end) + "L" + units(tip) + " " + units(y+barHeight/2) + "L" + units(end) + " " + units(y+barHeight) + "H" + units(x) + "Z"
			ends[row] = tip + 1
		} else {
			b.Path = "M" + units(x) + " " + units(y) + "H" + units(end) + "V" + units(y+barHeight) + "H" + units(x) + "Z"
		}
		l.Bars = append(l.Bars, b)
	}
	return max(len(ends), 1)
}

// clockLines are round times, a few of them.
func clockLines(from, now time.Time, at func(time.Time) float64) []Tick {
	var all []Tick
	for _, step := range []time.Duration{time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
		if now.Sub(from)/step > mostTicks {
			continue
		}
		for when := from.UTC().Truncate(step).Add(step); !when.After(now); when = when.Add(step) {
			layout, day := "15:04", step >= 24*time.Hour || when.Hour() == 0 && when.Minute() == 0
			if day {
				layout = "Jan 2"
			}
			all = append(all, Tick{X: units(at(when)), Label: when.Format(layout), Day: day})
		}
		return all
	}
	return all
}

// units are a length of the picture.
func units(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
