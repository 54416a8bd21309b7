package postgres

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// inTransaction runs work that is not a batch in a transaction of the principal,
// and repeats it when other transactions were in the way. When it returns an
// error, nothing was changed.
func (b *Backend) inTransaction(ctx context.Context, work func(pgx.Tx) error) error {
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer b.leave()
	b.readingOf(ctx).stay(true)
	return b.atHome(ctx, func(db *Database) error { return b.transactAt(ctx, db, work) })
}

// transactAt is inTransaction at one database.
func (b *Backend) transactAt(ctx context.Context, db *Database, work func(pgx.Tx) error) error {
	done, err := db.gates.of(ctx, toWrite).enter(ctx, b.who)
	if err != nil {
		return err
	}
	defer done()
	pause := firstPause
	for try := range commitTries {
		err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			b.settings(db, batch, namedLogs{})
			batch.Queue(`select set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '30s', true)`)
			if err := tx.SendBatch(ctx, batch).Close(); err != nil {
				return err
			}
			return work(tx)
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case try == commitTries-1 || !inTheWay(err) && (!isAway(err) || !pgconn.SafeToRetry(err)):
			return db.named(err)
		}
		time.Sleep(pause/2 + rand.N(pause))
		pause = min(2*pause, longPause)
	}
	return nil
}
