package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// queryTries is how often a query is repeated when the connection turns out to be
// dead: after a restart of the server every connection of the pool is.
const queryTries = 3

// sqlSettings sets who asks, for this transaction alone. It goes before every
// query, in the same round trip. Queries have few forms and name every key, so
// one plan for each form is as good as a new one for each query, and costs
// nothing.
const sqlSettings = `select set_config('tidemark.tenant', $1, true), set_config('tidemark.user', $2, true),
  set_config('tidemark.workspaces', $3, true), set_config('tidemark.of', $4, true), set_config('tidemark.logs', $5, true),
  set_config('plan_cache_mode', 'force_generic_plan', true)`

// namedLogs are logs of another owner whose lines a transaction reads.
type namedLogs struct {
	of   id
	logs []id
}

func (b *Backend) settings(batch *pgx.Batch, n namedLogs) {
	of, logs := "", ""
	if len(n.logs) > 0 {
		of, logs = idText(n.of), idList(n.logs)
	}
	batch.Queue(sqlSettings, idText(b.who.tenant), idText(b.who.user), b.set, of, logs)
}

// query sends queries in one round trip, which is one transaction. queue adds
// them; it may be called again, and then starts over.
func (b *Backend) query(ctx context.Context, n namedLogs, queue func(*pgx.Batch)) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.leave()
	var err error
	for range queryTries {
		batch := &pgx.Batch{}
		b.settings(batch, n)
		queue(batch)
		if err = b.db.pool.SendBatch(ctx, batch).Close(); err == nil || ctx.Err() != nil || !isAway(err) {
			break
		}
	}
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return b.db.named(err)
}

// each reads the rows of a query.
func each(q *pgx.QueuedQuery, row func(pgx.Rows) error) {
	q.Query(func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			if err := row(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}
