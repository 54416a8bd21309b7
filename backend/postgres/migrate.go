package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/tidemark-sessions/tidemark"
)

//go:embed migrations/*.sql
var migrations embed.FS

//go:embed policies.sql
var policies string

// Schema is the version of the tables that this program works with, the last of
// the migrations.
const Schema = 14

// versionTable is where goose records the applied migrations.
const versionTable = "tidemark.goose_db_version"

// migrateLock is the advisory lock that migrators queue on, "tidemark" in ASCII.
// They try again every migrateLook.
const (
	migrateLock = 0x746964656d61726b
	migrateLook = 50 * time.Millisecond
)

// Migration is how a database is made ready.
type Migration struct {
	// Role is what servers log in as. It must exist, and must have no privileges
	// that bypass policies.
	Role string
	// Partitions spreads table line over so many hash partitions, by tenant and
	// log. It has an effect only when the tables are made. 0: none.
	Partitions int
	// KeepActs is how long the rows are kept that changes bring along for the audit log,
	// by whole months; 0: as it was said before, and for ever if it never was; below 0:
	// for ever.
	KeepActs time.Duration
	// Upgrading is called before the tables of an older program are changed,
	// with both versions. Its error ends the migration before anything is
	// changed. It may be nil.
	Upgrading func(from, to int64) error
	// Force changes the tables although programs are connected that may be of a
	// version that cannot go on with them.
	Force bool
}

// aloneSchema is the last version that servers of the one before cannot go on
// with: they have to be stopped for it.
const aloneSchema = 7

// oldestSchema is the oldest version whose programs can go on with the tables of this
// one, so that servers are replaced one by one. A program that cannot be told so, of
// version 7 and before, refuses to start on newer tables, and goes on if it runs. One of
// version 8 takes lines that are elsewhere for missing, and cannot append to their logs.
const oldestSchema = 8

// maxPartitions is more than a machine has use for, and few enough for the
// planner to handle.
const maxPartitions = 1024

// Migrate makes a database ready for this program, or brings one of an older
// program up to date, and lets role use it. It logs in as the owner, directly
// and not through a pooler. It may be run again, and by several at once: one of
// them does the work, the others wait. Each step is a transaction: killed at any
// moment, the database has the version before it or after it, and the next
// migration continues.
//
// ErrUnsupported: the database was migrated by a newer program. ErrInvalid: role
// could bypass a policy. A ServedError: servers of an older program are connected.
func Migrate(ctx context.Context, ownerURL, role string) error {
	return Migration{Role: role}.Run(ctx, ownerURL)
}

// Run is Migrate with options.
func (m Migration) Run(ctx context.Context, ownerURL string) error {
	if m.Partitions < 0 || m.Partitions > maxPartitions {
		return tidemark.Invalidf("%d partitions: 0 to %d are allowed", m.Partitions, maxPartitions)
	}
	config, err := configOf(ownerURL)
	if err != nil {
		return err
	}
	db := &Database{place: placeOf(config.ConnConfig)}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	c, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return db.named(err)
	}
	// The lock belongs to the connection, and is released with it.
	defer c.Close(context.WithoutCancel(ctx))
	if err := lock(ctx, c); err != nil {
		return db.named(err)
	}
	return db.named(m.run(ctx, c, config.ConnConfig, db.place))
}

func lock(ctx context.Context, c *pgx.Conn) error {
	var pid uint32
	if err := c.QueryRow(ctx, `select pg_backend_pid()`).Scan(&pid); err != nil {
		return err
	}
	if pid != c.PgConn().PID() {
		return tidemark.Invalidf("a pooler is in between: migrate with the address of the database itself")
	}
	for {
		var mine bool
		if err := c.QueryRow(ctx, `select pg_try_advisory_lock($1)`, int64(migrateLock)).Scan(&mine); err != nil || mine {
			return err
		}
		select {
		case <-time.After(migrateLook):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m Migration) run(ctx context.Context, c *pgx.Conn, config *pgx.ConnConfig, place string) error {
	if err := plainRole(ctx, c, m.Role); err != nil {
		return err
	}
	// A schema of our own: in public, others may have names and rights, too.
	if _, err := c.Exec(ctx, `create schema if not exists tidemark`); err != nil {
		return err
	}
	if err := m.up(ctx, c, config, place); err != nil {
		return err
	}
	if err := beside(ctx, c, setPolicies); err != nil {
		return err
	}
	if err := beside(ctx, c, func(ctx context.Context, tx pgx.Tx) error { return grant(ctx, tx, m.Role) }); err != nil {
		return err
	}
	return beside(ctx, c, m.keepActs)
}

// keepActs says how long acts are kept, and makes the months ahead.
func (m Migration) keepActs(ctx context.Context, tx pgx.Tx) error {
	var err error
	switch {
	case m.KeepActs < 0:
		_, err = tx.Exec(ctx, `delete from tidemark.keep where what = 'act'`)
	case m.KeepActs > 0:
		_, err = tx.Exec(ctx, `insert into tidemark.keep (what, long) values ('act', $1) on conflict (what) do update set long = excluded.long`, m.KeepActs)
	}
	if err == nil {
		_, err = tx.Exec(ctx, sqlKeepActs)
	}
	return err
}

// Servers that run take their tables in one order or another, and never stop. So who
// changes the tables gives way before the database would have to choose between them,
// and tries again.
const (
	tableWait   = 800 * time.Millisecond // less than the database waits before it looks for a deadlock
	tablesTries = 100
)

// beside calls do in a transaction, again and again while servers are in its way.
func beside(ctx context.Context, c *pgx.Conn, do func(context.Context, pgx.Tx) error) error {
	for tries := 1; ; tries++ {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, fmt.Sprintf(`set local lock_timeout = %d`, tableWait.Milliseconds())); err != nil {
				return err
			}
			return do(ctx, tx)
		})
		if !inTheWay(err) || tries == tablesTries {
			return err
		}
		select {
		case <-time.After(rand.N(2 * tableWait)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// up applies the missing migrations.
func (m Migration) up(ctx context.Context, c *pgx.Conn, config *pgx.ConnConfig, place string) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	own := config.Copy()
	if m.Partitions > 0 {
		own.RuntimeParams["tidemark.partitions"] = strconv.Itoa(m.Partitions)
	}
	db := stdlib.OpenDB(*own)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithTableName(versionTable))
	if err != nil {
		return err
	}
	have, err := p.GetDBVersion(ctx)
	if err != nil {
		return err
	}
	if have > Schema {
		return tooNew(place, have)
	}
	if have > 0 && have < Schema && m.Upgrading != nil {
		if err := m.Upgrading(have, Schema); err != nil {
			return err
		}
	}
	if have > 0 && have < aloneSchema && !m.Force {
		if err := unserved(ctx, c, place); err != nil {
			return err
		}
	}
	if _, err := p.Up(ctx); err != nil {
		return gooseCause(err)
	}
	return nil
}

// ServedError says that programs are connected to a database that is about to get
// tables which a running server of the version before cannot go on with. It answers
// to ErrHeld.
type ServedError struct {
	Place string
	By    []string // the connections: role, process of the database, program
}

func (e *ServedError) Error() string {
	return fmt.Sprintf("database %s: programs are connected, and ones of the version before cannot go on with the new tables: %s", e.Place, strings.Join(e.By, "; "))
}

// Is makes a ServedError answer to ErrHeld.
func (e *ServedError) Is(target error) bool { return target == tidemark.ErrHeld }

// sqlServed lists who is connected and may use the tables, without the owner and
// superusers, who look after them. What else they do is not shown to the owner.
const sqlServed = `select format('%s, database process %s%s', a.usename, a.pid, coalesce(', ' || nullif(a.application_name, ''), ''))
  from pg_stat_activity a join pg_roles r on r.oid = a.usesysid
  where a.datname = current_database() and a.pid <> pg_backend_pid() and a.usename <> current_user and not r.rolsuper
    and has_schema_privilege(a.usesysid, 'tidemark', 'usage')
  order by a.usename, a.pid`

// leaveWithin is how long those who are connected are waited for: the database
// notices a moment later that a program has ended.
const leaveWithin = 3 * time.Second

// unserved returns a ServedError while somebody is connected.
func unserved(ctx context.Context, c *pgx.Conn, place string) error {
	for end := time.Now().Add(leaveWithin); ; {
		rows, err := c.Query(ctx, sqlServed)
		if err != nil {
			return err
		}
		by, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(by) == 0 {
			return err
		}
		if time.Now().After(end) {
			return &ServedError{Place: place, By: by}
		}
		select {
		case <-time.After(migrateLook):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func tooNew(place string, have int64) error {
	return &tidemark.NewerError{What: "database " + place, Format: have, Known: Schema}
}

func gooseCause(err error) error {
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		return partial.Err
	}
	return err
}

// sqlPlainRole finds what lets a role bypass policies: itself, or a role that it
// is a member of.
const sqlPlainRole = `select r.rolname, r.rolsuper, r.rolbypassrls, r.oid = (select oid from pg_roles where rolname = current_user)
  from pg_roles r where pg_has_role($1::name, r.oid, 'member') and (r.rolsuper or r.rolbypassrls or r.rolname = current_user)`

func plainRole(ctx context.Context, c *pgx.Conn, role string) error {
	var there bool
	if err := c.QueryRow(ctx, `select exists (select from pg_roles where rolname = $1)`, role).Scan(&there); err != nil {
		return err
	}
	if !there {
		return tidemark.Invalidf("role %q is not there: make it first, with CREATE ROLE %s LOGIN NOSUPERUSER NOBYPASSRLS", role, pgx.Identifier{role}.Sanitize())
	}
	rows, err := c.Query(ctx, sqlPlainRole, role)
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		var name string
		var super, bypass, owner bool
		if err := rows.Scan(&name, &super, &bypass, &owner); err != nil {
			return err
		}
		why := "is a superuser"
		switch {
		case super:
		case bypass:
			why = "has BYPASSRLS"
		default:
			why = "is the owner"
		}
		return tidemark.Invalidf("role %q cannot be a server's: %q %s, and policies would not hold for it", role, name, why)
	}
	return rows.Err()
}

// setPolicies recreates the policies where they differ from what they should be, and
// records how PostgreSQL writes them.
func setPolicies(ctx context.Context, tx pgx.Tx) error {
	faults, err := compareMade(ctx, tx, false)
	if err != nil || len(faults) == 0 {
		return err
	}
	// Whoever writes begins with a record or with a log: those who wait there have
	// nothing that is needed here.
	if _, err := tx.Exec(ctx, `lock table tidemark.record, tidemark.log, tidemark.line, tidemark.share, tidemark.act`); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `select format('drop policy %I on %I.%I', policyname, schemaname, tablename) from pg_policies where schemaname = 'tidemark'`)
	if err != nil {
		return err
	}
	drops, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	all := append(drops, statements(policies)...)
	if slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, "trigger look_again on record") }) {
		all = append(all, forgetFences...)
	}
	for _, statement := range all {
		if _, err := tx.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	made, err := madeNow(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `delete from tidemark.made`); err != nil {
		return err
	}
	made[sourceOf], made[oldestOf] = policiesSum(), strconv.Itoa(oldestSchema)
	for what, how := range made {
		if _, err := tx.Exec(ctx, `insert into tidemark.made (what, how) values ($1, $2)`, what, how); err != nil {
			return err
		}
	}
	return nil
}

// forgetFences empties what logs keep of leases that may have changed while the
// trigger was not there. The policies would hide every row from the owner.
var forgetFences = []string{`alter table tidemark.log no force row level security`,
	`update tidemark.log set lease = null, record = null where lease is not null or record is not null`, `alter table tidemark.log force row level security`}

// statements splits a text in which semicolons occur only at the end of a
// statement.
func statements(text string) (all []string) {
	for s := range strings.SplitSeq(text, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// grants are what a server may do with each table and view.
var grants = map[string][]string{
	"record":           {"SELECT", "INSERT", "UPDATE", "DELETE"},
	"log":              {"SELECT", "INSERT", "UPDATE", "DELETE"},
	"line":             {"SELECT", "INSERT", "DELETE"},
	"share":            {"SELECT", "INSERT", "UPDATE", "DELETE"},
	"act":              {"SELECT", "INSERT"},
	"home":             {"SELECT"},
	"made":             {"SELECT"},
	"goose_db_version": {"SELECT"},
	"sessions":         {"SELECT"},
	"messages":         {"SELECT"},
	"jobs":             {"SELECT"},
}

// grant revokes everything from everybody and grants the role what it needs.
func grant(ctx context.Context, tx pgx.Tx, role string) error {
	to := pgx.Identifier{role}.Sanitize()
	all := []string{
		`revoke all on schema tidemark from public, ` + to,
		`revoke all on all tables in schema tidemark from public, ` + to,
		`revoke all on all sequences in schema tidemark from public, ` + to,
		`grant usage on schema tidemark to ` + to,
	}
	for table, what := range grants {
		all = append(all, fmt.Sprintf(`grant %s on tidemark.%s to %s`, strings.Join(what, ", "), table, to))
	}
	slices.Sort(all[4:])
	for _, statement := range all {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
