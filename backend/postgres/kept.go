package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// sqlKept counts what one owner keeps. The length of a body is known without reading
// it. Lines are found log by log, in the order of their index.
const sqlKept = `select (select count(*) from tidemark.record r where r.tenant = $1 and r.owner = $2 and r.kind = 'session'),
  (select coalesce(sum(octet_length(r.body)), 0) from tidemark.record r where r.tenant = $1 and r.owner = $2 and r.kind <> all($3)) +
  (select coalesce(sum(n.bytes), 0) from tidemark.log l cross join lateral (
      select sum(octet_length(n.body)) as bytes from tidemark.line n where n.tenant = $1 and n.owner = $2 and n.log = l.log) n
    where l.tenant = $1 and l.owner = $2 and l.kind <> all($3))`

// Kept returns how many sessions the principal keeps, and how many bytes of everything
// that is not derived. It reads no body, but looks at each row: some seconds for each
// million lines.
func (b *Backend) Kept(ctx context.Context) (sessions, bytes int64, err error) {
	err = b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
		each(batch.Queue(sqlKept, b.who.tenant, b.who.user, tidemark.DerivedKinds()), func(rows pgx.Rows) error {
			return rows.Scan(&sessions, &bytes)
		})
	})
	return sessions, bytes, err
}
