package server

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/tenant"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// clocked has a server go by a clock that the test moves.
func clocked(o *Options) (forward func(time.Duration)) {
	var at atomic.Int64
	at.Store(time.Now().UnixNano())
	o.Now = func() time.Time { return time.Unix(0, at.Load()) }
	return func(d time.Duration) { at.Add(int64(d)) }
}

func TestNobodyKeepsMoreThanTheirLimits(t *testing.T) {
	var forward func(time.Duration)
	s := administered(t, withPages, func(o *Options) {
		forward = clocked(o)
		o.Limits.User.Sessions, o.Limits.Storage = 2, 20_000
	})
	first := newSession(t, s, "writer-a", "one", "tides")
	newSession(t, s, "writer-a", "two", "tides")
	full := s.call(t, "writer-a", "POST", request.SessionsPath, map[string]any{"title": "three"}).want(t, http.StatusInsufficientStorage)
	if p := full.problem(t); p.Code != "storage" || !strings.Contains(p.Detail, "keeps 2, and may keep 2") || p.Hint == "" {
		t.Errorf("the problem is %+v", p)
	}
	if got := full.Header.Get(request.LimitsHeader); !strings.Contains(got, "sessions;used=2;most=2") {
		t.Errorf("%s: %q", request.LimitsHeader, got)
	}
	newSession(t, s, "other-a", "one", "tides") // which is nobody else's business
	// Whoever has no room can go on in what is there, tell it apart, and make room.
	s.call(t, "writer-a", "POST", first+"/entries", `{"entries":[{"role":"user","content":"more"}]}`).want(t, 201)
	s.call(t, "writer-a", "PATCH", first, `{"title":"the first"}`).want(t, 200)
	s.call(t, "writer-a", "DELETE", first, nil).want(t, 200)
	s.call(t, "writer-a", "POST", request.SessionsPath, map[string]any{"title": "three"}).want(t, 507) // what is in the trash is kept
	s.call(t, "writer-a", "DELETE", first+"?purge=true", nil).want(t, 200)
	forward(time.Second)
	third := newSession(t, s, "writer-a", "three")

	// The tenant has a limit of bytes for all together.
	long := `{"entries":[{"role":"user","content":"` + strings.Repeat("x", 19_000) + `"}]}`
	full = s.call(t, "writer-a", "POST", third+"/entries", long).want(t, http.StatusInsufficientStorage)
	if p := full.problem(t); !strings.Contains(p.Detail, "the tenant keeps") || !strings.Contains(p.Detail, "may keep 20000") {
		t.Errorf("the problem is %+v", p)
	}
	page := string(s.call(t, "writer-a", "GET", "/store", nil).want(t, 200).Body)
	for _, want := range []string{`<meter min="0" max="2"`, "2 of 2", "of 20 KB"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	// The operator changes it, here and now; it is in the log of the tenant.
	for who, want := range map[string]int{"admin-a": 403, "writer-a": 403, "op": 200} {
		s.call(t, who, "PUT", "/api/v1/tenants/a/limits", tenant.UsageLimits{Storage: 1_000_000}).want(t, want)
	}
	s.call(t, "writer-a", "POST", third+"/entries", long).want(t, 201)
	var is routes.LimitsOf
	s.call(t, "op", "GET", "/api/v1/tenants/a/limits", nil).want(t, 200).into(t, &is)
	if is.Limits.Storage != 1_000_000 || is.Allowed.Storage != 1_000_000 || is.Kept.Sessions != 3 {
		t.Errorf("the operator reads %+v", is)
	}
	s.call(t, "op", "PUT", "/api/v1/tenants/a/limits", tenant.UsageLimits{Storage: -2}).want(t, 422)
	s.call(t, "admin-a", "GET", "/api/v1/tenants/a/limits", nil).want(t, 403)
	if page := string(s.call(t, "op", "GET", "/store/tenants", nil).want(t, 200).Body); !strings.Contains(page, "of 1 MB") || unsaid.MatchString(page) {
		t.Errorf("the table of the operator has no limits: %s", page)
	}
	var audit routes.Page[tenant.AuditLine]
	s.call(t, "admin-a", "GET", "/api/v1/audit?what=tenant.limits", nil).want(t, 200).into(t, &audit)
	if len(audit.Items) != 1 {
		t.Errorf("the audit log has %d lines about the limits, want 1", len(audit.Items))
	}
}

// What is said for a user by name counts at every server within seconds, without a
// restart.
func TestLimitsByNameCountWithinSeconds(t *testing.T) {
	var forward func(time.Duration)
	s := administered(t, func(o *Options) { forward = clocked(o) })
	users, a, ids := leavers(t, s)
	jo := people()["writer-a"].User
	say := func(user string, l tenant.UsageLimits) {
		t.Helper()
		if _, err := users.ChangeLimits(t.Context(), a.ID, user, func(to *tenant.UsageLimits) error { *to = l; return nil }); err != nil {
			t.Fatal(err)
		}
		forward(5 * time.Second)
	}
	newSession(t, s, "writer-a", "one")
	say(jo, tenant.UsageLimits{Sessions: 1})
	s.call(t, "writer-a", "POST", request.SessionsPath, map[string]any{}).want(t, 507)
	newSession(t, s, "other-a", "one")
	newSession(t, s, "other-a", "two")
	say("", tenant.UsageLimits{Sessions: 3})
	s.call(t, "other-a", "POST", request.SessionsPath, map[string]any{}).want(t, 507)
	newSession(t, s, "writer-b", "one")
	say(jo, tenant.UsageLimits{Sessions: tenant.Unlimited})
	say("", tenant.UsageLimits{})
	newSession(t, s, "writer-a", "two")

	say(jo, tenant.UsageLimits{Bytes: 1000})
	long := map[string]any{"title": strings.Repeat("t", 150), "entries": []any{map[string]any{"role": "user", "content": strings.Repeat("x", 50_000)}}}
	s.call(t, "writer-a", "POST", request.SessionsPath, long).want(t, 201) // it is let through, and then waited for
	late := s.call(t, "writer-a", "GET", request.SessionsPath, nil).want(t, http.StatusTooManyRequests)
	if p := late.problem(t); p.Code != "limited" || p.RetryAfter < 60*40 || late.Header.Get("Retry-After") == "" || !strings.Contains(p.Detail, "1000 bytes a minute") {
		t.Errorf("the problem is %+v", p)
	}
	s.call(t, "other-a", "GET", request.SessionsPath, nil).want(t, 200)
	say(jo, tenant.UsageLimits{})
	s.call(t, "writer-a", "GET", request.SessionsPath, nil).want(t, 200)

	say(jo, tenant.UsageLimits{Streams: 1})
	one := newSession(t, s, "writer-a", "three")
	f := s.follow(t, "writer-a", one+"/entries/stream", "")
	defer f.close()
	s.call(t, "writer-a", "GET", one+"/entries/stream", nil).want(t, http.StatusTooManyRequests)

	say(jo, tenant.UsageLimits{Requests: 1}) // and two at once, after a pause
	refused := 0
	for range 5 {
		if s.call(t, "writer-a", "GET", request.SessionsPath, nil).Status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("one request a second lets five through at once")
	}
	s.call(t, "admin-a", "GET", "/api/v1/users/"+ids[0]+"/limits", nil).want(t, 429) // the same person
	s.call(t, "op", "PUT", "/api/v1/users/"+ids[0]+"/limits?tenant=a", tenant.UsageLimits{Sessions: 5}).want(t, 200)
	s.call(t, "admin-b", "GET", "/api/v1/users/"+ids[0]+"/limits", nil).want(t, 404)
	s.call(t, "admin-b", "PUT", "/api/v1/users/"+ids[0]+"/limits", tenant.UsageLimits{}).want(t, 403)
}
