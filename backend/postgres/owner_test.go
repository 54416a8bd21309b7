package postgres

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

// of returns what one owner keeps, as another sees it.
func of(t testing.TB, b *Backend, owner string) *Backend {
	t.Helper()
	part, err := b.Of(owner)
	if err != nil {
		t.Fatal(err)
	}
	return part.(*Backend)
}

func userID(name string) string { return person(name).User }

// Three people have a session of the same id, two of them share it, and the
// reader has one as well.
func TestTheOwnerLeadsToOneOfSeveralSessionsOfTheSameID(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	ada, bob, eve, sam := db.For(person("ada", crew)), db.For(person("bob", crew)), db.For(person("eve", crew)), db.For(person("sam", crew))
	for _, b := range []*Backend{ada, bob, eve, sam} {
		talk(t, b, string(session))
	}
	for _, b := range []*Backend{ada, bob} {
		if err := b.Share(t.Context(), session, tidemark.Scope{With: tidemark.InWorkspace, Workspace: crew}); err != nil {
			t.Fatal(err)
		}
	}
	k := key("session", string(session))
	for owner, want := range map[string][3]int{"ada": all, "bob": all, "sam": all, "eve": nothing} {
		part := of(t, sam, userID(owner))
		if got := sees(t, part, string(session)); got != want {
			t.Errorf("sam sees %v of what is %s's, want %v", got, owner, want)
		}
		r, err := part.Get(t.Context(), k)
		whose := userID(owner)
		if owner == "sam" {
			whose = ""
		}
		switch body := `{"of":"` + userID(owner) + `"}`; {
		case want == nothing:
			if !errors.Is(err, tidemark.ErrNotFound) {
				t.Errorf("Get of what %s does not share = %v, want ErrNotFound", owner, err)
			}
			if n, err := part.length(t.Context(), k); err != nil || n != 0 {
				t.Errorf("Wait tells of %d lines that %s does not share, %v", n, owner, err)
			}
		case err != nil || string(r.Body) != body || r.Owner != whose:
			t.Errorf("Get of %s's = %s of %q, %v", owner, r.Body, r.Owner, err)
		default:
			if err := part.Wait(t.Context(), k, 0); err != nil {
				t.Errorf("Wait for %s's = %v", owner, err)
			}
			if _, name, err := part.Shared(t.Context(), session); err != nil || name != userID(owner) {
				t.Errorf("Shared of %s's = %q, %v", owner, name, err)
			}
		}
	}
	r, err := sam.Get(t.Context(), k)
	if err != nil || r.Owner != "" || string(r.Body) != `{"of":"`+userID("sam")+`"}` {
		t.Errorf("by the id alone: %s of %q, %v, want one's own", r.Body, r.Owner, err)
	}
	var listedOwners []string
	for _, r := range listed(t, sam, tidemark.Query{Kind: "session", Each: true, Order: tidemark.ByID}) {
		listedOwners = append(listedOwners, r.Owner)
	}
	if d := cmp.Diff(map[string]bool{"": true, userID("ada"): true, userID("bob"): true}, set(listedOwners)); d != "" || len(listedOwners) != 3 {
		t.Errorf("owners %v (-want +got):\n%s", listedOwners, d)
	}
}

func set(all []string) map[string]bool {
	m := make(map[string]bool)
	for _, s := range all {
		m[s] = true
	}
	return m
}

// A page of a listing may end between two sessions of the same id.
func TestAListOfEachOwnersSessionsIsPaged(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	sam := db.For(person("sam", crew))
	talk(t, sam, string(session))
	for _, name := range []string{"ada", "bob", "eve"} {
		b := db.For(person(name, crew))
		talk(t, b, string(session))
		if err := b.Share(t.Context(), session, tidemark.Scope{With: tidemark.InTenant}); err != nil {
			t.Fatal(err)
		}
	}
	for _, order := range []tidemark.Order{tidemark.Newest, tidemark.ByID} {
		q := tidemark.Query{Kind: "session", Order: order, Each: true, Limit: 1}
		var got []string
		for range 5 {
			page := listed(t, sam, q)
			if len(page) == 0 {
				break
			}
			got = append(got, page[0].Owner)
			q.After = &page[0]
		}
		if len(got) != 4 || len(set(got)) != 4 {
			t.Errorf("order %d: owners %v, want each of four once", order, got)
		}
	}
}

// What another keeps under the id of one's own session is no part of it: their
// workers, files and checkpoints must not turn up in it.
func TestNothingOfAnotherJoinsOnesOwnSession(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	ada, mallory := db.For(person("ada", crew)), db.For(person("mallory", crew))
	k := key("session", string(session))
	keep(t, ada, tidemark.Batch{Puts: []tidemark.Record{record(k, 1, `{}`)}, Appends: []tidemark.Append{{Log: k, Lines: []tidemark.Line{line(k, 1, "user", `{}`)}}}})
	talk(t, mallory, string(session))
	keep(t, mallory, tidemark.Batch{Puts: []tidemark.Record{record(key("checkpoint", string(session)), 1, `{}`)}})
	if err := mallory.Share(t.Context(), session, tidemark.Scope{With: tidemark.InTenant}); err != nil {
		t.Fatal(err)
	}
	for _, k := range []tidemark.Key{key("worker", string(session)+".scout"), key("checkpoint", string(session))} {
		if r, err := ada.Get(t.Context(), k); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("Get(%s) = %s of %q, %v, want ErrNotFound", k, r.Body, r.Owner, err)
		}
		for _, err := range ada.Lines(t.Context(), k) {
			t.Errorf("%s has a line, %v", k, err)
		}
		if got := listed(t, ada, tidemark.Query{Kind: k.Kind, Prefix: string(session)}); len(got) != 0 {
			t.Errorf("%d of kind %s are listed", len(got), k.Kind)
		}
		if n, err := ada.length(t.Context(), k); err != nil || n != 0 {
			t.Errorf("Wait(%s) tells of %d lines, %v", k, n, err)
		}
	}
}

func TestWhatIsReadOfAnotherCannotBeChanged(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	ada, bob := db.For(person("ada", crew)), db.For(person("bob", crew))
	talk(t, ada, string(session))
	if err := ada.Share(t.Context(), session, tidemark.Scope{With: tidemark.InTenant}); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{userID("ada"), userID("nobody")} {
		part := of(t, bob, owner)
		if err := commit(part, tidemark.Batch{Puts: []tidemark.Record{record(key("session", string(session)), 1, `{}`)}}); !errors.Is(err, tidemark.ErrDenied) {
			t.Errorf("Commit of what is another's = %v, want ErrDenied", err)
		}
		if err := part.Share(t.Context(), session, tidemark.Scope{With: tidemark.Private}); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("Share of what is another's = %v, want ErrNotFound", err)
		}
	}
	if _, err := bob.Of("ada"); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Of with a name = %v, want ErrInvalid", err)
	}
	// One's own can be named as well.
	keep(t, of(t, bob, userID("bob")), tidemark.Batch{Puts: []tidemark.Record{record(key("session", string(session)), 1, `{"mine":true}`)}})
	if r, err := bob.Get(t.Context(), key("session", string(session))); err != nil || r.Owner != "" {
		t.Errorf("Get = of %q, %v", r.Owner, err)
	}
}
