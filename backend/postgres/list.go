package postgres

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// listKeys is how many records a listing looks up at once. They are found at one
// moment and read in pages later, so a record that is touched while the listing
// runs keeps its place and is not missed. A longer listing continues after the
// last of them.
const listKeys = 1 << 14

// List yields the principal's own records and, of the kinds that belong to
// sessions, those that others share.
func (b *Backend) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		l := lister{b: b, q: q, left: q.Limit, seen: make(map[string]bool)}
		if q.Limit <= 0 {
			l.left = math.MaxInt
		}
		for !l.done {
			if err := l.next(ctx); err != nil {
				yield(tidemark.Record{}, err)
				return
			}
			for _, f := range l.found {
				if !yield(f.record, f.err) {
					return
				}
			}
		}
	}
}

// lister carries a listing from page to page.
type lister struct {
	b     *Backend
	q     tidemark.Query
	left  int             // how many more may be yielded
	refs  []ref           // found, in order, not yet read
	more  bool            // there may be more after refs
	seen  map[string]bool // ids of others' records: the first to share wins
	begun bool
	done  bool
	found []foundRecord
}

type foundRecord struct {
	record tidemark.Record
	err    error
}

// ref is a record's place in the order.
type ref struct {
	owner   id
	id      string
	touched time.Time
	due     *time.Time
}

func (l *lister) next(ctx context.Context) error {
	l.found = l.found[:0]
	if len(l.refs) == 0 {
		if l.begun && !l.more {
			l.done = true
			return nil
		}
		if err := l.look(ctx); err != nil {
			return err
		}
	}
	if err := l.page(ctx); err != nil {
		return err
	}
	l.done = l.left == 0 || len(l.refs) == 0 && !l.more
	return nil
}

// look fetches the next refs.
func (l *lister) look(ctx context.Context) error {
	want := min(l.left, listKeys)
	var refs []ref
	sql, args := refsOf(l.b, l.q, want)
	if sql == "" {
		l.begun, l.more = true, false
		return nil
	}
	err := l.b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
		refs = nil
		each(batch.Queue(sql, args...), func(rows pgx.Rows) error {
			var r ref
			err := rows.Scan(&r.owner, &r.id, &r.touched, &r.due)
			refs = append(refs, r)
			return err
		})
	})
	if err != nil {
		return err
	}
	l.begun, l.more = true, len(refs) == want && want < l.left
	if l.more {
		last := refs[len(refs)-1]
		l.q.After = &tidemark.Record{Key: tidemark.Key{Kind: l.q.Kind, ID: last.id}, UpdatedAt: last.touched.UTC(), Due: timeIn(last.due),
			Owner: l.b.nameOf(last.owner)}
	}
	l.refs = slices.DeleteFunc(refs, func(r ref) bool {
		if l.q.Each || r.owner == l.b.who.user {
			return false
		}
		again := l.seen[r.id]
		l.seen[r.id] = true
		return again
	})
	return nil
}

const sqlRecords = `select p.* from (
    select u.n, sum(octet_length(r.body)) over (order by u.n) - octet_length(r.body) as before, ` + recordColumns + `
    from unnest($2::uuid[], $4::text[]) with ordinality u(owner, id, n)
    cross join lateral (select * from tidemark.record r where r.tenant = $1 and r.owner = u.owner and r.kind = $3 and r.id = u.id limit 1) r
    left join lateral (select * from tidemark.log l where l.tenant = $1 and l.owner = u.owner and l.kind = $3 and l.id = u.id limit 1) l on true) p
  where p.before < $5 order by p.n`

// page reads the next of the records that were found.
func (l *lister) page(ctx context.Context) error {
	refs := l.refs[:min(len(l.refs), pageRows)]
	if len(refs) == 0 {
		return nil
	}
	owners, ids := make([]id, len(refs)), make([]string, len(refs))
	for i, r := range refs {
		owners[i], ids[i] = r.owner, r.id
	}
	now := l.q
	now.After = nil // it was after the cursor when it was found
	var last int64
	err := l.b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
		l.found, last = l.found[:0], 0
		each(batch.Queue(sqlRecords, l.b.who.tenant, owners, l.q.Kind, ids, int64(pageBytes)), func(rows pgx.Rows) error {
			var before int64
			var n int64
			values, err := rows.Values()
			if err != nil {
				return err
			}
			n, _ = values[0].(int64)
			r, damage, err := scanRecord(rows, tidemark.Key{Kind: l.q.Kind, ID: ids[n-1]}, &n, &before)
			if err != nil {
				return err
			}
			last, r.Owner = n, l.b.nameOf(owners[n-1])
			switch {
			case damage != nil:
				l.found = append(l.found, foundRecord{tidemark.Record{Key: r.Key, Owner: r.Owner}, damage})
			case now.Includes(r):
				l.found = append(l.found, foundRecord{record: r})
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	if last == 0 {
		last = int64(len(refs)) // all of them are gone
	}
	l.refs = l.refs[last:]
	l.found = l.found[:min(len(l.found), l.left)]
	l.left -= len(l.found)
	return nil
}

// statement is an SQL statement under construction.
type statement struct {
	strings.Builder
	args []any
}

// arg returns the name of a parameter with value v.
func (q *statement) arg(v any) string {
	q.args = append(q.args, v)
	return fmt.Sprintf("$%d", len(q.args))
}

// exactly is the exact time that a record r with the log l was touched.
const exactly = `greatest(r.updated, l.updated)`

// refsOf writes the query for the first n refs of the records that match q; ""
// when there can be none.
func refsOf(b *Backend, q tidemark.Query, n int) (sql string, args []any) {
	if strings.ContainsFunc(q.Prefix, func(r rune) bool { return r == 0 || r > 126 }) {
		return "", nil // no id begins like that
	}
	w := &statement{}
	tenant, me, limit := w.arg(b.who.tenant), w.arg(b.whose()), w.arg(n)
	where, order := w.filter(b, q), orderOf(q)
	const columns = `select r.owner, r.id, ` + exactly + ` as touched, r.due, r.touched as until
    from tidemark.record r left join lateral (select l.updated from tidemark.log l
      where l.tenant = r.tenant and l.owner = r.owner and l.kind = r.kind and l.id = r.id limit 1) l on true`
	part := func(whose string) string {
		return columns + ` where r.tenant = ` + tenant + whose + where + ` order by ` + order + ` limit ` + limit
	}
	mine := ` and r.owner = ` + me
	if b.scoped() {
		mine += ` and r.scope = ` + w.arg(*b.keeps)
	}
	w.WriteString(`select o.owner, o.id, o.touched, o.due from ((` + part(mine) + `)`)
	if b.of == nil && slices.Contains(sessionKinds, q.Kind) {
		notMine := ` and r.owner <> ` + me
		if !q.Each {
			notMine += ` and not exists (select from tidemark.record m
    where m.tenant = ` + tenant + ` and m.owner = ` + me + ` and m.kind = 'session' and m.id = r.session::text)`
		}
		if b.who.user != b.who.tenant && b.keeps == nil {
			w.WriteString(` union all (` + part(` and r.session is not null and r.owner = `+tenant+notMine) + `)`)
		}
		audience := b.audience()
		if b.keeps != nil {
			audience = b.also
		}
		scopes := w.arg(audience)
		w.WriteString(` union all select p.* from unnest(` + scopes + `::uuid[]) s(scope) cross join lateral (` +
			part(` and r.scope = s.scope and r.owner <> `+tenant+notMine) + `) p`)
	}
	outer := map[tidemark.Order]string{tidemark.Newest: `o.touched desc, o.id, o.owner`, tidemark.ByID: `o.id, o.owner`, tidemark.ByDue: `o.due, o.id, o.owner`}
	w.WriteString(`) o order by ` + outer[q.Order] + ` limit ` + limit)
	return w.String(), w.args
}

// orderOf lets PostgreSQL walk an index where it can: the windows of the column
// touched come in order, and only records of the same window are sorted.
func orderOf(q tidemark.Query) string {
	id := `r.id`
	if q.Order == tidemark.ByID && q.Prefix == "" && q.Group+q.State != "" {
		id = `r.id || ''` // found by an index for lists and sorted, not in the order of the key with the others in between
	}
	if q.Each {
		id += `, r.owner`
	}
	switch q.Order {
	case tidemark.ByID:
		return id
	case tidemark.ByDue:
		return `r.due, ` + id
	}
	return `r.touched desc, ` + exactly + ` desc, ` + id
}

// filter writes q's conditions, for what b may see.
func (w *statement) filter(b *Backend, q tidemark.Query) string {
	var s strings.Builder
	and := func(format string, args ...any) { fmt.Fprintf(&s, " and "+format, args...) }
	and(`r.kind = %s`, w.arg(toText(q.Kind)))
	if q.State != "" {
		and(`r.state = %s`, w.arg(toText(q.State)))
	}
	if q.Group != "" {
		and(`r."group" = %s`, w.arg(toText(q.Group)))
	}
	// An index for lists is taken by those statements alone that name its
	// condition; ids that begin alike are found by the primary key.
	switch {
	case q.Prefix != "":
	case q.Group != "" && q.State != "":
		and(`coalesce(r."group" <> '' and r.state <> '', false)`)
	case q.Group != "":
		and(`r."group" <> ''`)
	case q.State != "":
		and(`r.state <> ''`)
	case q.Order == tidemark.Newest:
		and(`r.touched > '-infinity'`)
	}
	if q.Prefix != "" {
		and(`r.id >= %s and r.id < %s`, w.arg(q.Prefix), w.arg(q.Prefix[:len(q.Prefix)-1]+string(rune(q.Prefix[len(q.Prefix)-1]+1))))
	}
	if q.Order == tidemark.ByDue {
		and(`r.due is not null`)
	}
	if !q.DueBy.IsZero() {
		and(`r.due <= %s`, w.arg(q.DueBy))
	}
	if q.After == nil {
		return s.String()
	}
	after := w.arg(toText(q.After.ID))
	behind := `r.id > ` + after
	if q.Each {
		last := b.who.user
		if whose, err := parseID("owner", q.After.Owner); err == nil {
			last = whose
		}
		behind = fmt.Sprintf(`(r.id, r.owner) > (%s, %s)`, after, w.arg(last))
	}
	switch q.Order {
	case tidemark.ByID:
		and(`%s`, behind)
	case tidemark.ByDue:
		due := w.arg(q.After.Due)
		and(`r.due >= %[1]s and (r.due > %[1]s or %[2]s)`, due, behind)
	default:
		at := q.After.Touched()
		end, t := w.arg(windowEnd(at)), w.arg(at)
		and(`r.touched <= %[1]s and (r.touched < %[1]s or %[2]s < %[3]s or %[2]s = %[3]s and %[4]s)`, end, exactly, t, behind)
	}
	return s.String()
}
