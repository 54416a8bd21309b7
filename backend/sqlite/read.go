package sqlite

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// A page is read at once and then yielded without holding a connection. The byte
// limit bounds the memory of a page of large bodies.
const (
	pageRows  = 256
	pageBytes = 1 << 20
)

// snapshot runs use in one read transaction, so that what it reads is
// consistent.
func (b *Backend) snapshot(ctx context.Context, use func(*conn) error) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.leave()
	b.rest.used()
	return b.named(b.readers.read(ctx, func(c *conn) error {
		if err := c.do("BEGIN", nil, nil); err != nil {
			return err
		}
		defer c.do("COMMIT", nil, nil)
		return b.understood(c, use(c))
	}))
}

// understood returns err, which is what reading came to, unless what was read is in a
// format that this program does not know: a newer program may have upgraded the store
// since it was opened. It looks again only when the store has changed since it did.
func (b *Backend) understood(c *conn, err error) error {
	data := c.dataVersion()
	if err == nil && c.understood && data == c.data {
		return nil
	}
	have, lookErr := schemaVersion(c)
	if lookErr == nil {
		lookErr = tooNew(b.path, have, b.known)
	}
	c.understood, c.data = lookErr == nil, data
	if err != nil && isCorrupt(lookErr) {
		return err
	}
	return cmp.Or(lookErr, err)
}

func (b *Backend) Get(ctx context.Context, key tidemark.Key) (r tidemark.Record, err error) {
	err = b.snapshot(ctx, func(c *conn) error {
		r, err = get(c, key)
		return err
	})
	if err == nil && r.Version == 0 && r.Head.Length == 0 {
		return tidemark.Record{}, tidemark.NotFoundf("%s: not found", key)
	}
	return r, err
}

// get reads a record with the head of its log. What SQLite cannot read of either
// is a *Damage, because another key may still be readable.
func get(c *conn, key tidemark.Key) (tidemark.Record, error) {
	r, err := readRecord(c, key)
	return r, asDamage(err, key, "tables record and log")
}

func asDamage(err error, key tidemark.Key, place string) error {
	if isCorrupt(err) {
		return &tidemark.Damage{Key: key, Place: place, What: err.Error()}
	}
	return err
}

func (b *Backend) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if len(spans) == 0 {
		spans = []tidemark.Span{{}}
	}
	return func(yield func(tidemark.Line, error) bool) {
		room := pages.Get().(*[]found)
		defer func() {
			clear(*room) // who keeps a line keeps it alone
			pages.Put(room)
		}()
		r := spanReader{spans: spans, p: pager{log: log, span: spans[0], first: -1, found: *room}}
		for !r.done() {
			next := r
			err := b.snapshot(ctx, func(c *conn) error {
				next = r // it starts over when it is called again
				return next.next(c)
			})
			if err != nil {
				yield(tidemark.Line{}, err)
				return
			}
			r = next
			*room = r.p.found
			for i := range r.p.found {
				if !yield(r.p.found[i].line, r.p.found[i].err) {
					return
				}
			}
		}
	}
}

// spanReader reads spans one after the other: many small ones, as an index asks for, in one
// snapshot.
type spanReader struct {
	spans []tidemark.Span
	p     pager // of the span that is next
}

func (r *spanReader) done() bool { return r.p.index == len(r.spans) }

// next reads a page of the next span, and as many whole spans behind it as fit in.
func (r *spanReader) next(c *conn) error {
	r.p.found = r.p.found[:0]
	h, headErr := readHead(c, r.p.log)
	bytes := 0
	for first := true; ; first = false {
		had, before := len(r.p.found), r.p
		err := r.p.next(c, h, headErr)
		switch {
		case err != nil && !first: // what was read before that is yielded first
			r.p = before
			return nil
		case err != nil || !r.p.done:
			return err
		}
		for _, f := range r.p.found[had:] {
			bytes += len(f.line.Body)
		}
		r.p = pager{log: r.p.log, index: r.p.index + 1, first: -1, found: r.p.found}
		if r.done() {
			return nil
		}
		// What a span without an end has is what is there when its turn comes.
		r.p.span = r.spans[r.p.index]
		if n := r.p.span.To - r.p.span.From; r.p.span.To == 0 || len(r.p.found)+int(min(n, pageRows)) >= pageRows || bytes >= pageBytes {
			return nil
		}
	}
}

// pager reads one span, page after page.
type pager struct {
	log         tidemark.Key
	span        tidemark.Span
	index       int   // of the span
	first, last int64 // what is still to be read; first < 0: not known yet
	done        bool
	found       []found
}

type found struct {
	line tidemark.Line
	err  error
}

// pages are the rooms for the lines of a page.
var pages = sync.Pool{New: func() any { return new([]found) }}

// next reads a page, behind what was found before. The number of the log is looked up in
// every snapshot: the log may have been dropped since the last one, and its number may
// have been reused.
func (p *pager) next(c *conn, h head, err error) error {
	var damage *tidemark.Damage
	switch {
	case errors.As(err, &damage):
		// The lines themselves tell how many there are.
		if h.Length, err = newest(c, h.number); err != nil {
			return err
		}
		if p.first < 0 {
			p.found = append(p.found, found{err: damage})
		}
	case isCorrupt(err):
		p.done = true
		p.found = append(p.found, found{err: asDamage(err, p.log, "table log")})
		return nil
	case err != nil:
		return err
	}
	if p.first < 0 {
		p.first, p.last = p.span.Of(h.Length)
	}
	p.last = min(p.last, h.Length)
	if h.number == 0 || p.first > p.last {
		p.done = true
		return nil
	}
	if p.first <= h.Trimmed {
		return &tidemark.TrimmedError{Log: p.log, Upto: h.Trimmed, Span: p.index, First: p.first, Last: p.last}
	}
	return p.page(c, h.number)
}

func newest(c *conn, number int64) (n int64, err error) {
	err = c.do(`SELECT ifnull(max(id), 0) FROM line WHERE id BETWEEN ?1 AND ?2`, func(s *stmt) {
		s.setInt(1, number<<seqBits)
		s.setInt(2, number<<seqBits|maxSeq)
	}, func(s *stmt) { n = s.int(0) & maxSeq })
	if err != nil {
		return 0, err
	}
	arrived, err := arrivedOf(c, number)
	for seq := range arrived {
		n = max(n, seq)
	}
	return n, err
}

// The rest of each row is taken from its record, see record.go. A table of a damaged
// schema may be a view, whose rows have no record.
const (
	sqlForwards  = `SELECT id, kind FROM line WHERE id BETWEEN ?1 AND ?2 ORDER BY id`
	sqlBackwards = sqlForwards + ` DESC`

	sqlStandingForwards  = `SELECT ` + lineColumns + ` FROM line WHERE id BETWEEN ?1 AND ?2 ORDER BY id`
	sqlStandingBackwards = sqlStandingForwards + ` DESC`
)

func sqlPage(backwards, standing bool) string {
	switch {
	case backwards && standing:
		return sqlStandingBackwards
	case backwards:
		return sqlBackwards
	case standing:
		return sqlStandingForwards
	}
	return sqlForwards
}

// page reads up to pageRows lines from the near end of what is left. A line that
// is missing, or that SQLite cannot reach, is a *Damage in its place.
func (p *pager) page(c *conn, number int64) error {
	r := p.rows(c, number)
	s, err := c.prepare(sqlPage(p.span.Backwards, c.standing))
	if err != nil {
		return err
	}
	defer s.reset()
	r.rest(s)
	for r.bytes < pageBytes && r.want != r.end {
		more, err := s.step()
		if err == nil && !more {
			if err := r.missing(r.end); err != nil {
				return err
			}
			break
		}
		if err == nil {
			err = r.take(s)
		}
		if isCorrupt(err) {
			s.reset()
			return r.singly()
		}
		if err != nil {
			return err
		}
	}
	p.advance(r.want)
	return nil
}

// rows is the reading of a page.
type rows struct {
	p         *pager
	c         *conn
	number    int64
	sc        *scanner
	elsewhere absent
	from, to  int64
	step      int64
	want, end int64 // the next line, and the one behind the last
	bytes     int
}

func (p *pager) rows(c *conn, number int64) *rows {
	r := &rows{p: p, c: c, number: number, from: p.first, to: min(p.last, p.first+pageRows-1), step: 1}
	r.want, r.end = r.from, r.to+1
	if p.span.Backwards {
		r.from, r.to, r.step = max(p.first, p.last-pageRows+1), p.last, -1
		r.want, r.end = r.to, r.from-1
	}
	n := int(r.to - r.from + 1)
	p.found = slices.Grow(p.found, n)
	r.sc = &scanner{log: p.log, rows: n}
	r.elsewhere = absent{sc: r.sc, number: number}
	return r
}

// rest has the statement of sqlPage find what is left.
func (r *rows) rest(s *stmt) {
	from, to := r.from, r.to
	if r.step < 0 {
		to = r.want
	} else {
		from = r.want
	}
	s.setInt(1, r.number<<seqBits|from)
	s.setInt(2, r.number<<seqBits|to)
}

// missing adds the lines before one that is there.
func (r *rows) missing(until int64) error {
	for ; r.want != until; r.want += r.step {
		f, err := r.elsewhere.find(r.c, r.want)
		if err != nil {
			return err
		}
		r.p.found = append(r.p.found, f)
	}
	return nil
}

// take adds the row that step has reached, and those behind it on the same page of the
// file if they are many; the statement then goes on behind them.
func (r *rows) take(s *stmt) error {
	was := r.want
	l, err := r.sc.next(s)
	if err = r.add(l, err); err != nil || r.c.standing || r.want == was {
		return err
	}
	leaf, many := s.leaf()
	if !many {
		return nil
	}
	for r.bytes < pageBytes && r.want != r.end && leaf.move(int(r.step)) {
		id, record := leaf.row()
		f, ok := fieldsOf(record)
		if !ok || id>>seqBits != r.number {
			break
		}
		if l, ok = r.sc.lineOf(id, &f); !ok {
			break
		}
		if err := r.add(l, nil); err != nil {
			return err
		}
	}
	s.reset()
	r.rest(s)
	return nil
}

// add adds a line. An error that is no *Damage ends the page.
func (r *rows) add(l tidemark.Line, err error) error {
	if err != nil && !isDamage(err) {
		return err
	}
	if (l.Seq-r.want)*r.step < 0 || l.Seq < r.from || l.Seq > r.to {
		return nil // a damaged tree: out of order
	}
	if err := r.missing(l.Seq); err != nil {
		return err
	}
	r.p.found = append(r.p.found, found{l, err})
	r.want += r.step
	r.bytes += len(l.Body)
	return nil
}

// absent finds the lines of a log that are not in their places.
type absent struct {
	sc      *scanner
	number  int64
	arrived map[int64]tidemark.Line // nil: not read yet
}

// find returns a line that has arrived, or the *Damage of one that is missing.
func (a *absent) find(c *conn, seq int64) (f found, err error) {
	if a.arrived == nil {
		if a.arrived, err = arrivedOf(c, a.number); err != nil {
			return f, err
		}
	}
	if l, ok := a.arrived[seq]; ok {
		return a.sc.checked(a.number, l), nil
	}
	return found{tidemark.Line{Seq: seq}, a.sc.damage(a.number<<seqBits|seq, "the line is missing")}, nil
}

// singly looks for each line that is left by its id, because SQLite stopped at a
// damaged page of the file: the lines on other pages are still readable.
func (r *rows) singly() error {
	for ; r.want != r.end; r.want += r.step {
		id := r.number<<seqBits | r.want
		f, err := r.elsewhere.find(r.c, r.want)
		if err != nil {
			return err
		}
		err = r.c.do(sqlLine, func(s *stmt) { s.setInt(1, id) }, func(s *stmt) {
			if s.int(0) == id {
				f.line, f.err = r.sc.line(s)
			}
		})
		switch {
		case isCorrupt(err) && f.err != nil:
			f.err = r.sc.damage(id, err.Error())
		case isCorrupt(err):
		case err != nil:
			return err
		}
		r.p.found = append(r.p.found, f)
	}
	r.p.advance(r.want)
	return nil
}

// advance records that everything before seq, in the direction of the span, has
// been read.
func (p *pager) advance(seq int64) {
	if p.span.Backwards {
		p.last = seq
	} else {
		p.first = seq
	}
	p.done = p.first > p.last
}
