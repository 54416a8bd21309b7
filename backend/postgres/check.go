package postgres

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// checks are queries that return nothing in a healthy database: the key of a
// record or log, and what is wrong with it. They cover what the principal owns.
var checks = []struct{ place, sql string }{
	{"table log", `select l.kind, l.id, format('the head says %s lines without the first %s, there are %s, the newest is %s', l.length, l.trimmed, n.count, n.newest)
  from tidemark.log l cross join lateral (select count(*), coalesce(max(n.seq), 0) as newest from tidemark.line n
    where n.tenant = l.tenant and n.owner = l.owner and n.log = l.log) n
  where l.tenant = $1 and l.owner = $2 and (n.count <> l.length - l.trimmed or n.newest <> l.length)`},
	{"table log", `select l.kind, l.id, 'the head is not that of the newest line'
  from tidemark.log l join tidemark.line n on n.tenant = l.tenant and n.owner = l.owner and n.log = l.log and n.seq = l.length
  where l.tenant = $1 and l.owner = $2 and (n.parent, n.depth, n.nodes, n.turn, n.chain) is distinct from (l.parent, l.depth, l.nodes, l.turn, l.chain)`},
	{"table log", `select l.kind, l.id, 'it keeps a lease or a record that does not stand' from tidemark.log l
  left join tidemark.record e on e.tenant = l.tenant and e.owner = l.owner and e.kind = 'lease' and e.id = l.id
  left join tidemark.record r on r.tenant = l.tenant and r.owner = l.owner and r.kind = 'session' and r.id = l.id
  where l.tenant = $1 and l.owner = $2 and (l.lease is not null and l.lease is distinct from e.version or l.record is not null and l.record is distinct from r.version)`},
	{"table line", `select '', '', format('%s lines of a log that is not there', count(*)) from tidemark.line n
  where n.tenant = $1 and n.owner = $2 and not exists (select from tidemark.log l where l.tenant = n.tenant and l.owner = n.owner and l.log = n.log)
  group by n.log`},
	{"table record", `select r.kind, r.id, 'its column touched does not match'
  from tidemark.record r left join tidemark.log l on l.tenant = r.tenant and l.owner = r.owner and l.kind = r.kind and l.id = r.id
  where r.tenant = $1 and r.owner = $2 and r.touched <> ` + fmt.Sprintf(sqlWindowEnd, exactly)},
	{"table share", `select l.kind, l.id, 'it is not shared as its session is' from (
    select r.tenant, r.owner, r.kind, r.id, r.session, r.scope from tidemark.record r
    union all select g.tenant, g.owner, g.kind, g.id, g.session, g.scope from tidemark.log g) l
  left join tidemark.share s on s.tenant = l.tenant and s.owner = l.owner and s.session = l.session
  where l.tenant = $1 and l.owner = $2 and l.scope is distinct from s.scope`},
}

// Check compares heads with their lines and with the lease that they keep, the column touched with what it is
// derived from, and the scopes of shared rows with those of their sessions. It reads no body, and each table a few times.
func (b *Backend) Check(ctx context.Context) iter.Seq[error] {
	return func(yield func(error) bool) {
		if b.mayChange() != nil {
			return // only its owner can compare everything
		}
		for _, c := range checks {
			var faults []error
			err := b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
				faults = nil
				each(batch.Queue(c.sql, b.who.tenant, b.who.user), func(rows pgx.Rows) error {
					d := &tidemark.Damage{Place: c.place}
					err := rows.Scan(&d.Key.Kind, &d.Key.ID, &d.What)
					faults = append(faults, d)
					return err
				})
			})
			if err != nil {
				yield(err)
				return
			}
			for _, f := range faults {
				if !yield(f) {
					return
				}
			}
		}
	}
}
