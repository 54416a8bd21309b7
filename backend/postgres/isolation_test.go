//go:build unix

package postgres_test

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// template is a world with everybody in it, to be copied: who connects to it
// is in the way of that.
func template(t testing.TB) *pgtest.Database {
	t.Helper()
	return worldOf(t, postgres.Migration{})
}

// worldOf puts all worlds on one server. Autovacuum would make plans differ.
func worldOf(t testing.TB, m postgres.Migration) *pgtest.Database {
	t.Helper()
	c := pgtest.StartWith(t, pgtest.Options{Settings: map[string]string{"autovacuum": "off", "max_locks_per_transaction": "256"}})
	return c.Prepared(t, fmt.Sprint(m.Partitions), func(db *pgtest.Database) error {
		m.Role = db.Role
		if err := m.Run(t.Context(), db.Owner); err != nil {
			return err
		}
		populate(t, db)
		return nil
	})
}

func TestPartitionsAreAsClosedAsTheirTable(t *testing.T) {
	world := worldOf(t, postgres.Migration{Partitions: 3})
	for _, a := range judges()[:2] {
		all := slices.DeleteFunc(attacks(a), func(s statement) bool { return !strings.Contains(s.sql, "tidemark.line") })
		for part := range 3 {
			name := fmt.Sprint("tidemark.line_", part)
			for _, sql := range []string{"select * from ", "copy %s to stdout", "delete from ", "truncate ", "table "} {
				if !strings.Contains(sql, "%s") {
					sql += "%s"
				}
				// The owner may ask, and gets nothing: no policy lets anybody.
				all = append(all, statement{sql: strings.ReplaceAll(sql, "%s", name), refused: !a.asOwner})
			}
		}
		e := expect(t, world, a, all)
		for _, f := range e.findings(t, world.Copy(t)) {
			t.Error(f)
		}
	}
}

// everyStatement reports whether the environment asks for all that can be
// tried: each attack by each asker, each protection taken away. Short runs try
// a part, each attack and each kind of protection among it.
func everyStatement() bool { return os.Getenv(statementCount) != "" }

// statementCount names how many statements are made up.
const statementCount = "TIDEMARK_SQL_STATEMENTS"

// askersInTurn says which askers try an attack in a short run: every third.
const askersInTurn = 3

// turnOf returns the attacks that the n-th asker tries in a short run. The text
// of an attack decides whose turn it is, since askers have different lists.
func turnOf(n int, all []statement) []statement {
	return slices.DeleteFunc(all, func(s statement) bool {
		h := fnv.New32a()
		io.WriteString(h, s.sql)
		return h.Sum32()%askersInTurn != uint32(n%askersInTurn)
	})
}

func TestNoStatementTellsOrChangesAForeignRow(t *testing.T) {
	world := template(t)
	for i, a := range askers() {
		t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			all := attacks(a)
			if !everyStatement() {
				all = turnOf(i, all)
			}
			e := expect(t, world, a, all)
			for _, f := range e.findings(t, world.Copy(t)) {
				t.Error(f)
			}
			tally(t, e)
		})
	}
}

// tally wants that a fair part of the statements did something: errors alone
// prove nothing.
func tally(t *testing.T, e expectation) {
	t.Helper()
	ran, rows := 0, 0
	for _, a := range e.answers {
		if a.state == "" {
			ran++
		}
		if a.rows > 0 {
			rows++
		}
	}
	t.Logf("%d statements, %d not refused, %d with rows", len(e.answers), ran, rows)
	if ran < len(e.answers)/4 || rows < len(e.answers)/20 {
		t.Errorf("of %d statements only %d were not refused and only %d had rows", len(e.answers), ran, rows)
	}
}

// The look for foreign rows would be content with policies that hide
// everything.
func TestEverybodySeesWhatTheyMay(t *testing.T) {
	world := template(t)
	for _, a := range askers() {
		v := visit(t, world, a)
		for _, name := range withActs {
			condition := a.visible(name)
			if name == "line" { // others' lines are read by naming their logs
				condition = fmt.Sprintf("%s and (%s or owner = %s)", condition, a.own(), orNull(a.of))
			}
			want := countAsSuper(t, world, fmt.Sprintf("select count(*) from tidemark.%s where %s", name, condition))
			got, err := v.try(t.Context(), statement{sql: "select count(*) from tidemark." + name})
			switch {
			case err != nil:
				t.Fatal(err)
			case a.garbled && got.state == "22P02":
			case !strings.HasPrefix(got.text, "["+want+"]"):
				t.Errorf("%s: table %s: sees %s, may see %s", a.name, name, clip(got.whole), want)
			}
		}
		v.close()
	}
}

// generatedStatements is how many statements are made up, over all askers:
// a hundred by each, unless the environment asks for more. make attacks does,
// and make evidence asks for millions.
func generatedStatements(t *testing.T) int {
	t.Helper()
	if !everyStatement() {
		return 1_500
	}
	n, err := strconv.Atoi(os.Getenv(statementCount))
	if err != nil {
		t.Fatalf("%s: %v", statementCount, err)
	}
	return n
}

// statementsAWorld is how many statements share a world before it is made
// anew.
const statementsAWorld = 2_000

func TestNoGeneratedStatementTellsOrChangesAForeignRow(t *testing.T) {
	world := template(t)
	all := askers()
	n := generatedStatements(t)
	size := min(statementsAWorld, (n+len(all)-1)/len(all))
	for seed, done := uint64(0), 0; done < n && !t.Failed(); seed, done = seed+1, done+size {
		a := all[seed%uint64(len(all))]
		t.Run(fmt.Sprintf("%s_%d", strings.ReplaceAll(a.name, " ", "_"), seed), func(t *testing.T) {
			t.Parallel()
			g := newGrower(a, seed)
			var statements []statement
			for range size {
				statements = append(statements, g.next())
			}
			e := expect(t, world, a, statements)
			for _, f := range e.findings(t, world.Copy(t)) {
				t.Error(f)
			}
			tally(t, e)
		})
	}
}
