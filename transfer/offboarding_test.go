package transfer

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// erasable is a tenant whose people have stores of their own.
type erasable struct {
	*Offboarding
	t      *testing.T
	tenant tenant.Tenant
	stores map[string]tidemark.Backend
	keys   map[string]seal.Unlocker // of those that are sealed
	kept   []seal.Unlocker          // that the eraser has
	fails  int                      // so many commits succeed; less than 0: all
}

func newErasable(t *testing.T) *erasable {
	t.Helper()
	x := &erasable{t: t, stores: make(map[string]tidemark.Backend), keys: make(map[string]seal.Unlocker), fails: -1}
	users := tenant.NewDirectory(records.New(memory.New(), records.Options{}))
	var err error
	if x.tenant, err = users.CreateTenant(t.Context(), tenant.Tenant{Name: "acme", Issuer: "https://id.example"}); err != nil {
		t.Fatal(err)
	}
	x.Offboarding = &Offboarding{Users: users, Backend: x.backend, Store: x.store, Holder: tidemark.Holder{Program: "test"}, By: "tester"}
	return x
}

func (x *erasable) backend(_ context.Context, p tidemark.Principal) (tidemark.Backend, error) {
	if x.stores[p.User] == nil {
		x.stores[p.User] = memory.New()
	}
	return dying{x.stores[p.User], x}, nil
}

func (x *erasable) store(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
	b, _ := x.backend(ctx, p)
	if _, sealed := x.keys[p.User]; sealed {
		opened, err := seal.Open(ctx, b, x.kept...)
		if err != nil {
			return nil, err
		}
		b = opened
	}
	return store.New(b, nil), nil
}

// dying is a Backend that dies after so many commits.
type dying struct {
	tidemark.Backend
	x *erasable
}

var errKilled = errors.New("killed")

func (f dying) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if f.x.fails == 0 {
		return tidemark.Receipt{}, errKilled
	}
	f.x.fails--
	return f.Backend.Commit(ctx, b)
}

// user makes a user with sessions, one of which is a fork of another.
func (x *erasable) user(subject string, sealed bool) (u tenant.User, sessions []tidemark.SessionID) {
	x.t.Helper()
	ctx := x.t.Context()
	u, _, err := x.Users.UpsertUser(ctx, tenant.Claims{Tenant: x.tenant, Issuer: "https://id.example", Subject: subject, Name: subject + " Lovelace", Email: subject + "@example.org", Role: tenant.RoleWriter})
	if err != nil {
		x.t.Fatal(err)
	}
	b := tidemark.Backend(memory.New())
	x.stores[u.ID] = b
	if sealed {
		file := seal.NewKeyFile()
		key, err := seal.KeyFile(file)
		if err != nil {
			x.t.Fatal(err)
		}
		x.keys[u.ID] = key
		slot, err := seal.FileSlot("test", file)
		if err != nil {
			x.t.Fatal(err)
		}
		if b, err = seal.Create(ctx, b, slot); err != nil {
			x.t.Fatal(err)
		}
	}
	s := store.New(b, nil)
	for _, title := range []string{"tides", "moons"} {
		w := s.Create(tidemark.Session{Title: title}, tidemark.Holder{Program: "test"})
		for range 3 {
			if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "about "+title)); err != nil {
				x.t.Fatal(err)
			}
		}
		if err := w.Close(ctx); err != nil {
			x.t.Fatal(err)
		}
		sessions = append(sessions, w.ID())
	}
	fork, err := s.Fork(ctx, sessions[0], 0, "fork")
	if err != nil {
		x.t.Fatal(err)
	}
	if err := s.Trash(ctx, sessions[1]); err != nil {
		x.t.Fatal(err)
	}
	return u, append(sessions, fork.ID)
}

func linkName(i int) string { return strings.Repeat("abcdefg"[i:i+1], 26) }

// link makes a link of a user.
func (x *erasable) link(of tenant.User, i int) {
	x.t.Helper()
	if _, err := x.Users.PutLink(x.t.Context(), tenant.Link{Name: linkName(i), Tenant: x.tenant.ID, User: of.ID, ExpiresAt: time.Now().Add(time.Hour)}, []byte("sealed copy")); err != nil {
		x.t.Fatal(err)
	}
}

// left returns the keys that a user still has.
func (x *erasable) left(user string) (keys []tidemark.Key) {
	x.t.Helper()
	for k, err := range x.stores[user].Walk(x.t.Context(), tidemark.Key{}) {
		if err != nil {
			x.t.Fatal(err)
		}
		keys = append(keys, k)
	}
	return keys
}

func TestErasingAUserLeavesNothingOfThem(t *testing.T) {
	x := newErasable(t)
	ada, _ := x.user("ada", false)
	bob, _ := x.user("bob", false)
	before := len(x.left(bob.ID))
	token, _, err := x.Users.CreateToken(t.Context(), tenant.Token{Tenant: x.tenant.ID, User: ada.ID, Name: "hers", Role: tenant.RoleReader})
	if err != nil {
		t.Fatal(err)
	}
	for i, of := range []tenant.User{ada, ada, bob} {
		x.link(of, i)
	}
	if _, err := x.Users.RevokeLink(t.Context(), x.tenant.ID, ada.ID, linkName(0)); err != nil {
		t.Fatal(err)
	}
	e, err := x.User(t.Context(), x.tenant, ada)
	if err != nil || e.State != tenant.ErasedAll || e.Sessions != 3 || e.Lines < 6 || e.Tokens != 1 || e.Links != 2 || e.Sealed || e.EndedAt.IsZero() || len(e.Left) != 3 {
		t.Errorf("%+v, %v", e, err)
	}
	if keys := x.left(ada.ID); len(keys) > 0 {
		t.Errorf("left: %v", keys)
	}
	if n := len(x.left(bob.ID)); n != before {
		t.Errorf("another had %d records and logs, and has %d", before, n)
	}
	for i, want := range []error{tidemark.ErrNotFound, tidemark.ErrNotFound, nil} {
		if _, _, err := x.Users.OpenLink(t.Context(), linkName(i)); !errors.Is(err, want) {
			t.Errorf("link %d: %v, want %v", i, err, want)
		}
	}
	for k, err := range x.Users.Backend().Walk(t.Context(), tidemark.Key{}) {
		if err != nil || k.ID == linkName(0) || k.ID == linkName(1) {
			t.Errorf("left of a link: %v, %v", k, err)
		}
	}
	u, err := x.Users.User(t.Context(), x.tenant.ID, ada.ID)
	if err != nil || u.State != tenant.Suspended || u.Name+u.Email+u.Subject+u.Issuer != "" {
		t.Errorf("kept of the user: %+v, %v", u, err)
	}
	// A token of the issuer does not make them anew.
	again, fresh, err := x.Users.UpsertUser(t.Context(), tenant.Claims{Tenant: x.tenant, Issuer: "https://id.example", Subject: "ada", Name: "ada", Role: tenant.RoleWriter})
	if err != nil || fresh || again.State != tenant.Suspended {
		t.Errorf("who was erased comes back as %+v, new %v, %v", again, fresh, err)
	}
	for kept, err := range x.Users.Tokens(t.Context(), x.tenant.ID, "") {
		if err != nil || kept.ID == token.ID && kept.State != tenant.Revoked {
			t.Errorf("their token: %+v, %v", kept, err)
		}
	}
	if kept, err := x.Users.Erasure(t.Context(), x.tenant.ID, ada.ID); err != nil || kept.State != e.State || kept.Lines != e.Lines {
		t.Errorf("the report: %+v, %v", kept, err)
	}
}

func TestErasureGoesOnAfterAKillAtAnyPoint(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		for n := 0; ; n++ {
			x := newErasable(t)
			x.UnseenHolds = true
			ada, _ := x.user("ada", sealed)
			x.fails = n
			_, err := x.User(t.Context(), x.tenant, ada)
			if err == nil {
				if n == 0 {
					t.Fatal("nothing was committed")
				}
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			if u, err := x.Users.User(t.Context(), x.tenant.ID, ada.ID); err != nil || u.State != tenant.Suspended {
				t.Errorf("after %d commits the user is %+v, %v", n, u, err)
			}
			x.fails = -1
			e, err := x.User(t.Context(), x.tenant, ada)
			if err != nil || e.State != tenant.ErasedAll || e.Sessions != 3 || e.Sealed != sealed && n == 0 {
				t.Errorf("killed after %d commits, then: %+v, %v", n, e, err)
			}
			if keys := x.left(ada.ID); len(keys) > 0 {
				t.Errorf("killed after %d commits, then left: %v", n, keys)
			}
		}
	}
}

func TestTheKeysOfASealedStoreGoFirst(t *testing.T) {
	x := newErasable(t)
	ada, _ := x.user("ada", true)
	if _, err := x.User(t.Context(), x.tenant, ada); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("holds that nobody can see: %v", err)
	}
	x.UnseenHolds = true
	x.fails = 1
	if _, err := x.User(t.Context(), x.tenant, ada); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	keys := x.left(ada.ID)
	if len(keys) == 0 || slices.ContainsFunc(keys, isKey) {
		t.Errorf("after the first commit: %v", keys)
	}
	x.fails = -1
	e, err := x.User(t.Context(), x.tenant, ada)
	if err != nil || !e.Sealed || e.Keys < 4 || e.Left[0] != leftSealed {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestWhatIsOnHoldStays(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		x := newErasable(t)
		ada, sessions := x.user("ada", sealed)
		fork := sessions[2]
		if sealed {
			x.kept = []seal.Unlocker{x.keys[ada.ID]}
		}
		s, err := x.store(t.Context(), tidemark.Principal{User: ada.ID})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Hold(t.Context(), fork, true); err != nil {
			t.Fatal(err)
		}
		e, err := x.User(t.Context(), x.tenant, ada)
		if err != nil || e.State != tenant.ErasedBut || !slices.Equal(e.OnHold, []string{ada.ID + ":" + string(fork)}) || e.Sessions != 2 {
			t.Fatalf("%+v, %v", e, err)
		}
		if s, err = x.store(t.Context(), tidemark.Principal{User: ada.ID}); err != nil {
			t.Fatal(err)
		}
		v, err := s.View(t.Context(), fork)
		if err != nil || v.Messages != 3 {
			t.Errorf("what is on hold has %d messages, %v", v.Messages, err)
		}
		for _, gone := range sessions[:2] {
			if _, err := s.Session(t.Context(), gone); !errors.Is(err, tidemark.ErrNotFound) {
				t.Errorf("what is not: %v", err)
			}
		}
		if u, err := x.Users.User(t.Context(), x.tenant.ID, ada.ID); err != nil || u.State != tenant.Suspended || u.Email == "" {
			t.Errorf("whose it is: %+v, %v", u, err)
		}
		// Once it is released, the rest goes.
		if err := s.Hold(t.Context(), fork, false); err != nil {
			t.Fatal(err)
		}
		if e, err = x.User(t.Context(), x.tenant, ada); err != nil || e.State != tenant.ErasedAll || len(x.left(ada.ID)) > 0 {
			t.Errorf("%+v, %v, left %v", e, err, x.left(ada.ID))
		}
	}
}

func TestErasingATenantTakesItsPeopleAndRules(t *testing.T) {
	x := newErasable(t)
	ctx := t.Context()
	ada, _ := x.user("ada", false)
	bob, _ := x.user("bob", true)
	x.UnseenHolds = true
	if _, err := x.Users.CreateTenant(ctx, tenant.Tenant{Name: "other"}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Users.CreateWorkspace(ctx, x.tenant.ID, "crew"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Users.CreateToken(ctx, tenant.Token{Tenant: x.tenant.ID, Name: "ci", Role: tenant.RoleReader}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Users.ChangeRules(ctx, "https://id.example", func([]tenant.Rule) ([]tenant.Rule, error) {
		return []tenant.Rule{{Claim: "a", Value: "b", Tenant: "acme"}, {Claim: "a", Value: "c", Tenant: "other"}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	e, err := x.Tenant(ctx, x.tenant)
	if err != nil || e.State != tenant.ErasedAll || e.Sessions != 6 || !e.Sealed {
		t.Errorf("%+v, %v", e, err)
	}
	for _, u := range []tenant.User{ada, bob} {
		if keys := x.left(u.ID); len(keys) > 0 {
			t.Errorf("left: %v", keys)
		}
		if _, err := x.Users.User(ctx, x.tenant.ID, u.ID); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("the user: %v", err)
		}
	}
	if _, err := x.Users.Tenant(ctx, x.tenant.ID); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("the tenant: %v", err)
	}
	if _, err := x.Users.TenantOfIssuer(ctx, "https://id.example", ""); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("its issuer: %v", err)
	}
	rules, err := x.Users.Rules(ctx, "https://id.example")
	if err != nil || len(rules) != 1 || rules[0].Tenant != "other" {
		t.Errorf("the rules: %v, %v", rules, err)
	}
	for token, err := range x.Users.Tokens(ctx, x.tenant.ID, "") {
		t.Errorf("a token is left: %+v, %v", token, err)
	}
}

func TestSessionsAreHandedOverWholeAndOnce(t *testing.T) {
	for n := 0; ; n++ {
		x := newErasable(t)
		ada, sessions := x.user("ada", false)
		bob, others := x.user("bob", false)
		mine, err := x.store(t.Context(), tidemark.Principal{User: ada.ID})
		if err != nil {
			t.Fatal(err)
		}
		if err := mine.Hold(t.Context(), sessions[2], true); err != nil {
			t.Fatal(err)
		}
		x.fails = n
		_, err = x.HandOver(t.Context(), x.tenant, ada, bob)
		killed := err != nil
		if killed && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		x.fails = -1
		h, err := x.HandOver(t.Context(), x.tenant, ada, bob)
		if err != nil || len(h.Kept) > 0 || !slices.Equal(h.OnHold, sessions[2:]) {
			t.Errorf("killed after %d commits, then: %+v, %v", n, h, err)
		}
		his, err := x.store(t.Context(), tidemark.Principal{User: bob.ID})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range append(slices.Clone(sessions), others...) {
			if v, err := his.View(t.Context(), id); err != nil || v.Messages != 3 {
				t.Errorf("killed after %d commits: %+v, %v", n, v, err)
			}
		}
		for _, id := range sessions[:2] {
			if _, err := mine.Session(t.Context(), id); !errors.Is(err, tidemark.ErrNotFound) {
				t.Errorf("killed after %d commits: it is still where it was: %v", n, err)
			}
		}
		if v, err := mine.View(t.Context(), sessions[2]); err != nil || v.Messages != 3 || !v.OnHold {
			t.Errorf("the original of what is on hold: %+v, %v", v, err)
		}
		if !killed {
			break
		}
	}
}

func TestWhatTheOtherHasOtherwiseIsNotHandedOver(t *testing.T) {
	x := newErasable(t)
	ada, sessions := x.user("ada", false)
	bob, _ := x.user("bob", false)
	his, err := x.store(t.Context(), tidemark.Principal{User: bob.ID})
	if err != nil {
		t.Fatal(err)
	}
	w := his.Create(tidemark.Session{ID: sessions[0], Title: "his own"}, tidemark.Holder{Program: "test"})
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "mine")); err != nil {
		t.Fatal(err)
	}
	h, err := x.HandOver(t.Context(), x.tenant, ada, bob)
	slices.Sort(h.Kept)
	want := []tidemark.SessionID{sessions[0], sessions[2]}
	slices.Sort(want)
	if err != nil || !slices.Equal(h.Kept, want) || !slices.Equal(h.Sessions, sessions[1:2]) {
		t.Errorf("%+v, %v", h, err)
	}
	if v, err := his.View(t.Context(), sessions[0]); err != nil || v.Title != "his own" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := x.HandOver(t.Context(), x.tenant, ada, ada); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("to oneself: %v", err)
	}
	eve, _ := x.user("eve", true)
	if _, err := x.HandOver(t.Context(), x.tenant, eve, bob); !errors.Is(err, tidemark.ErrSealed) {
		t.Errorf("what is sealed: %v", err)
	}
}

func TestEverythingAboutOnePersonIsExported(t *testing.T) {
	x := newErasable(t)
	ada, sessions := x.user("ada", false)
	bob, _ := x.user("bob", false)
	for _, did := range []tenant.Audited{{Who: ada.ID, Action: "session.create", Thing: "x"}, {Who: bob.ID, Action: "user.role", Thing: ada.ID}, {Who: bob.ID, Action: "session.create", Thing: "secret of bob"}} {
		did.Outcome = tenant.AuditDone
		if err := x.Users.Audit(t.Context(), x.tenant.ID, did); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := x.Users.CreateToken(t.Context(), tenant.Token{Tenant: x.tenant.ID, User: ada.ID, Name: "hers", Role: tenant.RoleReader}); err != nil {
		t.Fatal(err)
	}
	x.link(ada, 0)
	x.link(bob, 1)
	if _, err := x.Users.CreateGroup(t.Context(), x.tenant, tenant.Group{Name: "Tide Watch", Members: []string{ada.ID}}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := x.Export(t.Context(), &out, x.tenant, ada); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(b)
	}
	for name, want := range map[string]string{"person.json": "ada@example.org", "audit.jsonl": "session.create"} {
		if !strings.Contains(files[name], want) || strings.Contains(files[name], "secret of bob") {
			t.Errorf("%s: %s", name, files[name])
		}
	}
	if n := strings.Count(files["audit.jsonl"], "\n"); n != 2 || !strings.Contains(files["person.json"], `"hers"`) || strings.Contains(files["person.json"], "sha256") {
		t.Errorf("%d lines; %s", n, files["person.json"])
	}
	if files["links/"+linkName(0)] != "sealed copy" || !strings.Contains(files["person.json"], linkName(0)) || !strings.Contains(files["person.json"], "Tide Watch") || len(files) != 4 {
		t.Errorf("links: %d files; %s", len(files), files["person.json"])
	}
	back := memory.New()
	if _, err := archive.Read(t.Context(), strings.NewReader(files["sessions.tidemark"]), back, nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range sessions {
		if _, err := store.New(back, nil).View(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}
