package tenant_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
)

// place is a store with what the operator keeps in it.
type place struct {
	*tenant.Directory
	sessions *store.Store
}

func placeOf(s *store.Store) place { return place{tenant.NewDirectory(s.Records()), s} }

// onEach runs a test over a backend that forgets and over one that does not.
func onEach(t *testing.T, test func(t *testing.T, s place)) {
	t.Run("memory", func(t *testing.T) { test(t, placeOf(store.New(memory.New(), nil))) })
	t.Run("sqlite", func(t *testing.T) {
		b, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "operator.db"), &sqlite.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		s := placeOf(store.New(b, nil))
		t.Cleanup(func() { s.sessions.Close() })
		test(t, s)
	})
}

func created(t *testing.T, s place, name, issuer, foreign string) tenant.Tenant {
	t.Helper()
	made, err := s.CreateTenant(t.Context(), tenant.Tenant{Name: name, Issuer: issuer, Foreign: foreign})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func see(t *testing.T, s place, in tenant.Tenant, subject string) tenant.User {
	t.Helper()
	u, _, err := s.UpsertUser(t.Context(), tenant.Claims{Tenant: in, Issuer: "https://issuer.example", Subject: subject, Role: tenant.RoleReader})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestATenantIsMadeOnceAndSpokenForByOneIssuer(t *testing.T) {
	onEach(t, func(t *testing.T, s place) {
		ctx := t.Context()
		acme := created(t, s, "acme", "https://issuer.example", "t1")
		if acme.ID != tidemark.TenantOf("acme", "").Tenant || acme.State != tenant.Active {
			t.Errorf("made %+v", acme)
		}
		if _, err := s.CreateTenant(ctx, tenant.Tenant{Name: "acme"}); !errors.Is(err, tidemark.ErrExists) {
			t.Errorf("made twice: %v", err)
		}
		if _, err := s.CreateTenant(ctx, tenant.Tenant{Name: "other", Issuer: "https://issuer.example", Foreign: "t1"}); !errors.Is(err, tidemark.ErrExists) {
			t.Errorf("two tenants with one issuer: %v", err)
		}
		for _, name := range []string{"", "Big", "a b", "-x", "../up", strings.Repeat("x", 65), "ä"} {
			if _, err := s.CreateTenant(ctx, tenant.Tenant{Name: name}); !errors.Is(err, tidemark.ErrInvalid) {
				t.Errorf("tenant %q = %v", name, err)
			}
		}
		got, err := s.TenantOfIssuer(ctx, "https://issuer.example", "t1")
		if err != nil || got.ID != acme.ID {
			t.Errorf("by issuer: %+v, %v", got, err)
		}
		if _, err := s.TenantOfIssuer(ctx, "https://issuer.example", "t2"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("another foreign tenant: %v", err)
		}
		if _, err := s.BindTenant(ctx, acme.ID, "https://new.example", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.TenantOfIssuer(ctx, "https://issuer.example", "t1"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("the issuer that it had: %v", err)
		}
		if got, err := s.SetTenantState(ctx, acme.ID, tenant.Suspended); err != nil || got.State != tenant.Suspended || got.Issuer != "https://new.example" {
			t.Errorf("suspended: %+v, %v", got, err)
		}
		if got, err := s.TenantNamed(ctx, "acme"); err != nil || got.State != tenant.Suspended {
			t.Errorf("by name: %+v, %v", got, err)
		}
		if got, err := s.TenantNamed(ctx, acme.ID); err != nil || got.Name != "acme" {
			t.Errorf("by id: %+v, %v", got, err)
		}
		n := 0
		for _, err := range s.Tenants(ctx, "") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d tenants", n)
		}
	})
}

func TestAUserIsMadeOnceAtFirstSight(t *testing.T) {
	onEach(t, func(t *testing.T, s place) {
		acme := created(t, s, "acme", "", "")
		var made atomic.Int32
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				_, fresh, err := s.UpsertUser(context.Background(), tenant.Claims{Tenant: acme, Issuer: "i", Subject: "ada", Name: "Ada", Role: tenant.RoleWriter})
				if err != nil {
					t.Error(err)
				}
				if fresh {
					made.Add(1)
				}
			})
		}
		all.Wait()
		if made.Load() != 1 {
			t.Errorf("made %d times", made.Load())
		}
		n := 0
		for u, err := range s.Users(t.Context(), acme.ID, "") {
			if err != nil || u.Subject != "ada" || u.Name != "Ada" || u.Role != tenant.RoleWriter || u.State != tenant.Active {
				t.Errorf("%+v, %v", u, err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d users", n)
		}
	})
}

func TestUsersOfTwoTenantsAndOfTwoIssuersAreNeverOne(t *testing.T) {
	seen := map[string]string{}
	for _, in := range []string{"a", "b", "ab", ""} {
		for _, issuer := range []string{"", "b", "https://x", "https://x/"} {
			for _, subject := range []string{"1", "b1", "", "/1"} {
				id, what := tenant.UserID(in, issuer, subject), fmt.Sprintf("%q %q %q", in, issuer, subject)
				if other, ok := seen[id]; ok {
					t.Errorf("%s and %s are one", what, other)
				}
				seen[id] = what
				if local := tidemark.TenantOf(in, subject); id == local.User || id == local.Tenant {
					t.Errorf("%s is a local principal", what)
				}
			}
		}
	}
}

func TestThatAUserWasSeenIsWrittenOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := placeOf(store.New(memory.New(), nil))
		acme := created(t, s, "acme", "", "")
		first := see(t, s, acme, "ada")
		time.Sleep(59 * time.Minute)
		if u := see(t, s, acme, "ada"); !u.LastSeenAt.Equal(first.LastSeenAt) {
			t.Error("written within the hour")
		}
		time.Sleep(time.Minute)
		if u := see(t, s, acme, "ada"); u.LastSeenAt.Equal(first.LastSeenAt) || !u.FirstSeenAt.Equal(first.FirstSeenAt) {
			t.Errorf("after an hour: %+v", u)
		}
	})
}

func TestTheIssuerDecidesOnRolesOnlyWhenAsked(t *testing.T) {
	s := placeOf(store.New(memory.New(), nil))
	acme := created(t, s, "acme", "", "")
	u := see(t, s, acme, "ada")
	if _, err := s.ChangeUser(t.Context(), acme.ID, u.ID, func(u *tenant.User) error { u.Role = tenant.RoleAdmin; return nil }); err != nil {
		t.Fatal(err)
	}
	if u := see(t, s, acme, "ada"); u.Role != tenant.RoleAdmin {
		t.Errorf("the role that was given is %s", u.Role)
	}
	u, _, err := s.UpsertUser(t.Context(), tenant.Claims{Tenant: acme, Issuer: "https://issuer.example", Subject: "ada", Role: tenant.RoleReader, Decides: true})
	if err != nil || u.Role != tenant.RoleReader {
		t.Errorf("the issuer decides: %+v, %v", u, err)
	}
	if _, err := s.ChangeUser(t.Context(), acme.ID, u.ID, func(u *tenant.User) error { u.Role = "root"; return nil }); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("role root: %v", err)
	}
}

func TestWorkspacesHaveMembersOfTheirTenantAlone(t *testing.T) {
	onEach(t, func(t *testing.T, s place) {
		ctx := t.Context()
		a, b := created(t, s, "a", "", ""), created(t, s, "b", "", "")
		u := see(t, s, a, "ada")
		w, err := s.CreateWorkspace(ctx, a.ID, "core")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateWorkspace(ctx, a.ID, "core"); !errors.Is(err, tidemark.ErrExists) {
			t.Errorf("made twice: %v", err)
		}
		if other, err := s.CreateWorkspace(ctx, b.ID, "core"); err != nil || other.ID == w.ID {
			t.Errorf("of another tenant: %+v, %v", other, err)
		}
		if u, err = s.Join(ctx, a.ID, w.ID, u.ID, true); err != nil || len(u.Workspaces) != 1 {
			t.Errorf("joined: %+v, %v", u, err)
		}
		if u, err = s.Join(ctx, a.ID, w.ID, u.ID, true); err != nil || len(u.Workspaces) != 1 {
			t.Errorf("joined again: %+v, %v", u, err)
		}
		for _, ids := range [][3]string{{b.ID, w.ID, u.ID}, {a.ID, w.ID, "nobody"}, {a.ID, "nowhere", u.ID}, {a.ID, "../x", u.ID}} {
			if _, err := s.Join(ctx, ids[0], ids[1], ids[2], true); !errors.Is(err, tidemark.ErrNotFound) {
				t.Errorf("Join%v = %v", ids, err)
			}
		}
		if u, err = s.Join(ctx, a.ID, w.ID, u.ID, false); err != nil || len(u.Workspaces) != 0 {
			t.Errorf("left: %+v, %v", u, err)
		}
	})
}

func TestATokenIsShownOnceAndKeptAsAHash(t *testing.T) {
	onEach(t, func(t *testing.T, s place) {
		ctx := t.Context()
		a, b := created(t, s, "a", "", ""), created(t, s, "b", "", "")
		made, text, err := s.CreateToken(ctx, tenant.Token{Tenant: a.ID, Name: "ci", Role: tenant.RoleWriter, Scopes: []string{"sessions"}})
		if err != nil {
			t.Fatal(err)
		}
		_, secret, err := tenant.ParseToken(text)
		if err != nil || made.User != a.ID {
			t.Fatalf("%+v, %v", made, err)
		}
		r, err := s.Backend().Get(ctx, tidemark.Key{Kind: "token", ID: made.ID})
		if err != nil || strings.Contains(string(r.Body), secret) {
			t.Errorf("the secret is kept: %s, %v", r.Body, err)
		}
		used, err := s.UseToken(ctx, text)
		if err != nil || used.ID != made.ID || used.UsedAt.IsZero() || !used.InScope("sessions") || used.InScope("jobs") {
			t.Errorf("used: %+v, %v", used, err)
		}
		_, other, err := s.CreateToken(ctx, tenant.Token{Tenant: b.ID, Name: "ci", Role: tenant.RoleReader})
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{"", "tmk_", text[:len(text)-1], text + "a", strings.ToUpper(text), strings.Replace(text, "tmk_", "tmk-", 1),
			text[:len(text)-1] + "!", "tmk_" + made.ID + "_" + other[len(other)-52:], " " + text, text + "\n"} {
			if _, err := s.UseToken(ctx, wrong); !errors.Is(err, tidemark.ErrNotFound) {
				t.Errorf("UseToken(%q) = %v", wrong, err)
			}
		}
		if _, err := s.RevokeToken(ctx, b.ID, made.ID); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("revoked by another tenant: %v", err)
		}
		if _, err := s.UseToken(ctx, text); err != nil {
			t.Errorf("still: %v", err)
		}
		for range 2 {
			if got, err := s.RevokeToken(ctx, a.ID, made.ID); err != nil || got.State != tenant.Revoked {
				t.Errorf("revoked: %+v, %v", got, err)
			}
		}
		if got, err := s.UseToken(ctx, text); !errors.Is(err, tidemark.ErrDenied) || got.ID != made.ID {
			t.Errorf("used after it was revoked: %v", err)
		}
		n := 0
		for _, err := range s.Tokens(ctx, a.ID, "") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d tokens", n)
		}
	})
}

func TestATokenThatCannotBeMeantIsNotMade(t *testing.T) {
	s := placeOf(store.New(memory.New(), nil))
	a := created(t, s, "a", "", "")
	for what, token := range map[string]tenant.Token{
		"no name":     {Tenant: a.ID, Role: tenant.RoleReader},
		"no role":     {Tenant: a.ID, Name: "x"},
		"odd role":    {Tenant: a.ID, Name: "x", Role: "owner"},
		"odd scope":   {Tenant: a.ID, Name: "x", Role: tenant.RoleReader, Scopes: []string{"a/b"}},
		"long past":   {Tenant: a.ID, Name: "x", Role: tenant.RoleReader, ExpiresAt: time.Now().Add(-time.Hour)},
		"many scopes": {Tenant: a.ID, Name: "x", Role: tenant.RoleReader, Scopes: make([]string, 33)},
	} {
		if _, text, err := s.CreateToken(t.Context(), token); !errors.Is(err, tidemark.ErrInvalid) || text != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := s.CreateToken(t.Context(), tenant.Token{Tenant: "nowhere", Name: "x", Role: tenant.RoleReader}); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("no tenant: %v", err)
	}
}

func TestATokenExpiresAndItsUseIsWrittenOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := placeOf(store.New(memory.New(), nil))
		a := created(t, s, "a", "", "")
		_, text, err := s.CreateToken(t.Context(), tenant.Token{Tenant: a.ID, Name: "ci", Role: tenant.RoleReader, ExpiresAt: time.Now().Add(2 * time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		use := func() time.Time {
			used, err := s.UseToken(t.Context(), text)
			if err != nil {
				t.Error(err)
			}
			return used.UsedAt
		}
		first := use()
		time.Sleep(59 * time.Second)
		if !use().Equal(first) {
			t.Error("written within the minute")
		}
		time.Sleep(time.Second)
		if use().Equal(first) {
			t.Error("not written after a minute")
		}
		time.Sleep(time.Minute)
		if _, err := s.UseToken(t.Context(), text); !errors.Is(err, tidemark.ErrDenied) {
			t.Errorf("after it expired: %v", err)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add("tmk_aaaaaaaaaaaaaaaa_" + strings.Repeat("b", 52))
	f.Add("tmk_")
	f.Add("tmk_\x00")
	f.Fuzz(func(t *testing.T, text string) {
		id, secret, err := tenant.ParseToken(text)
		if err == nil && tenant.TokenPrefix+id+"_"+secret != text {
			t.Errorf("%q became %q and %q", text, id, secret)
		}
		if err == nil && tidemark.CheckID(id) != nil {
			t.Errorf("%q cannot name a row", id)
		}
	})
}
