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

// Bar is one job.
type Bar struct {
	Job    JobItem
	Path   string // of its shape
	X, Y   string // of its sign
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
	y := lineTop
	for _, name := range slices.Sorted(maps.Keys(of)) {
		l := Lane{Name: name, Y: y + laneHead - 6, Line: y, Jobs: len(of[name])}
		rows := l.draw(of[name], now, y+laneHead, at)
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

// draw puts the bars of a lane into as many rows as needed to avoid
// overlaps, and returns their number.
func (l *Lane) draw(jobs []JobItem, now time.Time, top int, at func(time.Time) float64) int {
	slices.SortFunc(jobs, func(a, b JobItem) int { return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID)) })
	var ends []float64 // of the last bar in each row
	for _, j := range jobs {
		x := at(j.StartedAt)
		end := max(at(endOf(j, now)), x+barLeast)
		row := slices.IndexFunc(ends, func(e float64) bool { return e <= x })
		if row < 0 {
			if row = len(ends); row == mostRows {
				row-- // bars overlap rather than letting the page grow without end
			} else {
				ends = append(ends, 0)
			}
		}
		y := float64(top + row*(barHeight+barGap))
		b := Bar{Job: j, Sign: signs[j.Status], Inside: end-x >= glyphRoom, X: units(x + (end-x)/2), Y: units(y + barHeight - 5)}
		ends[row] = end + 1
		if j.Status == tidemark.JobRunning {
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
