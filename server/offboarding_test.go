package server

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// seeingOff lets a server erase, hand over and export.
func seeingOff(o *Options) {
	// What is erased has a line before and one after, and carries none.
	var mu sync.Mutex
	all := make(map[string]*store.Store)
	open := func(_ context.Context, p tidemark.Principal) (*store.Store, error) {
		mu.Lock()
		defer mu.Unlock()
		name := p.Tenant + p.User
		if all[name] == nil {
			all[name] = store.New(memory.New(), nil)
		}
		return all[name], nil
	}
	o.Open, o.Offboarding = open, seesOff(open, o.Holder)
}

func seesOff(open func(context.Context, tidemark.Principal) (*store.Store, error), by tidemark.Holder) *transfer.Offboarding {
	return &transfer.Offboarding{Store: open, Holder: by, Backend: func(ctx context.Context, p tidemark.Principal) (tidemark.Backend, error) {
		st, err := open(ctx, p)
		if err != nil {
			return nil, err
		}
		return st.Records().Backend(), nil
	}}
}

// leavers makes ada and bob in the tenant a, with a session each, and returns their ids.
func leavers(t *testing.T, s *testServer) (users *tenant.Directory, a tenant.Tenant, ids []string) {
	t.Helper()
	ctx := t.Context()
	var err error
	if users, err = s.stores.Operators(ctx); err != nil {
		t.Fatal(err)
	}
	if a, err = users.TenantNamed(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"ada", "bob"} {
		u, _, err := users.UpsertUser(ctx, tenant.Claims{Tenant: a, Issuer: "i", Subject: subject, Role: tenant.RoleWriter})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, u.ID)
		st, err := s.o.Open(ctx, tidemark.Principal{Tenant: a.ID, User: u.ID})
		if err != nil {
			t.Fatal(err)
		}
		w := st.Create(tidemark.Session{Title: subject}, s.o.Holder)
		if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "of "+subject)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return users, a, ids
}

func TestPeopleAreSeenOffOnPages(t *testing.T) {
	s := administered(t, withPages, seeingOff)
	users, a, ids := leavers(t, s)
	ada, bob := "/store/users/"+ids[0], "/store/users/"+ids[1]
	for _, path := range []string{ada, ada + "/export"} {
		s.call(t, "writer-a", "GET", path, nil).want(t, 403)
		s.call(t, "admin-b", "GET", path, nil).want(t, 404)
	}
	page := string(s.call(t, "admin-a", "GET", ada, nil).want(t, 200).Body)
	if found := unsaid.FindString(page); found != "" || !strings.Contains(page, `name="confirm"`) || !strings.Contains(page, `<option value="`+ids[1]+`">bob`) {
		t.Errorf("%q in %s", found, page)
	}
	if list := string(s.call(t, "admin-a", "GET", "/store/users", nil).want(t, 200).Body); !strings.Contains(list, `href="`+ada+`"`) {
		t.Error(list)
	}
	got := s.call(t, "admin-a", "GET", ada+"/export", nil).want(t, 200)
	if _, err := zip.NewReader(bytes.NewReader(got.Body), int64(len(got.Body))); err != nil {
		t.Error(err)
	}
	s.form(t, "writer-a", ada+"/hand-over", "to", ids[1]).want(t, 403)
	s.form(t, "admin-b", ada+"/hand-over", "to", ids[1]).want(t, 404)
	s.form(t, "admin-a", ada+"/hand-over", "to", "nobody").want(t, 404)
	s.form(t, "admin-a", ada+"/hand-over").want(t, 400)
	s.form(t, "admin-a", ada+"/hand-over", "to", ids[1]).want(t, 200)
	if v := leavingAt(t, s, "admin-a", ada); v.Handed[0] != "Handed over: 1 sessions." {
		t.Errorf("%+v", v)
	}
	s.form(t, "writer-a", bob+"/erase", "confirm", "bob").want(t, 403)
	s.form(t, "admin-b", bob+"/erase", "confirm", "bob").want(t, 404)
	s.form(t, "admin-a", bob+"/erase", "confirm", "ada").want(t, 400)
	s.form(t, "admin-a", bob+"/erase").want(t, 400)
	if v := leavingAt(t, s, "admin-a", bob); v.Erasure != nil || v.State != tenant.Active {
		t.Errorf("erased without being asked to: %+v", v)
	}
	s.form(t, "admin-a", bob+"/erase", "confirm", "bob").want(t, 200)
	if v := leavingAt(t, s, "admin-a", bob); v.Erasure == nil || v.Erasure.State != tenant.ErasedAll || v.Erasure.Sessions != 2 || v.State != tenant.Suspended || v.Name != ids[1] {
		t.Errorf("%+v", v)
	}
	page = string(s.call(t, "admin-a", "GET", bob, nil).want(t, 200).Body)
	if found := unsaid.FindString(page); found != "" || !strings.Contains(page, "2 sessions") || !strings.Contains(page, "What may still be somewhere") {
		t.Errorf("%q in %s", found, page)
	}
	org := "/store/tenants/" + a.ID
	s.call(t, "admin-a", "GET", org, nil).want(t, 403)
	s.form(t, "admin-a", org+"/erase", "confirm", "a").want(t, 403)
	s.form(t, "op", org+"/erase", "confirm", "b").want(t, 400)
	s.call(t, "op", "GET", "/store/tenants/nowhere", nil).want(t, 404)
	s.form(t, "op", org+"/erase", "confirm", "a").want(t, 200)
	if v := leavingAt(t, s, "op", org); v.Erasure == nil || v.Erasure.State != tenant.ErasedAll {
		t.Errorf("%+v", v)
	}
	if _, err := users.Tenant(t.Context(), a.ID); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("the tenant is still there: %v", err)
	}
}

// leavingAt is what a page shows of who leaves, once nothing runs behind it.
func leavingAt(t *testing.T, s *testServer, who, path string) web.StoreLeaving {
	t.Helper()
	for {
		var v web.Store
		s.call(t, who, "GET", path+".json", nil).want(t, 200).into(t, &v)
		if v.Leaving == nil {
			t.Fatalf("%s shows nobody", path)
		}
		if !v.Leaving.Refresh() {
			return *v.Leaving
		}
		select {
		case <-t.Context().Done():
			t.Fatal("it never ends")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestPeopleAreSeenOffByTheAdminsOfTheirTenantAlone(t *testing.T) {
	s := administered(t, seeingOff)
	users, a, ids := leavers(t, s)
	ctx := t.Context()
	ada, bob := "/api/v1/users/"+ids[0], "/api/v1/users/"+ids[1]
	sure := func(id string) map[string]any { return map[string]any{"confirm": id} }
	for _, c := range []struct {
		who, method, path string
		body              any
		want              int
	}{
		{"writer-a", "POST", ada + "/erase", sure(ids[0]), 403}, {"admin-b", "POST", ada + "/erase", sure(ids[0]), 404}, {"admin-b", "POST", ada + "/erase?tenant=a", sure(ids[0]), 404},
		{"admin-a", "POST", ada + "/erase", sure("ada"), 400}, {"admin-a", "POST", "/api/v1/users/nobody/erase", sure("nobody"), 404},
		{"writer-a", "POST", ada + "/hand-over", map[string]any{"to": ids[1]}, 403}, {"admin-b", "POST", ada + "/hand-over", map[string]any{"to": ids[1]}, 404}, {"admin-a", "POST", ada + "/hand-over", map[string]any{"to": "nobody"}, 404},
		{"writer-a", "GET", ada + "/export", nil, 403}, {"admin-b", "GET", ada + "/export", nil, 404}, {"admin-a", "GET", ada + "/erasure", nil, 404},
		{"admin-a", "POST", "/api/v1/tenants/b/erase", sure("b"), 403}, {"admin-a", "POST", "/api/v1/tenants/a/erase", sure("a"), 403}, {"op", "POST", "/api/v1/tenants/b/erase", sure("a"), 400},
		{"op", "POST", "/api/v1/tenants/nowhere/erase", sure("nowhere"), 404}, {"admin-a", "GET", "/api/v1/tenants/a/erasure", nil, 403},
	} {
		if got := s.call(t, c.who, c.method, c.path, c.body); got.Status != c.want {
			t.Errorf("%s %s %s: %d %s, want %d", c.who, c.method, c.path, got.Status, got.Body, c.want)
		}
	}
	got := s.call(t, "admin-a", "GET", ada+"/export", nil)
	z, err := zip.NewReader(bytes.NewReader(got.Body), int64(len(got.Body)))
	if got.Status != http.StatusOK || err != nil || len(z.File) != 3 {
		t.Fatalf("the export: %d, %v", got.Status, err)
	}
	var h transfer.HandedOver
	if s.call(t, "admin-a", "POST", ada+"/hand-over", map[string]any{"to": ids[1]}).into(t, &h); len(h.Sessions) != 1 {
		t.Errorf("handed over: %+v", h)
	}
	var e tenant.Erasure
	if s.call(t, "admin-a", "POST", bob+"/erase", sure(ids[1])).into(t, &e); e.State != tenant.ErasedAll || e.Sessions != 2 {
		t.Errorf("erased: %+v", e)
	}
	var kept tenant.Erasure
	if s.call(t, "admin-a", "GET", bob+"/erasure", nil).into(t, &kept); kept.Sessions != 2 || len(kept.Left) == 0 {
		t.Errorf("the report: %+v", kept)
	}
	if s.call(t, "op", "POST", "/api/v1/tenants/a/erase", sure("a")).into(t, &e); e.State != tenant.ErasedAll {
		t.Errorf("the tenant: %+v", e)
	}
	var audited []string
	for l, err := range users.AuditLines(ctx, a.ID, tidemark.Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Outcome == tenant.AuditDone {
			audited = append(audited, l.Action)
		}
	}
	if all := strings.Join(audited, " "); !strings.Contains(all, "user.export user.hand-over user.erase tenant.erase") {
		t.Errorf("the audit log has %s", all)
	}
}

// TestAnErasedTenantLeavesNoRow looks at the tables themselves: rows, shares and the
// indexes of what was shared.
func TestAnErasedTenantLeavesNoRow(t *testing.T) {
	db := pgtest.Start(t).Prepared(t, "erasure", func(db *pgtest.Database) error {
		return postgres.Migration{Role: db.Role}.Run(context.Background(), db.Owner)
	})
	ctx := t.Context()
	served, err := postgres.Connect(ctx, db.Server, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	super, err := pgx.Connect(ctx, db.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(context.WithoutCancel(ctx))
	users := tenant.NewDirectory(records.New(served.For(tidemark.Operator()), records.Options{}))
	scopes := store.NewScopes(&store.Options{Places: search.EachWord})
	open := func(_ context.Context, p tidemark.Principal) (*store.Store, error) {
		return store.New(served.For(p), &store.Options{Places: search.EachWord, Scopes: scopes}), nil
	}
	x := &transfer.Offboarding{Users: users, Store: open, Backend: func(_ context.Context, p tidemark.Principal) (tidemark.Backend, error) { return served.For(p), nil }}
	tenants := make(map[string]tenant.Tenant)
	people := make(map[string]tenant.User)
	for _, name := range []string{"going", "staying"} {
		in, err := users.CreateTenant(ctx, tenant.Tenant{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		tenants[name] = in
		crew, err := users.CreateWorkspace(ctx, in.ID, "crew")
		if err != nil {
			t.Fatal(err)
		}
		for _, subject := range []string{"ada", "bob"} {
			u, _, err := users.UpsertUser(ctx, tenant.Claims{Tenant: in, Issuer: "i", Subject: subject, Role: tenant.RoleWriter, Workspaces: []string{crew.ID}, Places: true})
			if err != nil {
				t.Fatal(err)
			}
			people[name+subject] = u
			p := tidemark.Principal{Tenant: in.ID, User: u.ID, Workspaces: u.Workspaces}
			s, _ := open(ctx, p)
			w := s.Create(tidemark.Session{Title: "tides"}, tidemark.Holder{Program: "test"})
			if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "periwinkle of "+subject)); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if err := served.For(p).Share(ctx, w.ID(), tidemark.Scope{With: tidemark.InWorkspace, Workspace: crew.ID}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.CatchUp(ctx, nil); err != nil {
				t.Fatal(err)
			}
			scopes.Grew(served.For(p))
			if err := scopes.Settle(ctx, served.For(p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows := func(where string, args ...any) (n int) {
		t.Helper()
		for _, table := range []string{"record", "log", "line", "share"} {
			var m int
			if err := super.QueryRow(ctx, "select count(*) from tidemark."+table+" where "+where, args...).Scan(&m); err != nil {
				t.Fatal(err)
			}
			n += m
		}
		return n
	}
	stays := rows("tenant = $1", tenants["staying"].ID)
	ada := people["goingada"]
	if e, err := x.User(ctx, tenants["going"], ada); err != nil || e.Sessions != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
	if n := rows("owner = $1", ada.ID); n != 0 {
		t.Errorf("%d rows of somebody who was erased", n)
	}
	if n := rows("owner = $1", people["goingbob"].ID); n == 0 {
		t.Error("another's rows are gone")
	}
	if e, err := x.Tenant(ctx, tenants["going"]); err != nil || e.State != tenant.ErasedAll {
		t.Fatalf("%+v, %v", e, err)
	}
	if n := rows("tenant = $1", tenants["going"].ID); n != 0 {
		t.Errorf("%d rows of a tenant that was erased", n)
	}
	if n := rows("tenant = $1", tenants["staying"].ID); n != stays || stays == 0 {
		t.Errorf("another tenant had %d rows, and has %d", stays, n)
	}
	if _, err := users.Tenant(ctx, tenants["going"].ID); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("the tenant: %v", err)
	}
}
