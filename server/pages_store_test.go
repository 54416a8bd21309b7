package server

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/search"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store"
)

func (s *testServer) overview(t *testing.T, who string) *web.StoreOverview {
	t.Helper()
	var v web.Store
	s.call(t, who, "GET", "/store.json", nil).want(t, 200).into(t, &v)
	if v.Overview == nil {
		t.Fatal("no overview")
	}
	return v.Overview
}

func TestTheStoreTellsHowMuchThereIsAndHowItGrows(t *testing.T) {
	s := newTestServer(t, withPages)
	jo := tidemark.TenantOf("a", "jo")
	used(t, s, jo, tidemark.Session{Title: "one"}, 1, 0, time.Now())
	gone := used(t, s, jo, tidemark.Session{Title: "two"}, 1, 0, time.Now())
	s.call(t, "writer-a", "DELETE", "/api/v1/sessions/"+string(gone), nil).want(t, 200)
	o := s.overview(t, "reader-a")
	if o.Counts == nil || o.Counts.Sessions != 1 || o.Counts.Trash != 1 || o.Counts.Entries != 2 {
		t.Errorf("%+v", o.Counts)
	}
	today := o.Days[len(o.Days)-1]
	if len(o.Days) != 30 || today.Sessions != 1 || today.Messages != 2 {
		t.Errorf("%d days, today %+v", len(o.Days), today)
	}
	page := string(s.call(t, "reader-a", "GET", "/store", nil).want(t, 200).Body)
	for _, want := range []string{"restore-drill", `role="img"`, "Nobody writes", "Nothing was verified"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	for _, never := range []string{"/store/verify", "/store/audit", "/store/tokens", "Keys</h2>\n<p"} {
		if strings.Contains(page, never) {
			t.Errorf("%q on the page of a reader", never)
		}
	}
	if other := s.overview(t, "reader-b"); other.Counts.Sessions != 0 {
		t.Errorf("%+v of another tenant", other.Counts)
	}
}

func TestVerifyingFindsDamageAndTellsWhoseStoreItIs(t *testing.T) {
	s := newTestServer(t, withPages)
	used(t, s, tidemark.TenantOf("a", "jo"), tidemark.Session{Title: "whole"}, 1, 0, time.Now())
	s.form(t, "reader-a", "/store/verify").want(t, 403)
	s.form(t, "writer-a", "/store/verify").want(t, 200)
	if o := s.overview(t, "writer-a"); o.Verify == nil || o.Verify.Running || o.Checked != 1 || o.Damages != 0 {
		t.Errorf("%+v of %d sessions", o.Verify, o.Checked)
	}
	if o := s.overview(t, "reader-b"); o.Verify != nil {
		t.Error("another tenant sees that something was verified")
	}
}

func TestALeaseIsReleasedOnlyWhenItsHolderIsDead(t *testing.T) {
	var dead atomic.Bool
	st := store.New(memory.New(), &store.Options{Dead: func(tidemark.Holder) bool { return dead.Load() }})
	s := newTestServer(t, withPages, func(o *Options) {
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return st, nil }
	})
	id := keepUsed(t, st, tidemark.Session{Title: "held"}, 1, 0, time.Now())
	if _, err := st.Attach(t.Context(), id, process.Self("editor")); err != nil {
		t.Fatal(err)
	}
	o := s.overview(t, "reader-a")
	if len(o.Leases) != 1 || o.Leases[0].State != "alive" || o.Leases[0].Title != "held" || !strings.Contains(o.Leases[0].Holder, "editor") {
		t.Fatalf("%+v", o.Leases)
	}
	s.form(t, "writer-a", "/store/release", "session", string(id)).want(t, 423)
	dead.Store(true)
	page := string(s.call(t, "writer-a", "GET", "/store", nil).want(t, 200).Body)
	if !strings.Contains(page, "data-confirm") || !strings.Contains(page, "/store/release") {
		t.Error("no button that asks first")
	}
	s.form(t, "reader-a", "/store/release", "session", string(id)).want(t, 403)
	s.form(t, "writer-a", "/store/release", "session", string(id)).want(t, 200)
	if o := s.overview(t, "reader-a"); len(o.Leases) != 0 {
		t.Errorf("%+v", o.Leases)
	}
	s.form(t, "writer-a", "/store/release", "session", "7f3a0c1e-0000-4000-8000-000000000001").want(t, 404)
	s.form(t, "writer-a", "/store/release", "session", "../x").want(t, 404)
}

func TestTheIndexIsBroughtUpToDateFromThePage(t *testing.T) {
	st := store.New(memory.New(), &store.Options{Places: search.EachWord})
	s := newTestServer(t, withPages, func(o *Options) {
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return st, nil }
	})
	keepUsed(t, st, tidemark.Session{}, 1, 0, time.Now())
	o := s.overview(t, "reader-a")
	if o.Index == "none" {
		t.Skip("the store in memory has no index")
	}
	if o.Index != "behind" || o.Behind == 0 {
		t.Errorf("index %s, %d behind", o.Index, o.Behind)
	}
	for _, how := range []string{"", "all"} {
		s.form(t, "writer-a", "/store/reindex", "how", how).want(t, 200)
		if o := s.overview(t, "reader-a"); o.Index != "current" || o.Reindex == nil || o.Reindex.Running {
			t.Errorf("index %s, %+v", o.Index, o.Reindex)
		}
	}
}

func TestKeysAreNamedToAdminsAndNeverShown(t *testing.T) {
	s := newTestServer(t, withPages, func(o *Options) {
		o.Inspect = func(_ context.Context, p tidemark.Principal) (pages.Inspection, error) {
			return pages.Inspection{Kind: "sqlite", Place: "/data/store.db", Bytes: 4_100_000, Sealed: true, Keys: []pages.KeyInfo{{ID: "k1", Type: "passphrase", Label: "<i>mine</i>", Opened: true}},
				Backups: []pages.BackupInfo{{What: "export", At: time.Now(), Outcome: "done"}}}, nil
		}
	})
	page := string(s.call(t, "admin-a", "GET", "/store", nil).want(t, 200).Body)
	for _, want := range []string{"passphrase", "4.1 MB", "/data/store.db", "&lt;i&gt;mine", "export"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if o := s.overview(t, "reader-a"); len(o.Keys) != 0 || o.Place != "" || !o.Sealed || o.Bytes == 0 {
		t.Errorf("a reader sees %+v at %q", o.Keys, o.Place)
	}
}

func TestATokenIsMadeOnThePageShownOnceAndRevoked(t *testing.T) {
	s := administered(t, withPages)
	s.form(t, "writer-a", "/store/tokens", "name", "ci", "role", "reader").want(t, 403)
	for _, bad := range [][]string{{"name", "", "role", "reader"}, {"name", "x", "role", "king"}, {"name", "x", "role", "reader", "days", "0"}, {"name", "x", "role", "reader", "days", "99999999999"}, {"name", "x", "role", "reader", "scope", "../x"}} {
		if got := s.form(t, "admin-a", "/store/tokens", bad...); got.Status != 400 && got.Status != 422 {
			t.Errorf("%q: status %d", bad, got.Status)
		}
	}
	a := s.form(t, "admin-a", "/store/tokens", "name", "ci <b>", "role", "writer", "scope", "sessions", "scope", "jobs", "days", "7", "as", "tenant").want(t, 201)
	if a.Header.Get("Cache-Control") != "no-store" || len(a.Header.Values("Set-Cookie")) > 0 || a.Header.Get("ETag") != "" {
		t.Errorf("headers %v", a.Header)
	}
	at := bytes.Index(a.Body, []byte(tenant.TokenPrefix))
	if at < 0 || bytes.Contains(a.Body, []byte("ci <b>")) {
		t.Fatalf("%s", a.Body)
	}
	text := string(a.Body[at : at+73])
	if _, _, err := tenant.ParseToken(text); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	var v web.Store
	list := s.call(t, "admin-a", "GET", "/store/tokens.json", nil).want(t, 200)
	list.into(t, &v)
	if bytes.Contains(list.Body, []byte(text)) || len(v.Tokens.Tokens) != 1 {
		t.Fatalf("%s", list.Body)
	}
	token := v.Tokens.Tokens[0]
	if token.Role != "writer" || token.For != "tenant" || len(token.Scopes) != 2 || token.State != "active" || time.Until(token.ExpiresAt) > 8*24*time.Hour {
		t.Errorf("%+v", token)
	}
	s.form(t, "admin-b", "/store/tokens/"+token.ID+"/revoke").want(t, 404)
	s.form(t, "admin-b", "/store/tokens/"+token.ID+"/revoke", "tenant", "a").want(t, 404)
	s.form(t, "writer-a", "/store/tokens/"+token.ID+"/revoke").want(t, 403)
	s.form(t, "admin-a", "/store/tokens/"+token.ID+"/revoke").want(t, 200)
	s.call(t, "admin-a", "GET", "/store/tokens.json", nil).want(t, 200).into(t, &v)
	if v.Tokens.Tokens[0].State != "revoked" {
		t.Errorf("%+v", v.Tokens.Tokens)
	}
	if body := s.call(t, "admin-a", "GET", "/store/audit", nil).want(t, 200).Body; !bytes.Contains(body, []byte("token.create")) || !bytes.Contains(body, []byte("token.revoke")) {
		t.Errorf("not in the audit log: %s", body)
	}
}

func TestAnExportHasWhatIsNotChainedYet(t *testing.T) {
	s := administered(t, withPages)
	newSession(t, s, "writer-a", "tides", "hello")
	exported := func() (actions []string) {
		t.Helper()
		r := s.call(t, "admin-a", "GET", "/store/audit/export?what=/api/v1/sessions", nil).want(t, 200)
		for d := json.NewDecoder(bytes.NewReader(r.Body)); d.More(); {
			var l tenant.AuditLine
			if err := d.Decode(&l); err != nil {
				t.Fatal(err)
			}
			actions = append(actions, l.Action)
		}
		return actions
	}
	before := exported()
	if !slices.Contains(before, "POST /api/v1/sessions") {
		t.Errorf("exported: %q", before)
	}
	if err := s.stores.FlushAudit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := exported(); !slices.Equal(before, after) {
		t.Errorf("once they are chained: %q, before: %q", after, before)
	}
}

func TestTheAuditLogIsReadByPageAndVerified(t *testing.T) {
	s := administered(t, withPages)
	for range 5 {
		s.form(t, "admin-a", "/store/tokens", "name", "ci", "role", "reader").want(t, 201)
	}
	s.call(t, "writer-a", "GET", "/store/audit", nil).want(t, 403)
	var seqs []int64
	for path := "/store/audit.json?limit=2"; path != ""; {
		var v web.Store
		s.call(t, "admin-a", "GET", path, nil).want(t, 200).into(t, &v)
		for _, l := range v.Audit.Lines {
			seqs = append(seqs, l.Seq)
		}
		if path = ""; v.Audit.Next != "" {
			path = "/store/audit.json?limit=2&cursor=" + v.Audit.Next
		}
	}
	if len(seqs) < 5 || seqs[len(seqs)-1] != 1 {
		t.Errorf("lines %v", seqs)
	}
	s.form(t, "admin-a", "/store/tokens", "name", "nightly", "role", "reader").want(t, 201)
	today := time.Now().UTC().Format(time.DateOnly)
	for query, want := range map[string]int{"what=made+A+token": 12, "what=TOKEN.create": 6, "who=nobody+here": 0, "until=2001-01-01": 0, "since=2001-01-01&what=made+a+token": 12,
		"since=" + today + "&until=" + today + "&what=token.create": 6, "since=2999-01-01": 0} {
		found := 0
		for next := "&limit=4"; next != ""; {
			var v web.Store
			s.call(t, "admin-a", "GET", "/store/audit.json?"+query+next, nil).want(t, 200).into(t, &v)
			found += len(v.Audit.Lines)
			if next = ""; v.Audit.Next != "" {
				next = "&limit=4&cursor=" + v.Audit.Next
			}
		}
		if found != want {
			t.Errorf("%s: %d lines, want %d", query, found, want)
		}
		exported := s.call(t, "admin-a", "GET", "/store/audit/export?"+query, nil).want(t, 200)
		lines := 0
		for d := json.NewDecoder(bytes.NewReader(exported.Body)); d.More(); lines++ {
			var l tenant.AuditLine
			if err := d.Decode(&l); err != nil || (l.Seq == 0) != (l.Hash == "") || l.Action == "" {
				t.Fatalf("%s: %+v, %v", query, l, err)
			}
		}
		if lines != want {
			t.Errorf("%s: %d lines exported, want %d", query, lines, want)
		}
		// The API takes the same filters; the words of an action are the page's.
		if !strings.Contains(query, "made") {
			var page routes.Page[tenant.AuditLine]
			s.call(t, "admin-a", "GET", "/api/v1/audit?"+query, nil).want(t, 200).into(t, &page)
			if n := len(page.Items); n != want {
				t.Errorf("%s: %d lines over the API, want %d", query, n, want)
			}
		}
	}
	s.call(t, "writer-a", "GET", "/store/audit/export", nil).want(t, 403)
	s.call(t, "admin-a", "GET", "/store/audit/export?tenant=b", nil).want(t, 404)
	for _, bad := range []string{"cursor=x", "limit=-1", "limit=x", "since=x", "until=2026-13-01"} {
		s.call(t, "admin-a", "GET", "/store/audit?"+bad, nil).want(t, 400)
	}
	for _, bad := range []string{"since=x", "until=2026-13-01"} {
		s.call(t, "admin-a", "GET", "/api/v1/audit?"+bad, nil).want(t, 400)
	}
	s.call(t, "admin-a", "GET", "/store/audit?tenant=b", nil).want(t, 404)
	s.form(t, "admin-a", "/store/audit/verify").want(t, 200)
	var v web.Store
	s.call(t, "admin-a", "GET", "/store/audit.json", nil).want(t, 200).into(t, &v)
	if v.Audit.Report == nil || v.Audit.Report.Length < 5 || len(v.Audit.Report.Faults) != 0 {
		t.Errorf("%+v", v.Audit.Report)
	}
}

func TestUsersAndTenantsAreChangedByWhoMay(t *testing.T) {
	s := administered(t, withPages)
	users, err := s.stores.Operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	org, err := users.TenantNamed(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	kim, _, err := users.UpsertUser(t.Context(), tenant.Claims{Tenant: org, Issuer: "https://id.example", Subject: "kim-1", Name: "Kim", Role: tenant.RoleReader})
	if err != nil {
		t.Fatal(err)
	}
	s.call(t, "writer-a", "GET", "/store/users", nil).want(t, 403)
	s.form(t, "admin-b", "/store/users/"+kim.ID, "role", "admin").want(t, 404)
	s.form(t, "admin-a", "/store/users/"+kim.ID, "role", "king").want(t, 400)
	s.form(t, "admin-a", "/store/users/"+kim.ID, "role", "writer").want(t, 200)
	s.form(t, "admin-a", "/store/users/"+kim.ID, "state", "suspended").want(t, 200)
	var v web.Store
	s.call(t, "admin-a", "GET", "/store/users.json", nil).want(t, 200).into(t, &v)
	if len(v.Users.Users) != 1 || v.Users.Users[0].Role != "writer" || v.Users.Users[0].State != "suspended" {
		t.Errorf("%+v", v.Users)
	}
	s.call(t, "admin-a", "GET", "/store/tenants", nil).want(t, 403)
	s.form(t, "admin-a", "/store/tenants/"+org.ID, "state", "suspended").want(t, 403)
	s.form(t, "op", "/store/tenants/"+org.ID, "state", "suspended").want(t, 200)
	page := string(s.call(t, "op", "GET", "/store/tenants", nil).want(t, 200).Body)
	if !strings.Contains(page, "suspended") || !strings.Contains(page, `data-danger="b"`) {
		t.Error(page)
	}
	if got, err := users.Tenant(t.Context(), org.ID); err != nil || got.State != tenant.Suspended {
		t.Errorf("%+v %v", got, err)
	}
}

// unsaid finds a name of a text where the text should stand, and a text that was
// filled wrongly.
var unsaid = regexp.MustCompile(`>\s*(usage|store|task|list|role|nav|keys)\.[a-z0-9.-]+\s*<|%!|<no value>`)

func TestEveryTabSaysWhatItShouldInEveryState(t *testing.T) {
	s := administered(t, withPages)
	users, err := s.stores.Operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	org, err := users.TenantNamed(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"/store", "/store/audit", "/store/tokens", "/store/users", "/store/links", "/usage", "/usage?metric=cost&by=user&bucket=month", "/usage?metric=turns&by=agent&bucket=week&since=all", "/usage?metric=messages&by=project"}
	look := func() {
		t.Helper()
		for _, path := range paths {
			page := string(s.call(t, "admin-a", "GET", path, nil).want(t, 200).Body)
			// What others called things may look like anything.
			page = regexp.MustCompile(`<bdi>.*?</bdi>`).ReplaceAllString(page, "")
			if found := unsaid.FindString(page); found != "" || strings.Count(page, "<h1") != 1 {
				t.Errorf("%s: %q", path, found)
			}
		}
		page := string(s.call(t, "op", "GET", "/store/tenants", nil).want(t, 200).Body)
		if found := unsaid.FindString(page); found != "" {
			t.Errorf("tenants: %q", found)
		}
	}
	look()
	used(t, s, tidemark.TenantOf("a", "jo"), tidemark.Session{Model: "m", Agent: "a", Project: "/p"}, 9, 1, time.Now())
	if _, _, err := users.UpsertUser(t.Context(), tenant.Claims{Tenant: org, Issuer: "https://id.example", Subject: "kim-1", Role: tenant.RoleReader}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/store/verify", "/store/audit/verify", "/store/reindex", "/usage/recount"} {
		s.form(t, "admin-a", path)
	}
	s.form(t, "admin-a", "/store/tokens", "name", "ci", "role", "reader").want(t, 201)
	look()
	// What goes on is said while it does.
	hold := make(chan struct{})
	defer close(hold)
	wait := func(_ context.Context, progress func(int64)) (any, error) {
		progress(3)
		<-hold
		return nil, nil
	}
	p := tidemark.TenantOf("a", "jo")
	s.pages.Begin(t.Context(), pages.TaskName(p, "verify"), wait)
	s.pages.Begin(t.Context(), pages.TaskName(p, "audit/"+org.ID), wait)
	s.pages.Begin(t.Context(), pages.TaskName(p, "reindex"), wait)
	s.pages.Begin(t.Context(), pages.TaskName(p, "usage/x"), wait)
	paths = []string{"/store", "/store/audit", "/usage?since=2026-01-02"}
	look()
	if page := string(s.call(t, "admin-a", "GET", "/store", nil).want(t, 200).Body); !strings.Contains(page, "3 sessions verified so far") || !strings.Contains(page, "hx-trigger") {
		t.Error("nothing of the verifying that goes on")
	}
}
