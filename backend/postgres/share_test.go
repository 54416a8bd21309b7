package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

const session = tidemark.SessionID("550e8400-e29b-41d4-a716-446655440000")

var (
	crew  = tidemark.IDOf("workspace", "acme", "crew")
	other = tidemark.IDOf("workspace", "acme", "other")
)

func person(name string, workspaces ...string) tidemark.Principal {
	p := tidemark.TenantOf("acme", name)
	p.Workspaces = workspaces
	return p
}

// talk makes a session with what belongs to one.
func talk(t testing.TB, b *Backend, id string) {
	t.Helper()
	batch := tidemark.Batch{}
	for _, k := range []tidemark.Key{key("session", id), key("worker", id+".scout"), key("lease", id)} {
		batch.Puts = append(batch.Puts, record(k, 1, `{"of":"`+idText(b.who.user)+`"}`))
		if k.Kind != "lease" {
			batch.Appends = append(batch.Appends, tidemark.Append{Log: k, Lines: []tidemark.Line{line(k, 1, "user", `{}`)}})
		}
	}
	keep(t, b, batch)
}

// sees says what a principal sees of a session: how many of its two records,
// lines and listed records.
func sees(t testing.TB, b *Backend, id string) (n [3]int) {
	t.Helper()
	for _, k := range []tidemark.Key{key("session", id), key("worker", id+".scout")} {
		r, err := b.Get(t.Context(), k)
		switch {
		case err == nil && r.Version > 0 && r.Head.Length > 0:
			n[0]++
		case !errors.Is(err, tidemark.ErrNotFound):
			t.Errorf("Get(%s) = %+v, %v", k, r, err)
		}
		for _, err := range b.Lines(t.Context(), k) {
			if err != nil {
				t.Error(err)
			}
			n[1]++
		}
		for r, err := range b.List(t.Context(), tidemark.Query{Kind: k.Kind}) {
			if err != nil {
				t.Error(err)
			}
			if r.ID == k.ID {
				n[2]++
			}
		}
	}
	return n
}

var (
	all     = [3]int{2, 2, 2}
	nothing = [3]int{}
)

func TestSharing(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	owner := db.For(person("ada", crew))
	mate, stranger := db.For(person("bob", crew)), db.For(person("eve", other))
	foreign := db.For(tidemark.Principal{Tenant: tidemark.IDOf("tenant", "rival"), User: tidemark.IDOf("user", "rival", "mallory"), Workspaces: []string{crew}})
	talk(t, owner, string(session))
	for _, c := range []struct {
		with                    tidemark.Scope
		mate, stranger, foreign [3]int
	}{
		{tidemark.Scope{With: tidemark.Private}, nothing, nothing, nothing},
		{tidemark.Scope{With: tidemark.InWorkspace, Workspace: crew}, all, nothing, nothing},
		{tidemark.Scope{With: tidemark.InTenant}, all, all, nothing},
		{tidemark.Scope{With: tidemark.InWorkspace, Workspace: crew}, all, nothing, nothing},
		{tidemark.Scope{With: tidemark.Private}, nothing, nothing, nothing},
	} {
		if err := owner.Share(t.Context(), session, c.with); err != nil {
			t.Fatalf("Share(%+v) = %v", c.with, err)
		}
		for name, who := range map[string]struct {
			b    *Backend
			want [3]int
		}{"owner": {owner, all}, "mate": {mate, c.mate}, "stranger": {stranger, c.stranger}, "foreign": {foreign, c.foreign}} {
			if got := sees(t, who.b, string(session)); got != who.want {
				t.Errorf("%+v: %s sees %v, want %v", c.with, name, got, who.want)
			}
			with, whose, err := who.b.Shared(t.Context(), session)
			switch {
			case who.want == nothing && !errors.Is(err, tidemark.ErrNotFound):
				t.Errorf("%+v: Shared for %s = %v, want ErrNotFound", c.with, name, err)
			case who.want == all && (err != nil || with != c.with || whose != person("ada").User):
				t.Errorf("%+v: Shared for %s = %+v, %s, %v", c.with, name, with, whose, err)
			}
			if _, err := who.b.Get(t.Context(), key("lease", string(session))); (err == nil) != (name == "owner") {
				t.Errorf("%s: Get of the lease = %v", name, err)
			}
		}
		for err := range owner.Check(t.Context()) {
			t.Errorf("%+v: Check: %v", c.with, err)
		}
	}
}

func TestWhatComesLaterIsSharedToo(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	owner, mate := db.For(person("ada", crew)), db.For(person("bob", crew))
	talk(t, owner, string(session))
	if err := owner.Share(t.Context(), session, tidemark.Scope{With: tidemark.InWorkspace, Workspace: crew}); err != nil {
		t.Fatal(err)
	}
	// The owner may leave the workspace and still go on.
	owner = db.For(person("ada"))
	notes := key("notes", string(session))
	keep(t, owner, tidemark.Batch{Puts: []tidemark.Record{record(key("name", string(session)+".x"), 1, `{}`), record(key("session", string(session)), 2, `{}`)},
		Appends: []tidemark.Append{{Log: notes, Lines: []tidemark.Line{line(notes, 1, "label", `{}`)}}}})
	for _, k := range []tidemark.Key{notes, key("name", string(session)+".x")} {
		if _, err := mate.Get(t.Context(), k); err != nil {
			t.Errorf("Get(%s) = %v", k, err)
		}
	}
	if err := mate.Wait(t.Context(), notes, 0); err != nil {
		t.Errorf("Wait = %v", err)
	}
}

func TestOnlyTheOwnerWritesAndShares(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	owner, mate := db.For(person("ada", crew)), db.For(person("bob", crew))
	talk(t, owner, string(session))
	if err := owner.Share(t.Context(), session, tidemark.Scope{With: tidemark.InTenant}); err != nil {
		t.Fatal(err)
	}
	k := key("session", string(session))
	for name, batch := range map[string]tidemark.Batch{
		"put":    {Puts: []tidemark.Record{record(k, 2, `{}`)}},
		"delete": {Deletes: []tidemark.Precondition{{Key: k, Version: 1}}},
		"append": {Appends: []tidemark.Append{{Log: k, Lines: []tidemark.Line{line(k, 2, "user", `{}`)}}}},
		"need":   {Require: []tidemark.Precondition{{Key: k, Version: 1}}, Puts: []tidemark.Record{record(key("agent", "x"), 1, `{}`)}},
	} {
		// Whoever may read it is told why; a lone append looks no further than
		// its own log, which is not there.
		want := tidemark.ErrDenied
		if name == "append" {
			want = tidemark.ErrConflict
		}
		if err := commit(mate, batch); !errors.Is(err, want) {
			t.Errorf("%s of another's session = %v, want %v", name, err, want)
		}
	}
	if err := commit(mate, tidemark.Batch{Drops: []tidemark.Key{k}}); err != nil {
		t.Errorf("Drop = %v", err)
	}
	for _, with := range []tidemark.Scope{{With: tidemark.Private}, {With: tidemark.InTenant}, {With: tidemark.InWorkspace, Workspace: crew}} {
		if err := mate.Share(t.Context(), session, with); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("Share(%+v) by another = %v, want ErrNotFound", with, err)
		}
	}
	if err := owner.Share(t.Context(), session, tidemark.Scope{With: tidemark.InWorkspace, Workspace: other}); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("Share with a workspace that one is not in = %v, want ErrDenied", err)
	}
	for _, with := range []tidemark.Scope{{}, {With: "world"}, {With: tidemark.InWorkspace, Workspace: "crew"}} {
		if err := owner.Share(t.Context(), session, with); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("Share(%+v) = %v, want ErrInvalid", with, err)
		}
	}
	if got := sees(t, owner, string(session)); got[0] != 2 || got[1] != 2 {
		t.Errorf("the owner sees %v", got)
	}
}

func TestEqualIDsDoNotMeet(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	one, two := db.For(person("ada", crew)), db.For(person("bob", crew))
	talk(t, one, string(session))
	talk(t, two, string(session))
	if err := one.Share(t.Context(), session, tidemark.Scope{With: tidemark.InTenant}); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Backend{one, two} {
		r, err := b.Get(t.Context(), key("session", string(session)))
		if want := `{"of":"` + idText(b.who.user) + `"}`; err != nil || string(r.Body) != want {
			t.Errorf("Get = %s, %v, want %s", r.Body, err, want)
		}
		if got := sees(t, b, string(session)); got[1] != 2 || got[2] != 2 {
			t.Errorf("%v, want one's own two records and lines alone", got)
		}
	}
	keep(t, two, tidemark.Batch{Drops: []tidemark.Key{key("session", string(session))}})
	if got := sees(t, one, string(session)); got[1] != 2 {
		t.Errorf("after a drop by another: %v", got)
	}
}

func TestEverybodyReadsTheSessionsOfTheTenant(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	house, ada, foreign := db.For(tidemark.TenantOf("acme", "")), db.For(person("ada")), db.For(tidemark.TenantOf("rival", "mallory"))
	talk(t, house, string(session))
	if got := sees(t, ada, string(session)); got != all {
		t.Errorf("ada sees %v, want %v", got, all)
	}
	if got := sees(t, foreign, string(session)); got != nothing {
		t.Errorf("mallory sees %v", got)
	}
	if with, whose, err := ada.Shared(t.Context(), session); err != nil || with.With != tidemark.InTenant || whose != idText(house.who.user) {
		t.Errorf("Shared = %+v, %s, %v", with, whose, err)
	}
	if err := ada.Share(t.Context(), session, tidemark.Scope{With: tidemark.Private}); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("Share = %v, want ErrNotFound", err)
	}
	if _, err := ada.Get(t.Context(), key("lease", string(session))); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("Get of the tenant's lease = %v, want ErrNotFound", err)
	}
}

// What a walk names and a page of a listing holds is the same however many
// others there are.
func TestListingsOfOwnAndSharedRecordsArePaged(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	ada, bob := db.For(person("ada", crew)), db.For(person("bob", crew))
	var mine []tidemark.Key
	for i := range 12 {
		b := []*Backend{ada, bob}[i%2]
		id := tidemark.NewSessionID()
		talk(t, b, string(id))
		if b == bob {
			if err := bob.Share(t.Context(), id, tidemark.Scope{With: tidemark.InWorkspace, Workspace: crew}); err != nil {
				t.Fatal(err)
			}
		} else {
			mine = append(mine, key("lease", string(id)), key("session", string(id)), key("worker", string(id)+".scout"))
		}
	}
	for _, order := range []tidemark.Order{tidemark.Newest, tidemark.ByID} {
		q := tidemark.Query{Kind: "session", Order: order}
		want := listed(t, ada, q)
		if len(want) != 12 {
			t.Fatalf("order %d: %d sessions, want 12", order, len(want))
		}
		var got []string
		for q.Limit = 5; ; {
			page := listed(t, ada, q)
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				got = append(got, r.ID)
			}
			q.After = &page[len(page)-1]
		}
		for i, r := range want {
			if i >= len(got) || got[i] != r.ID {
				t.Fatalf("order %d: by pages %v", order, got)
			}
		}
	}
	var walked []tidemark.Key
	for k, err := range ada.Walk(t.Context(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		walked = append(walked, k)
	}
	slices.SortFunc(mine, compareKeys)
	if d := cmp.Diff(mine, walked); d != "" {
		t.Errorf("Walk (-want +got):\n%s", d)
	}
}

func listed(t testing.TB, b *Backend, q tidemark.Query) (all []tidemark.Record) {
	t.Helper()
	for r, err := range b.List(context.Background(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}
