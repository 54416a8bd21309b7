package due

import (
	"encoding/binary"
	"hash/fnv"
)

// grid is the ordered instants of one schedule, in milliseconds since 1970
// UTC. The time that its methods take does not grow with the number of
// instants.
type grid interface {
	// next returns the first instant strictly after another.
	next(after int64) (int64, bool)
	// last returns the last instant in (after, to].
	last(after, to int64) (int64, bool)
	// count returns the number of instants in (after, to].
	count(after, to int64) int64
}

// everyGrid is anchor + every, anchor + 2 every, and so on forever.
type everyGrid struct{ anchor, every int64 }

// upTo is the number of instants up to at.
func (g everyGrid) upTo(at int64) int64 { return max(0, floorDiv(at-g.anchor, g.every)) }

func (g everyGrid) next(after int64) (int64, bool) {
	return g.anchor + (g.upTo(after)+1)*g.every, true
}

func (g everyGrid) last(after, to int64) (int64, bool) {
	return g.anchor + g.upTo(to)*g.every, g.count(after, to) > 0
}

func (g everyGrid) count(after, to int64) int64 { return max(0, g.upTo(to)-g.upTo(after)) }

// cronSeconds is how far ahead the next instant of a cron expression is
// searched. The longest wait is from one 29 February to the next across a year
// without one, such as 2100.
const cronSeconds = 9 * 366 * daySeconds

// cronGrid is the instants of a cron expression: whole seconds.
type cronGrid struct{ clock wallClock }

func (g *cronGrid) next(after int64) (int64, bool) {
	from := floorDiv(after, 1000) + 1
	at, ok := g.clock.first(from, from+cronSeconds)
	return at * 1000, ok
}

func (g *cronGrid) last(after, to int64) (int64, bool) {
	at, ok := g.clock.last(floorDiv(after, 1000)+1, floorDiv(to, 1000)+1)
	return at * 1000, ok
}

func (g *cronGrid) count(after, to int64) int64 {
	return g.clock.count(floorDiv(after, 1000)+1, floorDiv(to, 1000)+1)
}

// jitterGrid delays each instant of another grid, the plain grid. However large
// the jitter, a delayed instant comes before the next plain one. So the order is
// the same, and a delayed instant belongs to the last plain one up to it.
type jitterGrid struct {
	plain  grid
	id     string
	jitter int64
}

// late returns when the plain instant at is due.
func (g jitterGrid) late(at int64) int64 {
	span := g.jitter
	if next, ok := g.plain.next(at); ok {
		span = min(span, next-at)
	}
	return at + delay(g.id, at, span)
}

func (g jitterGrid) next(after int64) (int64, bool) {
	if plain, ok := g.plain.last(after-g.jitter, after); ok && g.late(plain) > after {
		return g.late(plain), true
	}
	plain, ok := g.plain.next(after)
	if !ok {
		return 0, false
	}
	return g.late(plain), true
}

func (g jitterGrid) last(after, to int64) (int64, bool) {
	for end := to; ; {
		plain, ok := g.plain.last(after-g.jitter, end)
		if !ok {
			return 0, false
		}
		// Of the plain instants up to the end, only the last can be due after it.
		if late := g.late(plain); late <= to {
			return late, late > after
		}
		end = plain - 1
	}
}

func (g jitterGrid) count(after, to int64) int64 {
	if after >= to {
		return 0
	}
	return g.plain.count(after, to) + g.open(after) - g.open(to)
}

// open returns 1 if, at that time, a plain instant has passed and its delayed one
// has not, and otherwise 0.
func (g jitterGrid) open(at int64) int64 {
	if plain, ok := g.plain.last(at-g.jitter, at); ok && g.late(plain) > at {
		return 1
	}
	return 0
}

// delay returns a pseudo-random number below span, always the same for an id and
// an instant.
func delay(id string, at, span int64) int64 {
	if span <= 1 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(at)))
	// Instants that differ little have hashes whose low bits differ little;
	// multiplying and folding spreads them.
	x := h.Sum64()
	x = (x ^ x>>31) * 0x9e3779b97f4a7c15
	return int64((x ^ x>>29) % uint64(span))
}
