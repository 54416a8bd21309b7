package server

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/transfer"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// requests is how many requests the matrix makes: enough for every route with
// every kind of id, or as many as TIDEMARK_HTTP_REQUESTS says.
func requests(t testing.TB, few int) int {
	t.Helper()
	text := os.Getenv("TIDEMARK_HTTP_REQUESTS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("TIDEMARK_HTTP_REQUESTS: %v", err)
	}
	return n
}

// noDoor is a SignIn that lets nobody in: pages are asked for with a token.
type noDoor struct{}

func (noDoor) ServeSignIn(w http.ResponseWriter, _ *http.Request, _ auth.ShowSignIn) {
	w.WriteHeader(http.StatusNoContent)
}
func (noDoor) SignOut(http.ResponseWriter, *http.Request) error { return nil }

// serverOf serves a world to everybody in it.
func serverOf(t testing.TB, w *world, change ...func(*Options)) *Server {
	t.Helper()
	o := Options{Open: w.open, Backend: w.backend, Auth: w, Holder: process.Self("serve"), SignIn: noDoor{}, CursorKey: []byte("a key of this test"),
		Limits:      request.Limits{Rate: 1e9, Burst: 1e9},
		Offboarding: &transfer.Offboarding{Backend: w.backend, Store: w.open, Holder: process.Self("serve")}}
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Drain)
	return s
}

// newDatabase is a database that is ready, and refused were it not safe. Its
// roles are those of all others: whoever changes them takes migrated.
func newDatabase(t testing.TB) *pgtest.Database {
	t.Helper()
	return pgtest.Start(t).Prepared(t, "", func(db *pgtest.Database) error {
		return postgres.Migrate(t.Context(), db.Owner, db.Role)
	})
}

// migrated makes a database ready.
func migrated(t testing.TB, db *pgtest.Database) *pgtest.Database {
	t.Helper()
	if err := postgres.Migrate(t.Context(), db.Owner, db.Role); err != nil {
		t.Fatal(err)
	}
	return db
}

func connectTo(t testing.TB, db *pgtest.Database, o *postgres.Options) *postgres.Database {
	t.Helper()
	served, err := postgres.Connect(t.Context(), db.Server, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(served.Close)
	return served
}

func (m *matrix) report(t *testing.T) {
	t.Helper()
	for _, f := range m.found {
		t.Error(f)
	}
	var never []string
	for _, r := range m.routes {
		if m.good[r.String()] == 0 {
			never = append(never, r.String())
		}
	}
	t.Logf("%d requests to %d routes; %d routes were never answered well: %v", m.asked, len(m.routes), len(never), never)
}

// rounds lets matrices ask n times together, each in a world of its own: what
// an owner shared in one round is no secret in the next.
func rounds(t *testing.T, n int, seed uint64, made func(testing.TB) *world, routes []route, markers ...string) {
	t.Helper()
	seen, good := map[string]int{}, map[string]int{}
	for round, asked := 0, 0; asked < n && !t.Failed(); round++ {
		before := asked
		t.Run(fmt.Sprint(round), func(t *testing.T) { // what it needs is given back
			w := made(t)
			m := newMatrix(t, w, serverOf(t, w), seed+10*uint64(round))
			m.seen, m.good = seen, good
			if routes != nil {
				m.routes = routes
			}
			m.run(0)
			m.report(t)
			asked += m.asked
		})
		if asked == before && !t.Failed() {
			t.Fatal("a round asked nothing")
		}
	}
	// A matrix that is shown nothing finds nothing.
	for _, word := range markers {
		if seen[word] == 0 {
			t.Errorf("%s was shown to nobody", word)
		}
	}
}

func inMemory(t testing.TB) *world { return newWorld(t, nil) }

func inPostgreSQL(t testing.TB) *world {
	db := newDatabase(t)
	w := newWorld(t, connectTo(t, db, nil))
	w.db = db
	return w
}

func TestNobodySeesWhatIsAnothersInMemory(t *testing.T) {
	rounds(t, requests(t, 6000), 1, inMemory, nil,
		marker("alpha", "jo", inPrivate), marker("alpha", "x", inHouse), marker("alpha", "x", inAdmin), marker("alpha", "kim", inPrivate))
}

func TestNobodySeesWhatIsAnothersInPostgreSQL(t *testing.T) {
	pgtest.Start(t) // where it is left out, this test is, and not each of its rounds
	rounds(t, requests(t, 4000), 2, inPostgreSQL, nil,
		marker("alpha", "jo", inPrivate), marker("alpha", "jo", inRoom), marker("alpha", "kim", inRoom), marker("alpha", "lee", inTenant),
		marker("alpha", "lee", inAttic), marker("alpha", "x", inHouse), marker("alpha", "x", inAdmin), marker("bravo", "x", inAdmin))
}

// Pages show what calls answer, and nothing else.
func TestNobodySeesWhatIsAnothersOnPages(t *testing.T) {
	pgtest.Start(t)
	rounds(t, requests(t, 1000), 3, inPostgreSQL, pagesOf(t), marker("alpha", "jo", inPrivate), marker("alpha", "kim", inRoom), marker("alpha", "x", inHouse))
}

// What huma does not fill is empty, and an empty id could mean everything.
func TestEveryPartOfAPathIsRead(t *testing.T) {
	w := newWorld(t, nil)
	for path, item := range serverOf(t, w).api.OpenAPI().Paths {
		for method, o := range operations(item) {
			for _, m := range aParam.FindAllStringSubmatch(path, -1) {
				if !slices.ContainsFunc(o.Parameters, func(p *huma.Param) bool { return p.In == "path" && p.Name == m[1] }) {
					t.Errorf("%s %s: nobody reads %s", method, path, m[1])
				}
			}
			if role, _ := o.Extensions["x-tidemark-role"].(string); !slices.Contains(request.Roles, request.Role(role)) {
				t.Errorf("%s %s: needs the role %q", method, path, role)
			}
		}
	}
}
