package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/text"
)

// querier is a connection, a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// The entries of table made that are no objects: the text of the policies, and the
// oldest version of the tables whose programs can go on with these.
const (
	sourceOf = "policies"
	oldestOf = "oldest program"
)

func policiesSum() string {
	sum := sha256.Sum256([]byte(policies))
	return hex.EncodeToString(sum[:])
}

// sqlMade lists everything that keeps rows apart, as PostgreSQL writes it: its
// name, and its definition. Partitions are left out: nobody may query them
// directly.
const sqlMade = `select 'policy ' || p.policyname || ' on ' || p.tablename, concat_ws(' ', p.permissive, p.cmd, p.roles::text, 'using', p.qual, 'check', p.with_check)
    from pg_policies p where p.schemaname = 'tidemark'
  union all select 'row security of ' || c.relname, case when c.relrowsecurity then 'enabled' else 'off' end || case when c.relforcerowsecurity then ' and forced' else '' end
    from pg_class c where c.relnamespace = 'tidemark'::regnamespace and c.relkind in ('r', 'p') and c.relname not in ('made', 'goose_db_version')
  union all select 'function ' || f.proname, md5(pg_get_functiondef(f.oid))
    from pg_proc f where f.pronamespace = 'tidemark'::regnamespace
  union all select 'view ' || c.relname, concat_ws(' ', c.reloptions::text, md5(pg_get_viewdef(c.oid)))
    from pg_class c where c.relnamespace = 'tidemark'::regnamespace and c.relkind = 'v'
  union all select 'rule or trigger ' || t.tgname || ' on ' || c.relname, concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled)
    from pg_trigger t join pg_class c on c.oid = t.tgrelid where c.relnamespace = 'tidemark'::regnamespace and not t.tgisinternal`

// madeNow needs a transaction: PostgreSQL leaves the schema out of a name that the
// search path of who asks leads to, such as that of a role called tidemark.
func madeNow(ctx context.Context, tx pgx.Tx) (map[string]string, error) {
	var before, now string
	if err := tx.QueryRow(ctx, `select current_setting('search_path'), set_config('search_path', 'pg_catalog', true)`).Scan(&before, &now); err != nil {
		return nil, err
	}
	made, err := pairs(ctx, tx, sqlMade)
	if err == nil {
		err = tx.QueryRow(ctx, `select set_config('search_path', $1, true)`, before).Scan(&now)
	}
	return made, err
}

func pairs(ctx context.Context, q querier, sql string) (map[string]string, error) {
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := make(map[string]string)
	for rows.Next() {
		var what, how string
		if err := rows.Scan(&what, &how); err != nil {
			return nil, err
		}
		all[what] = how
	}
	return all, rows.Err()
}

// compareMade lists what differs from what the migration made: this program's, or one
// of a newer program that says that this one can go on.
func compareMade(ctx context.Context, q pgx.Tx, newer bool) (faults []string, err error) {
	want, err := pairs(ctx, q, `select what, how from tidemark.made`)
	if err != nil {
		return nil, err
	}
	now, err := madeNow(ctx, q)
	if err != nil {
		return nil, err
	}
	now[sourceOf], now[oldestOf] = policiesSum(), strconv.Itoa(oldestSchema)
	if newer {
		now[sourceOf], now[oldestOf] = want[sourceOf], want[oldestOf]
	}
	if len(want) == 0 {
		return []string{"the policies were never made"}, nil
	}
	for _, what := range slices.Sorted(maps.Keys(want)) {
		switch have, ok := now[what]; {
		case (what == sourceOf || what == oldestOf) && have != want[what]:
			faults = append(faults, "the policies are those of another version of the program")
		case !ok:
			faults = append(faults, what+" is missing")
		case have != want[what]:
			faults = append(faults, what+" is not as it was made: "+text.Shorten(have, 200))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(now)) {
		if _, ok := want[what]; !ok && what == oldestOf {
			faults = append(faults, "the policies are those of another version of the program")
		} else if !ok {
			faults = append(faults, what+" is there and should not be")
		}
	}
	for _, table := range []string{"record", "log", "line", "share", "act"} {
		if how := now["row security of "+table]; how != "enabled and forced" {
			faults = append(faults, "row security of "+table+" is not enabled and forced")
		}
	}
	return slices.Compact(faults), nil
}

// SelfTest returns nil when the database keeps tenants apart for the role that
// db logs in as. Otherwise the error says what is wrong and what to do.
//
// ErrUnsupported: migrations are missing, or newer ones were applied.
// ErrDenied: the role is a superuser, has BYPASSRLS or CREATEROLE, owns a table
// or is a member of one who does; row security of a table is off or not forced; a
// policy, function or view is missing or not as the migration made it; or the
// role may do more, or less, than it needs.
func (db *Database) SelfTest(ctx context.Context) error {
	newer, err := db.testVersion(ctx)
	if err != nil {
		return err
	}
	var faults []string
	for _, look := range []func(context.Context, bool) ([]string, error){db.testRole, db.testMade, db.testGrants} {
		found, err := look(ctx, newer)
		if err != nil {
			return db.named(err)
		}
		faults = append(faults, found...)
	}
	if len(faults) == 0 {
		return nil
	}
	return &leaky{db.place, faults}
}

// leaky is what a self-test found.
type leaky struct {
	place  string
	faults []string
}

// maxFaultsTold keeps a message readable; one fault would be reason enough to
// refuse.
const maxFaultsTold = 5

func (e *leaky) Error() string {
	told, more := e.faults, ""
	if len(told) > maxFaultsTold {
		told, more = told[:maxFaultsTold], fmt.Sprintf("; and %d more", len(e.faults)-maxFaultsTold)
	}
	return "database " + e.place + ": refused, tenants would not be kept apart: " + strings.Join(told, "; ") + more
}

func (e *leaky) Is(target error) bool { return target == tidemark.ErrDenied }

// testVersion reports whether the tables are those of a newer program with which this
// one can go on.
func (db *Database) testVersion(ctx context.Context) (newer bool, err error) {
	const run = "migrate it as its owner first"
	var there bool
	if err := db.pool.QueryRow(ctx, `select to_regclass('`+versionTable+`') is not null`).Scan(&there); err != nil {
		if codeOf(err) == codeDenied {
			return false, tidemark.Unsupportedf("database %s: this role may not use its tables; %s, for this role", db.place, run)
		}
		return false, db.named(err)
	}
	if !there {
		return false, fmt.Errorf("database %s: it has no tables of ours; %s: %w", db.place, run, tidemark.ErrNoStore)
	}
	var have int64
	err = db.pool.QueryRow(ctx, `select coalesce(max(version_id), 0) from `+versionTable+` where is_applied`).Scan(&have)
	switch {
	case codeOf(err) == codeDenied:
		return false, tidemark.Unsupportedf("database %s: this role may not use its tables; %s, for this role", db.place, run)
	case err != nil:
		return false, db.named(err)
	case have < Schema:
		return false, tidemark.Unsupportedf("database %s: its schema is version %d, this program needs version %d; %s", db.place, have, Schema, run)
	case have == Schema:
		return false, nil
	}
	// While servers are replaced one by one, some are older than the tables.
	var oldest int64
	err = db.pool.QueryRow(ctx, `select coalesce(max(how), '0')::bigint from tidemark.made where what = $1`, oldestOf).Scan(&oldest)
	if err != nil {
		return false, db.named(err)
	}
	if oldest == 0 || oldest > Schema {
		return false, tooNew(db.place, have)
	}
	return true, nil
}

// sqlRoles examines the role, and every role that it could become.
const sqlRoles = `select r.rolname, r.rolsuper, r.rolbypassrls, r.rolcreaterole, exists (select from pg_class c where c.relnamespace = 'tidemark'::regnamespace and c.relowner = r.oid)
    or exists (select from pg_namespace n where n.nspname = 'tidemark' and n.nspowner = r.oid)
  from pg_roles r where pg_has_role(session_user, r.oid, 'member') or pg_has_role(current_user, r.oid, 'member')
  order by r.rolname <> current_user, r.rolname`

func (db *Database) testRole(ctx context.Context, _ bool) (faults []string, err error) {
	var me string
	if err := db.pool.QueryRow(ctx, `select current_user`).Scan(&me); err != nil {
		return nil, err
	}
	rows, err := db.pool.Query(ctx, sqlRoles)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var super, bypass, create, owner bool
		if err := rows.Scan(&name, &super, &bypass, &create, &owner); err != nil {
			return nil, err
		}
		who := fmt.Sprintf("the role %q", me)
		if name != me {
			who += fmt.Sprintf(" can become %q, which", name)
		}
		for _, f := range []struct {
			is       bool
			what, do string
		}{
			{super, "is a superuser", "log in as a role that is none"},
			{bypass && !super, "has BYPASSRLS", "ALTER ROLE … NOBYPASSRLS"},
			{create && !super, "has CREATEROLE, and could make itself a member of the owner", "ALTER ROLE … NOCREATEROLE"},
			{owner && !super, "owns the tables", "log in as a role that does not, and is no member of it"},
		} {
			if f.is {
				faults = append(faults, who+" "+f.what+" ("+f.do+")")
			}
		}
		if super {
			break // a superuser can become everybody
		}
	}
	return faults, rows.Err()
}

func (db *Database) testMade(ctx context.Context, newer bool) ([]string, error) {
	var faults []string
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) (err error) {
		faults, err = compareMade(ctx, tx, newer)
		return err
	})
	if len(faults) > 0 {
		faults[len(faults)-1] += " (migrating as the owner makes policies anew)"
	}
	return faults, err
}

// sqlGrants lists what the role may do with each table and view, including by
// way of public and of other roles, and with single columns.
const sqlGrants = `select c.relname, p.what from pg_class c cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) p(what)
  where c.relnamespace = 'tidemark'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and (has_table_privilege(c.oid, p.what) or p.what in ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') and has_any_column_privilege(c.oid, p.what))`

func (db *Database) testGrants(ctx context.Context, newer bool) (faults []string, err error) {
	var super, create, usage bool
	err = db.pool.QueryRow(ctx, `select r.rolsuper, has_schema_privilege('tidemark', 'create'), has_schema_privilege('tidemark', 'usage')
  from pg_roles r where r.rolname = current_user`).Scan(&super, &create, &usage)
	if err != nil || super {
		return nil, err // a superuser may do everything, which was reported
	}
	rows, err := db.pool.Query(ctx, sqlGrants)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	have := make(map[string]bool)
	for rows.Next() {
		var table, what string
		if err := rows.Scan(&table, &what); err != nil {
			return nil, err
		}
		have[what+" on "+table] = true
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	want := make(map[string]bool)
	for table, all := range grants {
		for _, what := range all {
			want[what+" on "+table] = true
		}
	}
	if create {
		faults = append(faults, "the role may CREATE in the schema (REVOKE it)")
	}
	if !usage {
		faults = append(faults, "the role may not use the schema (migrating as the owner grants what is needed)")
	}
	for _, g := range slices.Sorted(maps.Keys(have)) {
		_, table, _ := strings.Cut(g, " on ")
		if _, known := grants[table]; !want[g] && (known || !newer) {
			faults = append(faults, "the role may "+g+" (REVOKE it, or migrate as the owner)")
		}
	}
	for _, g := range slices.Sorted(maps.Keys(want)) {
		if !have[g] {
			faults = append(faults, "the role may not "+g+" (migrating as the owner grants what is needed)")
		}
	}
	return faults, nil
}
