package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// nodes returns two servers over one store, whose clock can be put forward.
func nodes(t *testing.T) (one, two *testServer, pass func(time.Duration)) {
	t.Helper()
	var late atomic.Int64
	b := memory.New()
	open := func(o *Options) {
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) {
			return store.New(b, &store.Options{Now: func() time.Time { return time.Now().Add(time.Duration(late.Load())) }}), nil
		}
	}
	return newTestServer(t, open), newTestServer(t, open), func(d time.Duration) { late.Add(int64(d)) }
}

func (s *testServer) acquire(t *testing.T, path, holder string) api.LeaseInfo {
	t.Helper()
	var l api.LeaseInfo
	s.call(t, wA, "POST", path+"/lease", fmt.Sprintf(`{"holder":%q}`, holder)).want(t, 201).into(t, &l)
	return l
}

func with(token string, texts ...string) api.Appending {
	b := said(texts...)
	b.Lease = token
	return b
}

func TestALeaseHoldsOnEveryNodeAndNamesItsHolder(t *testing.T) {
	one, two, pass := nodes(t)
	path := newSession(t, one, wA, "tides", "one")
	l := one.acquire(t, path, "editor")
	if l.Token == "" || !l.Held || !l.ExpiresAt.After(l.HeardAt) {
		t.Errorf("%+v", l)
	}
	two.append(t, path, with(l.Token, "over the other node"))
	for _, s := range []*testServer{one, two} {
		for _, c := range [][3]string{{"POST", "/entries", `{"entries":[{"role":"user","content":"x"}]}`}, {"POST", "/lease", "{}"}, {"DELETE", "", ""},
			{"PUT", "/checkpoint", "{}"}, {"PUT", "/files/a", "x"}, {"POST", "/branch", `{"at":"n0"}`}, {"DELETE", "/lease", ""}, {"DELETE", "?purge=true", ""}} {
			p := s.call(t, wA, c[0], path+c[1], c[2]).want(t, 423).problem(t)
			if !strings.Contains(p.Detail, "editor") || strings.Contains(p.Detail, l.Token) {
				t.Errorf("%s %s: %q", c[0], c[1], p.Detail)
			}
		}
	}
	var got api.LeaseInfo
	a := two.call(t, "reader-a", "GET", path+"/lease", nil).want(t, 200)
	if a.into(t, &got); got.Holder != "editor of writer-a" || got.Token != "" {
		t.Errorf("%s", a.Body)
	}
	// What is renewed lasts, by appends as well.
	for range 5 {
		pass(store.DefaultLease * 2 / 3)
		two.call(t, wA, "PUT", path+"/lease", fmt.Sprintf(`{"token":%q}`, l.Token)).want(t, 200)
		pass(store.DefaultLease * 2 / 3)
		one.append(t, path, with(l.Token, "x"))
	}
	one.call(t, wA, "PUT", path+"/checkpoint", `{"reason":"x"}`, "Lease-Token: "+l.Token).want(t, 200)
	two.call(t, wA, "PUT", path+"/files/a", "x", "Lease-Token: "+l.Token).want(t, 200)
	two.call(t, wA, "DELETE", path+"/files/a", nil, "Lease-Token: "+l.Token).want(t, 200)
	one.call(t, wA, "POST", path+"/branch", fmt.Sprintf(`{"at":"n0","lease":%q}`, l.Token)).want(t, 201)
	two.call(t, wA, "DELETE", path+"/lease", nil, "Lease-Token: "+l.Token).want(t, 200)
	two.call(t, wA, "DELETE", path+"/lease", nil, "Lease-Token: "+l.Token).want(t, 200)
	one.append(t, path, said("free again"))
	one.call(t, wA, "POST", path+"/entries", with(l.Token, "late")).want(t, 409).problem(t)
}

func TestAnExpiredOrLostLeaseIsRefused(t *testing.T) {
	one, two, pass := nodes(t)
	path := newSession(t, one, wA, "tides", "one")
	old := one.acquire(t, path, "old")
	pass(store.DefaultLease + time.Second)
	p := one.call(t, wA, "POST", path+"/entries", with(old.Token, "late")).want(t, 409).problem(t)
	if !strings.Contains(p.Detail, "run out") {
		t.Errorf("%q", p.Detail)
	}
	one.call(t, wA, "PUT", path+"/lease", fmt.Sprintf(`{"token":%q}`, old.Token)).want(t, 409).problem(t)
	fresh := two.acquire(t, path, "new")
	p = one.call(t, wA, "POST", path+"/entries", with(old.Token, "later")).want(t, 409).problem(t)
	if !strings.Contains(p.Detail, "new") {
		t.Errorf("%q", p.Detail)
	}
	// Whoever guesses the number of a lease has no token of it.
	number, _, _ := strings.Cut(fresh.Token, "-")
	one.call(t, wA, "POST", path+"/entries", with(number+"-AAAAAAAAAAAAAAAAAAAAAAAAAA", "guess")).want(t, 409).problem(t)
	for _, token := range []string{"x", "1", "-", "9999999999999999999-x", "1x-y"} {
		one.call(t, wA, "POST", path+"/entries", with(token, "none")).want(t, 400).problem(t)
	}
	other := newSession(t, one, wA, "other", "one")
	one.call(t, wA, "POST", other+"/entries", with(fresh.Token, "elsewhere")).want(t, 409).problem(t)
	one.call(t, wA, "DELETE", path+"/lease?force=true", nil).want(t, 200)
	two.call(t, wA, "POST", path+"/entries", with(fresh.Token, "forced out")).want(t, 409).problem(t)
	if got := texts(one.entries(t, path+"/entries").Items); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestALeaseIsHandedOver(t *testing.T) {
	one, two, _ := nodes(t)
	path := newSession(t, one, wA, "tides", "one")
	l := one.acquire(t, path, "editor")
	var got api.LeaseInfo
	two.call(t, wA, "POST", path+"/lease/hand-over", `{"to":"phone"}`).want(t, 202).into(t, &got)
	if got.Holder != "editor of writer-a" || got.AskedBy != "phone of writer-a" || got.Token != "" {
		t.Errorf("%+v", got)
	}
	one.call(t, wA, "PUT", path+"/lease", fmt.Sprintf(`{"token":%q}`, l.Token)).want(t, 200).into(t, &got)
	if got.AskedBy != "phone of writer-a" {
		t.Errorf("the holder is not told: %+v", got)
	}
	got = api.LeaseInfo{}
	one.call(t, wA, "POST", path+"/lease/hand-over", fmt.Sprintf(`{"to":"phone","token":%q}`, l.Token)).want(t, 200).into(t, &got)
	one.call(t, wA, "POST", path+"/entries", with(l.Token, "late")).want(t, 409).problem(t)
	two.append(t, path, with(got.Token, "on the phone"))
	var renewed api.LeaseInfo
	two.call(t, wA, "PUT", path+"/lease", fmt.Sprintf(`{"token":%q}`, got.Token)).want(t, 200).into(t, &renewed)
	if renewed.AskedBy != "" || renewed.Holder != "phone of writer-a" {
		t.Errorf("%+v", renewed)
	}
}

func TestManyClientsWithOneTokenLoseNothing(t *testing.T) {
	one, two, _ := nodes(t)
	path := newSession(t, one, wA, "tides")
	l := one.acquire(t, path, "swarm")
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := range 10 {
				s := []*testServer{one, two}[i%2]
				s.call(t, wA, "POST", path+"/entries", with(l.Token, fmt.Sprintf("%d-%d", w, i))).want(t, 201)
			}
		})
	}
	wg.Wait()
	seen := make(map[string]bool)
	for _, e := range one.entries(t, path+"/entries?limit=100").Items {
		seen[e.Text()] = true
	}
	if len(seen) != 60 {
		t.Errorf("%d of 60 entries", len(seen))
	}
}

func TestCallsOfTwoNodesWithoutALeaseTakeTurns(t *testing.T) {
	one, two, _ := nodes(t)
	path := newSession(t, one, wA, "tides")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 8 {
				s := []*testServer{one, two}[w%2]
				s.call(t, wA, "POST", path+"/entries", said(fmt.Sprintf("%d-%d", w, i))).want(t, 201)
			}
		})
	}
	wg.Wait()
	if got := one.entries(t, path+"/entries").Head; got != 32 {
		t.Errorf("%d of 32 entries", got)
	}
}

func TestAProcessThatHoldsASessionIsNamed(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one")
	st, err := s.storeOf(t.Context(), tidemark.TenantOf("a", "jo"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := st.Attach(t.Context(), tidemark.SessionID(strings.TrimPrefix(path, request.SessionsPath+"/")), process.Self("tidemark chat"))
	if err != nil {
		t.Fatal(err)
	}
	p := s.call(t, wA, "POST", path+"/entries", said("x")).want(t, 423).problem(t)
	if !strings.Contains(p.Detail, "tidemark chat (pid ") {
		t.Errorf("%q", p.Detail)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.append(t, path, said("x"))
}

func TestForceNewClearsWhatTheInterpreterHeldAndNothingElse(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one")
	state := `{"core_memory":{"human":"Ada"},"interpreter_state":{"sandbox_id":"s-1","context_paths":["/c"]},"extra":{"provider":"x","shell":{"dir":"/tmp"}},"document_paths":["/d"]}`
	s.call(t, wA, "PUT", path+"/checkpoint", state).want(t, 200)
	s.call(t, wA, "PUT", path+"/files/memory%2Fa", "kept").want(t, 200)
	l := s.acquire(t, path, "plain")
	if l.Fresh {
		t.Errorf("%+v", l)
	}
	s.call(t, wA, "DELETE", path+"/lease", nil, "Lease-Token: "+l.Token).want(t, 200)
	s.call(t, wA, "POST", path+"/lease?force_new_session=true", nil).want(t, 201).into(t, &l)
	if !l.Fresh {
		t.Errorf("%+v", l)
	}
	var c SessionState
	s.call(t, wA, "GET", path+"/checkpoint", nil).want(t, 200).into(t, &c)
	if !cmp.Equal(c.Interpreter, store.Interpreter{}) || c.CoreMemory["human"] != "Ada" || len(c.DocumentPaths) != 1 {
		t.Errorf("%+v", c)
	}
	var extra map[string]any
	if err := json.Unmarshal(c.Extra, &extra); err != nil || extra["shell"] != nil || extra["provider"] != "x" {
		t.Errorf("%s: %v", c.Extra, err)
	}
	got := s.entries(t, path+"/entries")
	if last := got.Items[len(got.Items)-1]; last.Kind != "interpreter" || len(got.Items) != 3 {
		t.Errorf("%+v", last)
	}
	if a := s.call(t, wA, "GET", path+"/files/memory%2Fa", nil).want(t, 200); string(a.Body) != "kept" {
		t.Errorf("%q", a.Body)
	}
}
