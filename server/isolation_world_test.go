package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/search"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// The world in which foreign rows are looked for over HTTP: two tenants with
// the same users, sessions, items, agents and names in them. Those of alpha
// call; bravo is what they must not find. In each, jo and kim share a room,
// kim and lee the attic, and lee never calls. Every text carries a marker that
// says whose it is.

// With whom something is shared; the last three belong to nobody alone.
const (
	inPrivate = "private"
	inRoom    = "room"
	inAttic   = "attic"
	inTenant  = "tenant"
	inHouse   = "house" // the tenant's own: its fleet
	inAdmin   = "admin" // what admins see
	inRooms   = "rooms" // what every member sees of it
)

// marker is a word that names its owner: one that a search finds.
func marker(tenant, owner, scope string) string {
	return "zq" + tenant + "x" + owner + "x" + scope + "qz"
}

// thing is something that a request can name.
type thing struct {
	kind, id             string
	tenant, owner, scope string
	head                 int64 // of a session: its newest entry
}

// somebody is who calls in the matrix.
type somebody struct {
	name, token   string
	tenant, owner string // as in markers; owner "": the tenant itself
	request.Caller
	known bool // let in at all
}

// sees reports whether somebody may see what a marker or a thing says.
func (c somebody) sees(org, owner, scope string) bool {
	switch {
	case !c.known:
		return false
	case c.Operator && (scope == inAdmin || scope == inRooms):
		return true
	case org != c.tenant:
		return false
	}
	switch scope {
	case inHouse, inTenant, inRooms:
		return true
	case inAdmin:
		return c.Role == request.Admin
	}
	rooms := map[string]string{"jo": inRoom, "kim": inRoom + inAttic, "lee": inAttic}
	return owner == c.owner || scope != inPrivate && strings.Contains(rooms[c.owner], scope)
}

type world struct {
	db      *pgtest.Database // nil: in memory
	served  *postgres.Database
	mu      sync.Mutex
	memory  map[string]*memory.Backend
	stores  map[string]*store.Store
	scopes  *store.Scopes
	users   *tenant.Directory
	things  []thing
	callers []somebody
	table   table
	lee     []tidemark.Principal // who never calls, and all of bravo
	actors  map[string]tidemark.Principal
}

func (w *world) backend(_ context.Context, p tidemark.Principal) (tidemark.Backend, error) {
	if w.served != nil {
		return w.served.For(p), nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.memory[p.Tenant+p.User] == nil {
		w.memory[p.Tenant+p.User] = memory.New()
	}
	return w.memory[p.Tenant+p.User], nil
}

func (w *world) open(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
	b, err := w.backend(ctx, p)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprint(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stores[name] == nil {
		w.stores[name] = store.New(b, &store.Options{Places: search.EachWord, Scopes: w.scopes})
	}
	return w.stores[name], nil
}

// Authenticate knows people by a table, and service tokens as servers do.
func (w *world) Authenticate(r *http.Request) (request.Caller, error) {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "+tenant.TokenPrefix) {
		return auth.ServiceTokens(w.users).Authenticate(r)
	}
	return w.table.Authenticate(r)
}

// must is for filling the world.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newWorld(t testing.TB, served *postgres.Database) *world {
	t.Helper()
	w := &world{served: served, memory: make(map[string]*memory.Backend), stores: make(map[string]*store.Store), scopes: store.NewScopes(&store.Options{Places: search.EachWord}), table: table{}, actors: map[string]tidemark.Principal{}}
	w.users = tenant.NewDirectory(must[*store.Store](t)(w.open(t.Context(), tidemark.Operator())).Records())
	w.somebody(somebody{name: "nobody"})
	w.somebody(somebody{name: "a made-up token", token: "made-up"})
	w.somebody(somebody{name: "the operator", token: "operator", known: true, Caller: request.Caller{Principal: tidemark.Operator(), Name: "op", Role: request.Admin, Operator: true}})
	for _, org := range []string{"alpha", "bravo"} {
		w.fillTenant(t, org)
	}
	w.suspended(t)
	return w
}

func (w *world) somebody(c somebody) {
	w.callers = append(w.callers, c)
	if c.known && !strings.HasPrefix(c.token, tenant.TokenPrefix) {
		w.table[c.token] = c.Caller
	}
}

func (w *world) add(th thing) thing {
	w.things = append(w.things, th)
	return th
}

// fillTenant makes a tenant with all that there can be in one.
func (w *world) fillTenant(t testing.TB, name string) {
	t.Helper()
	ctx := t.Context()
	org := must[tenant.Tenant](t)(w.users.CreateTenant(ctx, tenant.Tenant{Name: name, Issuer: "https://" + name + ".example"}))
	w.add(thing{kind: "tenant", id: org.ID, tenant: name, scope: inRooms})
	rooms := make(map[string]string)
	for _, room := range []string{inRoom, inAttic} {
		ws := must[tenant.Workspace](t)(w.users.CreateWorkspace(ctx, org.ID, room+"."+marker(name, "x", inRooms)))
		rooms[room] = ws.ID
		w.add(thing{kind: "workspace", id: ws.ID, tenant: name, scope: inRooms})
	}
	members := map[string][]string{"jo": {inRoom}, "kim": {inRoom, inAttic}, "lee": {inAttic}}
	for _, user := range []string{"jo", "kim", "lee"} {
		u, _, err := w.users.UpsertUser(ctx, tenant.Claims{Tenant: org, Issuer: "i", Subject: user, Name: marker(name, user, inAdmin), Role: tenant.RoleAdmin})
		if err != nil {
			t.Fatal(err)
		}
		p := tidemark.Principal{Tenant: org.ID, User: u.ID}
		for _, room := range members[user] {
			must[tenant.User](t)(w.users.Join(ctx, org.ID, rooms[room], u.ID, true))
			p.Workspaces = append(p.Workspaces, rooms[room])
		}
		w.add(thing{kind: "user", id: u.ID, tenant: name, owner: user, scope: inAdmin})
		w.fillUser(t, name, user, p, rooms)
		if user == "lee" || name == "bravo" {
			w.lee = append(w.lee, p)
		}
		w.enlist(t, name, user, p)
	}
	house := tidemark.Principal{Tenant: org.ID, User: org.ID}
	w.fillHouse(t, name, house)
	if name == "bravo" {
		w.lee = append(w.lee, house)
	}
	w.tokens(t, name, org.ID)
	for range 3 {
		if err := w.users.Audit(ctx, org.ID, tenant.Audited{At: time.Now(), Who: org.ID, Name: marker(name, "x", inAdmin), Action: "test", Thing: marker(name, "x", inAdmin), Outcome: tenant.AuditDone}); err != nil {
			t.Fatal(err)
		}
	}
}

// enlist makes those who call. Only those of alpha do.
func (w *world) enlist(t testing.TB, org, user string, p tidemark.Principal) {
	t.Helper()
	w.table[org+"-"+user] = request.Caller{Principal: p, Name: user, Role: request.Writer} // nobody has this token
	if org != "alpha" || user == "lee" {
		return
	}
	w.actors[user] = p
	for _, role := range request.Roles {
		if user == "kim" && role != request.Writer {
			continue
		}
		w.somebody(somebody{name: user + " as " + string(role), token: user + "-" + string(role), tenant: org, owner: user, known: true,
			Caller: request.Caller{Principal: p, Name: user, Role: role}})
	}
	if user == "jo" {
		token, text, err := w.users.CreateToken(t.Context(), tenant.Token{Tenant: p.Tenant, User: p.User, Name: "scoped", Role: tenant.RoleWriter, Scopes: []string{"sessions", "jobs", "datasets"}})
		if err != nil {
			t.Fatal(err)
		}
		w.somebody(somebody{name: "a scoped token of jo", token: text, tenant: org, owner: user, known: true, Caller: request.Caller{Principal: p, Name: "t", Role: request.Writer, Token: token.ID}})
	}
}

// tokens makes service tokens of a tenant: one that works, and two that do not.
func (w *world) tokens(t testing.TB, name, org string) {
	t.Helper()
	past := tenant.NewDirectory(records.New(w.users.Backend(), records.Options{Now: func() time.Time { return time.Now().Add(-time.Hour) }}))
	for what, st := range map[string]*tenant.Directory{"good": w.users, "expired": past, "revoked": w.users} {
		token, text, err := st.CreateToken(t.Context(), tenant.Token{Tenant: org, Name: marker(name, "x", inAdmin), Role: tenant.RoleAdmin, ExpiresAt: time.Now().Add(map[string]time.Duration{"expired": -time.Minute}[what]).Add(map[string]time.Duration{"good": time.Hour, "revoked": time.Hour}[what])})
		if err != nil {
			t.Fatal(err)
		}
		if what == "revoked" {
			must[tenant.Token](t)(w.users.RevokeToken(t.Context(), org, token.ID))
		}
		w.add(thing{kind: "token", id: token.ID, tenant: name, scope: inAdmin})
		if name == "alpha" {
			w.somebody(somebody{name: "a token of the tenant, " + what, token: text, tenant: name, known: what == "good",
				Caller: request.Caller{Principal: tidemark.Principal{Tenant: org, User: org}, Role: request.Admin, Token: token.ID}})
		}
	}
}

func (w *world) suspended(t testing.TB) {
	t.Helper()
	org := must[tenant.Tenant](t)(w.users.CreateTenant(t.Context(), tenant.Tenant{Name: "charlie"}))
	_, text, err := w.users.CreateToken(t.Context(), tenant.Token{Tenant: org.ID, Name: "x", Role: tenant.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	must[tenant.Tenant](t)(w.users.SetTenantState(t.Context(), org.ID, tenant.Suspended))
	w.somebody(somebody{name: "a token of a suspended tenant", token: text, tenant: "charlie"})
}

// fillUser gives a user sessions of every scope, items of every kind, and what
// was learned.
func (w *world) fillUser(t testing.TB, tenant, user string, p tidemark.Principal, rooms map[string]string) {
	t.Helper()
	st := must[*store.Store](t)(w.open(t.Context(), p))
	for _, scope := range []string{inPrivate, inRoom, inAttic, inTenant} {
		with := tidemark.Scope{With: scope}
		if room := rooms[scope]; room != "" {
			if with = (tidemark.Scope{With: tidemark.InWorkspace, Workspace: room}); !slices.Contains(p.Workspaces, room) {
				continue
			}
		}
		w.fillSession(t, st, thing{tenant: tenant, owner: user, scope: scope}, &with)
	}
	said := marker(tenant, user, inPrivate)
	for _, k := range append(routes.ItemKinds(), routes.ResultKind) {
		for _, id := range []string{"same", k.Kind + "-" + tenant + "-" + user} {
			parent := ""
			if k.Kind == routes.ResultKind.Kind {
				parent = "optimization-run-" + tenant + "-" + user
			}
			must[store.Item](t)(st.PutItem(t.Context(), store.Item{Kind: k.Kind, ID: routes.Stored(id, parent), Title: said, Parent: parent, Data: json.RawMessage(`{"name":"` + said + `"}`)}, store.AnyVersion))
			if id != "same" {
				w.add(thing{kind: k.Kind, id: id, tenant: tenant, owner: user, scope: inPrivate})
			}
		}
	}
	m, _, err := st.Remember(t.Context(), store.Memory{Text: "learned " + said, Project: "/p"})
	if err != nil {
		t.Fatal(err)
	}
	w.add(thing{kind: "memory", id: m.ID, tenant: tenant, owner: user, scope: inPrivate})
}

// refill gives those who call a session again that nobody holds and nobody
// deleted.
func (w *world) refill(t testing.TB) {
	t.Helper()
	for _, user := range []string{"jo", "kim"} {
		st := must[*store.Store](t)(w.open(t.Context(), w.actors[user]))
		w.fillSession(t, st, thing{tenant: "alpha", owner: user, scope: inPrivate}, nil)
	}
}

func sayMarked(role tidemark.Role, text string) tidemark.Entry {
	return tidemark.Entry{Kind: tidemark.KindMessage, Role: role, Blocks: []tidemark.Block{tidemark.Text(text)}}
}

// fillSession makes a session with all that can belong to one.
func (w *world) fillSession(t testing.TB, st *store.Store, th thing, with *tidemark.Scope) thing {
	t.Helper()
	ctx, said := t.Context(), marker(th.tenant, th.owner, th.scope)
	out := st.Create(tidemark.Session{Title: "about " + said, Agent: "common", Project: "/p/" + said, Tags: []string{said}}, process.Self("world"))
	for _, e := range []tidemark.Entry{sayMarked("user", "tides? "+said), sayMarked("assistant", "yes, "+said)} {
		must[[]int64](t)(out.Append(ctx, e))
	}
	must[[]int64](t)(out.AppendTo(ctx, "helper", sayMarked("user", "help "+said)))
	must[store.File](t)(out.PutFile(ctx, "memory/note.md", strings.NewReader("file of "+said)))
	for _, name := range []string{"", "before"} {
		if err := out.SaveCheckpoint(ctx, store.Checkpoint{Name: name, Reason: said, CoreMemory: map[string]string{"human": said}, DocumentPaths: []string{"/" + said}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := st.Label(ctx, out.ID(), 1, "label "+said); err != nil {
		t.Fatal(err)
	}
	if th.scope == inTenant {
		if _, _, err := st.IssueToken(ctx, out.ID(), tidemark.Holder{Program: said, Host: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if sharer, ok := st.Records().Backend().(tidemark.Sharer); ok && with != nil {
		if err := sharer.Share(ctx, out.ID(), *with); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := st.CatchUp(ctx, nil); err != nil {
		t.Fatal(err)
	}
	v := must[*store.View](t)(st.View(ctx, out.ID()))
	th.kind, th.id, th.head = "session", string(out.ID()), v.Entries
	return w.add(th)
}

// fillHouse gives a tenant a fleet.
func (w *world) fillHouse(t testing.TB, tenant string, p tidemark.Principal) {
	t.Helper()
	ctx, said := t.Context(), marker(tenant, "x", inHouse)
	st := must[*store.Store](t)(w.open(ctx, p))
	w.fillSession(t, st, thing{tenant: tenant, owner: "x", scope: inHouse}, nil)
	f := fleet.Over(st)
	for _, agent := range []string{"common", "agent-" + tenant} {
		must[bool](t)(f.PutAgent(ctx, tidemark.Agent{Name: agent, Status: tidemark.Idle, ErrorMessage: said}))
		must[bool](t)(f.PutSchedule(ctx, tidemark.Schedule{Agent: agent, Name: "nightly", Status: tidemark.Idle, Cron: "0 3 * * *", Prompt: said}))
		if err := f.AppendAgentLog(ctx, agent, 0, tidemark.Event{Type: tidemark.EventSystem, Content: said, Timestamp: time.Now()}); err != nil {
			t.Fatal(err)
		}
		for _, ended := range []bool{true, false} {
			j := must[tidemark.Job](t)(f.RequestJob(ctx, fleet.JobRequest{Agent: agent, Prompt: said}))
			run := must[*fleet.JobRun](t)(f.StartJob(ctx, j.ID, process.Self("world"), fleet.SlotLimits{}))
			if err := run.Emit(ctx, tidemark.Event{Type: tidemark.EventSystem, Content: said, Timestamp: time.Now()}); err != nil {
				t.Fatal(err)
			}
			if err := f.AskReview(ctx, fleet.Review{Job: j.ID, Agent: agent, Call: "call-" + tenant, Tool: "shell", Title: said}); err != nil {
				t.Fatal(err)
			}
			if ended {
				if _, err := run.Finish(ctx, func(j *tidemark.Job) { j.Status, j.ExitReason = tidemark.JobCompleted, tidemark.ExitSuccess }, nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			w.add(thing{kind: "job", id: j.ID, tenant: tenant, owner: "x", scope: inHouse})
		}
	}
	w.add(thing{kind: "agent", id: "agent-" + tenant, tenant: tenant, owner: "x", scope: inHouse})
}

// digest says what is kept for bravo and for lee, whoever looks. Nobody who
// calls may change it.
func (w *world) digest(t testing.TB) string {
	t.Helper()
	sum := sha256.New()
	if w.db != nil {
		conn := must[*pgx.Conn](t)(pgx.Connect(t.Context(), w.db.Super))
		defer conn.Close(context.Background())
		for _, p := range w.lee {
			for _, table := range []string{"record", "log", "line", "share"} {
				var rows string
				err := conn.QueryRow(t.Context(), `select count(*) || ' ' || coalesce(md5(string_agg(r::text, e'\n' order by r::text)), '') from tidemark.`+table+` r where tenant = $1 and owner = $2`, p.Tenant, p.User).Scan(&rows)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintln(sum, table, rows)
			}
		}
	} else {
		for _, p := range w.lee {
			w.digestMemory(t, sum, w.memory[p.Tenant+p.User])
		}
	}
	w.digestAdmin(t, sum)
	return hex.EncodeToString(sum.Sum(nil))
}

func (w *world) digestMemory(t testing.TB, sum interface{ Write([]byte) (int, error) }, b tidemark.Backend) {
	t.Helper()
	for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Get(t.Context(), k)
		fmt.Fprintf(sum, "%v %+v %v\n", k, r, err)
		for l, err := range b.Lines(t.Context(), k, tidemark.Span{From: 1}) {
			fmt.Fprintf(sum, "%+v %v\n", l, err)
		}
	}
}

// digestAdmin is what the operator keeps about bravo.
func (w *world) digestAdmin(t testing.TB, sum interface{ Write([]byte) (int, error) }) {
	t.Helper()
	ctx, id := t.Context(), tidemark.TenantOf("bravo", "").Tenant
	tenant, err := w.users.Tenant(ctx, id)
	fmt.Fprintf(sum, "%+v %v\n", tenant, err)
	for u, err := range w.users.Users(ctx, id, "") {
		fmt.Fprintf(sum, "%+v %v\n", u, err)
	}
	for k, err := range w.users.Tokens(ctx, id, "") {
		fmt.Fprintf(sum, "%+v %v\n", k, err)
	}
	for ws, err := range w.users.Workspaces(ctx, id, "") {
		fmt.Fprintf(sum, "%+v %v\n", ws, err)
	}
	for l, err := range w.users.AuditLines(ctx, id, tidemark.Span{From: 1}) {
		fmt.Fprintf(sum, "%+v %v\n", l, err)
	}
}
