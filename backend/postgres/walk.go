package postgres

import (
	"context"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

const sqlWalk = `(select r.kind, r.id from tidemark.record r where r.tenant = $1 and r.owner = $2 and (r.kind, r.id) > ($3, $4) order by r.kind, r.id limit $5)
  union (select l.kind, l.id from tidemark.log l where l.tenant = $1 and l.owner = $2 and (l.kind, l.id) > ($3, $4) order by l.kind, l.id limit $5)
  order by 1, 2 limit $5`

// walkKeys is how many keys are read at once.
const walkKeys = 1024

// Walk yields the principal's own keys, and not what others share, unless the
// Backend is for one of these owners.
func (b *Backend) Walk(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	if b.auditor() {
		return b.walkActs(ctx, after)
	}
	return func(yield func(tidemark.Key, error) bool) {
		for more := true; more; {
			var keys []tidemark.Key
			err := b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
				keys = nil
				each(batch.Queue(sqlWalk, b.who.tenant, b.whose(), toText(after.Kind), toText(after.ID), walkKeys), func(rows pgx.Rows) error {
					var k tidemark.Key
					err := rows.Scan(&k.Kind, &k.ID)
					keys = append(keys, k)
					return err
				})
			})
			if err != nil {
				yield(tidemark.Key{}, err)
				return
			}
			for _, k := range keys {
				if after = k; !yield(k, nil) {
					return
				}
			}
			more = len(keys) == walkKeys
		}
	}
}
