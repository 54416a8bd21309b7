package server

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// The test of the test: a server with a fault, or a database without one of
// its protections, and the matrix has to find it.

// authFunc is an Authenticator that errs.
type authFunc func(*http.Request) (request.Caller, error)

func (f authFunc) Authenticate(r *http.Request) (request.Caller, error) { return f(r) }

func TestTheMatrixFindsFaultsOfAServer(t *testing.T) {
	for name, plant := range map[string]func(w *world, o *Options) func(http.Handler) http.Handler{
		"nothing": func(*world, *Options) func(http.Handler) http.Handler { return nil },
		"one route is answered from the store of another tenant": func(w *world, o *Options) func(http.Handler) http.Handler {
			o.Auth = authFunc(func(r *http.Request) (request.Caller, error) {
				c, err := w.Authenticate(r)
				if err == nil && strings.HasPrefix(r.URL.Path, "/api/v1/run-steps") {
					c.Principal = w.table["bravo-jo"].Principal
				}
				return c, err
			})
			return nil
		},
		"a user gets the store of another in the tenant": func(w *world, o *Options) func(http.Handler) http.Handler {
			o.Open = func(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
				if p.User == w.actors["kim"].User {
					p = w.actors["jo"]
				}
				return w.open(ctx, p)
			}
			return nil
		},
		"a backend is that of another tenant": func(w *world, o *Options) func(http.Handler) http.Handler {
			o.Backend = func(ctx context.Context, p tidemark.Principal) (tidemark.Backend, error) {
				if p.User == w.actors["jo"].User {
					p = w.table["bravo-jo"].Principal
				}
				return w.backend(ctx, p)
			}
			return nil
		},
		"what is there and foreign is 403": func(w *world, o *Options) func(http.Handler) http.Handler {
			return func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
					if slices.ContainsFunc(w.things, func(th thing) bool {
						return th.tenant == "bravo" && r.URL.Path == "/api/v1/jobs/"+th.id
					}) {
						request.AnswerProblem(out, tidemark.ErrDenied)
						return
					}
					next.ServeHTTP(out, r)
				})
			}
		},
		"a header tells that it is there": func(w *world, o *Options) func(http.Handler) http.Handler {
			return func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
					if slices.ContainsFunc(w.things, func(th thing) bool {
						return th.tenant == "bravo" && strings.HasSuffix(r.URL.Path, th.id)
					}) {
						out.Header().Set("Vary", "Authorization")
					}
					next.ServeHTTP(out, r)
				})
			}
		},
		"a reader may write": func(w *world, o *Options) func(http.Handler) http.Handler {
			o.Auth = authFunc(func(r *http.Request) (request.Caller, error) {
				c, err := w.Authenticate(r)
				if c.Role == request.Reader {
					c.Role = request.Writer
				}
				return c, err
			})
			return nil
		},
		"an expired token is taken": func(w *world, o *Options) func(http.Handler) http.Handler {
			o.Auth = authFunc(func(r *http.Request) (request.Caller, error) {
				c, err := w.Authenticate(r)
				if err != nil && strings.Contains(r.Header.Get("Authorization"), tenant.TokenPrefix) {
					return w.table["jo-reader"], nil
				}
				return c, err
			})
			return nil
		},
		"a change goes to another tenant, and nothing is shown": func(w *world, o *Options) func(http.Handler) http.Handler {
			return func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
					if r.Method == "PUT" && strings.HasPrefix(r.URL.Path, "/api/v1/datasets/") {
						st, err := w.open(r.Context(), w.table["bravo-kim"].Principal)
						if err == nil {
							_, err = st.PutItem(r.Context(), store.Item{Kind: "dataset", ID: "stray"}, store.AnyVersion)
						}
						if err != nil {
							panic(err)
						}
					}
					next.ServeHTTP(out, r)
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			var wrap func(http.Handler) http.Handler
			s := serverOf(t, w, func(o *Options) { wrap = plant(w, o) })
			m := newMatrix(t, w, s, 5)
			if wrap != nil {
				m.handler = wrap(s)
			}
			m.first = true
			m.run(6000)
			if clean := name == "nothing"; clean != (len(m.found) == 0) {
				t.Errorf("%d findings: %.2000q", len(m.found), m.found)
			} else if !clean {
				t.Logf("%d findings, such as %.400s", len(m.found), m.found[0])
			}
		})
	}
}

// protection is one thing that keeps rows apart, taken away.
type protection struct{ sql, undo string }

// protections are read from the catalog, so that one that is added later is
// watched from its first day.
func protections(t testing.TB, db *pgtest.Database) (all []protection) {
	t.Helper()
	conn := must[*pgx.Conn](t)(pgx.Connect(t.Context(), db.Super))
	defer conn.Close(context.Background())
	each := func(format, sql string, args ...any) {
		rows, _ := conn.Query(t.Context(), sql, args...)
		for _, name := range must[[]string](t)(pgx.CollectRows(rows, pgx.RowTo[string])) {
			all = append(all, protection{sql: fmt.Sprintf(format, name)})
		}
	}
	const policies = `select format('%I on %I.%I', policyname, schemaname, tablename) from pg_policies where schemaname = 'tidemark' `
	each("drop policy %s", policies+"order by 1")
	each("alter policy %s using (true)", policies+"and qual is not null order by 1")
	each("alter policy %s with check (true)", policies+"and cmd = 'ALL' order by 1")
	each("alter table tidemark.%s disable row level security", `select relname::text from pg_class where relnamespace = 'tidemark'::regnamespace and relrowsecurity order by 1`)
	each("alter table tidemark.%s no force row level security", `select relname::text from pg_class where relnamespace = 'tidemark'::regnamespace and relforcerowsecurity order by 1`)
	each("revoke %s from "+db.Role, `select format('%s on %s', p, c.oid::regclass) from pg_class c, unnest(array['select', 'insert', 'update', 'delete']) p
where relnamespace = 'tidemark'::regnamespace and relname in ('record', 'log', 'line', 'word', 'share') and has_table_privilege($1, c.oid, p) order by 1`, db.Role)
	return append(all, protection{"alter role " + db.Role + " bypassrls", "alter role " + db.Role + " nobypassrls"})
}

func asSuperuser(t testing.TB, db *pgtest.Database, sql string) {
	t.Helper()
	conn := must[*pgx.Conn](t)(pgx.Connect(t.Context(), db.Super))
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// in is the same world in another database.
func (w *world) in(db *pgtest.Database, served *postgres.Database) *world {
	other := &world{db: db, served: served, stores: make(map[string]*store.Store), things: w.things, callers: w.callers, table: w.table, lee: w.lee, actors: w.actors}
	if operator, err := other.open(context.Background(), tidemark.Operator()); err == nil {
		other.users = tenant.NewDirectory(operator.Records())
	}
	return other
}

// aimed are requests that touch every table in every way that there is. They
// are the same each time, and so are their answers: who holds a lease is not
// asked, because that depends on how long ago it was.
func aimed(w *world, s *Server) (all []probe) {
	add := func(who somebody, method, target, media, body string) {
		all = append(all, probe{route: route{method: method, path: target}, who: who, target: target, media: media, body: []byte(body)})
	}
	for _, who := range w.callers[3:] {
		if who.Token != "" && who.User != who.Tenant || !who.known || who.Role == request.Reader {
			continue
		}
		for _, list := range []string{"sessions", "datasets", "memory", "jobs", "agents", "schedules", "stats", "search?q=tides", "search?q=^zq", "users", "tokens"} {
			add(who, "GET", "/api/v1/"+list, "", "")
		}
		for _, th := range w.things {
			switch th.kind {
			case "session":
				for _, end := range []string{"", "/entries", "/share", "/files/memory%2Fnote.md", "/checkpoint"} {
					add(who, "GET", "/api/v1/sessions/"+th.id+end, "", "")
				}
			case "dataset", "job":
				add(who, "GET", "/api/v1/"+th.kind+"s/"+th.id, "", "")
			}
		}
		for _, call := range []string{`get {"kind":"dataset","id":"same"}`, `walk {"after":{}}`, `list {"kind":"segment"}`, `list {"kind":"session"}`, `list {"kind":"item"}`} {
			name, body, _ := strings.Cut(call, " ")
			add(who, "POST", "/api/v1/backend/"+name, "application/json", body)
		}
	}
	for _, who := range w.callers {
		if who.name != "jo as writer" && who.name != "kim as writer" {
			continue
		}
		for _, th := range w.things {
			if th.kind != "session" || th.tenant != "alpha" || th.scope == inTenant {
				continue // those of the tenant are lent, until their lease ends
			}
			add(who, "POST", "/api/v1/sessions/"+th.id+"/entries", "application/json", `{"entries":[{"role":"user","content":"more tides"}]}`)
			add(who, "PUT", "/api/v1/sessions/"+th.id+"/share", "application/json", `{"with":"tenant"}`)
			add(who, "PUT", "/api/v1/sessions/"+th.id+"/share", "application/json", `{"with":"private"}`)
			add(who, "DELETE", "/api/v1/sessions/"+th.id+"?purge=true", "", "")
		}
		add(who, "PUT", "/api/v1/datasets/same", "application/json", `{"title":"x"}`)
		add(who, "POST", "/api/v1/sessions", "application/json", `{"title":"x","entries":[{"role":"user","content":"new tides"}]}`)
		all[len(all)-1].header = map[string]string{"Idempotency-Key": "the id follows from it"}
		add(who, "DELETE", "/api/v1/datasets/same", "", "")
		add(who, "GET", "/api/v1/search?q=tides", "", "")
		add(who, "POST", "/api/v1/backend/share", "application/json", "{}")
	}
	return all
}

// seenIn asks all of them in a copy of the world without a protection, and
// returns what came.
func (w *world) seenIn(t testing.TB, world *pgtest.Database, p protection) (all []string, refused bool) {
	t.Helper()
	db := world.Copy(t)
	if p.sql != "" {
		asSuperuser(t, db, p.sql)
	}
	if p.undo != "" {
		defer asSuperuser(t, db, p.undo)
	}
	if checked, err := postgres.Connect(t.Context(), db.Server, &postgres.Options{Pooler: postgres.Direct}); err != nil {
		refused = true
	} else {
		checked.Close()
	}
	served := must[*postgres.Database](t)(postgres.Connect(t.Context(), db.Server, &postgres.Options{Pooler: postgres.Direct, Unchecked: true}))
	defer served.Close()
	other := w.in(db, served)
	s := serverOf(t, other)
	defer s.Drain()
	for _, q := range aimed(other, s) {
		a, err := probed(s, q)
		if err != nil {
			t.Fatal(err)
		}
		q.swap = nil
		text := fmt.Sprintf("%s: %d", q, a.Status)
		if q.method == "GET" {
			text += " " + aTime.ReplaceAllString(string(a.Body), "TIME")
		}
		all = append(all, text)
	}
	return all, refused
}

func TestTheMatrixFindsWhatADatabaseLacks(t *testing.T) {
	db := migrated(t, pgtest.Start(t).Database(t))
	served := must[*postgres.Database](t)(postgres.Connect(t.Context(), db.Server, nil))
	w := newWorld(t, served)
	served.Close()
	want, refused := w.seenIn(t, db, protection{})
	if refused {
		t.Fatal("the database itself is refused")
	}
	// What is seen where nothing is missing is a fault of the test, also after
	// all the others were.
	control := func() {
		t.Helper()
		again, _ := w.seenIn(t, db, protection{})
		for i := range want {
			if want[i] != again[i] {
				t.Fatalf("two copies answer otherwise: %.700s\nand %.700s", want[i], again[i])
			}
		}
	}
	control()
	defer control()
	var seen, unseen []string
	for i, p := range protections(t, db) {
		if os.Getenv("TIDEMARK_HTTP_REQUESTS") == "" && i%10 != 0 {
			continue
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			got, refused := w.seenIn(t, db, p)
			if !refused {
				t.Errorf("%s: served all the same", p.sql)
			}
			for i := range want {
				if want[i] != got[i] {
					seen = append(seen, fmt.Sprintf("%s: %.300s", p.sql, got[i]))
					return
				}
			}
			unseen = append(unseen, p.sql)
			// Queries name the tenant themselves; who reads and writes within it
			// is up to the policies alone.
			// Lines of act are for the auditor, who is nobody that signs in:
			// the attacks on the database itself miss that policy. The policies moves
			// are for the owner of the tables, as whom nobody serves.
			if strings.HasPrefix(p.sql, "drop policy ") && !strings.HasPrefix(p.sql, "drop policy tenant ") && !strings.HasPrefix(p.sql, "drop policy moves ") && p.sql != "drop policy reads on tidemark.act" {
				t.Errorf("%s: nobody noticed over HTTP", p.sql)
			}
		})
	}
	t.Logf("%d are seen over HTTP:\n%s", len(seen), strings.Join(seen, "\n"))
	t.Logf("%d are not, and are refused at the start:\n%s", len(unseen), strings.Join(unseen, "\n"))
}
