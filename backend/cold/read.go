package cold

import (
	"context"
	"errors"
	"iter"
	"sort"

	"github.com/tidemark-sessions/tidemark"
)

// Lines yields the lines of a log, wherever they are. Those of a segment that is
// missing or was changed are each a *tidemark.Damage; a place that does not answer
// ends the reading with ErrStorage.
func (b *Backend) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if hidden(log.Kind) {
		return func(func(tidemark.Line, error) bool) {}
	}
	if len(spans) == 0 {
		spans = []tidemark.Span{{}}
	}
	return func(yield func(tidemark.Line, error) bool) {
		rest := spans
		for len(rest) > 0 {
			var t *tidemark.TrimmedError
			for l, err := range b.inner.Lines(ctx, log, rest...) {
				if err != nil && errors.As(err, &t) {
					break
				}
				if !yield(l, err) {
					return
				}
			}
			if t == nil {
				return
			}
			hot := tidemark.Span{From: t.Upto + 1, To: t.Last, Backwards: rest[t.Span].Backwards}
			rest = rest[t.Span+1:]
			c := coldReader{b: b, ctx: ctx, log: log, yield: yield}
			switch isHot := t.Last > t.Upto; {
			case !hot.Backwards:
				if !c.forwards(t.First, min(t.Last, t.Upto)) {
					return
				}
				if isHot {
					rest = append([]tidemark.Span{hot}, rest...)
				}
			case isHot && !each(b.Lines(ctx, log, hot), yield), !c.backwards(min(t.Last, t.Upto), t.First):
				return
			}
		}
	}
}

// each hands on what is read, and reports whether to go on.
func each(lines iter.Seq2[tidemark.Line, error], yield func(tidemark.Line, error) bool) bool {
	for l, err := range lines {
		if !yield(l, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return false
		}
	}
	return true
}

// coldReader yields lines that are not in the Backend underneath.
type coldReader struct {
	b     *Backend
	ctx   context.Context
	log   tidemark.Key
	yield func(tidemark.Line, error) bool
	found whereabouts
	read  bool
}

// at returns the segment that has a line; ok is false when the line is back in the
// Backend underneath, or nobody knows where it is.
func (c *coldReader) at(seq int64) (s Segment, ok bool, err error) {
	for fresh := false; ; fresh = true {
		if !c.read || fresh {
			if c.found, err = c.b.find(c.ctx, c.log); err != nil {
				return s, false, err
			}
			c.read = true
		}
		all := c.found.Segments
		i := sort.Search(len(all), func(i int) bool { return all[i].Last >= seq })
		if i < len(all) && all[i].First <= seq {
			return all[i], true, nil
		}
		if fresh {
			return s, false, nil
		}
	}
}

func (c *coldReader) fail(err error) bool {
	c.yield(tidemark.Line{}, err)
	return false
}

// forwards yields first to last, and reports whether to go on.
func (c *coldReader) forwards(first, last int64) bool {
	return c.run(first, last, 1)
}

func (c *coldReader) backwards(from, to int64) bool {
	return c.run(from, to, -1)
}

func (c *coldReader) run(next, end, step int64) bool {
	for idle := 0; (end-next)*step >= 0 && idle < tries; idle++ {
		s, ok, err := c.at(next)
		if err != nil {
			return c.fail(err)
		}
		if !ok {
			was := next
			if !c.back(&next, end, step) {
				return false
			}
			if c.read = false; next != was {
				idle = 0
			}
			continue
		}
		lines, err := c.b.segment(c.ctx, c.log, s)
		var gone *goneError
		if errors.As(err, &gone) && c.moved() {
			c.read = false
			continue
		}
		if err != nil && gone == nil {
			return c.fail(err)
		}
		idle = 0
		for ; (end-next)*step >= 0 && next >= s.First && next <= s.Last; next += step {
			var l tidemark.Line
			if gone != nil {
				l, err = c.bad(next, c.b.where(c.log, s), gone.what)
			} else {
				l = lines[next-s.First]
				l.Body, l.Chain = append([]byte(nil), l.Body...), append([]byte(nil), l.Chain...)
			}
			if !c.yield(l, err) {
				return false
			}
		}
	}
	if (end-next)*step >= 0 {
		return c.fail(tidemark.Conflictf("%s: is moved by others all the time", c.log))
	}
	return true
}

func (c *coldReader) bad(seq int64, place, what string) (tidemark.Line, error) {
	return tidemark.Line{Seq: seq}, &tidemark.Damage{Key: c.log, Seq: seq, Place: place, What: what}
}

// moved reports whether the record changed since it was read: a segment that is
// missing may not be the one of its lines any more.
func (c *coldReader) moved() bool {
	now, err := c.b.find(c.ctx, c.log)
	return err == nil && !c.found.says(now)
}

// back yields lines that no segment has, since they are in the Backend underneath
// again, and reports whether to go on. It is damage only when neither the record nor
// the log changed while it looked at both.
func (c *coldReader) back(next *int64, end, step int64) bool {
	r, err := c.b.inner.Get(c.ctx, c.log)
	if errors.Is(err, tidemark.ErrNotFound) || err == nil && r.Head.Length < min(*next, end) {
		*next = end + step // it was dropped
		return true
	}
	if err != nil {
		return c.fail(err)
	}
	span := tidemark.Span{From: *next, To: end}
	if step < 0 {
		span = tidemark.Span{From: max(end, r.Head.Trimmed+1), To: *next, Backwards: true}
	}
	if *next <= r.Head.Trimmed {
		now, err := c.b.find(c.ctx, c.log)
		if err != nil {
			return c.fail(err)
		}
		if !c.found.says(now) {
			return true
		}
		seq := *next
		*next += step
		return c.yield(c.bad(seq, keyOf(c.log).String(), "nothing says where it was moved to"))
	}
	for l, err := range c.b.inner.Lines(c.ctx, c.log, span) {
		var t *tidemark.TrimmedError
		if errors.As(err, &t) {
			return true // it was moved once more
		}
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return c.fail(err)
		}
		if !c.yield(l, err) {
			return false
		}
		*next = l.Seq + step
	}
	return true
}

// segment returns the lines of a segment. A *goneError: it is missing, or another one.
func (b *Backend) segment(ctx context.Context, log tidemark.Key, s Segment) ([]tidemark.Line, error) {
	p := b.places
	if lines := p.remembered(s.SHA256); lines != nil {
		p.counts.remembered.Add(1)
		return lines, nil
	}
	var data []byte
	var err error
	if s.isHere() {
		data, err = b.fetchHere(ctx, log, s)
	} else {
		data, err = p.fetch(ctx, s)
	}
	var lines []tidemark.Line
	if err == nil {
		lines, err = p.unpack(log, s, data)
	}
	switch gone := (*goneError)(nil); {
	case err == nil:
		p.counts.reads.Add(1)
		p.counts.read.Add(int64(len(data)))
	case errors.As(err, &gone):
		p.counts.damaged.Add(1)
	case errors.Is(err, tidemark.ErrColdAway):
		p.counts.failedReads.Add(1)
	}
	return lines, err
}
