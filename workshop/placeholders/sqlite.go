package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"

	_ "github.com/tidemark-sessions/tidemark/backend/sqlite" // the driver
)

const sqliteMagic = "SQLite format 3\x00"

// database rewrites a SQLite database, including its write-ahead log, and
// leaves nothing of the old content in free pages.
func (o own) database(from, to string) error {
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(from + end)
		if err != nil && end == "" {
			return err
		}
		if err == nil {
			if err := os.WriteFile(to+end, b, 0o600); err != nil {
				return err
			}
		}
	}
	db, err := sql.Open("sqlite", to)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	tables, err := column(ctx, db, `select name from sqlite_schema s where type = 'table' and name not like 'sqlite_%'
		and not exists (select 1 from sqlite_schema v where v.sql like 'create virtual%' and s.name like v.name || '_%') order by name`)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if _, err := db.ExecContext(ctx, "pragma foreign_keys = off"); err != nil {
		return err
	}
	for _, table := range tables {
		if err := o.table(ctx, db, table); err != nil {
			return fmt.Errorf("%s: table %s: %w", from, table, err)
		}
	}
	for _, last := range []string{"vacuum", "pragma wal_checkpoint(truncate)"} {
		if _, err := db.ExecContext(ctx, last); err != nil {
			return fmt.Errorf("%s: %s: %w", from, last, err)
		}
	}
	return db.Close()
}

// column returns what a query with one column finds.
func column(ctx context.Context, db *sql.DB, query string) (all []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// table replaces texts in every column of a table. Equal texts become equal
// ones, so a row is found by its old content.
func (o own) table(ctx context.Context, db *sql.DB, table string) error {
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	columns, err := column(ctx, db, "select name from pragma_table_info('"+strings.ReplaceAll(table, "'", "''")+"')")
	if err != nil {
		return err
	}
	for _, name := range columns {
		texts, err := column(ctx, db, fmt.Sprintf("select distinct %[1]s from %[2]s where typeof(%[1]s) = 'text' order by 1", quote(name), quote(table)))
		if err != nil {
			return err
		}
		for _, was := range texts {
			now := was
			if strings.HasPrefix(was, "{") || strings.HasPrefix(was, "[") {
				now = string(o.json([]byte(was)))
			} else {
				now = o.text(was, usual)
			}
			if now == was {
				continue
			}
			if _, err := db.ExecContext(ctx, fmt.Sprintf("update %[2]s set %[1]s = ? where %[1]s = ?", quote(name), quote(table)), now, was); err != nil {
				return err
			}
		}
	}
	return nil
}
