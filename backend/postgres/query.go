package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// queryTries is how often a query is repeated when the connection turns out to be
// dead: after a restart of the server every connection of the pool is.
const queryTries = 3

// planSettings keep plans to walks down an index, in its order: whatever the
// planner believes of tables whose statistics are old or missing, nothing is read
// whole, hashed or sorted that an index has in order. Queries have few forms and
// name every key, so one plan for each form is as good as a new one for each
// query, and costs nothing.
var planSettings = map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_bitmapscan": "off",
	"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_sort": "off", "jit": "off"}

// sqlPlanSettings makes the planSettings for a transaction.
const sqlPlanSettings = `select set_config(u.name, u.value, true) from unnest($1::text[], $2::text[]) u(name, value)`

// planSettings queues the planSettings where a connection does not keep them: a
// pooler gives each transaction another one.
func (db *Database) planSettings(batch *pgx.Batch) {
	if db.pooled {
		names := slices.Sorted(maps.Keys(planSettings))
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = planSettings[name]
		}
		batch.Queue(sqlPlanSettings, names, values)
	}
}

// sqlSettings sets who asks, for this transaction alone. It goes before every
// query, in the same round trip.
var sqlSettings = `select set_config('tidemark.tenant', $1, true), set_config('tidemark.user', $2, true),
  set_config('tidemark.workspaces', $3, true), set_config('tidemark.of', $4, true), set_config('tidemark.logs', $5, true),
  ` + fmt.Sprintf(sqlHome, "$1")

// namedLogs are logs of another owner whose lines a transaction reads.
type namedLogs struct {
	of   id
	logs []id
}

// settings queues what a transaction at db, or at a replica of it, begins with.
func (b *Backend) settings(db *Database, batch *pgx.Batch, n namedLogs) {
	of, logs := "", ""
	if len(n.logs) > 0 {
		of, logs = idText(n.of), idList(n.logs)
	}
	db.planSettings(batch)
	db.queueHome(batch, 5, sqlSettings, idText(b.who.tenant), idText(b.who.user), b.set, of, logs)
}

// query sends queries in one round trip, which is one transaction. queue adds
// them; it may be called again, and then starts over. A replica answers where the
// Reading of ctx allows it.
func (b *Backend) query(ctx context.Context, n namedLogs, queue func(*pgx.Batch)) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.leave()
	reading := b.readingOf(ctx)
	if b.fromReplica(ctx, reading, n, queue) {
		return nil
	}
	return b.atHome(ctx, func(db *Database) error { return b.queryAt(ctx, db, reading, n, queue) })
}

// queryAt is query at one database.
func (b *Backend) queryAt(ctx context.Context, db *Database, reading *Reading, n namedLogs, queue func(*pgx.Batch)) error {
	done, err := db.gates.of(ctx, toRead).enter(ctx, b.who)
	if err != nil {
		return err
	}
	defer done()
	for range queryTries {
		batch := &pgx.Batch{}
		b.settings(db, batch, n)
		queue(batch)
		var at tidemark.CommitPosition
		if reading != nil {
			batch.Queue(sqlPosition).QueryRow(func(row pgx.Row) (err error) {
				at, err = scanPosition(row)
				return err
			})
		}
		began := time.Now()
		err = db.pool.SendBatch(ctx, batch).Close()
		db.reads.add(began, err != nil && ctx.Err() == nil)
		if err == nil && reading != nil {
			reading.saw(at)
		}
		if err == nil || ctx.Err() != nil || !isAway(err) {
			break
		}
	}
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return db.named(err)
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
