package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/stores"
	"github.com/tidemark-sessions/tidemark/server/wire"
	"github.com/tidemark-sessions/tidemark/store"
)

// complete is a Backend of a server under test that takes no change of a caller
// without the line that says who made it. So every test of a route is one of
// this, too.
type complete struct {
	*memory.Backend
	t *testing.T
}

func (c complete) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	isAct := func(a tidemark.Append) bool { return a.Log.Kind == tidemark.ActKind }
	others := func(k tidemark.Key) bool {
		return !tenant.IsOperators(k) && k != tidemark.Keyring() && k != tidemark.PlainMark()
	}
	if who := request.CallerOf(ctx); who.Tenant != "" && slices.ContainsFunc(slices.Collect(wire.KeysOf(b)), others) && !tenant.Housekeeping(b) && !slices.ContainsFunc(b.Appends, isAct) {
		c.t.Errorf("%s changes %v, and no line of the audit log is in the same commit", stores.DeedOf(ctx).Action, slices.Collect(wire.KeysOf(b)))
	}
	return c.Backend.Commit(ctx, b)
}

func TestAChangeAndItsLineAreOneCommit(t *testing.T) {
	s := newTestServer(t)
	session := newSession(t, s, wA, "tides", "hello")
	s.call(t, wA, "POST", session+"/entries", map[string]any{"entries": []map[string]any{{"role": "user", "content": "more"}}}).want(t, 201)
	s.call(t, wA, "POST", session+"/lease", map[string]any{"holder": "my editor"}).want(t, 201)
	// Nothing was flushed: what is there is what a kill would leave.
	users, err := s.stores.Operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	org := tidemark.TenantOf("a", "").Tenant
	told := func() (did []string) {
		from, err := s.stores.Acts(t.Context(), org)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := s.stores.Unchained(t.Context(), users, org, 100)
		if err != nil {
			t.Fatal(err)
		}
		var chained []tenant.AuditLine
		for l, err := range users.AuditLines(t.Context(), org, tidemark.Span{}) {
			if err != nil {
				t.Fatal(err)
			}
			chained = append(chained, l)
		}
		for _, l := range append(tenant.NotIn(lines, chained), chained...) {
			did = append(did, l.Action+" "+l.Outcome)
		}
		slices.Sort(did)
		if _, faults, err := users.VerifyAudit(t.Context(), org, from); err != nil || len(faults) > 0 {
			t.Errorf("%v, %v", faults, err)
		}
		return did
	}
	want := []string{"POST /api/v1/sessions done", "POST /api/v1/sessions/{id}/entries done", "POST /api/v1/sessions/{id}/lease done"}
	if did := told(); !slices.Equal(slices.Compact(did), want) {
		t.Errorf("%q, want %q", did, want)
	}
	if err := s.stores.FlushAudit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if did := told(); !slices.Equal(slices.Compact(did), want) {
		t.Errorf("chained: %q, want %q", did, want)
	}
}

// stuck is the operator's Backend when it takes nothing more.
type stuck struct {
	*memory.Backend
	on *bool
}

func (b stuck) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	if *b.on {
		return tidemark.Receipt{}, tidemark.Storagef("the disk is full")
	}
	return b.Backend.Commit(ctx, batch)
}

func TestWhatCannotBeWrittenDownIsNotDone(t *testing.T) {
	full := false
	s := newTestServer(t, func(o *Options) {
		open := o.Open
		operator := store.New(stuck{memory.New(), &full}, nil)
		o.Open = func(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
			if p.Tenant == tidemark.Operator().Tenant {
				return operator, nil
			}
			return open(ctx, p)
		}
	})
	session := newSession(t, s, wA, "tides", "hello")
	if err := s.stores.FlushAudit(t.Context()); err != nil {
		t.Fatal(err)
	}
	full = true
	if got := s.call(t, wA, "DELETE", session+"?purge=true", nil); got.Status != http.StatusServiceUnavailable || !strings.Contains(string(got.Body), "nothing was done") {
		t.Errorf("a purge: %d %s", got.Status, got.Body)
	}
	if got := s.call(t, wA, "PATCH", session, map[string]any{"title": "neap"}); got.Status < 500 {
		t.Errorf("a change of a boot that cannot be opened: %d %s", got.Status, got.Body)
	}
	full = false
	var i struct{ Title string }
	s.call(t, wA, "GET", session, nil).want(t, 200).into(t, &i)
	if i.Title != "tides" {
		t.Errorf("it is called %q now", i.Title)
	}
}

func TestAServerWithoutAnAuditLogSaysSo(t *testing.T) {
	s := newTestServer(t, func(o *Options) {
		o.NoAudit = true
		o.Open = func(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
			return store.New(memory.New(), nil), nil
		}
	})
	newSession(t, s, wA, "tides", "hello")
	if got := s.call(t, "admin-a", "GET", "/api/v1/audit", nil); got.Status != http.StatusNotImplemented || !strings.Contains(string(got.Body), "no audit log") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if heads, err := s.stores.AnchorAudit(t.Context()); err != nil || len(heads) > 0 {
		t.Errorf("%v, %v", heads, err)
	}
}

// Whoever owns the database changes what servers wrote down.
func TestVerifyNamesWhatSomebodyDidToTheTable(t *testing.T) {
	made := newDatabase(t)
	ada, other := tidemark.TenantOf("acme", "ada"), tidemark.TenantOf("other", "").Tenant
	for _, c := range []struct{ name, sql, org, want string }{
		{"nothing", "select 1", ada.Tenant, ""},
		{"a removed row", "delete from tidemark.act where n = 2", ada.Tenant, "line 2 of boot"},
		{"a removed row that is not chained", "delete from tidemark.act where n = 5", ada.Tenant, "line 5 of boot"},
		{"a changed row", "update tidemark.act set body = replace(convert_from(body, 'UTF8'), 'ada', 'eve')::bytea where n = 3", ada.Tenant, "line 3 of boot"},
		{"a row of another batch", "update tidemark.act set batch = 'x' where n = 6", ada.Tenant, "line 6 of boot"},
		{"a row moved to another tenant: there", "update tidemark.act set tenant = '" + other + "' where n = 4", other, "line 4 of boot"},
		{"a row moved to another tenant: here", "update tidemark.act set tenant = '" + other + "' where n = 4", ada.Tenant, "line 4 of boot"},
		{"all rows", "delete from tidemark.act", ada.Tenant, "missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := made.Copy(t)
			served, err := postgres.Connect(t.Context(), db.Server, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer served.Close()
			users := tenant.NewDirectory(records.New(served.For(tidemark.Operator()), records.Options{}))
			boot := users.NewBoot(ada.Tenant, "node", false)
			var acts []tenant.Act
			own := store.New(served.For(ada), nil).With(func(ctx context.Context, b *tidemark.Batch) (func(error), error) {
				act, ended, err := boot.Add(ctx, b, tenant.Audited{Who: "ada", Action: "append", Outcome: tenant.AuditDone})
				acts = append(acts, act)
				return ended, err
			})
			w := own.Create(tidemark.Session{Title: "tides"}, store.Self("test"))
			for range 7 {
				if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "hello")); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(boot.Chain(t.Context(), acts[:4]...), w.Close(t.Context())); err != nil {
				t.Fatal(err)
			}
			asSuperuser(t, db, c.sql)
			_, faults, err := users.VerifyAudit(t.Context(), c.org, []tidemark.Backend{served.For(tidemark.AuditorOf(c.org))})
			if err != nil {
				t.Fatal(err)
			}
			named := slices.ContainsFunc(faults, func(f tenant.AuditFault) bool { return strings.Contains(f.What, c.want) })
			if c.want == "" && len(faults) > 0 || c.want != "" && !named {
				t.Errorf("found %v, want %q", faults, c.want)
			}
		})
	}
}
