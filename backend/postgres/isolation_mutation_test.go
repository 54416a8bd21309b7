//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// The test of the test: each single thing that keeps rows apart is taken away
// in a copy of the world, and the look for leaks must find that. What is
// there to take away is read from the catalog, so that a policy which is added
// later is watched from its first day.

// mutation is one protection that is taken away.
type mutation struct {
	name, sql, undo string
	about           string // what the statements that can notice have in them, mostly a relation; "": anything
	idle            string // why nothing can be seen or changed by it alone; "": it must be found
}

var aRelation = regexp.MustCompile(`tidemark\.[a-z_]+`)

const (
	forced  = "the owner whose eyes it lends is under the policies, too"
	nowhere = "a foreign key needs a table to put it on, and the role can make none that lasts"
	owners  = "it lets the owner of the tables alone, who says so, and could take every policy away"
	unasked = "no statement asks for a part of act or for how long it is kept: no right to, no policy that shows a row"
	control = "nothing is taken away: what is found here is a fault of the test"
)

// besideActs is what a server never asks for by its name.
var besideActs = regexp.MustCompile(`tidemark\.(act_|keep\b)`)

func mutations(t *testing.T, db *pgtest.Database) (all []mutation) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	names := func(sql string, args ...any) []string {
		rows, _ := conn.Query(t.Context(), sql, args...)
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return found
	}
	add := func(idle, format string, args ...any) {
		sql := fmt.Sprintf(format, args...)
		if besideActs.MatchString(sql) {
			idle = unasked
		}
		all = append(all, mutation{name: sql, sql: sql, idle: idle, about: aRelation.FindString(sql)})
	}
	add(control, "select 1")
	if !everyStatement() {
		all[0].about = "tidemark.record" // for the others, TestNoStatementTellsOrChangesAForeignRow is the control
	}
	for _, p := range names(`select format('%I on %I.%I', policyname, schemaname, tablename) from pg_policies where schemaname = 'tidemark' and roles = '{public}'`) {
		add("", "drop policy %s", p)
	}
	for _, p := range names(`select format('%I on %I.%I', policyname, schemaname, tablename) from pg_policies where schemaname = 'tidemark' and roles <> '{public}'`) {
		add(owners, "drop policy %s", p)
		add("", "alter policy %s to public using (true)", p)
	}
	for _, p := range names(`select format('%I on %I.%I', policyname, schemaname, tablename) from pg_policies where schemaname = 'tidemark' and roles = '{public}' and qual is not null`) {
		add("", "alter policy %s using (true)", p)
	}
	for _, p := range names(`select format('%I on %I.%I', policyname, schemaname, tablename) from pg_policies where schemaname = 'tidemark' and roles = '{public}' and cmd = 'ALL'`) {
		add("", "alter policy %s with check (true)", p)
	}
	for _, p := range names(`select format('%I on %I.%I', policyname, schemaname, tablename) from pg_policies where schemaname = 'tidemark' and cmd = 'INSERT' and with_check <> 'true'`) {
		add("", "alter policy %s with check (true)", p)
	}
	for _, name := range names(`select relname::text from pg_class where relnamespace = 'tidemark'::regnamespace and relrowsecurity`) {
		add("", "alter table tidemark.%s disable row level security", name)
	}
	for _, name := range names(`select relname::text from pg_class where relnamespace = 'tidemark'::regnamespace and relforcerowsecurity`) {
		add("", "alter table tidemark.%s no force row level security", name)
	}
	for _, name := range names(`select relname::text from pg_class where relnamespace = 'tidemark'::regnamespace and relkind = 'v'`) {
		add(forced, "alter view tidemark.%s reset (security_invoker)", name)
	}
	for _, f := range names(`select oid::regprocedure::text from pg_proc where pronamespace = 'tidemark'::regnamespace and proname like 'setting%'`) {
		add("", "alter function %s immutable", f)
		all[len(all)-1].about = "plan_cache_mode" // a setting is made part of a plan that is used again
	}
	all = append(all, grants(db, names)...)
	return append(all, powers(db)...)
}

// grants turns each right of the server's role on each relation round.
func grants(db *pgtest.Database, names func(string, ...any) []string) (all []mutation) {
	for _, g := range names(`select format('%s %s on %s %s '||$1, case when has_table_privilege($1, c.oid, p) then 'revoke' else 'grant' end, p, c.oid::regclass,
  case when has_table_privilege($1, c.oid, p) then 'from' else 'to' end)
from pg_class c, unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) p
where relnamespace = 'tidemark'::regnamespace and relkind in ('r', 'p', 'v') and (relkind <> 'v' or p = 'select') order by 1`, db.Role) {
		m := mutation{name: g, sql: g, about: aRelation.FindString(g)}
		if strings.HasPrefix(g, "grant references") {
			m.idle = nowhere
		}
		if besideActs.MatchString(g) {
			m.idle = unasked
		}
		all = append(all, m)
	}
	return all
}

// powers are what would lift the role above every policy. Roles belong to all
// databases, so each is taken back.
func powers(db *pgtest.Database) []mutation {
	owner := strings.TrimSuffix(db.Role, "_server") + "_owner"
	both := func(about, do, undo string) mutation { return mutation{name: do, sql: do, undo: undo, about: about} }
	return []mutation{
		both("tidemark.record", "alter role "+db.Role+" superuser", "alter role "+db.Role+" nosuperuser"),
		both("tidemark.record", "alter role "+db.Role+" bypassrls", "alter role "+db.Role+" nobypassrls"),
		both(" role ", "alter role "+db.Role+" createrole", "alter role "+db.Role+" nocreaterole"),
		both(" role ", "grant "+owner+" to "+db.Role, "revoke "+owner+" from "+db.Role),
		both("create ", "grant create on schema tidemark to "+db.Role, ""),
		both("create ", "grant create on schema public to "+db.Role, ""),
		both("create ", "grant create on database current_database to "+db.Role, ""),
		both("tidemark.record", "alter table tidemark.record owner to "+db.Role, ""),
	}
}

// judges are the askers that mutations are shown to, those first who find most.
func judges() (all []asked) {
	askers := askers()
	for _, i := range []int{3, 12, 1, 2, 0, 14, 15, 17, 18} {
		all = append(all, askers[i])
	}
	return all
}

// jury is what the judges expect, by what statements are about. A mutation is
// shown to those that have to do with it. What a judge expects is
// worked out when the first mutation needs it: most are found by the first
// judge.
type jury struct {
	world *pgtest.Database
	mu    sync.Mutex
	by    map[charge]func() expectation
}

// charge is what one judge looks at.
type charge struct{ judge, about string }

func (j *jury) expectation(t *testing.T, a asked, about string) expectation {
	t.Helper()
	j.mu.Lock()
	c := charge{a.name, about}
	if j.by[c] == nil {
		j.by[c] = sync.OnceValue(func() expectation {
			concerned := slices.DeleteFunc(attacks(a), func(s statement) bool { return !strings.Contains(s.sql, about) })
			return expect(t, j.world, a, concerned)
		})
	}
	of := j.by[c]
	j.mu.Unlock()
	return of()
}

var aGrant = regexp.MustCompile(`^(grant|revoke) `)

// verdict is what was found of the mutations, by what came out.
type verdict struct {
	mu                      sync.Mutex
	caught, idle, unnoticed []string
}

func TestEveryProtectionIsMissedWhenItIsGone(t *testing.T) {
	world := template(t)
	j := &jury{world: world, by: make(map[charge]func() expectation)}
	v := new(verdict)
	var ofAll []func(*testing.T) // what changes roles, and so every database
	t.Run("in a database", func(t *testing.T) {
		t.Run("what nothing misses is a fault", func(t *testing.T) {
			t.Parallel()
			const sql = "comment on view tidemark.jobs is 'no protection'"
			m := mutation{name: sql, sql: sql, about: "tidemark.jobs"}
			if got := m.faults(m.findings(t, j)); len(got) != 2 {
				t.Errorf("faults %q, want that neither the attacks nor the self-test noticed", got)
			}
		})
		for i, m := range mutations(t, world) {
			// Each policy, FORCE and WITH CHECK is taken away each time. Of what is
			// many times alike, long runs try all and short ones every fourth.
			alike := strings.Contains(m.sql, "using (true)") || aGrant.MatchString(m.sql) && aRelation.MatchString(m.sql)
			if alike && !everyStatement() && i%4 != 0 {
				continue
			}
			if m.undo != "" {
				ofAll = append(ofAll, func(t *testing.T) { v.of(t, m, j) })
				continue
			}
			t.Run(fmt.Sprint(i), func(t *testing.T) { // each copy is dropped at once
				t.Parallel()
				v.of(t, m, j)
			})
		}
	})
	for i, try := range ofAll {
		t.Run(fmt.Sprintf("of all databases %d", i), try)
	}
	t.Logf("%d are found by the look for leaks", len(v.caught))
	t.Logf("%d open nothing alone:\n%s", len(v.idle), strings.Join(v.idle, "\n"))
	t.Logf("%d are not refused by the self-test:\n%s", len(v.unnoticed), strings.Join(v.unnoticed, "\n"))
}

// of tries one mutation and notes what came out.
func (v *verdict) of(t *testing.T, m mutation, j *jury) {
	t.Helper()
	found, refused := m.findings(t, j)
	for _, fault := range m.faults(found, refused) {
		t.Error(fault)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(found) > 0 {
		t.Logf("%s: %.600s", m.name, found[0])
		v.caught = append(v.caught, m.name)
	} else {
		v.idle = append(v.idle, m.name+": "+m.idle)
	}
	if !refused {
		v.unnoticed = append(v.unnoticed, m.name)
	}
}

// faults says what is wrong with how a mutation was noticed.
func (m mutation) faults(found []string, refused bool) (all []string) {
	switch {
	case len(found) > 0 && m.idle == control:
		all = append(all, m.name+": "+found[0])
	case len(found) == 0 && m.idle == "":
		all = append(all, m.name+": nothing was found")
	}
	// What is outside of the schema tells nobody anything.
	if !refused && m.idle != control && !strings.Contains(m.sql, "grant create on") {
		all = append(all, m.name+": the self-test did not notice")
	}
	return all
}

// findings shows the mutation to one judge after the other, until one finds
// something. refused says that the self-test would not serve.
func (m mutation) findings(t *testing.T, j *jury) (found []string, refused bool) {
	t.Helper()
	judges := judges()
	if m.idle != "" && (m.idle != control || !everyStatement()) {
		judges = judges[:1]
	}
	for _, a := range judges {
		found, refused = m.shown(t, j.world, j.expectation(t, a, m.about))
		if len(found) > 0 {
			break
		}
	}
	return found, refused
}

// shown applies the mutation to a copy of the world. Each judge gets its own:
// what one does with own rows another one may see.
func (m mutation) shown(t *testing.T, world *pgtest.Database, e expectation) (found []string, refused bool) {
	t.Helper()
	db := world.Copy(t)
	asSuper(t, db, strings.ReplaceAll(m.sql, "current_database", db.Name))
	if m.undo != "" {
		defer asSuper(t, db, m.undo)
	}
	served, err := postgres.Connect(t.Context(), db.Server, &postgres.Options{Pooler: postgres.Direct})
	if err == nil {
		served.Close()
	}
	return e.findings(t, db), err != nil
}
