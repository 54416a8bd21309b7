package server

import (
	"bytes"
	"context"
	"encoding/csv"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store"
)

// withPages lets browsers in. Who they are is still said by the token.
func withPages(o *Options) {
	o.SignIn = auth.Local(strings.Repeat("a token ", 4), tidemark.TenantOf("default", ""))
}

// form sends a form of a page, as somebody.
func (s *testServer) form(t *testing.T, who, path string, pairs ...string) answer {
	t.Helper()
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	r := s.call(t, who, "POST", path, v.Encode(), "Content-Type: application/x-www-form-urlencoded")
	return r
}

// used keeps a session in the store of a principal, with one answer that used
// something.
func used(t *testing.T, s *testServer, p tidemark.Principal, sess tidemark.Session, tokens int64, usd float64, at time.Time) tidemark.SessionID {
	t.Helper()
	st, err := s.stores.Of(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return keepUsed(t, st, sess, tokens, usd, at)
}

func keepUsed(t testing.TB, st *store.Store, sess tidemark.Session, tokens int64, usd float64, at time.Time) tidemark.SessionID {
	t.Helper()
	w := st.Create(sess, process.Self("test"))
	_, err := w.Append(t.Context(),
		tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.User, At: at, Blocks: []tidemark.Block{tidemark.Text("when is high tide?")}},
		tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, At: at, Blocks: []tidemark.Block{tidemark.Text("at six")},
			Usage: &tidemark.Usage{InputTokens: tokens, OutputTokens: 1, CostUSD: usd}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.ID()
}

func TestUsageIsCountedByModelAgentProjectAndUser(t *testing.T) {
	s := newTestServer(t, withPages)
	jo := tidemark.TenantOf("a", "jo")
	now := time.Now()
	used(t, s, jo, tidemark.Session{Model: "large", Agent: "tides", Project: "/sea"}, 999, 0.5, now)
	used(t, s, jo, tidemark.Session{Model: "small", Agent: "tides", Project: "/land"}, 99, 0.25, now)
	used(t, s, tidemark.TenantOf("b", "jo"), tidemark.Session{Model: "theirs"}, 5, 1, now)
	for by, want := range map[string][]string{"model": {"large", "small"}, "agent": {"tides"}, "project": {"/sea", "/land"}, "user": {"reader-a"}} {
		var v web.UsagePage
		s.call(t, "reader-a", "GET", "/usage.json?by="+by, nil).want(t, 200).into(t, &v)
		var got []string
		share := 0.0
		for _, r := range v.Rows {
			got = append(got, r.Name)
			share += r.Share
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || !v.Ready || math.Abs(share-1) > 1e-9 {
			t.Errorf("by %s: %q, shares %v, ready %v", by, got, share, v.Ready)
		}
		if v.Total.Tokens != 1100 || v.Total.Turns != 2 || v.Total.Messages != 4 || v.Total.USD() != 0.75 {
			t.Errorf("by %s: %+v", by, v.Total)
		}
		sum := 0.0
		for _, b := range v.Times {
			sum += b.Sum
		}
		if len(v.Times) != 30 || sum != 1100 {
			t.Errorf("by %s: %d days with %v tokens", by, len(v.Times), sum)
		}
	}
	page := string(s.call(t, "reader-a", "GET", "/usage?metric=cost", nil).want(t, 200).Body)
	for _, want := range []string{`role="img"`, "$0.75", "large", "<caption", `href="/usage.csv?`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if strings.Contains(page, "theirs") {
		t.Error("the page shows a model of another tenant")
	}
}

func TestAdminsSeeTheNumbersOfTheirUsersAndNothingElseOfThem(t *testing.T) {
	s := newTestServer(t, withPages)
	users, err := s.stores.Operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	org, err := users.CreateTenant(t.Context(), tenant.Tenant{Name: "a", Issuer: "https://id.example"})
	if err != nil {
		t.Fatal(err)
	}
	kim, _, err := users.UpsertUser(t.Context(), tenant.Claims{Tenant: org, Issuer: "https://id.example", Subject: "kim-1", Name: "Kim", Role: tenant.RoleWriter})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	used(t, s, tidemark.TenantOf("a", "jo"), tidemark.Session{Model: "m"}, 9, 0, now)
	used(t, s, tidemark.Principal{Tenant: org.ID, User: kim.ID}, tidemark.Session{Model: "m", Project: "/secret"}, 19, 0, now)
	used(t, s, tidemark.TenantOf("a", ""), tidemark.Session{Model: "m"}, 29, 0, now)
	var v web.UsagePage
	s.call(t, "admin-a", "GET", "/usage.json?by=user", nil).want(t, 200).into(t, &v)
	if len(v.Rows) != 3 || v.Rows[0].Name != "fleet" || v.Rows[1].Name != "Kim" || v.Rows[1].Tokens != 20 || v.Total.Tokens != 60 || !v.Everybody {
		t.Errorf("%+v", v.Rows)
	}
	for who, path := range map[string]string{"admin-a": "/usage.json?by=project", "writer-a": "/usage.json?by=user"} {
		body := s.call(t, who, "GET", path, nil).want(t, 200).Body
		if bytes.Contains(body, []byte("secret")) || bytes.Contains(body, []byte("Kim")) {
			t.Errorf("%s of %s: %s", path, who, body)
		}
	}
}

func TestUsageAsCSVHasEveryNumberAndNoFormula(t *testing.T) {
	s := newTestServer(t, withPages)
	jo, now := tidemark.TenantOf("a", "jo"), time.Now()
	evil := []string{"=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", "a,\"b\"", "plain"}
	for i, project := range evil {
		used(t, s, jo, tidemark.Session{Model: "m", Project: project}, int64(i), 0.01, now)
	}
	a := s.call(t, "reader-a", "GET", "/usage.csv?by=project", nil).want(t, 200)
	if got := a.Header.Get("Content-Type"); got != "text/csv; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
	rows, err := csv.NewReader(bytes.NewReader(a.Body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(evil)+1 || rows[0][0] != "day" || rows[0][1] != "project" {
		t.Fatalf("%q", rows)
	}
	for _, r := range rows[1:] {
		if strings.ContainsAny(r[1][:1], "=+-@") {
			t.Errorf("%q would be a formula", r[1])
		}
		if r[2] != "1" || r[9] != "0.01" {
			t.Errorf("%q", r)
		}
	}
}

func TestUsageIsAskedForInTimeZonesAndSteps(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	s := newTestServer(t, withPages, func(o *Options) {
		o.Now = func() time.Time { return now }
		st := store.New(memory.New(), &store.Options{Now: o.Now})
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return st, nil }
	})
	// Half past eleven in the evening of the first in London is the second in Berlin.
	late := time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC)
	used(t, s, tidemark.TenantOf("a", "jo"), tidemark.Session{Model: "m"}, 9, 0, late)
	for ask, want := range map[string]string{
		"tz=UTC": "2026-03-01", "tz=Europe/Berlin": "2026-03-02", "bucket=week&tz=UTC": "2026-02-23", "bucket=week&tz=Europe/Berlin": "2026-03-02", "bucket=month": "2026-03",
		"since=all": "2026-03-01", "since=2026-03-01&until=2026-03-01": "2026-03-01",
	} {
		var v web.UsagePage
		s.call(t, "reader-a", "GET", "/usage.json?"+ask, nil).want(t, 200).into(t, &v)
		got := ""
		for _, b := range v.Times {
			if b.Sum > 0 {
				got += b.Name
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", ask, got, want)
		}
	}
	for _, bad := range []string{"by=mood", "metric=x", "bucket=year", "tz=Mars/Base", "tz=../../etc/passwd", "tz=Local", "since=yesterday", "until=31.12.", "since=2026-03-05&until=2026-03-01", "since=0001-01-01"} {
		a := s.call(t, "reader-a", "GET", "/usage?"+bad, nil).want(t, 400)
		if !strings.Contains(string(a.Body), "<h1>") {
			t.Errorf("%s: no page", bad)
		}
	}
	var v web.UsagePage
	s.call(t, "reader-a", "GET", "/usage.json?since=1970-01-01&bucket=day", nil).want(t, 200).into(t, &v)
	if !v.Coarser || v.Bucket != "month" || len(v.Times) != 400 || v.LeftOut {
		t.Errorf("bucket %s, %d bars, coarser %v", v.Bucket, len(v.Times), v.Coarser)
	}
}

func TestOldPricesAreSaidToBeOld(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for asOf, old := range map[string]bool{"2026-08-01": true, "2026-11-01": false} {
		st := store.New(memory.New(), &store.Options{Price: func(string, time.Time, tidemark.Usage) (store.Estimate, bool) {
			at, err := time.Parse(time.DateOnly, asOf)
			return store.Estimate{USD: 2, AsOf: at}, err == nil
		}})
		s := newTestServer(t, withPages, func(o *Options) {
			o.Now = func() time.Time { return now }
			o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return st, nil }
		})
		keepUsed(t, st, tidemark.Session{Model: "large"}, 999, 0, now)
		page := string(s.call(t, "reader-a", "GET", "/usage", nil).want(t, 200).Body)
		if got := strings.Contains(page, "The prices are of "+asOf+", more than 90 days old."); got != old {
			t.Errorf("prices of %s: said to be old %v, want %v", asOf, got, old)
		}
	}
}

func TestAStoreThatIsEmptySaysWhatToDo(t *testing.T) {
	s := newTestServer(t, withPages)
	page := string(s.call(t, "reader-a", "GET", "/usage", nil).want(t, 200).Body)
	if !strings.Contains(page, "tidemark import --all") {
		t.Error(page)
	}
	s.call(t, "reader-a", "GET", "/usage.csv", nil).want(t, 200)
	if got := s.call(t, "", "GET", "/usage", nil); got.Status != 401 {
		t.Errorf("status %d for nobody", got.Status)
	}
}

func TestNamesOnTheChartsAreEscaped(t *testing.T) {
	s := newTestServer(t, withPages)
	used(t, s, tidemark.TenantOf("a", "jo"), tidemark.Session{Model: `<script>alert(1)</script>"'`, Agent: "x"}, 9, 0, time.Now())
	used(t, s, tidemark.TenantOf("a", "jo"), tidemark.Session{Model: "b\u202e\u200b\x1b[31m"}, 9, 0, time.Now())
	page := string(s.call(t, "reader-a", "GET", "/usage", nil).want(t, 200).Body)
	if strings.Contains(page, "<script>alert") || strings.ContainsAny(page, "\x1b") {
		t.Error("not escaped")
	}
}

func TestACountingIsSharedAndCanBeAskedForAnew(t *testing.T) {
	s := newTestServer(t, withPages)
	jo := tidemark.TenantOf("a", "jo")
	used(t, s, jo, tidemark.Session{Model: "m"}, 9, 0, time.Now())
	total := func(path string) int64 {
		var v web.UsagePage
		s.call(t, "reader-a", "GET", path, nil).want(t, 200).into(t, &v)
		return v.Total.Tokens
	}
	if got := total("/usage.json"); got != 10 {
		t.Fatal(got)
	}
	used(t, s, jo, tidemark.Session{Model: "m"}, 9, 0, time.Now())
	if got := total("/usage.json?metric=cost&by=agent"); got != 10 {
		t.Errorf("%d tokens: counted again for another chart of the same time", got)
	}
	a := s.form(t, "reader-a", "/usage/recount", "by", "agent", "metric", "cost")
	if a.want(t, 200); !strings.Contains(string(a.Body), "<h1>") {
		t.Error("no page behind the form")
	}
	if got := total("/usage.json"); got != 20 {
		t.Errorf("%d tokens after counting again, want 20", got)
	}
}

func TestALongSessionIsCountedToItsEnd(t *testing.T) {
	s := newTestServer(t, withPages)
	st, err := s.stores.Of(t.Context(), tidemark.TenantOf("a", "jo"))
	if err != nil {
		t.Fatal(err)
	}
	const entries = 9001 // more than a page counts at once
	w := st.Create(tidemark.Session{Title: "long"}, process.Self("test"))
	all := make([]tidemark.Entry, entries)
	for i := range all {
		all[i] = tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, At: time.Now(), Blocks: []tidemark.Block{tidemark.Text("at six")}, Usage: &tidemark.Usage{OutputTokens: 1}}
	}
	if _, err := w.Append(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var v web.SessionView
	s.call(t, "reader-a", "GET", "/sessions/"+string(w.ID())+".json", nil).want(t, 200).into(t, &v)
	if !v.Usage.Partial || v.Usage.OutputTokens == 0 || v.Usage.OutputTokens >= entries {
		t.Errorf("the page of the session counted %+v", v.Usage)
	}
	// The survey goes on where the page stopped.
	for till := time.Now().Add(patient); ; {
		var list web.SessionsView
		s.call(t, "reader-a", "GET", "/sessions.json?sort=cost", nil).want(t, 200).into(t, &list)
		if len(list.Sessions) == 1 && !list.Sessions[0].Usage.Partial {
			if n := list.Sessions[0].Usage.OutputTokens; n != entries {
				t.Errorf("%d tokens were counted, want %d", n, entries)
			}
			return
		}
		if time.Now().After(till) {
			t.Fatalf("it is never counted: %+v", list.Sessions)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
