package remote

import (
	"context"
	"errors"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// Get returns what the server keeps under key.
func (b *Backend) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if err := ctx.Err(); err != nil {
		return tidemark.Record{}, err
	}
	if key.Check() != nil {
		return tidemark.Record{}, tidemark.NotFoundf("%s: not found", key) // nothing can be kept under it
	}
	var item api.Element
	if err := b.roundTripInto(ctx, "get", api.KeyQuestion{Key: key}, &item, api.MaxItemBytes); err != nil {
		return tidemark.Record{}, err
	}
	if item.Record == nil || item.Record.Key != key {
		return tidemark.Record{}, b.badAnswer("get %s: another record", key)
	}
	return b.record(item.Record)
}

// record checks a record that a server sent.
func (b *Backend) record(w *api.Record) (tidemark.Record, error) {
	r := w.Record()
	switch {
	case r.Version < 0 || r.Head.Length < 0 || len(r.Head.Chain) > 64 || len(r.Group) > tidemark.MaxIDBytes || len(r.State) > tidemark.MaxIDBytes:
		return tidemark.Record{}, b.badAnswer("%s: a record that nobody could have put", r.Key)
	case len(r.Body) > tidemark.MaxBodyBytes:
		return tidemark.Record{}, b.badAnswer("%s: a body of %d bytes", r.Key, len(r.Body))
	case r.Version > 0 && r.Sum != r.Checksum():
		return tidemark.Record{Key: r.Key}, b.damaged(r.Key, 0)
	}
	return r, nil
}

// damaged is the error of a sum that does not match: the damage is on the server
// or happened on the way.
func (b *Backend) damaged(key tidemark.Key, seq int64) error {
	return &tidemark.Damage{Key: key, Seq: seq, Place: b.base.String(), What: "its sum does not match"}
}

// List yields the records that match q. When the answer is cut off, the rest is
// requested starting after the last record that came.
func (b *Backend) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		err := ctx.Err()
		if err == nil {
			_, err = api.ListQuestionOf(q)
		}
		if err != nil {
			yield(tidemark.Record{}, err)
			return
		}
		if (tidemark.Key{Kind: q.Kind, ID: "x"}).Check() != nil || !utf8.ValidString(q.Prefix+q.Group+q.State) {
			return // no record can match
		}
		q.Limit = max(q.Limit, 0)
		l := listing{b: b, q: q, torn: make(seen[string])}
		r := reading[tidemark.Record]{b: b, name: "list", rest: l.rest, take: l.take, over: func() { l.done = true }}
		r.run(ctx, yield)
	}
}

// listing is the progress of a List.
type listing struct {
	b    *Backend
	q    tidemark.Query
	n    int // records that came
	done bool
	// torn are the records since the cursor that could not be read: their place
	// in the order is unknown, so after a cut they come again.
	torn seen[string]
}

func (l *listing) rest() (any, bool) {
	q := l.q
	if q.Limit > 0 {
		q.Limit += len(l.torn) - l.n
	}
	w, _ := api.ListQuestionOf(q)
	return w, !l.done && (l.q.Limit == 0 || l.n < l.q.Limit)
}

func (l *listing) take(item api.Element) (found[tidemark.Record], error) {
	var f found[tidemark.Record]
	w := item.Record
	if w == nil || w.Kind != l.q.Kind || w.Key.Check() != nil {
		return f, l.b.badAnswer("list: not a record of kind %s", l.q.Kind)
	}
	if item.Problem != nil {
		var err error
		if f.again, err = l.torn.again(tidemark.SessionName(w.Owner, tidemark.SessionID(w.ID))); f.again || err != nil {
			return f, err
		}
	}
	if l.n++; l.q.Limit > 0 && l.n > l.q.Limit {
		return f, l.b.badAnswer("list: more than the %d records that were asked for", l.q.Limit)
	}
	f.v.Key, f.v.Owner = w.Key, w.Owner
	if item.Problem != nil {
		return f, nil
	}
	if w.Version == 0 {
		return f, l.b.badAnswer("list: %s has no version", w.Key)
	}
	r, err := l.b.record(w)
	switch {
	case errors.Is(err, tidemark.ErrCorrupt):
		f.damage = err
	case err != nil:
		return f, err
	default:
		f.v = r
	}
	after := w.Record()
	after.Body = nil
	l.q.After = &after
	clear(l.torn)
	return f, nil
}

// Lines yields the lines of a log. When the answer is cut off, the rest is
// requested starting after the last line that came.
func (b *Backend) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if len(spans) == 0 {
		spans = []tidemark.Span{{}}
	}
	return func(yield func(tidemark.Line, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(tidemark.Line{}, err)
			return
		}
		if log.Check() != nil {
			return // no log can have that name
		}
		p := place{b: b, log: log, spans: slices.Clone(spans)}
		r := reading[tidemark.Line]{b: b, name: "lines", rest: p.rest, take: p.take, over: p.over}
		r.run(ctx, yield)
	}
}

// place is the progress of Lines.
type place struct {
	b     *Backend
	log   tidemark.Key
	spans []tidemark.Span // what is still to be read, the first without the lines that came
	empty bool            // nothing is left of the first
	asked int             // how many spans the last request named
	base  int             // how many of those are finished
}

func (p *place) rest() (any, bool) {
	if p.empty {
		p.finish(1)
	}
	if len(p.spans) == 0 {
		return nil, false
	}
	q := api.LinesQuestion{Key: p.log}
	p.asked, p.base = min(len(p.spans), api.MaxSpans), 0
	for _, s := range p.spans[:p.asked] {
		q.Spans = append(q.Spans, api.Span(s))
	}
	return q, true
}

// over is called when everything requested was answered.
func (p *place) over() { p.finish(p.asked - p.base) }

// finish drops the first n spans.
func (p *place) finish(n int) {
	p.spans, p.base, p.empty = p.spans[n:], p.base+n, false
}

func (p *place) take(item api.Element) (found[tidemark.Line], error) {
	var f found[tidemark.Line]
	w := item.Line
	if w == nil || item.Span < p.base || item.Span >= p.asked {
		return f, p.b.badAnswer("lines of %s: not a line of a span that was asked for", p.log)
	}
	p.finish(item.Span - p.base)
	if !p.step(w.Seq) {
		return f, p.b.badAnswer("lines of %s: line %d is not in its place", p.log, w.Seq)
	}
	f.v.Seq = w.Seq
	if item.Problem != nil {
		return f, nil
	}
	l := w.Line()
	switch {
	case len(l.Body) > tidemark.MaxBodyBytes || len(l.Kind) > 32 || len(l.Key) > tidemark.MaxIDBytes || len(l.Chain) > 64:
		return f, p.b.badAnswer("lines of %s: line %d is one that nobody could have written", p.log, l.Seq)
	case l.Sum != l.Checksum(p.log):
		f.damage = p.b.damaged(p.log, l.Seq)
	default:
		f.v = l
	}
	return f, nil
}

// step removes a line, and what comes before it, from the first span, so that
// the span says what is left. It reports whether the line could come now. Which
// lines are the newest n is settled by the first that comes, whatever is
// appended meanwhile.
func (p *place) step(seq int64) bool {
	s := &p.spans[0]
	if p.empty || seq < max(s.From, 1) || s.To != 0 && seq > s.To {
		return false
	}
	if s.Backwards {
		if s.Newest > 0 {
			s.Newest--
			p.empty = s.Newest == 0
		}
		s.To = seq - 1
		p.empty = p.empty || s.To < max(s.From, 1)
		return true
	}
	if last := seq + int64(s.Newest) - 1; s.Newest > 0 && (s.To == 0 || s.To > last) {
		s.To = last
	}
	s.From, s.Newest = seq+1, 0
	p.empty = s.To != 0 && s.From > s.To
	return true
}
