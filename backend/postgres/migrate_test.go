package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// tell runs statements, as whom the URL says.
func tell(t testing.TB, url string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, s := range statements {
		if _, err := c.Exec(context.Background(), s, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%v\n%s", err, s)
		}
	}
}

func tellOne[T any](t testing.TB, url, sql string) (v T) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(context.Background(), sql).Scan(&v); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return v
}

func TestThreeMigratorsAtOnceMigrateOnce(t *testing.T) {
	db := pgtest.Start(t).Database(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := Migrate(t.Context(), db.Owner, db.Role); err != nil {
				t.Errorf("Migrate = %v", err)
			}
		})
	}
	wg.Wait()
	if n := tellOne[int](t, db.Owner, `select count(*) from tidemark.goose_db_version where version_id > 0`); n != Schema {
		t.Errorf("%d migrations were noted, want %d", n, Schema)
	}
	connected(t, db.Server, nil)
}

// withoutHomes takes version 10 back.
func withoutHomes(t *testing.T, db *pgtest.Database) {
	t.Helper()
	for _, table := range []string{"record", "log", "line", "share"} {
		tell(t, db.Owner, `drop trigger check_home on tidemark.`+table, `drop policy moves on tidemark.`+table)
	}
	tell(t, db.Owner, `drop function tidemark.check_home`, `drop table tidemark.home`, `delete from tidemark.goose_db_version where version_id = 10`)
}

// withoutTrims takes version 9 back.
func withoutTrims(t *testing.T, db *pgtest.Database) {
	t.Helper()
	tell(t, db.Owner, `drop trigger stays_trimmed on tidemark.log`, `drop function tidemark.refuse_trimmed`, `alter table tidemark.log drop column trimmed`,
		`delete from tidemark.goose_db_version where version_id = 9`)
}

// readyForMore takes version 14 back: the functions that append, what others share of log
// and the trigger of trimmed logs are as they were.
func readyForMore(t *testing.T, db *pgtest.Database) {
	t.Helper()
	tell(t, db.Owner, `create or replace trigger stays_trimmed before update of length on tidemark.log for each row when (old.trimmed > 0) execute function tidemark.refuse_trimmed()`,
		`alter policy granted on tidemark.log using ((scope is not null or kind = 'segment') and case kind when 'segment' then owner else scope end::text = any (
  string_to_array(btrim(current_setting('tidemark.workspaces', true), '{}'), ',') || current_setting('tidemark.tenant', true)))`)
	for _, name := range []string{"00012_light.sql", "00013_named.sql"} {
		asMigrated(t, db, name)
	}
	tell(t, db.Owner, `drop function tidemark.is_granted, tidemark.look_home`, `delete from tidemark.goose_db_version where version_id = 14`)
}

// withOneIndexOfIDs takes version 13 back: any statement may take the index of ids, and the
// functions that append are as they were.
func withOneIndexOfIDs(t *testing.T, db *pgtest.Database) {
	t.Helper()
	readyForMore(t, db)
	tell(t, db.Owner, `create unique index log_id on tidemark.log (log, tenant, owner)`, `drop index tidemark.log_named`)
	asMigrated(t, db, "00012_light.sql")
	tell(t, db.Owner, `delete from tidemark.goose_db_version where version_id = 13`)
}

// asMigrated makes the functions of a migration anew.
func asMigrated(t *testing.T, db *pgtest.Database, name string) {
	t.Helper()
	text, err := migrations.ReadFile("migrations/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range strings.Split(string(text), "-- +goose StatementBegin")[1:] {
		tell(t, db.Owner, strings.Split(made, "-- +goose StatementEnd")[0])
	}
}

// withHeavyAppends takes version 12 back: the functions that append and the conditions of
// triggers and policies are as they were.
func withHeavyAppends(t *testing.T, db *pgtest.Database) {
	t.Helper()
	withOneIndexOfIDs(t, db)
	for _, table := range []string{"record", "log", "line", "share", "act"} {
		tell(t, db.Owner, `create or replace trigger check_home before insert or update or delete on tidemark.`+table+`
  for each statement when (current_setting('tidemark.home', true) is distinct from current_setting('tidemark.tenant', true)) execute function tidemark.check_home()`)
	}
	const shared = `exists (select from tidemark.share s where s.tenant = log.tenant and s.owner = log.owner and s.session = log.session and s.scope = log.scope)`
	tell(t, db.Owner, `create or replace trigger stays_trimmed before update of length on tidemark.log
  for each row when (old.trimmed > 0 and new.length > old.length and old.length - old.trimmed < 10000) execute function tidemark.refuse_trimmed()`,
		`alter policy own on tidemark.log using (owner = (select tidemark.setting_id('tidemark.user'))) with check (owner = (select tidemark.setting_id('tidemark.user')) and (scope is null or `+shared+`))`,
		`alter policy grows on tidemark.log with check (kind = 'session' and lease is not null and owner = any ((select tidemark.setting_ids('tidemark.users'))::uuid[]) and (scope is null or `+shared+`))`,
		`drop function tidemark.is_unchecked, tidemark.is_shared, tidemark.otherwise`)
	for _, name := range []string{"00007_index.sql", "00008_groups.sql", "00009_trim.sql"} {
		asMigrated(t, db, name)
	}
	tell(t, db.Owner, `delete from tidemark.goose_db_version where version_id = 12`)
}

// actsInOne takes version 11 back: what was done is one table.
func actsInOne(t *testing.T, db *pgtest.Database) {
	t.Helper()
	withHeavyAppends(t, db)
	tell(t, db.Owner, `create table tidemark.acts (like tidemark.act, constraint act_pkey primary key (tenant, node, boot, n))`)
	tell(t, db.Super, `insert into tidemark.acts select * from tidemark.act`)
	tell(t, db.Owner, `drop table tidemark.act, tidemark.keep`, `drop function tidemark.keep_acts`, `alter table tidemark.acts rename to act`,
		`alter table tidemark.act enable row level security, force row level security`,
		`create policy tenant on tidemark.act as restrictive using (tenant = (select tidemark.setting_id('tidemark.tenant')))`,
		`create policy adds on tidemark.act for insert with check (true)`,
		`create policy reads on tidemark.act for select using ((select tidemark.setting_id('tidemark.user')) = '`+tidemark.Operator().User+`'::uuid)`,
		`grant select, insert on tidemark.act to `+pgx.Identifier{db.Role}.Sanitize(), `delete from tidemark.goose_db_version where version_id = 11`)
}

// withoutGroups takes version 8 back.
func withoutGroups(t *testing.T, db *pgtest.Database) {
	t.Helper()
	actsInOne(t, db)
	withoutHomes(t, db)
	withoutTrims(t, db)
	tell(t, db.Owner, `drop policy grouped on tidemark.log`, `drop policy grows on tidemark.log`, `drop policy grouped on tidemark.share`, `drop policy grows on tidemark.line`,
		`drop function tidemark.append_many`, `delete from tidemark.goose_db_version where version_id = 8`)
}

// withWords takes version 7 back: the rows of words, and what logs said of them.
func withWords(t *testing.T, db *pgtest.Database) {
	t.Helper()
	withoutGroups(t, db)
	tell(t, db.Owner, `create table tidemark.word (tenant uuid not null, owner uuid not null, log uuid not null, seq bigint not null, scope uuid, word bytea not null, at timestamptz not null)`,
		`alter table tidemark.word enable row level security, force row level security`, `create policy tenant on tidemark.word using (false)`,
		`alter table tidemark.log add column indexed bigint not null default 0, add column behind boolean not null default true`,
		`create index log_behind on tidemark.log (tenant, owner, kind, id) where behind`,
		`create function tidemark.append(uuid, uuid, text[], text[], bigint[], text[], text[], int[], timestamptz[], int[], bigint[], text[], text[], timestamptz[],
  bigint[], bigint[], bigint[], bigint[], bytea[], text[], bigint[], bytea[], text[], text[], bigint[], timestamptz[], text[], bigint[], bytea[]) returns boolean language sql return true`,
		`delete from tidemark.goose_db_version where version_id = 7`)
}

// withoutFences takes version 6 back.
func withoutFences(t *testing.T, db *pgtest.Database) {
	t.Helper()
	withWords(t, db)
	tell(t, db.Owner, `drop trigger look_again on tidemark.record`, `drop function tidemark.look_again`, `drop function tidemark.append_leased`, `drop function tidemark.append_one`,
		`alter table tidemark.log drop column lease, drop column record, drop column moved`, `drop index tidemark.record_group_state`, `delete from tidemark.goose_db_version where version_id > 5`)
}

// older takes migrations back, as a database of an earlier program has it.
func older(t *testing.T, db *pgtest.Database) {
	t.Helper()
	withoutFences(t, db)
	tell(t, db.Owner, `do $$ begin execute (select 'drop function ' || oid::regprocedure from pg_proc where proname = 'append' and pronamespace = 'tidemark'::regnamespace); end $$`)
	tell(t, db.Owner, `alter table tidemark.log add constraint log_session check (true), add constraint log_scope check (true)`)
	tell(t, db.Owner, `alter table tidemark.record add constraint record_session check (true), add constraint record_scope check (true)`)
	tell(t, db.Owner, `drop table tidemark.act`)
	tell(t, db.Owner, `delete from tidemark.goose_db_version where version_id > 2`)
}

func TestTablesOfAnOlderProgramAreChangedWhenThatIsAllowed(t *testing.T) {
	db := ready(t, Migration{})
	keep(t, connected(t, db.Server, nil).For(ada), tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, "{}")}})
	older(t, db)
	const made = `select string_agg(oid::text, ' ' order by oid) from pg_class where relnamespace = 'tidemark'::regnamespace`
	before := tellOne[string](t, db.Super, made)
	asked := ""
	no := errors.New("not without a backup")
	m := Migration{Role: db.Role, Force: true, Upgrading: func(from, to int64) error { asked = fmt.Sprint(from, " ", to); return no }}
	if err := m.Run(t.Context(), db.Owner); !errors.Is(err, no) {
		t.Errorf("Run = %v, want what Upgrading said", err)
	}
	if want := fmt.Sprint(2, " ", Schema); asked != want {
		t.Errorf("asked of %q, want %q", asked, want)
	}
	if _, err := Connect(t.Context(), db.Server, nil); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("Connect = %v, want ErrUnsupported", err)
	}
	if after := tellOne[string](t, db.Super, made); after != before {
		t.Error("a migration that was refused changed tables")
	}
	no = nil
	if err := m.Run(t.Context(), db.Owner); err != nil {
		t.Fatal(err)
	}
	if _, err := connected(t, db.Server, nil).For(ada).Get(t.Context(), key("agent", "a")); err != nil {
		t.Errorf("Get = %v", err)
	}
}

func TestTablesAreNotChangedUnderServersThatCannotGoOnWithThem(t *testing.T) {
	db := ready(t, Migration{})
	withWords(t, db)
	direct := connected(t, db.Server, &Options{Pooler: Direct, Unchecked: true})
	if err := direct.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	pooled := connected(t, pgtest.Bouncer(t, db), &Options{Unchecked: true})
	if err := pooled.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin, err := pgx.Connect(t.Context(), db.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background()) // who is no server
	refused := func(m Migration, want ...string) {
		t.Helper()
		m.Role = db.Role
		err := m.Run(t.Context(), db.Owner)
		var served *ServedError
		if !errors.As(err, &served) || !errors.Is(err, tidemark.ErrHeld) {
			t.Fatalf("Run = %v, want a ServedError", err)
		}
		for _, w := range want {
			if !slices.ContainsFunc(served.By, func(by string) bool { return strings.HasPrefix(by, db.Role+", ") && strings.Contains(by, w) }) {
				t.Errorf("%q is not in %v", w, served.By)
			}
		}
		if strings.Contains(err.Error(), "postgres,") {
			t.Errorf("somebody who looks after the database is taken for a server: %v", err)
		}
		if have := tellOne[int](t, db.Owner, `select max(version_id) from tidemark.goose_db_version`); have != 6 {
			t.Errorf("the tables have version %d after it", have)
		}
	}
	refused(Migration{}, fmt.Sprintf("tidemark (schema %d), process %d on ", Schema, os.Getpid()), "database process ")
	direct.Close()
	pooled.Close() // the pooler's own connections stay
	refused(Migration{})
	if err := (Migration{Role: db.Role, Force: true}).Run(t.Context(), db.Owner); err != nil {
		t.Fatal(err)
	}
	again := connected(t, db.Server, nil)
	if err := again.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(t.Context(), db.Owner, db.Role); err != nil {
		t.Errorf("tables that are up to date: %v", err) // nothing changes for who is connected
	}
}

func TestDatabaseOfANewerProgramIsRefusedAndLeftAlone(t *testing.T) {
	db := ready(t, Migration{})
	tell(t, db.Owner, `insert into tidemark.goose_db_version (version_id, is_applied) values (99, true); update tidemark.made set how = '99' where what = 'oldest program'; create policy theirs on tidemark.record for select using (false)`)
	const made = `select string_agg(oid::text, ' ' order by oid) from pg_policy`
	before := tellOne[string](t, db.Super, made)
	var newer *tidemark.NewerError
	if err := Migrate(t.Context(), db.Owner, db.Role); !errors.As(err, &newer) || newer.Format != 99 || newer.Known != Schema {
		t.Errorf("Migrate = %v, want a NewerError", err)
	}
	if _, err := Connect(t.Context(), db.Server, nil); !errors.As(err, &newer) {
		t.Errorf("Connect = %v, want a NewerError", err)
	}
	if after := tellOne[string](t, db.Super, made); after != before {
		t.Error("a migration that was refused changed policies")
	}
}

// The tables of the next program have one more, and policies of another text.
func TestAProgramGoesOnWithTablesOfANewerOneThatSaysSo(t *testing.T) {
	db := ready(t, Migration{})
	tell(t, db.Owner, fmt.Sprintf(`insert into tidemark.goose_db_version (version_id, is_applied) values (%d, true)`, Schema+1),
		`create table tidemark.more (tenant uuid); alter table tidemark.more enable row level security; alter table tidemark.more force row level security; grant select on tidemark.more to `+db.Role,
		`insert into tidemark.made (what, how) values ('row security of more', 'enabled and forced'); update tidemark.made set how = 'another' where what = 'policies'`)
	keep(t, connected(t, db.Server, nil).For(ada), tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, "{}")}})
	var newer *tidemark.NewerError
	if err := Migrate(t.Context(), db.Owner, db.Role); !errors.As(err, &newer) {
		t.Errorf("Migrate = %v, want a NewerError", err)
	}
	for _, c := range []struct {
		do, undo string
		want     error
	}{
		{`grant update on tidemark.line to ` + db.Role, `revoke update on tidemark.line from ` + db.Role, tidemark.ErrDenied},
		{`alter table tidemark.more no force row level security`, `alter table tidemark.more force row level security`, tidemark.ErrDenied},
		{fmt.Sprintf(`update tidemark.made set how = '%d' where what = 'oldest program'`, Schema+1), fmt.Sprintf(`update tidemark.made set how = '%d' where what = 'oldest program'`, Schema), tidemark.ErrUnsupported},
		{`delete from tidemark.made where what = 'oldest program'`, fmt.Sprintf(`insert into tidemark.made (what, how) values ('oldest program', '%d')`, Schema), tidemark.ErrUnsupported},
	} {
		tell(t, db.Owner, c.do)
		if _, err := Connect(t.Context(), db.Server, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: Connect = %v, want %v", c.do, err, c.want)
		}
		tell(t, db.Owner, c.undo)
	}
	connected(t, db.Server, nil)
}

// Those who write take the tables in one order, those who read in another, and all of
// them go on while the policies are made anew.
func TestPoliciesAreMadeAnewWhileServersWrite(t *testing.T) {
	db := ready(t, Migration{})
	within, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 6 {
		b := connected(t, db.Server, nil).For(ada)
		writers.Go(func() {
			k := key("session", fmt.Sprint("s", w))
			for n := int64(1); within.Err() == nil; n++ {
				batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: at, Appends: []tidemark.Append{{Log: k, Lines: []tidemark.Line{line(k, n, "user", "{}")}}}}
				if n%2 == 1 {
					batch.Puts = []tidemark.Record{record(k, (n+1)/2, "{}")}
				}
				if _, err := b.Commit(t.Context(), batch); err != nil {
					t.Errorf("writer %d, line %d: %v", w, n, err)
					return
				}
			}
		})
	}
	for range 3 {
		tell(t, db.Owner, `delete from tidemark.made where what = 'policies'`)
		if err := Migrate(t.Context(), db.Owner, db.Role); err != nil {
			t.Errorf("Migrate = %v", err)
		}
	}
	stop()
	writers.Wait()
}

func TestMigratingAgainChangesNothing(t *testing.T) {
	db := ready(t, Migration{})
	keep(t, connected(t, db.Server, nil).For(ada), tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, "{}")}})
	const oids = `select string_agg(oid::text, ' ' order by oid) from pg_policy`
	before := tellOne[string](t, db.Super, oids)
	if err := Migrate(t.Context(), db.Owner, db.Role); err != nil {
		t.Fatal(err)
	}
	if after := tellOne[string](t, db.Super, oids); after != before {
		t.Error("policies that were right have been made anew")
	}
	if _, err := connected(t, db.Server, nil).For(ada).Get(t.Context(), key("agent", "a")); err != nil {
		t.Errorf("Get = %v", err)
	}
}

func TestMigratingPutsRightWhatWasTamperedWith(t *testing.T) {
	db := ready(t, Migration{})
	tell(t, db.Owner, `drop policy own on tidemark.line`, `alter policy tenant on tidemark.log using (true)`, `create policy wide on tidemark.share using (true)`,
		`alter table tidemark.record no force row level security`, `grant truncate on tidemark.line to `+db.Role, `grant select on tidemark.record to public`)
	if _, err := Connect(t.Context(), db.Server, nil); !errors.Is(err, tidemark.ErrDenied) {
		t.Fatalf("Connect = %v, want ErrDenied", err)
	}
	if err := Migrate(t.Context(), db.Owner, db.Role); err != nil {
		t.Fatal(err)
	}
	connected(t, db.Server, nil)
}

func TestARoleThatSeesPastPoliciesIsNotLetIn(t *testing.T) {
	db := pgtest.Start(t).Database(t)
	owner, _, _ := strings.Cut(strings.TrimPrefix(db.Owner, "postgres://"), "@")
	for role, want := range map[string]string{"nobody here": "CREATE ROLE", "postgres": "superuser", owner: "is the owner"} {
		if err := Migrate(t.Context(), db.Owner, role); !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Migrate for %s = %v, want ErrInvalid with %q", role, err, want)
		}
	}
	if tellOne[bool](t, db.Owner, `select to_regclass('tidemark.record') is not null`) {
		t.Error("a refused migration made tables")
	}
}

func TestPartitionsAreChosenOnce(t *testing.T) {
	db := ready(t, Migration{Partitions: 3})
	const count = `select count(*) from pg_inherits where inhparent = 'tidemark.line'::regclass`
	if n := tellOne[int](t, db.Owner, count); n != 3 {
		t.Errorf("%d partitions, want 3", n)
	}
	if err := (Migration{Role: db.Role, Partitions: 5}).Run(t.Context(), db.Owner); err != nil {
		t.Fatal(err)
	}
	if n := tellOne[int](t, db.Owner, count); n != 3 {
		t.Errorf("%d partitions after migrating again, want 3", n)
	}
	if err := (Migration{Role: db.Role, Partitions: -1}).Run(t.Context(), db.Owner); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("-1 partitions: %v", err)
	}
}

func TestMigratingThroughAPoolerIsRefused(t *testing.T) {
	db := pgtest.Start(t).Database(t)
	if err := Migrate(t.Context(), pgtest.Bouncer(t, db), db.Role); !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), "pooler") {
		t.Errorf("Migrate = %v", err)
	}
}

// Each of the things that keep tenants apart is taken away once, and each time
// the database is refused. What migrating puts right is put right by it.
func TestSelfTestTurnsRed(t *testing.T) {
	made := ready(t, Migration{Partitions: 2})
	role := made.Role
	type change struct {
		name, sql, want string
		kind            error
	}
	var changes []change
	for _, table := range []string{"record", "log", "line", "share", "act"} {
		changes = append(changes,
			change{"disable " + table, `alter table tidemark.` + table + ` disable row level security`, "row security of " + table, tidemark.ErrDenied},
			change{"no force " + table, `alter table tidemark.` + table + ` no force row level security`, "row security of " + table, tidemark.ErrDenied},
			change{"truncate " + table, `grant truncate on tidemark.` + table + ` to ` + role, "TRUNCATE on " + table, tidemark.ErrDenied},
			change{"revoke " + table, `revoke insert on tidemark.` + table + ` from ` + role, "may not INSERT on " + table, tidemark.ErrDenied})
	}
	for _, p := range tellPolicies(t, made.Owner) {
		name, table, _ := strings.Cut(p, " ")
		how := ` using (true)`
		if name == "adds" || name == "tells" || p == "grows line" {
			how = ` with check (tenant is not null)` // it only says what may be added
		}
		changes = append(changes, change{"drop " + p, `drop policy ` + name + ` on tidemark.` + table, "policy " + name + " on " + table + " is missing", tidemark.ErrDenied},
			change{"open " + p, `alter policy ` + name + ` on tidemark.` + table + how, "policy " + name + " on " + table + " is not as it was made", tidemark.ErrDenied})
	}
	changes = append(changes,
		change{"check", `alter policy own on tidemark.share with check (true)`, "policy own on share", tidemark.ErrDenied},
		change{"another policy", `create policy more on tidemark.record for select using (true)`, "policy more on record is there", tidemark.ErrDenied},
		change{"function", `create or replace function tidemark.setting_id(name text) returns uuid language sql immutable return nullif(current_setting(name, true), '')::uuid`, "function setting_id", tidemark.ErrDenied},
		change{"view", `alter view tidemark.sessions reset (security_invoker)`, "view sessions", tidemark.ErrDenied},
		change{"a write where a tenant is not", `alter table tidemark.line disable trigger check_home`, "trigger check_home on line", tidemark.ErrDenied},
		change{"a home of one's own", `grant insert on tidemark.home to ` + role, "INSERT on home", tidemark.ErrDenied},
		change{"update of acts", `grant update (body) on tidemark.act to ` + role, "UPDATE on act", tidemark.ErrDenied},
		change{"delete of acts", `grant delete on tidemark.act to ` + role, "DELETE on act", tidemark.ErrDenied},
		change{"update of lines", `grant update (body) on tidemark.line to ` + role, "UPDATE on line", tidemark.ErrDenied},
		change{"partition", `grant select on tidemark.line_1 to ` + role, "SELECT on line_1", tidemark.ErrDenied},
		change{"open partition", `alter table tidemark.line_1 disable row level security`, "row security of line_1", tidemark.ErrDenied},
		change{"public", `grant references on tidemark.record to public`, "REFERENCES on record", tidemark.ErrDenied},
		change{"create", `grant create on schema tidemark to ` + role, "CREATE in the schema", tidemark.ErrDenied},
		change{"trigger", `create function tidemark.t() returns trigger language plpgsql as 'begin return new; end'; create trigger t before insert on tidemark.line for each row execute function tidemark.t()`, "trigger t on line", tidemark.ErrDenied},
		change{"no trigger", `drop trigger look_again on tidemark.record`, "trigger look_again on record is missing", tidemark.ErrDenied},
		change{"idle trigger", `alter table tidemark.record disable trigger look_again`, "trigger look_again on record is not as it was made", tidemark.ErrDenied},
		change{"missing", fmt.Sprintf(`delete from tidemark.goose_db_version where version_id = %d`, Schema), fmt.Sprintf("needs version %d", Schema), tidemark.ErrUnsupported},
		change{"newer", `insert into tidemark.goose_db_version (version_id, is_applied) values (99, true); update tidemark.made set how = '99' where what = 'oldest program'`, "newer program", tidemark.ErrUnsupported},
		change{"no tables", `drop schema tidemark cascade`, "migrate it as its owner", tidemark.ErrNoStore},
		change{"no usage", `revoke usage on schema tidemark from ` + role, "may not use its tables", tidemark.ErrUnsupported},
	)
	lasting := []string{"function", "view", "open partition", "trigger", "missing", "newer", "no tables"}
	shared := made.Copy(t)
	served := connected(t, shared.Server, &Options{Pooler: Direct, Unchecked: true})
	for _, c := range changes {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			db, d := shared, served
			if slices.Contains(lasting, c.name) {
				db = made.Copy(t)
				d = connected(t, db.Server, &Options{Pooler: Direct, Unchecked: true})
			}
			if err := d.SelfTest(t.Context()); err != nil {
				t.Fatalf("before: %v", err)
			}
			tell(t, db.Owner, c.sql)
			if _, err := Connect(t.Context(), db.Server, &Options{Pooler: Direct}); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Connect = %v, want %v with %q", err, c.kind, c.want)
			}
			if db == shared {
				if err := Migrate(t.Context(), db.Owner, role); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func tellPolicies(t *testing.T, url string) []string {
	t.Helper()
	all := strings.Split(tellOne[string](t, url, `select string_agg(policyname || ' ' || tablename, ',' order by 1) from pg_policies where schemaname = 'tidemark'`), ",")
	if len(all) != 27 {
		t.Fatalf("%d policies: %v", len(all), all)
	}
	return all
}

func TestSelfTestRefusesRolesThatSeePastPolicies(t *testing.T) {
	db := readyAlone(t)
	for _, c := range []struct{ name, url, do, undo, want string }{
		{"superuser", db.Super, "", "", "is a superuser"},
		{"owner", db.Owner, "", "", "owns the tables"},
		{"bypass", db.Server, `alter role ` + db.Role + ` bypassrls`, `alter role ` + db.Role + ` nobypassrls`, "has BYPASSRLS"},
		{"member of the owner", db.Server, `grant ` + ownerOf(db) + ` to ` + db.Role, `revoke ` + ownerOf(db) + ` from ` + db.Role, "can become"},
		{"owner of one table", db.Server, `alter table tidemark.share owner to ` + db.Role, `alter table tidemark.share owner to ` + ownerOf(db), "owns the tables"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			if c.do != "" {
				tell(t, db.Super, c.do)
				defer tell(t, db.Super, c.undo)
			}
			if _, err := Connect(t.Context(), c.url, nil); !errors.Is(err, tidemark.ErrDenied) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Connect = %v, want ErrDenied with %q", err, c.want)
			}
		})
	}
}

func ownerOf(db *pgtest.Database) string {
	owner, _, _ := strings.Cut(strings.TrimPrefix(db.Owner, "postgres://"), "@")
	return owner
}

// TestARoleIsServedWhateverItsSearchPathLeadsTo has roles that find the tables without
// the name of their schema, as one does that is called like it.
func TestARoleIsServedWhateverItsSearchPathLeadsTo(t *testing.T) {
	db := ready(t, Migration{})
	for i, path := range []string{`tidemark, public`, `"$user", public`, `''`} {
		tell(t, db.Super, `alter role `+pgx.Identifier{db.Role}.Sanitize()+` set search_path = `+path)
		keep(t, connected(t, db.Server, nil).For(ada), tidemark.Batch{Puts: []tidemark.Record{record(key("agent", fmt.Sprint("a", i)), 1, "{}")}})
	}
	owner := strings.TrimSuffix(db.Role, "_server") + "_owner"
	tell(t, db.Super, `alter role `+pgx.Identifier{owner}.Sanitize()+` set search_path = tidemark, public`)
	if err := (Migration{Role: db.Role}).Run(t.Context(), db.Owner); err != nil {
		t.Fatal(err)
	}
	connected(t, db.Server, nil)
}
