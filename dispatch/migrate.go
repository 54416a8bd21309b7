package dispatch

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// migrateLock is the advisory lock under which River's tables are made; the
// number means nothing.
const migrateLock = 0x7469646572697665

// Migrate makes River's tables in a schema of their own, or brings them up to
// this version, and lets role use them and nothing else of the schema; role ""
// gives nothing to anybody. It runs as the owner of the schema and on a direct
// connection. Of several at a time each finds what the one before made; one
// that was interrupted is gone on with by the next.
func Migrate(ctx context.Context, ownerURL, schema, role string) error {
	if schema == "" {
		schema = DefaultSchema
	}
	pool, err := connect(ctx, ownerURL, false)
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	// The lock is the connection's, because a version cannot use what another
	// one of the same transaction made.
	err = pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		if err := run(ctx, c, fmt.Sprintf("SELECT pg_advisory_lock(%d)", migrateLock), "CREATE SCHEMA IF NOT EXISTS "+quote(schema)); err != nil {
			return err
		}
		if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return err
		}
		if role == "" {
			return nil
		}
		return run(ctx, c, grants(schema, role)...)
	})
	if err != nil {
		return fmt.Errorf("river: schema %s: %w", schema, err)
	}
	return nil
}

// run carries out statements one after the other.
func run(ctx context.Context, c *pgxpool.Conn, statements ...string) error {
	for _, sql := range statements {
		if _, err := c.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// grants let a role work on queues. It may read which migrations there are, and
// make, change or own no table.
func grants(schema, role string) []string {
	in, to := quote(schema), quote(role)
	return []string{
		"REVOKE ALL ON SCHEMA " + in + " FROM PUBLIC",
		"GRANT USAGE ON SCHEMA " + in + " TO " + to,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + in + " TO " + to,
		"REVOKE INSERT, UPDATE, DELETE ON " + in + ".river_migration FROM " + to,
		"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA " + in + " TO " + to,
	}
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
