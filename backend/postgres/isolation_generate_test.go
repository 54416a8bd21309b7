//go:build unix

package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Statements that nobody thought of: grown at random from the columns of the
// tables and from values that are in them, own and foreign ones. Every order
// that a result depends on is spelled out, so that two worlds with the same
// visible rows must give the same answer.

// column is one that statements are made with. Values of kind text also carry
// markers.
type column struct{ name, kind string }

var theColumns = map[string][]column{
	"record": {{"tenant", "uuid"}, {"owner", "uuid"}, {"kind", "kind"}, {"id", "id"}, {"session", "uuid"}, {"scope", "uuid"}, {"version", "number"},
		{`"group"`, "text"}, {"state", "text"}, {"batch", "text"}, {"body", "bytes"}},
	"log": {{"tenant", "uuid"}, {"owner", "uuid"}, {"kind", "kind"}, {"id", "id"}, {"log", "uuid"}, {"session", "uuid"}, {"scope", "uuid"},
		{"length", "number"}, {"chain", "bytes"}, {"lease", "number"}},
	"line": {{"tenant", "uuid"}, {"owner", "uuid"}, {"log", "uuid"}, {"seq", "number"}, {"kind", "kind"}, {"key", "text"}, {"batch", "text"},
		{"chain", "bytes"}, {"body", "bytes"}},
	"share": {{"tenant", "uuid"}, {"owner", "uuid"}, {"session", "uuid"}, {"scope", "uuid"}},
}

// insertable are whole rows with places for what matters. The rest is fixed.
var insertable = map[string]string{
	"record": "(%[1]s, %[2]s, %[3]s, %[4]s, %[5]s, %[6]s, 1, '', '', null, '2026-01-01', '2026-01-01', 'b', 1, 'generated')",
	"log":    "(%[1]s, %[2]s, %[3]s, %[4]s, %[7]s, %[5]s, %[6]s, 0, '2026-01-01', 0, 0, 0, 0, null)",
	"line":   "(%[1]s, %[2]s, %[7]s, %[8]s, 'user', null, '2026-01-01', 0, 0, 0, 0, null, 'b', 1, 'generated')",
	"share":  "(%[1]s, %[2]s, %[5]s, %[6]s, '2026-01-01')",
}

// grower makes statements for one asker.
type grower struct {
	*rand.Rand
	asked
	uuids []string
	n     int // statements so far: names of plans and the like must be new
}

func newGrower(a asked, seed uint64) *grower {
	g := &grower{Rand: rand.New(rand.NewPCG(seed, 1)), asked: a}
	g.uuids = append(g.uuids, theTenants...)
	for tenant := range theTenants {
		g.uuids = append(g.uuids, userOf(tenant, 1), userOf(tenant, 2), workspaceOf(tenant, 1), workspaceOf(tenant, 2))
	}
	for _, name := range []string{"private", "first room", "second room", "common room", "tenant"} {
		g.uuids = append(g.uuids, world("session", name), world("log", "session", world("session", name)))
	}
	g.uuids = append(g.uuids, everywhere, commonRoom, nobody, world("log", "job", "one"))
	return g
}

func (g *grower) pick(all ...string) string { return all[g.IntN(len(all))] }

func (g *grower) table() string { return g.pick("record", "log", "line", "share") }

func (g *grower) column(table string) column {
	all := theColumns[table]
	return all[g.IntN(len(all))]
}

// value returns a literal; the own identity is among the likely ones.
func (g *grower) value(kind string) string {
	switch kind {
	case "uuid":
		if me := g.pick(g.tenant, g.user); g.IntN(3) == 0 && len(me) == 36 {
			return "'" + me + "'"
		}
		return "'" + g.uuids[g.IntN(len(g.uuids))] + "'"
	case "kind":
		return g.pick("'session'", "'notes'", "'segment'", "'index'", "'agent'", "'job'", "'user'", "'absent'")
	case "id":
		return g.pick("'one'", "'absent'", "'"+world("session", "private")+"'", "'"+world("session", "tenant")+"'", "'"+world("session", "first room")+"'")
	case "number":
		return fmt.Sprint(g.IntN(5))
	case "bytes":
		return g.pick("'same'::bytea", "''::bytea", g.marker()+"::bytea", "convert_to('{', 'UTF8')")
	}
	return g.pick("'k1'", "'k2'", "''", "'b'", g.marker())
}

// marker names a row that may be anybody's.
func (g *grower) marker() string { return fmt.Sprintf("'MK%05dK'", 1+g.IntN(900)) }

// given is a value to write: never a marker, which would look like a leak when
// it is read again.
func (g *grower) given(kind string) string { return strings.ReplaceAll(g.value(kind), "MK", "KM") }

// condition is about the alias x of a table.
func (g *grower) condition(table string, depth int) string {
	if depth > 0 {
		switch g.IntN(6) {
		case 0:
			return "(" + g.condition(table, depth-1) + " and " + g.condition(table, depth-1) + ")"
		case 1:
			return "(" + g.condition(table, depth-1) + " or " + g.condition(table, depth-1) + ")"
		case 2:
			return "not coalesce(" + g.condition(table, depth-1) + ", false)"
		case 3:
			other, c := g.table(), g.pick("tenant", "owner")
			return fmt.Sprintf("%sexists (select from tidemark.%s y where y.%s = x.%s and %s)", g.pick("", "not "), other, c, c,
				strings.ReplaceAll(g.condition(other, 0), "x.", "y."))
		case 4:
			other := g.table()
			c := g.pick("tenant", "owner")
			return fmt.Sprintf("x.%s in (select x.%s from tidemark.%s x where %s)", c, c, other, g.condition(other, depth-1))
		}
	}
	c := g.column(table)
	x := "x." + c.name
	switch g.IntN(9) {
	case 0:
		return x + " is " + g.pick("", "not ") + "null"
	case 1:
		return fmt.Sprintf("%s in (%s, %s)", x, g.value(c.kind), g.value(c.kind))
	case 2:
		return fmt.Sprintf("%s between %s and %s", x, g.value(c.kind), g.value(c.kind))
	case 3:
		return fmt.Sprintf("%s::text like %s", x, g.pick("'%MK%'", "'%1%'", "'\\\\x4d4b%'", "'________-%'"))
	case 4:
		return "x.ctid is not null" // where a row stands depends on what was there before it
	case 5:
		return fmt.Sprintf("%s is %sdistinct from %s", x, g.pick("", "not "), g.value(c.kind))
	}
	return fmt.Sprintf("%s %s %s", x, g.pick("=", "=", "=", "<>", "<", ">="), g.value(c.kind))
}

// source is a select with every row of it in the answer.
func (g *grower) source(depth int) string {
	table := g.table()
	return fmt.Sprintf("select x.tenant, x.owner, x::text as whole from tidemark.%s x where %s", table, g.condition(table, depth))
}

// next returns one more statement.
func (g *grower) next() statement {
	g.n++
	switch g.IntN(10) {
	case 0:
		return g.insert()
	case 1:
		return g.update()
	case 2:
		return g.remove()
	case 3:
		return g.merge()
	case 4, 5:
		return g.wrapped()
	}
	return statement{sql: g.query()}
}

// tellsRows is a condition that tells every row which it is shown, with the marker in
// it.
const tellsRows = "pg_temp.tell(whole)"

// query is a select of some form.
func (g *grower) query() string {
	a, b := g.source(2), g.source(1)
	switch g.IntN(14) {
	case 0:
		return fmt.Sprintf("select count(*), min(whole), max(whole) from (%s) s", a)
	case 1:
		return fmt.Sprintf("select owner, count(*), string_agg(whole, ',' order by whole) from (%s) s group by rollup (owner) having count(*) > %d", a, g.IntN(3))
	case 2:
		return fmt.Sprintf("select exists (%s), array(select whole from (%s) s order by 1)", a, b)
	case 3:
		return fmt.Sprintf("with a as %smaterialized (%s), b as (%s) select a.whole, b.whole from a %s join b on a.%s = b.owner", g.pick("", "not "), a, b,
			g.pick("left", "full", "inner"), "owner")
	case 4:
		return fmt.Sprintf("select s.whole, l.n from (%s) s, lateral (select count(*) as n from (%s) t where t.owner = s.owner) l", a, b)
	case 5:
		return fmt.Sprintf("(%s) %s (%s)", a, g.pick("union", "union all", "intersect", "except"), b)
	case 6:
		return fmt.Sprintf("select whole, rank() over (partition by owner order by whole), count(*) over (), lag(whole) over (order by whole) from (%s) s", a)
	case 7:
		return fmt.Sprintf("select (select string_agg(whole, '' order by whole) from (%s) s), (select count(distinct owner) from (%s) t)", a, b)
	case 8:
		return fmt.Sprintf("select whole from (%s) s order by whole limit %d offset %d", a, 1+g.IntN(4), g.IntN(4))
	case 9:
		return fmt.Sprintf("with recursive r(n, whole) as (select 0, '' union all select n + 1, (select max(whole) from (%s) s where whole > r.whole) from r where n < 3) select * from r", b)
	case 10:
		return fmt.Sprintf("select json_agg(s order by whole)::text, md5(string_agg(whole, '' order by whole)) from (%s) s", a)
	case 11:
		return fmt.Sprintf("select distinct on (owner) owner, whole from (%s) s order by owner, whole", a)
	case 12:
		return fmt.Sprintf("select count(*) filter (where whole like '%%MK%%'), bool_or(owner is null), sum(length(whole)) from (%s) s where "+tellsRows, a)
	}
	return a
}

// wrapped is a query in something that runs it.
func (g *grower) wrapped() statement {
	q := g.query()
	table := g.table()
	switch g.IntN(9) {
	case 0:
		return statement{sql: "copy (" + q + ") to stdout"}
	case 1:
		return statement{sql: fmt.Sprintf("declare c scroll cursor for select s::text from (%s) s order by 1; fetch %d c; fetch all c; fetch first c", q, g.IntN(4))}
	case 2:
		return statement{sql: fmt.Sprintf("set local plan_cache_mode = %s; prepare g%d as %s; execute g%d; execute g%d; deallocate g%d",
			g.pick("force_generic_plan", "auto"), g.n, q, g.n, g.n, g.n)}
	case 3:
		return statement{sql: fmt.Sprintf("do $$ declare r record; begin for r in %s loop raise notice '%%', r; end loop; end $$", q)}
	case 4:
		return statement{sql: fmt.Sprintf("create temp table g on commit drop as %s; select g::text from g", strings.Replace(q, "(select string_agg(whole, '' order by whole)", "(select max(whole)", 1))}
	case 5:
		return statement{sql: fmt.Sprintf("set local %s = off; set local %s = off; %s", g.pick("enable_seqscan", "enable_indexscan", "enable_hashjoin", "enable_memoize"),
			g.pick("enable_bitmapscan", "enable_nestloop", "enable_material", "enable_hashagg"), q)}
	case 6:
		return statement{sql: fmt.Sprintf("select count(1 / (%s)) from tidemark.%s x where %s", g.pick("length(x::text) - 200", "length(x.owner::text) - 36", "abs(hashtext(x::text)) % 7"), table, g.condition(table, 1))}
	case 7:
		return statement{sql: fmt.Sprintf("select count(x::text::%s) from tidemark.%s x where %s", g.pick("int", "uuid", "inet", "json"), table, g.condition(table, 1))}
	}
	return statement{sql: fmt.Sprintf("select x.tenant, x.owner from tidemark.%s x where %s for %s", table, g.condition(table, 2), g.pick("update", "share", "no key update", "key share"))}
}

// row is one that may be anybody's.
func (g *grower) row(table string) string {
	id, session := g.value("id"), "null"
	if strings.Count(id, "-") == 4 {
		session = g.pick("null", id)
	}
	scope := g.pick("null", "null", g.value("uuid"))
	if table == "share" {
		session, scope = g.value("uuid"), g.value("uuid")
	}
	return fmt.Sprintf(insertable[table]+"%.[1]s", g.value("uuid"), g.value("uuid"), g.value("kind"), id, session, scope, g.value("uuid"), g.value("number"))
}

func (g *grower) insert() statement {
	table := g.table()
	sql := fmt.Sprintf("insert into tidemark.%s as x values %s", table, g.row(table))
	switch g.IntN(5) {
	case 0:
		sql += " on conflict do nothing"
	case 1:
		if keys := map[string]string{"record": "tenant, owner, kind, id", "log": "tenant, owner, kind, id", "line": "tenant, owner, log, seq", "share": "tenant, owner, session"}[table]; keys != "" {
			c := g.column(table)
			sql += fmt.Sprintf(" on conflict (%s) do update set %s = %s where %s", keys, c.name, g.given(c.kind), g.condition(table, 1))
		}
	}
	return statement{sql: sql + g.pick("", " returning *"), commit: true}
}

func (g *grower) update() statement {
	table := g.table()
	c, d := g.column(table), g.column(table)
	sql := fmt.Sprintf("update tidemark.%s x set %s = %s", table, c.name, g.given(c.kind))
	if c != d {
		sql += fmt.Sprintf(", %s = %s", d.name, g.given(d.kind))
	}
	return statement{sql: sql + " where " + g.condition(table, 2) + g.pick("", " returning *"), commit: g.IntN(3) == 0}
}

// remove is rolled back unless it names a foreign owner: a world without own
// rows has little to tell.
func (g *grower) remove() statement {
	table := g.table()
	sql := fmt.Sprintf("delete from tidemark.%s x where %s", table, g.condition(table, 2))
	if g.IntN(2) == 0 {
		return statement{sql: sql + fmt.Sprintf(" and not coalesce(x.owner = %s, false)", orNull(g.user36())), commit: true}
	}
	return statement{sql: sql + g.pick("", " returning *")}
}

// user36 is the user, if it is one.
func (g *grower) user36() string {
	if len(g.user) == 36 {
		return g.user
	}
	return ""
}

func (g *grower) merge() statement {
	table := g.table()
	c := g.column(table)
	return statement{sql: fmt.Sprintf("merge into tidemark.%s x using (%s) s on x.%s = s.%s and x.owner = %s when matched and %s then %s when not matched then insert values %s",
		table, g.source(1), "tenant", "tenant", g.value("uuid"), g.condition(table, 1),
		g.pick("delete", "do nothing", fmt.Sprintf("update set %s = %s", c.name, g.given(c.kind))), g.row(table))}
}
