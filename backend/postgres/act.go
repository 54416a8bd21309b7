package postgres

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// act is a line of a log of tidemark.ActKind: a row of its own table, separate
// from the logs of its writer.
type act struct {
	node, boot, batch string
	line              *tidemark.Line
}

// takeActs removes from a batch the audit lines that are written with it. Lines
// from another store are adopted like any other log: they were not done here.
func (b *Backend) takeActs(batch *tidemark.Batch) (acts []act, err error) {
	if batch.Adopt || !slices.ContainsFunc(batch.Appends, func(a tidemark.Append) bool { return a.Log.Kind == tidemark.ActKind }) {
		return nil, nil
	}
	var others []tidemark.Append
	for _, a := range batch.Appends {
		if a.Log.Kind != tidemark.ActKind {
			others = append(others, a)
			continue
		}
		tenant, node, boot, ok := a.Log.Act()
		if !ok || tenant != idText(b.who.tenant) {
			return nil, tidemark.Invalidf("%s: not a log of what is done in this tenant", a.Log)
		}
		for i := range a.Lines {
			acts = append(acts, act{node: node, boot: boot, batch: batch.ID, line: &a.Lines[i]})
		}
	}
	batch.Appends = others
	return acts, nil
}

// actsOut are rows on their way to the database.
type actsOut struct {
	nodes, boots, batches []string
	ns, sums              []int64
	ats                   []time.Time
	bodies                [][]byte
}

func (o *actsOut) add(a *act) {
	o.nodes, o.boots, o.batches = append(o.nodes, a.node), append(o.boots, a.boot), append(o.batches, a.batch)
	o.ns, o.sums, o.ats, o.bodies = append(o.ns, a.line.Seq), append(o.sums, int64(a.line.Sum)), append(o.ats, a.line.At), append(o.bodies, bodyOut(a.line.Body))
}

func (o *actsOut) args() []any {
	return []any{o.nodes, o.boots, o.ns, o.ats, o.batches, o.sums, o.bodies}
}

const sqlNewActs = `insert into tidemark.act (tenant, node, boot, n, at, batch, sum, body)
  select $1, u.* from unnest($2::text[], $3::text[], $4::bigint[], $5::timestamptz[], $6::text[], $7::bigint[], $8::bytea[]) u`

// sqlKeepActs makes the months of table act ahead, and drops those that the owner of the
// database does not want to keep.
const sqlKeepActs = `select tidemark.keep_acts()`

// KeepActs looks after the months of what was done. Servers do so once in a while, and
// what they do not get to is kept all the same.
func (db *Database) KeepActs(ctx context.Context) error {
	var errs []error
	for _, db := range db.homes.all() {
		_, err := db.pool.Exec(ctx, sqlKeepActs)
		errs = append(errs, db.named(err))
	}
	return errors.Join(errs...)
}

// auditor reports whether the principal is the operator who audits a tenant
// (tidemark.AuditorOf). It owns nothing there.
func (b *Backend) auditor() bool {
	o := tidemark.Operator()
	return idText(b.who.user) == o.User && idText(b.who.tenant) != o.Tenant
}

// sqlBoots skips from boot to boot without reading the rows in between.
const sqlBoots = `with recursive b as (
    (select a.node, a.boot from tidemark.act a where a.tenant = $1 and (a.node, a.boot) > ($2, $3) order by a.node, a.boot limit 1)
    union all select n.node, n.boot from b cross join lateral (
      select a.node, a.boot from tidemark.act a where a.tenant = $1 and (a.node, a.boot) > (b.node, b.boot) order by a.node, a.boot limit 1) n)
  select node, boot from b limit $4`

// walkActs yields the audit logs of the tenant.
func (b *Backend) walkActs(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		tenant := idText(b.who.tenant)
		var node, boot string
		switch {
		case after.Kind > tidemark.ActKind:
			return
		case after.Kind == tidemark.ActKind && after.ID > tenant+".":
			node, boot, _ = strings.Cut(strings.TrimPrefix(after.ID, tenant+"."), ".")
		}
		for more := true; more; {
			var keys []tidemark.Key
			err := b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
				keys = nil
				each(batch.Queue(sqlBoots, b.who.tenant, node, boot, walkKeys), func(rows pgx.Rows) error {
					err := rows.Scan(&node, &boot)
					keys = append(keys, tidemark.ActLog(tidemark.ActKind, tenant, node, boot))
					return err
				})
			})
			if err != nil {
				yield(tidemark.Key{}, err)
				return
			}
			for _, k := range keys {
				if !yield(k, nil) {
					return
				}
			}
			more = len(keys) == walkKeys
		}
	}
}

const sqlActs = `select a.n, a.at, a.batch, a.sum, a.body from tidemark.act a
  where a.tenant = $1 and a.node = $2 and a.boot = $3 and (a.n, a.at) > ($4, $5) and ($6::bigint = 0 or a.n <= $6) order by a.n, a.at limit $7`

// actLines yields the rows that exist: verifying the log reports missing ones.
func (b *Backend) actLines(ctx context.Context, log tidemark.Key, spans []tidemark.Span) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		tenant, node, boot, ok := log.Act()
		if !ok || tenant != idText(b.who.tenant) {
			return
		}
		for _, s := range spans {
			if s.Newest > 0 || s.Backwards {
				yield(tidemark.Line{}, tidemark.Unsupportedf("%s: is read from the first line on", log))
				return
			}
			// A number may be there once a month: what is there twice was planted.
			n, at, seen := max(s.From, 1), time.Time{}, int64(0)
			for more := true; more; {
				var found []foundLine
				var ats []time.Time
				err := b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
					found, ats = nil, nil
					each(batch.Queue(sqlActs, b.who.tenant, node, boot, n, at, s.To, int64(pageRows)), func(rows pgx.Rows) error {
						f, at, err := scanAct(rows, log)
						found, ats = append(found, f), append(ats, at)
						return err
					})
				})
				if err != nil {
					yield(tidemark.Line{}, err)
					return
				}
				for i, f := range found {
					n, at = f.line.Seq, ats[i]
					if n == seen {
						f = foundLine{tidemark.Line{Seq: n}, &tidemark.Damage{Key: log, Seq: n, Place: "table act", What: "there is more than one row of this number"}}
					}
					if seen = n; !yield(f.line, f.err) {
						return
					}
				}
				more = len(found) == pageRows
			}
		}
	}
}

func scanAct(rows pgx.Rows, log tidemark.Key) (f foundLine, at time.Time, err error) {
	l := &f.line
	var sum int64
	if err := rows.Scan(&l.Seq, &at, &l.Batch, &sum, &l.Body); err != nil {
		return f, at, err
	}
	l.Kind, l.At, l.Sum = tidemark.ActKind, at.UTC(), uint32(sum)
	if sum != int64(l.Sum) || l.Sum != l.Checksum(log) {
		f = foundLine{tidemark.Line{Seq: l.Seq}, &tidemark.Damage{Key: log, Seq: l.Seq, Place: "table act", What: "the row does not match its sum"}}
	}
	return f, at, nil
}
