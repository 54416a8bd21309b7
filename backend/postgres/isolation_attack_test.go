//go:build unix

package postgres_test

import (
	"fmt"
	"slices"
	"strings"
)

// The attacks that a person would think of, each once, for every table and
// every kind of foreign owner. The generated ones in isolation_generate_test.go
// are wider; these are what every single protection is checked with.

// identity is a pair that a row can belong to.
type identity struct{ tenant, owner string }

// foreigners are owners that an asker is not, of each sort one.
func (a asked) foreigners() (all []identity) {
	home, abroad := theTenants[0], theTenants[1]
	for _, f := range []identity{{home, home}, {home, userOf(0, 1)}, {home, userOf(0, 2)}, {home, everywhere},
		{abroad, orElse(a.user, nobody)}, {abroad, userOf(1, 1)}, {abroad, everywhere}, {abroad, nobody}} {
		if (f != identity{a.tenant, a.user}) && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// attacks returns the statements for one asker.
func attacks(a asked) (all []statement) {
	for _, name := range append([]string{"sessions", "messages", "jobs"}, withActs...) {
		all = append(all, readings("tidemark."+name)...)
	}
	for _, name := range withActs {
		all = append(all, peeks("tidemark."+name)...)
	}
	all = append(all, forgeries()...)
	all = append(all, tellings()...)
	for _, f := range a.foreigners() {
		all = append(all, intrusions(a, f)...)
	}
	all = append(all, exposures(a)...)
	all = append(all, reuses(a)...)
	if !a.asOwner { // who owns the tables may do with them what they like
		all = append(all, seizures()...)
	}
	return all
}

// readings are the forms of a select that every relation has.
func readings(from string) (all []statement) {
	for _, sql := range []string{
		"table %s", "select * from %s", "select count(*) from %s", "select exists (select from %s)",
		"select x from %s x", "select row_to_json(x)::text from %s x", "select x::text from %s x order by 1",
		"select string_agg(x::text, ',' order by x::text) from %s x",
		"select array(select x::text from %s x order by 1)",
		"select count(*) over (), row_number() over (order by x::text) from %s x",
		"with c as materialized (select * from %s) select count(*) from c",
		"with c as not materialized (select * from %s) select count(*) from c where c::text like '%%MK%%'",
		"select y.* from (values (1), (2)) v(n), lateral (select count(*) + v.n from %s) y",
		"select (select max(x::text) from %s x), (select min(x::text) from %s x)",
		"select * from %s union select * from %s", "select * from %s except select * from %s",
		"select count(*) from %s x full join %s y on x::text = y::text",
		"select count(*) from %s where pg_temp.tell(owner)",
		"select count(*) from %s x where pg_temp.tell(x::text)",
		"select count(*) from %s x where pg_temp.snap(convert_to(x::text, 'UTF8'))",
		"select count(x::text::int) from %s x",
		"select count(1 / (length(x::text) - length(x::text))) from %s x",
		"copy (select * from %s) to stdout",
		"declare c scroll cursor for select x::text from %s x order by 1; fetch all c; fetch backward all c; fetch absolute 2 c",
		"do $$ declare r record; begin for r in select * from %s loop raise notice '%%', r; end loop; end $$",
		"insert into pg_temp.loot select x::text from %s x; table pg_temp.loot",
		"create temp table mine as select * from %s; select * from mine",
		"create temp view v as select * from %s; select * from v",
		"create function pg_temp.f() returns bigint language sql as 'select count(*) from %s'; select pg_temp.f()",
		"select query_to_xml('select * from %s', true, true, '')",
		"set local enable_seqscan = off; set local enable_bitmapscan = off; select * from %s",
		"set local force_parallel_mode = on; set local parallel_setup_cost = 0; set local parallel_tuple_cost = 0; select count(*) from %s",
		"set local plan_cache_mode = force_generic_plan; prepare %[2]s as select * from %[1]s; execute %[2]s; execute %[2]s",
		"commit; select * from %s", "rollback; select * from %s", "savepoint s; rollback to s; select * from %s",
	} {
		name := "p_" + strings.ReplaceAll(from, ".", "_")
		text := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(sql, "%[1]s", from), "%[2]s", name), "%s", from)
		all = append(all, statement{sql: strings.ReplaceAll(text, "%%", "%")})
	}
	return append(all, statement{sql: "explain (analyze, timing off, summary off) select * from " + from, vague: true})
}

// peeks are what only tables have.
func peeks(from string) (all []statement) {
	for _, sql := range []string{
		"copy %s to stdout", "select ctid is null from %s", "select count(*) from %s where ctid = '(0,1)'", "select count(*) from %s where ctid >= '(0,2)'",
		"select count(*) from %s tablesample system (100)", "select * from %s for update", "select * from %s for key share skip locked",
		"select tableoid::regclass, count(*) from %s group by 1", "select tenant, owner, count(*) from %s group by rollup (1, 2)",
		"select min(tenant::text), max(tenant::text), min(owner::text), max(owner::text), count(distinct owner) from %s",
		"delete from %s returning *", "delete from %s", "select table_to_xml('%s', true, true, '')",
		"with gone as (delete from %s returning *) select count(*) from gone",
	} {
		all = append(all, statement{sql: strings.ReplaceAll(sql, "%s", from)})
	}
	return append(all,
		statement{sql: "set local row_security = off; select * from " + from, refused: true},
		statement{sql: "set local row_security = off; delete from " + from, refused: true},
		statement{sql: "copy " + from + " from stdin", copied: strings.Repeat("x\t", 4) + "\n", refused: true})
}

// tellings ask what the database knows about what it keeps.
func tellings() (all []statement) {
	for _, sql := range []string{
		"select * from pg_stats where schemaname = 'tidemark'", "select * from pg_stats_ext_exprs", "select name, statement from pg_prepared_statements", "select * from pg_cursors",
		"select * from pg_largeobject_metadata", "select tablename, policyname, qual from pg_policies",
		"select schema_to_xml('tidemark', true, true, '')", "select word from ts_stat('select to_tsvector(encode(body, ''escape'')) from tidemark.line')",
		"select * from tidemark.made", "select * from tidemark.home", "select version_id, is_applied from tidemark.goose_db_version",
		"select r.id, n.body from tidemark.record r join tidemark.log l using (kind, id) join tidemark.line n on n.log = l.log",
		"select l.owner, count(*) from tidemark.log l join tidemark.line n using (tenant, owner, log) where l.kind = 'segment' group by 1",
		"select count(*) from tidemark.line where key = 'k1'",
	} {
		all = append(all, statement{sql: sql})
	}
	for _, sql := range []string{
		"select query from pg_stat_activity", "select * from pg_locks", "select relname, reltuples from pg_class", "select * from pg_stat_user_tables",
		"select pg_total_relation_size('tidemark.line')", "select * from pg_statistic", "select * from pg_stat_statements",
		"select pg_advisory_xact_lock_shared(1)",
	} {
		all = append(all, statement{sql: sql, vague: true})
	}
	return all
}

// intrusions name a foreign owner in every kind of statement. They are
// committed, so that what they change can be found.
func intrusions(a asked, f identity) (all []statement) {
	add := func(format string, args ...any) {
		all = append(all, statement{sql: fmt.Sprintf(format, args...), commit: true})
	}
	id := fmt.Sprintf("tenant = '%s' and owner = '%s'", f.tenant, f.owner)
	log, session := world("log", "session", world("session", "private")), world("session", "private")
	for _, name := range theTables {
		add("select * from tidemark.%s where %s", name, id)
		add("select exists (select from tidemark.%s where %s)", name, id)
		add("delete from tidemark.%s where %s", name, id)
		add("delete from tidemark.%s where %s and owner <> '%s' returning *", name, id, nobody)
		add("update tidemark.%s set tenant = tenant where %s", name, id)
		add("update tidemark.%s set owner = owner where %s and (owner is not null) returning *", name, id)
		// One's own rows given away, each form with new keys, so that nothing collides.
		fresh := map[string]string{"record": "id = 'given ' || kind, session = null, scope = null", "log": "id = 'given', log = '" + nobody + "', session = null, scope = null",
			"line": "log = '" + nobody + "'", "share": "session = '" + nobody + "'"}[name]
		where := map[string]string{"record": "kind = 'agent'", "log": "kind = 'job'", "line": "seq = 1 and log = '" + log + "'", "share": "session = '" + world("session", "tenant") + "'"}[name]
		add("update tidemark.%s set tenant = '%s', owner = '%s', %s where %s and %s", name, f.tenant, f.owner, fresh, where, a.own())
		add("update tidemark.%s set owner = '%s', %s where %s and %s", name, f.owner, fresh, where, a.own())
		add("merge into tidemark.%s x using (select 1) s on x.tenant = '%s' and x.owner = '%s' when matched then delete", name, f.tenant, f.owner)
	}
	record := fmt.Sprintf("('%s', '%s', '%%s', '%%s', %%s, null, 1, '', '', null, '2026-01-01', '2026-01-01', 'b', 1, 'planted')", f.tenant, f.owner)
	add("insert into tidemark.record values "+record, "agent", "planted", "null")
	add("insert into tidemark.record values "+record+" on conflict do nothing", "agent", "one", "null")
	add("insert into tidemark.record values "+record, "agent", "one", "null")
	add("insert into tidemark.record values "+record, "session", session, orNull(session))
	add("insert into tidemark.record values "+record+" on conflict (tenant, owner, kind, id) do update set body = 'planted', version = 9", "agent", "one", "null")
	add("insert into tidemark.record values "+record+" on conflict (tenant, owner, kind, id) do update set body = 'planted' returning body", "notes", session, orNull(session))
	add("merge into tidemark.record x using (values ('%[1]s'::uuid, '%[2]s'::uuid)) s(t, o) on x.tenant = s.t and x.owner = s.o and x.kind = 'agent' when matched then update set body = 'planted' when not matched then insert values ('%[1]s', '%[2]s', 'agent', 'merged', null, null, 1, '', '', null, '2026-01-01', '2026-01-01', 'b', 1, 'planted')", f.tenant, f.owner)
	add("insert into tidemark.log values ('%s', '%s', 'job', 'planted', '"+nobody+"', null, null, 0, '2026-01-01', 0, 0, 0, 0, null)", f.tenant, f.owner)
	add("insert into tidemark.log values ('%s', '%s', 'job', 'one', '%s', null, null, 0, '2026-01-01', 0, 0, 0, 0, null)", f.tenant, f.owner, log)
	add("insert into tidemark.log values ('%s', '%s', 'job', 'other', '%s', null, null, 0, '2026-01-01', 0, 0, 0, 0, null) on conflict do nothing", f.tenant, f.owner, log)
	add("update tidemark.log set length = 99 where %s", id)
	for seq := 3; seq <= 4; seq++ {
		add("insert into tidemark.line values ('%s', '%s', '%s', %d, 'user', 'k1', '2026-01-01', 0, 0, 0, 0, null, 'b', 1, 'planted')", f.tenant, f.owner, log, seq)
		add("insert into tidemark.line values ('%s', '%s', '%s', %d, 'user', null, '2026-01-01', 0, 0, 0, 0, null, 'b', 1, 'planted')", f.tenant, f.owner, log, seq)
	}
	add("insert into tidemark.line select '%s', '%s', log, seq + 10, kind, null, at, parent, depth, nodes, turn, chain, batch, sum, body from tidemark.line", f.tenant, f.owner)
	add("update tidemark.line set body = 'planted' where %s", id)
	// Notes for who keeps the index of a scope: in the name of another, of a session
	// that is not shared there, of anything else.
	for _, n := range []struct{ kind, session, of string }{{"unindexed", session, a.user}, {"unindexed", world("session", "tenant"), f.owner}, {"index", world("session", "tenant"), a.user}} {
		add("insert into tidemark.record values ('%s', '%s', '%s', '%s.planted', null, null, 1, '%s', '', null, '2026-01-01', '2026-01-01', 'b', 1, 'planted')", f.tenant, f.owner, n.kind, n.session, n.of)
	}
	add("insert into tidemark.share values ('%s', '%s', '%s', '%s', '2026-01-01')", f.tenant, f.owner, session, f.tenant)
	add("insert into tidemark.share values ('%s', '%s', '%s', '%s', '2026-01-01') on conflict (tenant, owner, session) do update set scope = excluded.scope", f.tenant, f.owner, world("session", "first room"), orElse(a.tenant, f.tenant))
	add("insert into tidemark.share values ('%s', '%s', '%s', '%s', '2026-01-01')", f.tenant, f.owner, nobody, orElse(a.tenant, f.tenant))
	add("update tidemark.share set scope = '%s' where %s", orElse(a.tenant, f.tenant), id)
	for _, where := range []string{id, fmt.Sprintf("owner = '%s'", f.owner), fmt.Sprintf("tenant = '%s'", f.tenant)} {
		add("select count(*) from tidemark.line where %s and pg_temp.tell(body)", where)
		add("select count(*) from tidemark.record where %s and 1 / (version - 1) = 1", where)
	}
	return all
}

// forgeries change what was done, or say something of another tenant. Only
// what is added to one's own tenant stays.
func forgeries() (all []statement) {
	add := func(format string, args ...any) {
		all = append(all, statement{sql: fmt.Sprintf(format, args...), commit: true})
	}
	for i, tenant := range theTenants[:2] {
		row := fmt.Sprintf("('%s', '%%s', 'first', %%d, '2026-01-01', 'b', 1, 'planted')", tenant)
		add("insert into tidemark.act values "+row, "new", 1)
		if i > 0 { // at home a number that is taken is no secret to who can guess its boot
			add("insert into tidemark.act values "+row, oldNode, 1)
			add("insert into tidemark.act values "+row+" on conflict do nothing", oldNode, 2)
			add("insert into tidemark.act values "+row+" on conflict (tenant, node, boot, n) do update set body = 'planted'", oldNode, 2)
		}
		add("update tidemark.act set body = 'planted' where tenant = '%s'", tenant)
		add("update tidemark.act set tenant = '%s', node = 'moved'", tenant)
		add("delete from tidemark.act where tenant = '%s' and n = 1 returning body", tenant)
		add("merge into tidemark.act x using (select 1) s on x.tenant = '%s' when matched then delete", tenant)
	}
	return all
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// reuses run a plan that was made and used for another tenant before, on the
// same connection, as a pool does.
func reuses(a asked) (all []statement) {
	other := asked{tenant: theTenants[1], user: userOf(1, 1), workspaces: []string{workspaceOf(1, 1)}}
	for _, mode := range []string{"force_generic_plan", "force_custom_plan", "auto"} {
		for _, name := range theTables {
			plan := fmt.Sprintf("reused_%s_%s", name, mode)
			all = append(all, statement{sql: fmt.Sprintf(`set local plan_cache_mode = %[1]s; %[2]s; prepare %[3]s as select count(*), string_agg(x::text, ',' order by x::text) from tidemark.%[4]s x;
create temp table sink on commit drop as execute %[3]s; truncate sink; %[5]s; execute %[3]s`, mode, other.settings(), plan, name, a.clear().settings())})
		}
	}
	return all
}

// clear says nothing explicitly, where a says nothing at all.
func (a asked) clear() asked {
	a.unset = false
	return a
}

// exposures push own rows to where the asker must not put them.
func exposures(a asked) (all []statement) {
	if a.user == "" || a.tenant == "" || a.garbled || a.unset {
		return nil
	}
	private := world("session", "private")
	// What may be told: of a session that one shares there, to who keeps its index.
	all = append(all, statement{sql: fmt.Sprintf("insert into tidemark.record values ('%s', '%s', 'unindexed', '%s.told', null, null, 1, '%s', '', null, '2026-01-01', '2026-01-01', 'b', 1, 'told')",
		a.tenant, a.tenant, world("session", "tenant"), a.user)})
	for _, scope := range []string{workspaceOf(0, 2), workspaceOf(1, 1), commonRoom, theTenants[0], theTenants[1], userOf(0, 2), a.user} {
		for _, sql := range []string{
			"update tidemark.record set scope = '%[1]s' where %[2]s and session = '%[3]s'",
			"update tidemark.log set scope = '%[1]s' where %[2]s and session = '%[3]s'",
			"insert into tidemark.record values ('%[4]s', '%[5]s', 'file', '%[3]s.%[1]s', '%[3]s', '%[1]s', 1, '', '', null, '2026-01-01', '2026-01-01', 'b', 1, 'pushed')",
			"insert into tidemark.log values ('%[4]s', '%[5]s', 'file', '%[3]s.%[1]s', md5('%[1]s')::uuid, '%[3]s', '%[1]s', 0, '2026-01-01', 0, 0, 0, 0, null)",
		} {
			all = append(all, statement{commit: true, sql: fmt.Sprintf(sql, scope, a.own(), private, a.tenant, a.user)})
		}
		all = append(all, statement{commit: scope != a.tenant, sql: fmt.Sprintf("insert into tidemark.share values ('%s', '%s', md5('%[3]s')::uuid, '%[3]s', '2026-01-01')", a.tenant, a.user, scope)},
			statement{commit: scope != a.tenant, sql: fmt.Sprintf("update tidemark.share set scope = '%s' where %s and session = '%s'", scope, a.own(), world("session", "tenant"))})
	}
	return all
}

// seizures try to take what protects the rows. None may succeed.
func seizures() (all []statement) {
	for _, sql := range []string{
		"set role postgres", "set session authorization postgres", "alter role current_user superuser", "alter role current_user bypassrls", "create role friend",
		"grant postgres to current_user", "alter system set row_security = off", "create extension pageinspect", "select pg_read_file('PG_VERSION')",
		"copy (select 1) to program 'true'", "select lo_import('/etc/passwd')", "create table tidemark.mine (n int)", "create table public.mine (n int)",
		"create function tidemark.setting_id(text, int) returns uuid language sql return null", "drop schema tidemark cascade",
		"create or replace function tidemark.setting_id(name text) returns uuid language sql return null",
		"alter function tidemark.setting_id(text) owner to current_user", "create schema mine", "reassign owned by current_user to postgres; drop owned by postgres",
		"insert into tidemark.made values ('x', 'y')", "update tidemark.made set how = ''",
		"insert into tidemark.home (tenant, state, elsewhere) values (gen_random_uuid(), 'moved', 'x')", "update tidemark.home set state = 'here'",
		"insert into tidemark.goose_db_version (version_id, is_applied) values (99, true)", "update tidemark.goose_db_version set is_applied = false",
		"do $$ begin execute format('set local role %I', (select tableowner from pg_tables where schemaname = 'tidemark' limit 1)); end $$",
		"alter view tidemark.sessions set (security_invoker = false)", "create or replace view tidemark.jobs as select 1", "drop view tidemark.messages",
		"create event trigger e on ddl_command_start execute function suppress_redundant_updates_trigger()",
		"update pg_class set relrowsecurity = false", "delete from pg_policy", "set session_replication_role = replica", "create publication p for all tables",
	} {
		all = append(all, statement{sql: sql, refused: true})
	}
	for _, name := range []string{"made", "home", "goose_db_version"} {
		all = append(all, statement{sql: "delete from tidemark." + name, refused: true}, statement{sql: "lock table tidemark." + name + " in exclusive mode", refused: true})
	}
	for _, name := range append([]string{"made", "home", "goose_db_version"}, withActs...) {
		for _, sql := range []string{
			"truncate tidemark.%s cascade", "drop table tidemark.%s cascade", "alter table tidemark.%s disable row level security", "alter table tidemark.%s no force row level security",
			"alter table tidemark.%s owner to current_user", "alter table tidemark.%s add column x int", "drop policy tenant on tidemark.%s", "drop policy own on tidemark.%s",
			"alter policy tenant on tidemark.%s using (true)", "create policy all_of_it on tidemark.%s using (true)", "grant all on tidemark.%s to public with grant option",
			"create trigger t before insert on tidemark.%s for each row execute function suppress_redundant_updates_trigger()",
			"create rule r as on select to tidemark.%s do instead select 1", "create index on tidemark.%s (owner)", "create statistics s on tenant, owner from tidemark.%s",
			"cluster tidemark.%s", "alter table tidemark.%s disable trigger all", "create temp table heir () inherits (tidemark.%s)",
			"comment on table tidemark.%s is 'x'", "security label on table tidemark.%s is 'x'",
			"create table public.leaf (tenant uuid, owner uuid, foreign key (tenant, owner) references tidemark.%s)",
		} {
			all = append(all, statement{sql: fmt.Sprintf(sql, name), refused: true})
		}
	}
	return all
}
