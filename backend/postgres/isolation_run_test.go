//go:build unix

package postgres_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// The proof is by comparison: each statement is run in the world with
// everybody in it and in the one that is left when everything is taken away
// that the asker may not read. If the two answers are equal, nothing foreign
// was told, be it as a row, a count, an error or the lack of one. Beside that,
// no answer may hold the marker of a foreign row, and what is foreign must be
// as it was.

// statement is one thing that an asker tries.
type statement struct {
	sql     string
	commit  bool   // else it is rolled back
	copied  string // what COPY FROM sends
	vague   bool   // estimates, plans: only markers are looked for
	refused bool   // must be an error, whatever the worlds say
}

func (s statement) String() string {
	if s.commit {
		return s.sql + " -- committed"
	}
	return s.sql
}

// answer is all that an asker learns from a statement.
type answer struct {
	text  string // sorted rows, tags and notices, or the error
	state string // SQLSTATE of the error, "" when there was none
	whole string // the text with the words of the error, for markers
	rows  int
}

// visitor is an asker on a connection to one world.
type visitor struct {
	asked
	conn    *pgconn.PgConn
	notices *bytes.Buffer
}

func visit(t testing.TB, db *pgtest.Database, a asked) *visitor {
	t.Helper()
	url := db.Server
	if a.asOwner {
		url = db.Owner
	}
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{asked: a, notices: new(bytes.Buffer)}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { fmt.Fprintln(v.notices, n.Message, n.Detail, n.Hint) }
	if v.conn, err = pgconn.ConnectConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := v.conn.Exec(t.Context(), beforehand).ReadAll(); err != nil {
		t.Fatal(err)
	}
	v.notices.Reset()
	return v
}

// beforehand is what an attacker can always prepare: functions that are cheap,
// so that the planner likes to run them first, and that tell what they get.
const beforehand = `set client_min_messages = notice;
create function pg_temp.tell(anyelement) returns boolean language plpgsql cost 0.0001 as $$ begin raise notice '%', $1; return true; end $$;
create function pg_temp.tell(bytea) returns boolean language plpgsql cost 0.0001 as $$ begin raise notice '%', encode($1, 'escape'); return true; end $$;
create function pg_temp.snap(bytea) returns boolean language plpgsql cost 0.0001 as $$ begin perform encode($1, 'escape')::int; return true; end $$;
create table pg_temp.loot (what text)`

func (v *visitor) close() { v.conn.Close(context.Background()) }

// try runs one statement in a transaction of its own.
func (v *visitor) try(ctx context.Context, s statement) (answer, error) {
	v.notices.Reset()
	if _, err := v.conn.Exec(ctx, "begin;"+v.settings()).ReadAll(); err != nil {
		return answer{}, err
	}
	ans, err := v.run(ctx, s)
	if err != nil {
		return answer{}, err
	}
	end := "rollback"
	if s.commit {
		end = "commit"
	}
	_, err = v.conn.Exec(ctx, end).ReadAll()
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) { // a constraint that is looked at last
		ans, err = answer{text: "at the end: " + refused.Code, state: refused.Code, whole: words(refused)}, nil
	}
	return ans, err
}

func (v *visitor) run(ctx context.Context, s statement) (answer, error) {
	var out strings.Builder
	rows := 0
	var err error
	switch {
	case s.copied != "":
		_, err = v.conn.CopyFrom(ctx, strings.NewReader(s.copied), s.sql)
	case strings.HasPrefix(s.sql, "copy"):
		var tag pgconn.CommandTag
		var b bytes.Buffer
		tag, err = v.conn.CopyTo(ctx, &b, s.sql)
		lines := strings.Split(b.String(), "\n")
		slices.Sort(lines)
		rows = len(lines) - 1
		fmt.Fprintln(&out, lines, tag)
	default:
		var results []*pgconn.Result
		results, err = v.conn.Exec(ctx, s.sql).ReadAll()
		for _, r := range results {
			rows += len(r.Rows)
			fmt.Fprintln(&out, table(r), r.CommandTag)
		}
	}
	notes := strings.Split(v.notices.String(), "\n")
	slices.Sort(notes)
	ans := answer{text: out.String() + strings.Join(notes, "\n"), rows: rows}
	ans.whole = ans.text
	refused := (*pgconn.PgError)(nil)
	switch {
	case errors.As(err, &refused):
		// Which of several rows an error is about is chance: its code counts.
		ans.text, ans.state = "refused: "+refused.Code+" "+refused.ConstraintName, refused.Code
		ans.whole += words(refused)
	case err != nil:
		return answer{}, fmt.Errorf("%s: %w", s, err)
	}
	return ans, nil
}

func words(e *pgconn.PgError) string {
	return fmt.Sprintln(e.Code, e.Message, e.Detail, e.Hint, e.Where, e.InternalQuery, e.DataTypeName, e.ColumnName, e.ConstraintName)
}

func table(r *pgconn.Result) []string {
	var rows []string
	for _, row := range r.Rows {
		rows = append(rows, string(bytes.Join(row, []byte("|"))))
	}
	slices.Sort(rows)
	return rows
}

var aMarker = regexp.MustCompile(`MK[0-9]{5}K`)

// markers returns the markers in a text, those in hexadecimal too.
func markers(text string) []string {
	found := aMarker.FindAllString(text, -1)
	for _, m := range aHexMarker.FindAllString(text, -1) {
		if b, err := hex.DecodeString(m); err == nil {
			found = append(found, string(b))
		}
	}
	return found
}

var aHexMarker = regexp.MustCompile(`4d4b(3[0-9]){5}4b`)

// allowed returns the markers of the rows that an asker may read.
func allowed(t testing.TB, db *pgtest.Database, a asked) map[string]bool {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), db.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	all := make(map[string]bool)
	for _, name := range withActs {
		results, err := conn.Exec(t.Context(), fmt.Sprintf("select (%[1]s.*)::text from tidemark.%[1]s where %s", name, a.visible(name))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range table(results[0]) {
			for _, m := range markers(row) {
				all[m] = true
			}
		}
	}
	return all
}

// expectation is what an asker is told in the world of its own, statement by
// statement.
type expectation struct {
	asked
	statements []statement
	answers    []answer
	allowed    map[string]bool
}

// expect runs the statements in the world of the asker.
func expect(t testing.TB, template *pgtest.Database, a asked, statements []statement) expectation {
	t.Helper()
	db := template.Copy(t)
	alone(t, db, a)
	e := expectation{asked: a, statements: statements, allowed: allowed(t, db, a)}
	v := visit(t, db, a)
	defer v.close()
	for _, s := range statements {
		ans, err := v.try(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		e.answers = append(e.answers, ans)
	}
	return e
}

// maxFindings ends a look at a world: a leak shows in many statements.
const maxFindings = 1

// findings runs the statements in the world of everybody and returns what
// should not be: an empty result is the proof.
func (e expectation) findings(t testing.TB, db *pgtest.Database) (found []string) {
	t.Helper()
	before, rooms := e.foreign(t, db)
	v := visit(t, db, e.asked)
	defer v.close()
	for i, s := range e.statements {
		got, err := v.try(t.Context(), s)
		if err != nil {
			return append(found, fmt.Sprintf("%s: %v", e.name, err))
		}
		if what := e.judge(s, got, e.answers[i]); what != "" {
			found = append(found, fmt.Sprintf("%s: %s\n\t%s", e.name, s, what))
		}
		if len(found) >= maxFindings {
			return found
		}
	}
	after, pushed := e.foreign(t, db)
	if after != before {
		found = append(found, fmt.Sprintf("%s: something foreign has changed:\n\tbefore %s\n\tafter  %s", e.name, before, after))
	}
	for name, n := range pushed {
		if n > rooms[name] {
			found = append(found, fmt.Sprintf("%s: %d rows of %s were put where the asker must not share", e.name, n-rooms[name], name))
		}
	}
	return found
}

func (e expectation) judge(s statement, got, want answer) string {
	for _, m := range markers(got.whole) {
		if !e.allowed[m] && !strings.Contains(s.sql, m) {
			return "tells the marker " + m
		}
	}
	switch {
	case s.refused && got.state == "":
		return "is not refused: " + clip(got.text)
	case s.vague, got.text == want.text:
		return ""
	case e.garbled && got.state == "22P02": // settings are read when there is a row to judge, and are no ids
		return ""
	}
	return fmt.Sprintf("answers\n\t%s\n\twithout the others\n\t%s", clip(got.whole), clip(want.whole))
}

func clip(s string) string { return fmt.Sprintf("%.300q", s) }

// foreign sums up everything that the asker must not change, the rows of
// others and what protects them all, and counts own rows that are shared where
// the asker is not, by table.
func (e expectation) foreign(t testing.TB, db *pgtest.Database) (sum string, rooms map[string]int) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), db.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var sums []string
	ask := func(sql string) string {
		results, err := conn.Exec(t.Context(), sql).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return string(results[0].Rows[0][0])
	}
	for _, name := range theTables {
		may := e.own()
		switch name {
		case "log":
			may += " or " + e.together() + " and " + aLeased
		case "line": // what is there stays as it is
			may += " or " + e.together() + " and not (seq <= 3 and batch like 'MK%')"
		}
		sums = append(sums, name+" "+ask(fmt.Sprintf("select coalesce(left(md5(string_agg(x::text, ',' order by x::text)), 8), '') || '/' || count(*) from tidemark.%s x where not (%s)", name, may)))
	}
	// What was done stays as it was in every tenant, and is added to in one's own.
	sums = append(sums, "act "+ask(fmt.Sprintf("select coalesce(left(md5(string_agg(x::text, ',' order by x::text)), 8), '') || '/' || count(*) from tidemark.act x where node = '%s' or tenant::text <> '%s'",
		oldNode, strings.ReplaceAll(e.tenant, "'", ""))))
	rooms = make(map[string]int)
	scopes := "'" + strings.Join(append([]string{e.tenant, nobody}, e.workspaces...), "','") + "'"
	for _, name := range []string{"record", "log", "share"} {
		rooms[name], err = strconv.Atoi(ask(fmt.Sprintf("select count(*) from tidemark.%s where %s and scope::text not in (%s)", name, e.own(), scopes)))
		if err != nil {
			t.Fatal(err)
		}
	}
	sums = append(sums, "catalog "+ask(`select left(md5(string_agg(x, ',' order by x)), 8) from (
select p::text x from pg_policies p union all
select concat(relname, relkind, relacl, relrowsecurity, relforcerowsecurity, reloptions, relowner, reltriggers) from (select c.*, relhastriggers reltriggers from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = 'tidemark') c union all
select concat(proname, prosrc, proacl, proowner, prosecdef, provolatile) from pg_proc where pronamespace = 'tidemark'::regnamespace union all
select concat(nspname, nspacl, nspowner) from pg_namespace where nspname !~ '^pg_' union all
select concat(rolname, rolsuper, rolbypassrls, rolcreaterole) from pg_roles union all
select m::text from pg_auth_members m) c`))
	return strings.Join(sums, ", "), rooms
}
