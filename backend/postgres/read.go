package postgres

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// A page is read at once and then yielded without holding a connection. The byte
// limit bounds the memory of a page of large bodies.
const (
	pageRows  = 256
	pageBytes = 1 << 20
)

// recordColumns are those of a record r and the head of its log l, either of
// which may be missing.
const recordColumns = `coalesce(r.version, 0) as version, coalesce(r."group", '') as grp, coalesce(r.state, '') as state, r.due, r.updated,
  coalesce(r.batch, '') as batch, coalesce(r.sum, 0) as sum, r.body,
  coalesce(l.length, 0) as length, l.updated as grown, coalesce(l.parent, 0) as parent, coalesce(l.depth, 0) as depth,
  coalesce(l.nodes, 0) as nodes, coalesce(l.turn, 0) as turn, l.chain, coalesce(l.trimmed, 0) as trimmed`

const sqlGet = `select $2::uuid, ` + recordColumns + ` from (select) one
  left join tidemark.record r on r.tenant = $1 and r.owner = $2 and r.kind = $3 and r.id = $4
  left join tidemark.log l on l.tenant = $1 and l.owner = $2 and l.kind = $3 and l.id = $4`

// sqlGetScoped is sqlGet for what is shared with a scope alone.
const sqlGetScoped = `select $2::uuid, ` + recordColumns + ` from (select) one
  left join tidemark.record r on r.tenant = $1 and r.owner = $2 and r.kind = $3 and r.id = $4 and r.scope = $5
  left join tidemark.log l on l.tenant = $1 and l.owner = $2 and l.kind = $3 and l.id = $4 and l.scope = $5`

// sqlOthers are the other owners whose session an id leads to when the principal
// has none of that id: the tenant itself, and those who share theirs. The first
// to share comes first. A principal that has a session of that id gets nothing
// of others by it: what they keep under the id would seem to belong to that
// session.
const sqlOthers = `(select o.owner, o.since from (
    select s.owner, s.since from tidemark.share s where s.tenant = $1 and s.session = $5 and s.owner <> $2
    union all select $1::uuid, '-infinity'::timestamptz) o
  where not exists (select from tidemark.record m where m.tenant = $1 and m.owner = $2 and m.kind = 'session' and m.id = $5::uuid::text))`

const sqlGetShared = `select o.owner, ` + recordColumns + ` from ` + sqlOthers + ` o
  left join lateral (select * from tidemark.record r where r.tenant = $1 and r.owner = o.owner and r.kind = $3 and r.id = $4 limit 1) r on true
  left join lateral (select * from tidemark.log l where l.tenant = $1 and l.owner = o.owner and l.kind = $3 and l.id = $4 limit 1) l on true
  where r.id is not null or l.id is not null order by o.since, o.owner limit 1`

// Get returns the principal's own record, or else one that another owner shares.
func (b *Backend) Get(ctx context.Context, key tidemark.Key) (r tidemark.Record, err error) {
	switch key.Kind {
	case kindLease, kindPulse:
		ctx = context.WithValue(ctx, readingKey{}, nil) // who holds a log is asked at the primary
	case kindCold:
		b.readingOf(ctx).stay(false) // and so is where its lines are, which it is then compared with
	}
	owner := b.whose()
	args := []any{b.who.tenant, owner, toText(key.Kind), toText(key.ID)}
	sql := sqlGet
	if b.scoped() {
		sql, args = sqlGetScoped, append(args, *b.keeps)
	}
	var damage error
	missing := func() bool { return damage == nil && r.Version == 0 && r.Head.Length == 0 }
	get := func(queue func(scan func(pgx.Rows) error, batch *pgx.Batch)) error {
		return b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
			queue(func(rows pgx.Rows) (err error) {
				r, damage, err = scanRecord(rows, key, &owner)
				return err
			}, batch)
		})
	}
	session := sessionOf(key)
	if b.of != nil {
		session = nil
	}
	// Sessions are mostly one's own. Of what else belongs to one, most is mostly not
	// there, and others are asked for it in the same round trip.
	together := session != nil && key.Kind != kindSession
	err = get(func(scan func(pgx.Rows) error, batch *pgx.Batch) {
		each(batch.Queue(sql, args...), scan)
		if together {
			each(batch.Queue(sqlGetShared, append(slices.Clone(args), *session)...), func(rows pgx.Rows) error {
				if !missing() {
					return nil
				}
				return scan(rows)
			})
		}
	})
	if err == nil && session != nil && !together && missing() {
		err = get(func(scan func(pgx.Rows) error, batch *pgx.Batch) {
			each(batch.Queue(sqlGetShared, append(args, *session)...), scan)
		})
	}
	if err != nil {
		return tidemark.Record{}, err
	}
	r.Owner = b.nameOf(owner)
	switch {
	case damage != nil:
		return tidemark.Record{Key: key}, damage
	case r.Version == 0 && r.Head.Length == 0:
		return tidemark.Record{}, tidemark.NotFoundf("%s: not found", key)
	}
	return r, nil
}

// scanRecord reads recordColumns, after the caller's own columns.
func scanRecord(rows pgx.Rows, key tidemark.Key, before ...any) (r tidemark.Record, damage, err error) {
	var due, updated, headUpdated *time.Time
	var sum int64
	r.Key = key
	h := &r.Head
	err = rows.Scan(append(before, &r.Version, &r.Group, &r.State, &due, &updated, &r.Batch, &sum, &r.Body,
		&h.Length, &headUpdated, &h.Position.Parent, &h.Position.Depth, &h.Position.Nodes, &h.Position.Turn, &h.Chain, &h.Trimmed)...)
	if err != nil {
		return r, nil, err
	}
	r.Group, r.State = fromText(r.Group), fromText(r.State)
	r.Due, r.UpdatedAt, h.UpdatedAt = timeIn(due), timeIn(updated), timeIn(headUpdated)
	r.Sum = uint32(sum)
	if updated != nil && (sum != int64(r.Sum) || r.Sum != r.Checksum() || r.Version < 1) {
		damage = &tidemark.Damage{Key: key, Place: "table record", What: "the record does not match its sum"}
	}
	return r, damage, nil
}

func timeIn(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// sqlLines reads the head of a log and a page of a span of its lines, in one
// statement, so that both are consistent. The running sum bounds the page: the
// length of a body is known without reading it. The numbers come first: under
// row security arithmetic inside a condition makes it a filter over all lines.
//
//	$5 from, $6 to (0: the newest), $7 newest n (0: all), $8 rows, $9 bytes
const sqlLines = `with h as materialized (select l.log, l.trimmed, s.last, greatest($5::bigint, 1, case when $7::bigint > 0 then s.last - $7::bigint + 1 else 1 end) as first
    from tidemark.log l cross join lateral (select case when $6::bigint = 0 then l.length else least($6::bigint, l.length) end as last) s
    where l.tenant = $1 and l.owner = $2 and l.kind = $3 and l.id = $4)
  select h.first, h.last, h.trimmed, h.log, n.seq, n.kind, n.key, n.at, n.parent, n.depth, n.nodes, n.turn, n.chain, n.batch, n.sum, n.body from h
  left join lateral (select p.*, sum(octet_length(p.body)) over (order by p.seq %[1]s) - octet_length(p.body) as before
    from (select * from tidemark.line n where n.tenant = $1 and n.owner = $2 and n.log = h.log and n.seq between h.first and h.last
      order by n.seq %[1]s limit $8) p) n on n.before < $9
  order by n.seq %[1]s`

var sqlForwards, sqlBackwards = fmt.Sprintf(sqlLines, "asc"), fmt.Sprintf(sqlLines, "desc")

// sqlWhose finds a readable log of any other owner, sqlTheirs that of a named
// owner, sqlScoped if it is shared with a scope.
const (
	sqlWhose = `select l.owner, l.log from ` + sqlOthers + ` o
  cross join lateral (select l.owner, l.log from tidemark.log l where l.tenant = $1 and l.owner = o.owner and l.kind = $3 and l.id = $4 limit 1) l
  where not exists (select from tidemark.record r where r.tenant = $1 and r.owner = $2 and r.kind = $3 and r.id = $4)
  order by o.since, o.owner limit 1`
	sqlTheirs = `select l.owner, l.log from tidemark.log l where l.tenant = $1 and l.owner = $2 and l.kind = $3 and l.id = $4 and l.session is not distinct from $5`
	sqlScoped = sqlTheirs + ` and l.scope = $6`
)

func (b *Backend) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if len(spans) == 0 {
		spans = []tidemark.Span{{}}
	}
	if b.auditor() {
		return b.actLines(ctx, log, spans)
	}
	return func(yield func(tidemark.Line, error) bool) {
		p := pager{b: b, key: log, owner: b.whose()}
		if seqs := scattered(spans); seqs != nil && p.owner == b.who.user {
			if there, goOn := p.some(ctx, spans, seqs, yield); there || !goOn {
				return
			}
		}
		for i, span := range spans {
			p.index = i
			p.begin(span)
			for !p.done {
				if err := p.next(ctx); err != nil {
					yield(tidemark.Line{}, err)
					return
				}
				for _, f := range p.found {
					if !yield(f.line, f.err) {
						return
					}
				}
			}
		}
	}
}

// maxScattered is how many lines are named one by one.
const maxScattered = 256

// scattered returns the lines that several short spans have together, one after the
// other, nil when they are not such: blocks of the search index, hits in one session.
func scattered(spans []tidemark.Span) (seqs []int64) {
	if len(spans) < 2 {
		return nil
	}
	for _, s := range spans {
		if s.From < 1 || s.To < s.From || s.Newest > 0 || s.Backwards || int64(len(seqs))+s.To-s.From >= maxScattered ||
			len(seqs) > 0 && s.From <= seqs[len(seqs)-1] {
			return nil
		}
		for seq := s.From; seq <= s.To; seq++ {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

// sqlSome reads the head of a log and lines that are named, bounded as sqlLines. Each
// is looked for by itself: the planner would rather go through all of the log.
const sqlSome = `with h as materialized (select l.log, l.length, l.trimmed from tidemark.log l where l.tenant = $1 and l.owner = $2 and l.kind = $3 and l.id = $4)
  select h.length, h.length, h.trimmed, h.log, n.seq, n.kind, n.key, n.at, n.parent, n.depth, n.nodes, n.turn, n.chain, n.batch, n.sum, n.body from h
  left join lateral (select p.*, sum(octet_length(p.body)) over (order by p.seq) - octet_length(p.body) as before
    from (select n.* from unnest($5::bigint[]) u(seq) cross join lateral (
      select * from tidemark.line n where n.tenant = $1 and n.owner = $2 and n.log = h.log and n.seq = u.seq limit 1) n) p) n on n.before < $6`

// some yields the lines of one's own log that are named, in that order, and reports
// whether there is such a log, and whether whoever reads goes on.
func (p *pager) some(ctx context.Context, spans []tidemark.Span, seqs []int64, yield func(tidemark.Line, error) bool) (there, goOn bool) {
	for len(seqs) > 0 {
		var length, last, trimmed int64
		got := make(map[int64]foundLine)
		err := p.b.query(ctx, p.names, func(batch *pgx.Batch) {
			there, last = false, 0
			clear(got)
			each(batch.Queue(sqlSome, p.b.who.tenant, p.owner, toText(p.key.Kind), toText(p.key.ID), seqs, int64(pageBytes)), func(rows pgx.Rows) error {
				there = true
				f, err := p.scan(rows, &length, &length, &trimmed)
				if err == nil && f.line.Seq != 0 {
					got[f.line.Seq], last = f, max(last, f.line.Seq)
				}
				return err
			})
		})
		if err != nil {
			yield(tidemark.Line{}, err)
			return there, false
		}
		if !there {
			return false, true
		}
		if seqs[0] <= min(trimmed, length) {
			i := slices.IndexFunc(spans, func(s tidemark.Span) bool { return s.To >= seqs[0] })
			yield(tidemark.Line{}, &tidemark.TrimmedError{Log: p.key, Upto: trimmed, Span: i, First: seqs[0], Last: min(spans[i].To, length)})
			return true, false
		}
		// Behind the last that came, those may follow that did not fit.
		for len(seqs) > 0 && (last == 0 || seqs[0] <= last || seqs[0] > length) {
			f, read := got[seqs[0]]
			if !read {
				f = foundLine{tidemark.Line{Seq: seqs[0]}, p.damage(seqs[0], "the line is missing")}
			}
			if seqs[0] <= length && !yield(f.line, f.err) {
				return true, false
			}
			seqs = seqs[1:]
		}
	}
	return there, true
}

// pager reads spans, page after page. The log is looked up for every page: it
// may have been dropped since the last one.
type pager struct {
	b     *Backend
	key   tidemark.Key
	owner id
	names namedLogs // set for a log of another owner

	from, to, newest int64 // what is still to be read, as in a Span
	index            int   // of the span
	back             bool
	done             bool
	found            []foundLine
}

type foundLine struct {
	line tidemark.Line
	err  error
}

func (p *pager) begin(s tidemark.Span) {
	p.from, p.to, p.newest, p.back = max(s.From, 1), s.To, int64(max(s.Newest, 0)), s.Backwards
	p.done = s.To < 0 || s.To != 0 && s.To < s.From
}

func (p *pager) next(ctx context.Context) error {
	if p.owner == p.b.who.user || p.names.logs != nil {
		if there, err := p.page(ctx); err != nil || there {
			return err
		}
	}
	p.done = true
	session := sessionOf(p.key)
	segment := p.b.of != nil && p.key.Kind == tidemark.KindSegment // of the index of a scope
	if session == nil && !segment || p.names.logs != nil || p.b.of != nil && p.owner == p.b.who.user {
		return nil
	}
	sql, args := sqlWhose, []any{p.b.who.tenant, p.owner, p.key.Kind, p.key.ID, session}
	switch {
	case p.b.scoped():
		sql, args = sqlScoped, append(args, *p.b.keeps)
	case p.b.of != nil:
		sql = sqlTheirs
	}
	err := p.b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
		p.names = namedLogs{}
		each(batch.Queue(sql, args...), func(rows pgx.Rows) error {
			p.names.logs = make([]id, 1)
			return rows.Scan(&p.names.of, &p.names.logs[0])
		})
	})
	if err != nil || p.names.logs == nil {
		return err
	}
	p.owner = p.names.of
	_, err = p.page(ctx)
	return err
}

// page reads a page, and reports whether the log exists.
func (p *pager) page(ctx context.Context) (there bool, err error) {
	sql := sqlForwards
	if p.back {
		sql = sqlBackwards
	}
	var first, last, trimmed int64
	err = p.b.query(ctx, p.names, func(batch *pgx.Batch) {
		there, p.found = false, p.found[:0]
		q := batch.Queue(sql, p.b.who.tenant, p.owner, toText(p.key.Kind), toText(p.key.ID), p.from, p.to, p.newest, int64(pageRows), int64(pageBytes))
		each(q, func(rows pgx.Rows) error {
			there = true
			f, err := p.scan(rows, &first, &last, &trimmed)
			if err == nil && f.line.Seq != 0 {
				p.found = append(p.found, f)
			}
			return err
		})
	})
	if err != nil || !there {
		return there, err
	}
	if first <= min(trimmed, last) {
		return true, &tidemark.TrimmedError{Log: p.key, Upto: trimmed, Span: p.index, First: first, Last: last}
	}
	p.settle(first, last)
	return true, nil
}

func (p *pager) scan(rows pgx.Rows, first, last, trimmed *int64) (f foundLine, err error) {
	return scanLine(rows, func() tidemark.Key { return p.key }, first, last, trimmed)
}

// scanLine reads a line, after the caller's own columns, which may say of which log.
func scanLine(rows pgx.Rows, log func() tidemark.Key, before ...any) (f foundLine, err error) {
	var id id
	var seq, parent, depth, nodes, turn, sum *int64
	var kind, key, batch *string
	var at *time.Time
	l := &f.line
	err = rows.Scan(append(before, &id, &seq, &kind, &key, &at, &parent, &depth, &nodes, &turn, &l.Chain, &batch, &sum, &l.Body)...)
	if err != nil || seq == nil {
		return f, err
	}
	l.Seq, l.Kind, l.At, l.Batch = *seq, fromText(*kind), at.UTC(), *batch
	if key != nil {
		l.Key = fromText(*key)
	}
	l.Position = tidemark.Position{Parent: *parent, Depth: *depth, Nodes: *nodes, Turn: *turn}
	if l.Sum = uint32(*sum); *sum != int64(l.Sum) || l.Sum != l.Checksum(log()) {
		return foundLine{tidemark.Line{Seq: *seq}, damagedLine(log(), *seq, "the line does not match its sum")}, nil
	}
	return f, nil
}

func damagedLine(log tidemark.Key, seq int64, what string) error {
	return &tidemark.Damage{Key: log, Seq: seq, Place: "table line", What: what}
}

func (p *pager) damage(seq int64, what string) error {
	return damagedLine(p.key, seq, what)
}

// settle puts a damage in the place of each missing line, and notes what is
// still to be read.
func (p *pager) settle(first, last int64) {
	if first > last {
		p.done, p.found = true, nil
		return
	}
	step, want, end := int64(1), first, last
	if p.back {
		step, want, end = -1, last, first
	}
	got := p.found
	if n := len(got); n > 0 {
		end = got[n-1].line.Seq // a page may end before the span does
	}
	whole := len(got) == int(last-first+1)
	if !whole || len(got) > 0 && got[0].line.Seq != want {
		p.found = nil
		for _, f := range got {
			for ; want != f.line.Seq; want += step {
				p.found = append(p.found, foundLine{tidemark.Line{Seq: want}, p.damage(want, "the line is missing")})
			}
			p.found = append(p.found, f)
			want += step
		}
		if len(got) == 0 { // no line follows: the rest of the span is missing
			if last-first >= pageRows {
				end = want + step*(pageRows-1)
			}
			for ; want != end+step; want += step {
				p.found = append(p.found, foundLine{tidemark.Line{Seq: want}, p.damage(want, "the line is missing")})
			}
		}
	}
	p.newest = 0
	if p.back {
		p.from, p.to = first, end-1
		p.done = p.to < first
	} else {
		p.from, p.to = end+1, last
		p.done = p.from > last
	}
}
