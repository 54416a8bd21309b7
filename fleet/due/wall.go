package due

import (
	"math"
	"math/bits"
	"time"
)

const daySeconds = 86400

// walls are the wall-clock times that a cron expression names, in any zone. A
// wall time is counted in seconds, as if all clocks showed UTC, so clock
// changes do not exist here: wallClock handles them.
type walls struct {
	second, minute, hour, dom, month, dow uint64 // bit n: the value n is named
	either                                bool   // dom or dow is enough, since both are restricted
}

// next returns the first wall time in [from, to).
func (w *walls) next(from, to int64) (int64, bool) {
	day, clock := floorDiv(from, daySeconds), floorMod(from, daySeconds)
	year, month, dom := time.Unix(day*daySeconds, 0).UTC().Date()
	for day*daySeconds < to {
		switch {
		case w.month>>month&1 == 0:
			left := daysIn(year, month) - dom + 1
			day, dom, clock = day+int64(left), dom+left, 0
		case w.onDay(day, dom):
			if at, ok := w.onClock(clock); ok {
				at += day * daySeconds
				return at, at < to
			}
			fallthrough
		default:
			day, dom, clock = day+1, dom+1, 0
		}
		if dom > daysIn(year, month) {
			dom, month = 1, month+1
		}
		if month > time.December {
			month, year = time.January, year+1
		}
	}
	return 0, false
}

// count returns the number of wall times in [from, to). It iterates over
// days, not seconds: ten years of every second are 3,653 additions.
func (w *walls) count(from, to int64) int64 {
	if from >= to {
		return 0
	}
	firstDay, lastDay := floorDiv(from, daySeconds), floorDiv(to-1, daySeconds)
	year, month, dom := time.Unix(firstDay*daySeconds, 0).UTC().Date()
	full, n := w.before(daySeconds), int64(0)
	for day := firstDay; day <= lastDay; day++ {
		if w.month>>month&1 == 1 && w.onDay(day, dom) {
			n += full
			if day == firstDay {
				n -= w.before(from - day*daySeconds)
			}
			if day == lastDay {
				n -= full - w.before(to-day*daySeconds)
			}
		}
		if dom++; dom > daysIn(year, month) {
			dom, month = 1, month+1
		}
		if month > time.December {
			month, year = time.January, year+1
		}
	}
	return n
}

func (w *walls) onDay(day int64, dom int) bool {
	// The first day of 1970 was a Thursday.
	byDom, byDow := w.dom>>dom&1 == 1, w.dow>>floorMod(day+4, 7)&1 == 1
	if w.either {
		return byDom || byDow
	}
	return byDom && byDow
}

// onClock returns the first named second of a day at or after from.
func (w *walls) onClock(from int64) (int64, bool) {
	h, m, s := from/3600, from/60%60, from%60
	if w.hour>>h&1 == 1 {
		if w.minute>>m&1 == 1 {
			if s := bitFrom(w.second, s); s < 64 {
				return h*3600 + m*60 + s, true
			}
		}
		if m := bitFrom(w.minute, m+1); m < 64 {
			return h*3600 + m*60 + bitFrom(w.second, 0), true
		}
	}
	if h := bitFrom(w.hour, h+1); h < 64 {
		return h*3600 + bitFrom(w.minute, 0)*60 + bitFrom(w.second, 0), true
	}
	return 0, false
}

// before returns the number of named seconds of a day before clock.
func (w *walls) before(clock int64) int64 {
	h, m, s := clock/3600, clock/60%60, clock%60
	seconds := ones(w.second, 64)
	n := ones(w.hour, h) * ones(w.minute, 64) * seconds
	if w.hour>>h&1 == 1 {
		n += ones(w.minute, m) * seconds
		if w.minute>>m&1 == 1 {
			n += ones(w.second, s)
		}
	}
	return n
}

// bitFrom returns the first set bit at or after from; 64 when there is none.
func bitFrom(set uint64, from int64) int64 { return int64(bits.TrailingZeros64(set >> from << from)) }

// ones returns the number of set bits below below.
func ones(set uint64, below int64) int64 {
	return int64(bits.OnesCount64(set &^ (math.MaxUint64 << below)))
}

func daysIn(year int, month time.Month) int {
	switch month {
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case time.April, time.June, time.September, time.November:
		return 30
	}
	return 31
}

func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }

func floorMod(a, b int64) int64 { return (a%b + b) % b }

// wallClock converts walls into the instants at which a zone's clocks show
// them. Each wall time is one instant:
//
//   - a time that is shown twice, because the clocks were put back, is the
//     first of the two;
//   - a time that is never shown, because they were put forward, is shifted by
//     the jump: 02:30 becomes 03:30. Where that is the instant of another wall
//     time, both are that one instant.
//
// Instants are seconds since 1970 in UTC.
type wallClock struct {
	walls
	zone *time.Location
}

// The ends of time: far beyond every year, and safe from overflow.
const (
	longAgo = math.MinInt64 / 8
	never   = math.MaxInt64 / 8
)

// zoneReach is how long a clock change can matter: no zone ever jumped by
// more than a day.
const zoneReach = 2 * daySeconds

// zonePiece is a period in which a zone's clocks ran evenly.
type zonePiece struct {
	start, end int64 // [start, end)
	offset     int64 // wall time - instant
	passed     int64 // wall times below this were shown, or jumped over, before start
	gaps       []zoneGap
	gapsEnd    int64
}

// zoneGap is a jump forward whose wall times are shifted into a piece.
type zoneGap struct {
	end    int64 // end of the instants that the wall times are shifted to
	offset int64 // offset before the jump
	passed int64
}

func (c *wallClock) pieceWithoutGaps(at int64) zonePiece {
	t := time.Unix(at, 0).In(c.zone)
	_, offset := t.Zone()
	p := zonePiece{start: longAgo, end: never, offset: int64(offset), passed: longAgo, gapsEnd: longAgo}
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	// Where a zone follows a rule, from 2038 on, the standard library ends
	// the last piece of a leap year a day too soon.
	const quarter = 900 // seconds; rules change the clocks at whole quarters of an hour
	if p.end <= at {
		p.end = at - floorMod(at, quarter) + quarter
	}
	return p
}

// piece returns the piece that contains an instant, with the gaps that
// matter from there on.
func (c *wallClock) piece(at int64) zonePiece {
	p := c.pieceWithoutGaps(at)
	past := append(make([]zonePiece, 0, 4), p) // newest first
	for reach := p.start - zoneReach; past[len(past)-1].start > max(reach, longAgo); {
		past = append(past, c.pieceWithoutGaps(past[len(past)-1].start-1))
	}
	for i := len(past) - 1; i > 0; i-- {
		before, after := past[i], past[i-1]
		p.passed = max(p.passed, after.start+before.offset)
		if jump := after.offset - before.offset; jump > 0 && after.start+jump > at {
			p.gaps = append(p.gaps, zoneGap{end: after.start + jump, offset: before.offset, passed: p.passed})
			p.gapsEnd = max(p.gapsEnd, after.start+jump)
		}
	}
	return p
}

// firstIn returns the first instant in [from, to), which lies within the piece.
func (c *wallClock) firstIn(p zonePiece, from, to int64) (int64, bool) {
	found := to
	if wall, ok := c.walls.next(max(from+p.offset, p.passed), to+p.offset); ok {
		found = wall - p.offset
	}
	for _, g := range p.gaps {
		if wall, ok := c.walls.next(max(from+g.offset, g.passed), min(found, g.end)+g.offset); ok {
			found = wall - g.offset
		}
	}
	return found, found < to
}

// first returns the first instant in [from, to).
func (c *wallClock) first(from, to int64) (int64, bool) {
	for from < to {
		p := c.piece(from)
		if at, ok := c.firstIn(p, from, min(p.end, to)); ok {
			return at, true
		}
		from = p.end
	}
	return 0, false
}

// last returns the last instant in [from, to).
func (c *wallClock) last(from, to int64) (int64, bool) {
	found, ok := c.first(from, to)
	if !ok {
		return 0, false
	}
	// There is an instant at or after low, and none at or after high. It is
	// most often near the end.
	low, high := found, to
	for step := int64(60); to-step > low; step *= 8 {
		if at, ok := c.first(to-step, high); ok {
			low = at
			break
		}
		high = to - step
	}
	for low+1 < high {
		middle := low + (high-low)/2
		if at, ok := c.first(middle, high); ok {
			low = at
		} else {
			high = middle
		}
	}
	return low, true
}

// count returns the number of instants in [from, to).
func (c *wallClock) count(from, to int64) int64 {
	var n int64
	for from < to {
		p := c.piece(from)
		end := min(p.end, to)
		// After a jump forward two wall times may share an instant: these few
		// are counted one by one.
		for from < min(p.gapsEnd, end) {
			at, ok := c.firstIn(p, from, min(p.gapsEnd, end))
			if from = at + 1; ok {
				n++
			} else {
				from = min(p.gapsEnd, end)
			}
		}
		n += c.walls.count(max(from+p.offset, p.passed), end+p.offset)
		from = end
	}
	return n
}
