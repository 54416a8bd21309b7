package index

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// Where much is to be indexed, several goroutines gather: each reads runs of lines, and
// makes segments of its own. Nothing is handed from one to the other but which lines are
// to be read, so that as many processors are busy as there are, with one long log as
// with many short ones. Together they take as much memory as one that is alone.

// help says who helps with a large catching up.
type help struct {
	many int   // goroutines
	from int64 // after how many lines: fewer are there in a moment, and become one segment
	task int64 // how many lines are read at a time
}

const (
	helpFrom = 4000
	// maxHelpers bounds how small the segments become that each makes.
	maxHelpers = 4
	taskLines  = 500
	// helpRoom is how much of its part of the memory a helper fills with words: while a
	// segment is written, others are still being gathered.
	helpRoom = 0.5
)

func defaultHelp() help {
	return help{many: min(runtime.GOMAXPROCS(0), maxHelpers), from: helpFrom, task: taskLines}
}

// needsHelp reports whether so much was gathered alone that others had better help. Only
// who has the lease calls others: without it, what is done may be done in vain.
func (g *gathering) needsHelp() bool {
	return g.p.Alone && !g.handed && g.crew == nil && g.ix.help.many > 1 && *g.total+g.lines >= g.ix.help.from
}

// crew is those who gather for a gathering, which only says what.
type crew struct {
	ctx     context.Context
	cancel  context.CancelFunc
	src     Source
	tasks   chan task
	working sync.WaitGroup
	sent    map[string]int64 // by the name of a log: up to which line all are indexed or sent

	mu      sync.Mutex
	g       *gathering // what they share of it: v, and who is told of progress
	seen    int64      // lines that were gathered
	indexed int64      // of them, those that are in segments
	err     error      // the first
}

// task is lines to be gathered.
type task struct {
	log  tidemark.Key
	span segment.Span
}

// call has others gather from here on. What was gathered so far is continued by one of
// them; the notes stay, because the lines that they are about may go to any of them.
func (g *gathering) call(ctx context.Context, src Source) error {
	if g.v.version == 0 { // two who begin an index at once would take each other for others
		if err := g.write(ctx, time.Time{}, new(gathered)); err != nil {
			return err
		}
	}
	c := &crew{src: src, tasks: make(chan task), sent: make(map[string]int64), g: g, seen: g.lines}
	c.ctx, c.cancel = context.WithCancel(ctx)
	for name, spans := range g.covered {
		c.sent[name] = spans[len(spans)-1].To
	}
	one := g.gathered
	g.crew, g.gathered = c, begun(nil)
	g.notes, one.notes = one.notes, nil
	for i := range g.ix.help.many {
		if i > 0 {
			one = begun(nil)
		}
		h := &helper{crew: c, gathered: one, bytes: int(float64(g.p.Bytes) * helpRoom / float64(g.ix.help.many))}
		c.working.Go(func() {
			if err := h.work(); err != nil {
				c.fail(err)
			}
		})
	}
	return nil
}

// send has lines gathered.
func (c *crew) send(log tidemark.Key, span segment.Span) error {
	most := c.g.ix.help.task
	for from := span.From; from <= span.To; from += most {
		select {
		case c.tasks <- task{log, segment.Span{From: from, To: min(span.To, from+most-1)}}:
		case <-c.ctx.Done():
			return c.ended()
		}
	}
	return nil
}

// missing returns which lines of a log are neither in the index nor sent.
func (c *crew) missing(ctx context.Context, log Log) ([]segment.Span, error) {
	one := c.own()
	spans, err := one.missing(ctx, log)
	if err != nil {
		return nil, err
	}
	c.adopt(one.v)
	if sent := c.sent[nameOf(log.Key)]; sent > 0 {
		spans = segment.Less(spans, []segment.Span{{From: 1, To: sent}})
	}
	return spans, nil
}

// own returns the gathering for one of several who use it at once, with nothing
// gathered.
func (c *crew) own() *gathering {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.g
	return &gathering{ix: g.ix, v: g.v, p: g.p, total: new(int64), epoch: g.epoch}
}

// adopt has the others go on with a snapshot, if it is newer than theirs.
func (c *crew) adopt(v *snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.version > c.g.v.version {
		c.g.v = v
	}
}

func (c *crew) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.cancel()
}

// ended returns why no more is gathered.
func (c *crew) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return c.ctx.Err()
}

// wait waits until all that was sent is indexed. The gathering goes on alone.
func (g *gathering) wait() error {
	if g.crew == nil {
		return nil
	}
	c := g.crew
	close(c.tasks)
	c.working.Wait()
	g.crew = nil
	*g.total += c.indexed
	err := c.ended()
	c.cancel()
	return err
}

// dismiss ends those who still gather. What they have not put is left to the next.
func (g *gathering) dismiss() {
	if g.crew != nil {
		g.crew.cancel()
		_ = g.wait()
	}
}

// helper is one of a crew.
type helper struct {
	*crew
	gathered
	bytes int // of a segment

	log   tidemark.Key // whose words these are
	words Words
}

func (h *helper) work() error {
	for t := range h.tasks {
		if err := h.ctx.Err(); err != nil {
			return err
		}
		if err := h.gather(t); err != nil {
			return err
		}
	}
	if err := h.ctx.Err(); err != nil || len(h.covered) == 0 {
		return err
	}
	return h.write()
}

// gather adds lines as read does.
func (h *helper) gather(t task) (err error) {
	if h.words == nil || h.log != t.log {
		if h.words, err = h.src.Words(h.ctx, t.log); err != nil {
			return err
		}
		h.log = t.log
	}
	name, next := nameOf(t.log), t.span.From
	for l, err := range h.src.Lines(h.ctx, t.log, tidemark.Span{From: t.span.From, To: t.span.To}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if l.Seq != next {
			return nil // it is another log by now
		}
		next++
		enough := h.add(t.log, name, l, h.words, err == nil, h.bytes)
		h.count()
		if enough {
			if err := h.write(); err != nil {
				return err
			}
		}
	}
	return nil
}

// count tells of progress, one at a time.
func (h *helper) count() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen++; h.seen%progressLines == 0 {
		h.g.p.Progress(*h.g.total + h.seen)
	}
}

// write makes a segment of what was gathered, and has it count.
func (h *helper) write() error {
	g := h.own()
	if err := g.write(h.ctx, time.Time{}, &h.gathered); err != nil {
		return err
	}
	h.adopt(g.v)
	h.mu.Lock()
	h.indexed += h.lines
	h.mu.Unlock()
	h.gathered = begun(h.b)
	return nil
}
