//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// The world in which foreign rows are looked for: three tenants, in each some
// users of its own, one user and one workspace that are in all of them, and
// the tenant itself. Everybody has sessions of the same ids, with logs, keys
// of the same names, so that a policy which forgets a part of the
// key finds something. Every row carries a marker of its own.

var (
	theTenants = []string{world("tenant", "a"), world("tenant", "b"), world("tenant", "c")}
	everywhere = world("user", "everywhere")      // a user in every tenant
	commonRoom = world("workspace", "everywhere") // a workspace in every tenant
	nobody     = world("user", "nobody")          // an id that is nowhere
	auditor    = tidemark.Operator().User         // reads what was done, in every tenant
)

func world(kind string, names ...string) string { return tidemark.IDOf(kind, names...) }

func userOf(tenant, n int) string      { return world("user", fmt.Sprint(tenant), fmt.Sprint(n)) }
func workspaceOf(tenant, n int) string { return world("workspace", fmt.Sprint(tenant), fmt.Sprint(n)) }

// scopesOf are the sessions that everybody has, and with whom they share
// them.
func scopesOf(tenant int) map[string]string {
	return map[string]string{
		world("session", "private"):     "",
		world("session", "first room"):  workspaceOf(tenant, 1),
		world("session", "second room"): workspaceOf(tenant, 2),
		world("session", "common room"): commonRoom,
		world("session", "tenant"):      theTenants[tenant],
	}
}

// populate fills a migrated database, as superuser.
func populate(t testing.TB, db *pgtest.Database) {
	t.Helper()
	f := &filler{}
	for tenant, id := range theTenants {
		owners := []string{id, everywhere, userOf(tenant, 1), userOf(tenant, 2)}
		for _, owner := range owners {
			f.owner(tenant, id, owner)
		}
		for _, scope := range []string{id, commonRoom, workspaceOf(tenant, 1), workspaceOf(tenant, 2)} {
			f.index(id, scope)
		}
		f.acts(id)
	}
	f.add(`update tidemark.log set lease = 1 where kind = 'session' and id in ('%s', '%s')`, world("session", "private"), world("session", "tenant"))
	asSuper(t, db, strings.Join(f.sql, ";\n")+"; analyze")
}

type filler struct {
	sql    []string
	marked int
}

// marker is the name of one row.
func (f *filler) marker() string {
	f.marked++
	return fmt.Sprintf("MK%05dK", f.marked)
}

func (f *filler) add(format string, args ...any) { f.sql = append(f.sql, fmt.Sprintf(format, args...)) }

func (f *filler) owner(tenant int, id, owner string) {
	scopes := scopesOf(tenant)
	for _, session := range slices.Sorted(maps.Keys(scopes)) {
		scope := scopes[session]
		if owner == id {
			scope = "" // what a tenant owns itself needs no share
		}
		if scope != "" {
			f.add(`insert into tidemark.share values ('%s', '%s', '%s', '%s', '2026-01-01')`, id, owner, session, scope)
		}
		f.record(id, owner, "session", session, session, scope)
		f.record(id, owner, "notes", session, session, scope)
		f.log(id, owner, "session", session, session, scope)
		f.record(id, owner, "cold", session+".session", session, scope)
		f.log(id, owner, "cold", packedOf(session), session, scope)
	}
	// What belongs to no session is the owner's alone.
	f.record(id, owner, "agent", "one", "", "")
	f.record(id, owner, "job", "one", "", "")
	f.log(id, owner, "job", "one", "", "")
	if owner != id { // that of the tenant is the one of its scope
		f.index(id, owner)
	}
}

// packedOf names the older lines of a session, which are packed.
func packedOf(session string) string { return session + ".session.0123456789abcdef0123456789abcdef" }

// theSegment is a segment of the search index, which every scope has and every owner.
var theSegment = world("segment", "one")

// index is the search index of what is shared with a scope.
func (f *filler) index(tenant, scope string) {
	f.record(tenant, scope, "index", "index.shared", "", "")
	f.record(tenant, scope, "segment", theSegment, "", "")
	f.log(tenant, scope, "segment", theSegment, "", "")
	f.record(tenant, scope, "unindexed", world("session", "private")+".old", "", "")
}

// acts are what was done in a tenant, by servers that everybody has.
func (f *filler) acts(tenant string) {
	for n := 1; n <= 2; n++ {
		m := f.marker()
		f.add(`insert into tidemark.act values ('%s', '%s', 'first', %d, '2026-01-01', '%s', 1, '{"m":"%s"}')`, tenant, oldNode, n, m, m)
	}
}

// oldNode is the server whose rows of act nobody may change any more.
const oldNode = "old"

// orNull quotes a value; an empty one is null.
func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return "'" + s + "'"
}

func (f *filler) record(tenant, owner, kind, id, session, scope string) {
	m := f.marker()
	f.add(`insert into tidemark.record values ('%s', '%s', '%s', '%s', %s, %s, 1, '%s', '%s', '2026-01-01', '2026-01-01', '2026-01-01', '%s', 1, '{"m":"%s"}')`,
		tenant, owner, kind, id, orNull(session), orNull(scope), m, m, m, m)
}

func (f *filler) log(tenant, owner, kind, id, session, scope string) {
	log := world("log", kind, id)
	f.add(`insert into tidemark.log values ('%s', '%s', '%s', '%s', '%s', %s, %s, 3, '2026-01-01', 1, 1, 1, 1, '%s')`,
		tenant, owner, kind, id, log, orNull(session), orNull(scope), f.marker())
	for seq := 1; seq <= 3; seq++ {
		m := f.marker()
		f.add(`insert into tidemark.line values ('%s', '%s', '%s', %d, 'user', 'k%d', '2026-01-01', 1, 1, 1, 1, '%s', '%s', 1, '{"blocks":[{"type":"text","text":"%s"}]}')`,
			tenant, owner, log, seq, seq, m, m, m)
	}
}

// asked is what a transaction says about who asks. Empty strings are set as
// they are; with unset, nothing is set at all.
type asked struct {
	name         string
	tenant, user string
	workspaces   []string
	of           string
	logs         []string
	users        []string // for whom something is committed together
	unset        bool
	asOwner      bool // over the connection of the owner of the tables
	garbled      bool // the settings are no ids, and no row is seen
}

// settings returns the statement that sets them for one transaction.
func (a asked) settings() string {
	if a.unset {
		return "select 1"
	}
	return fmt.Sprintf(`select set_config('tidemark.tenant', '%s', true), set_config('tidemark.user', '%s', true),
set_config('tidemark.workspaces', '%s', true), set_config('tidemark.of', '%s', true), set_config('tidemark.logs', '%s', true), set_config('tidemark.users', '%s', true)`,
		a.tenant, a.user, array(a.workspaces), a.of, array(a.logs), array(a.users))
}

func array(ids []string) string { return "{" + strings.Join(ids, ",") + "}" }

// own is the condition for rows that belong to who asks.
func (a asked) own() string {
	if a.unset || a.garbled || a.tenant == "" || a.user == "" {
		return "false"
	}
	return fmt.Sprintf("(tenant = '%s' and owner = '%s')", a.tenant, a.user)
}

// together is the condition for rows of those for whom something is committed
// together.
func (a asked) together() string {
	if a.unset || a.garbled || a.tenant == "" || len(a.users) == 0 {
		return "false"
	}
	return fmt.Sprintf("(tenant = '%s' and owner in ('%s'))", a.tenant, strings.Join(a.users, "','"))
}

// aLeased is the condition for logs that a commit for several users goes on with.
const aLeased = "kind = 'session' and lease is not null"

// visible is the model of who sees what: the condition for the rows of a table
// that a may read. It says in literals what the policies say in settings.
func (a asked) visible(table string) string {
	if a.unset || a.garbled || a.tenant == "" {
		return "false"
	}
	if table == "act" {
		return fmt.Sprintf("tenant = '%s' and %t", a.tenant, a.user == auditor)
	}
	scopes := "'" + strings.Join(append([]string{a.tenant}, a.workspaces...), "','") + "'"
	own := "owner = " + orNull(a.user)
	var others string
	switch table {
	case "record":
		others = fmt.Sprintf("scope in (%[1]s) or session is not null and owner = '%[2]s' or kind in ('index', 'segment', 'unindexed') and owner in (%[1]s)", scopes, a.tenant)
	case "log":
		others = fmt.Sprintf("scope in (%[1]s) or session is not null and owner = '%[2]s' or kind = 'segment' and owner in (%[1]s)", scopes, a.tenant)
		if a.of == "" {
			others += " or " + a.together() + " and " + aLeased
		}
	case "share":
		others = fmt.Sprintf("scope in (%s) or %s", scopes, a.together())
	case "line":
		others = fmt.Sprintf(`exists (select from tidemark.log l where l.tenant = %[1]s.tenant and l.owner = %[1]s.owner and l.log = %[1]s.log
and (l.scope in (%[2]s) or l.session is not null and l.owner = '%[3]s' or l.kind = 'segment' and l.owner in (%[2]s)))`, table, scopes, a.tenant)
	}
	return fmt.Sprintf("tenant = '%s' and coalesce(%s or %s, false)", a.tenant, own, others)
}

// theTables are all that hold rows of somebody, those that others are judged
// by last.
var theTables = []string{"line", "record", "log", "share"}

// withActs are the tables with the one whose rows are their tenant's alone.
var withActs = append(slices.Clip(theTables), "act")

// alone takes away every row that a may not read: what is left is all that a
// may know. Whoever adds lines for others learns which there are, by their keys.
func alone(t testing.TB, db *pgtest.Database, a asked) {
	t.Helper()
	for _, table := range withActs {
		stays := a.visible(table)
		if table == "log" || table == "line" {
			stays += " or " + a.together()
		}
		// Without the trigger by which a log forgets its lease.
		asSuper(t, db, fmt.Sprintf("set session_replication_role = replica; delete from tidemark.%s where not (%s)", table, stays))
	}
}

func asSuper(t testing.TB, db *pgtest.Database, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func countAsSuper(t testing.TB, db *pgtest.Database, sql string) (n string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), strings.Replace(sql, "count(*)", "count(*)::text", 1)).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// askers are those in whose name statements are run. All of them are in the
// first tenant, or pretend to be.
func askers() []asked {
	a, b := theTenants[0], theTenants[1]
	first := userOf(0, 1)
	logs := []string{world("log", "job", "one"), world("log", "segment", theSegment)}
	for _, session := range slices.Sorted(maps.Keys(scopesOf(0))) {
		logs = append(logs, world("log", "session", session), world("log", "cold", packedOf(session)))
	}
	rooms := []string{workspaceOf(0, 1)}
	return []asked{
		{name: "a member of one room", tenant: a, user: first, workspaces: rooms},
		{name: "a member who names the logs of another", tenant: a, user: first, workspaces: rooms, of: userOf(0, 2), logs: logs},
		{name: "a member who names the logs of the tenant", tenant: a, user: first, workspaces: rooms, of: a, logs: logs},
		{name: "a member who is in every tenant", tenant: a, user: everywhere, workspaces: []string{commonRoom}, of: everywhere, logs: logs},
		{name: "a member of no room", tenant: a, user: userOf(0, 2)},
		{name: "the tenant itself", tenant: a, user: a, of: first, logs: logs},
		{name: "a user of another tenant", tenant: a, user: userOf(1, 1), workspaces: []string{workspaceOf(1, 1)}, of: userOf(1, 1), logs: logs},
		{name: "somebody who gives people and tenants for rooms", tenant: a, user: first, workspaces: []string{userOf(0, 2), b, everywhere}, of: b, logs: logs},
		{name: "somebody without a user", tenant: a, of: first, logs: logs},
		{name: "somebody without a tenant", user: first, workspaces: rooms, of: first, logs: logs},
		{name: "somebody who sets nothing", unset: true},
		{name: "somebody who sets garbage", tenant: "x'' or true", user: "%", garbled: true},
		{name: "the owner of the tables", tenant: a, user: first, workspaces: rooms, of: userOf(0, 2), logs: logs, asOwner: true},
		{name: "the owner of the tables who sets nothing", unset: true, asOwner: true},
		{name: "who reads what was done in a tenant", tenant: a, user: auditor},
		{name: "a member who names the index of a room", tenant: a, user: first, workspaces: rooms, of: workspaceOf(0, 1), logs: logs},
		{name: "a member who names the index of another's room", tenant: a, user: first, workspaces: rooms, of: workspaceOf(0, 2), logs: logs},
		{name: "who commits for two", tenant: a, user: first, workspaces: rooms, users: []string{userOf(0, 2), everywhere}},
		{name: "who commits for one and names its logs", tenant: a, user: first, workspaces: rooms, users: []string{userOf(0, 2)}, of: userOf(0, 2), logs: logs},
		{name: "who commits for somebody of another tenant", tenant: a, users: []string{userOf(1, 1), everywhere}},
	}
}
