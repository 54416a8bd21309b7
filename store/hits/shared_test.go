package hits_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// team is people of one tenant who share sessions.
type team struct {
	*testing.T
	tenant string
	db     *postgres.Database
	lease  time.Duration // of stores; 0: the usual one
	scopes *store.Scopes
	people map[string]tidemark.Principal
	stores map[string]*store.Store
}

func newTeam(t *testing.T) *team {
	return newTeamBy(t, func(made *pgtest.Database) string { return made.Server })
}

// newTeamBy is newTeam with a way to the database.
func newTeamBy(t *testing.T, way func(*pgtest.Database) string) *team {
	if testing.Short() {
		t.Skip("make quick leaves out what needs PostgreSQL")
	}
	made := pgtest.Start(t).Prepared(t, "", func(db *pgtest.Database) error {
		return postgres.Migrate(t.Context(), db.Owner, db.Role)
	})
	return newTeamIn(t, way(made))
}

// newTeamIn is newTeam in a database.
func newTeamIn(t *testing.T, url string) *team {
	db, err := postgres.Connect(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	tenant := tidemark.NewBatchID()
	m := &team{T: t, tenant: tenant, db: db, people: peopleOf(tenant)}
	m.begin()
	return m
}

// peopleOf are the people of a tenant.
func peopleOf(tenant string) map[string]tidemark.Principal {
	people := make(map[string]tidemark.Principal)
	for name, rooms := range map[string][]string{"ada": {"crew"}, "bob": {"crew", "deck"}, "eve": nil, "": nil} {
		p := tidemark.TenantOf(tenant, name)
		for _, room := range rooms {
			p.Workspaces = append(p.Workspaces, tidemark.IDOf("workspace", tenant, room))
		}
		people[name] = p
	}
	return people
}

func (m *team) room(name string) string { return tidemark.IDOf("workspace", m.tenant, name) }

// begin starts a process anew: it knows nothing of what was written before.
func (m *team) begin() { m.scopes, m.stores = storesOf(m.db, m.people, m.lease) }

// storesOf are the stores of people in one process; a lease of 0 is the usual one.
func storesOf(db *postgres.Database, people map[string]tidemark.Principal, lease time.Duration) (*store.Scopes, map[string]*store.Store) {
	scopes := store.NewScopes(&store.Options{Places: search.EachWord, Lease: lease})
	stores := make(map[string]*store.Store)
	for name, p := range people {
		stores[name] = store.New(db.For(p), &store.Options{Places: search.EachWord, Lease: lease, Scopes: scopes})
	}
	return scopes, stores
}

func (m *team) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// says begins a session.
func (m *team) says(who string, texts ...string) tidemark.SessionID {
	m.Helper()
	w := m.stores[who].Create(tidemark.Session{}, store.Self("test"))
	for _, text := range texts {
		_, err := w.Append(m.Context(), tidemark.Say(tidemark.User, text))
		m.must(err)
	}
	m.must(w.Close(m.Context()))
	return w.ID()
}

func (m *team) share(who string, id tidemark.SessionID, with string) {
	m.Helper()
	scope := tidemark.Scope{With: with}
	if with != tidemark.Private && with != tidemark.InTenant {
		scope = tidemark.Scope{With: tidemark.InWorkspace, Workspace: m.room(with)}
	}
	m.must(m.stores[who].Share(m.Context(), id, scope))
}

// found returns what somebody finds by a word, and how many lines had to be read for it.
func (m *team) found(s *store.Store, word string) (refs []string, waiting int64) {
	m.Helper()
	query, err := search.Parse(word)
	m.must(err)
	a, err := s.Search(m.Context(), store.Question{Limit: 1000}.About(query))
	m.must(err)
	for _, f := range a.Found {
		refs = append(refs, f.Ref())
	}
	return refs, a.Waiting
}

// exact compares what each finds with what looking at everything finds.
func (m *team) exact(words ...string) (hits int) {
	m.Helper()
	for name, p := range m.people {
		for _, word := range words {
			got, _ := m.found(m.stores[name], word)
			want, _ := m.found(store.New(m.db.For(p), nil), word)
			if d := cmp.Diff(want, got); d != "" {
				m.Fatalf("%q finds by %q (-all +index):\n%s", name, word, d)
			}
			hits += len(got)
		}
	}
	return hits
}

func (m *team) catchUp(names ...string) {
	m.Helper()
	for _, name := range names {
		_, err := m.stores[name].CatchUp(m.Context(), nil)
		m.must(err)
	}
}

// holds reports whether the index of a scope has a word somewhere.
func (m *team) holds(scope, word string) bool {
	m.Helper()
	keeper, err := m.db.For(m.people["bob"]).Keeper(scope)
	m.must(err)
	for r, err := range keeper.List(m.Context(), tidemark.Query{Kind: tidemark.KindSegment}) {
		m.must(err)
		for l, err := range keeper.Lines(m.Context(), r.Key) {
			m.must(err)
			if bytes.Contains(l.Body, []byte(word)) {
				return true
			}
		}
	}
	return false
}

func TestWhatIsSharedIsFoundInTheIndexOfItsScope(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	own, crew, all, house := m.says("ada", "tide alone"), m.says("ada", "tide crew", "tide again"), m.says("ada", "tide all"), m.says("", "tide house")
	m.share("ada", crew, "crew")
	m.share("ada", all, tidemark.InTenant)
	m.exact("tide", "crew", "house")
	m.catchUp("ada", "bob", "eve", "")
	me := m.people["ada"].User
	named := func(owner string, id tidemark.SessionID, seqs ...int) (refs []string) {
		for _, seq := range seqs {
			refs = append(refs, fmt.Sprintf("%s@%d", tidemark.SessionName(owner, id), seq))
		}
		return refs
	}
	tenant := m.people[""].User
	for name, want := range map[string][]string{
		"ada": slices.Concat(named("", own, 1), named("", crew, 1, 2), named("", all, 1), named(tenant, house, 1)),
		"bob": slices.Concat(named(me, crew, 1, 2), named(me, all, 1), named(tenant, house, 1)),
		"eve": slices.Concat(named(me, all, 1), named(tenant, house, 1)),
		"":    slices.Concat(named(me, all, 1), named("", house, 1)),
	} {
		got, waiting := m.found(m.stores[name], "tide")
		slices.Sort(got)
		slices.Sort(want)
		if d := cmp.Diff(want, got); d != "" || waiting > 0 {
			t.Errorf("%q finds, with %d lines read (-want +got):\n%s", name, waiting, d)
		}
	}
	// Where nothing is shared that is said, or each search would look at everything.
	deck, err := m.db.For(m.people["bob"]).Keeper(m.room("deck"))
	m.must(err)
	if _, err := deck.Get(t.Context(), tidemark.Key{Kind: tidemark.KindIndex, ID: "index.shared"}); err != nil {
		t.Errorf("the index of a workspace in which nothing is shared: %v", err)
	}
	if m.holds(m.room("crew"), "alone") || !m.holds(m.room("crew"), "again") || m.holds(m.room("deck"), "tide") {
		t.Error("the index of a workspace has not exactly what is shared there")
	}
	m.exact("tide", "crew", "all", "alone")
}

func TestWhatIsUnsharedIsHiddenAtOnceAndRewrittenSoon(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	id := m.says("ada", "whale")
	m.says("bob", "other")
	m.share("ada", id, "crew")
	m.catchUp("ada", "bob")
	if got, waiting := m.found(m.stores["bob"], "whale"); len(got) != 1 || waiting != 0 || !m.holds(m.room("crew"), "whale") {
		t.Fatalf("bob finds %v, with %d lines read", got, waiting)
	}
	m.share("ada", id, tidemark.Private)
	if got, _ := m.found(m.stores["bob"], "whale"); len(got) > 0 {
		t.Errorf("what is not shared any more is found: %v", got)
	}
	m.begin() // another process finds what is left to do
	m.catchUp("bob")
	if m.holds(m.room("crew"), "whale") {
		t.Error("the index of the workspace still has the word")
	}
	m.exact("whale", "other")
}

// Whoever is in a workspace may read what the tenant shares, and yet the index of the
// workspace has what is shared with it alone: nobody tells it of anything else.
func TestWhatIsSharedWithTheTenantLeavesTheIndexOfItsWorkspace(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	id := m.says("ada", "whale")
	w, err := m.stores["ada"].Attach(t.Context(), id, store.Self("test"))
	m.must(err)
	_, err = w.AppendTo(t.Context(), "scout", tidemark.Say(tidemark.User, "whale ahead"))
	m.must(err)
	m.must(w.Close(t.Context()))
	m.share("ada", id, "crew")
	m.catchUp("bob")
	if !m.holds(m.room("crew"), "whale") || !m.holds(m.room("crew"), "ahead") {
		t.Fatal("it is not indexed")
	}
	m.share("ada", id, tidemark.InTenant)
	m.catchUp("bob")
	if m.holds(m.room("crew"), "whale") || m.holds(m.room("crew"), "ahead") || !m.holds(m.people[""].User, "whale") || !m.holds(m.people[""].User, "ahead") {
		t.Error("the index of the workspace has what is not shared with it, or that of the tenant lacks it")
	}
	m.exact("whale", "ahead")
	m.must(m.stores["ada"].Purge(t.Context(), id, store.Self("test")))
	if m.holds(m.room("crew"), "whale") || m.holds(m.people[""].User, "whale") {
		t.Error("what was purged is in an index")
	}
}

func TestPurgingAndMaskingTakeTheWordsOutOfTheIndexOfAScopeBeforeTheyAnswer(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*team, string, tidemark.SessionID){
		"purge": func(m *team, who string, id tidemark.SessionID) {
			m.must(m.stores[who].Trash(m.Context(), id))
			m.must(m.stores[who].Purge(m.Context(), id, store.Self("test")))
		},
		"mask": func(m *team, who string, id tidemark.SessionID) {
			v, err := m.stores[who].View(m.Context(), id)
			m.must(err)
			m.must(v.MarkSecrets(m.Context(), 1, []store.Secret{{Text: 0, From: 0, To: 5, Rule: "test"}}))
			m.must(m.stores[who].RewriteIndex(m.Context()))
		},
	} {
		for owner, with := range map[string]string{"ada": "crew", "bob": tidemark.InTenant, "": ""} {
			t.Run(name+" by "+owner, func(t *testing.T) {
				t.Parallel()
				m := newTeam(t)
				id := m.says(owner, "whale here", "shore")
				scope := m.people[""].User
				if with != "" {
					m.share(owner, id, with)
				}
				if with == "crew" {
					scope = m.room("crew")
				}
				m.catchUp("bob", owner)
				if !m.holds(scope, "whale") {
					t.Fatal("it is not indexed")
				}
				do(m, owner, id)
				if m.holds(scope, "whale") {
					t.Error("the index of the scope still has the word")
				}
				m.exact("whale", "shore", "here")
				m.catchUp("bob", owner)
				m.exact("whale", "shore", "here")
				if m.holds(scope, "whale") {
					t.Error("the word came back")
				}
			})
		}
	}
}

// TestSharedHistoriesAreSearchedExactly has random things happen, and everybody
// searches in between.
func TestSharedHistoriesAreSearchedExactly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		way   func(*testing.T, *pgtest.Database) string
		steps int
	}{
		"directly":        {func(_ *testing.T, made *pgtest.Database) string { return made.Server }, 40},
		"behind a pooler": {func(t *testing.T, made *pgtest.Database) string { return pgtest.Bouncer(t, made) }, 12}, // which plans each statement anew
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			m := newTeamBy(t, func(made *pgtest.Database) string { return c.way(t, made) })
			rnd := rand.New(rand.NewPCG(seed, 1))
			type talk struct {
				who string
				id  tidemark.SessionID
			}
			var talks []talk
			people := []string{"ada", "bob", "eve", ""}
			hits := 0
			for range c.steps {
				who := people[rnd.IntN(len(people))]
				var of talk
				if len(talks) > 0 {
					of = talks[rnd.IntN(len(talks))]
				}
				switch n := rnd.IntN(10); {
				case n < 3 || of.id == "":
					texts := make([]string, 1+rnd.IntN(3))
					for i := range texts {
						texts[i] = strings.Join([]string{"tide", "ebb", "wave"}[:1+rnd.IntN(3)], " ")
					}
					talks = append(talks, talk{who, m.says(who, texts...)})
				case n < 5:
					with := []string{tidemark.Private, tidemark.InTenant, "crew", "deck"}[rnd.IntN(4)]
					if with == "deck" && of.who != "bob" || with == "crew" && of.who != "ada" && of.who != "bob" {
						with = tidemark.InTenant
					}
					m.share(of.who, of.id, with)
				case n < 6:
					w, err := m.stores[of.who].Attach(m.Context(), of.id, store.Self("test"))
					m.must(err)
					_, err = w.Append(m.Context(), tidemark.Say(tidemark.User, "late wave"))
					m.must(err)
					m.must(w.Close(m.Context()))
				case n < 7:
					m.must(m.stores[of.who].Destroy(m.Context(), of.id, store.Self("test")))
					talks = slices.DeleteFunc(talks, func(t talk) bool { return t == of })
				case n < 8:
					m.begin()
				default:
					m.catchUp(who)
				}
				if rnd.IntN(4) == 0 {
					hits += m.exact("tide", "wave", "late")
				}
			}
			m.catchUp(people...)
			if hits += m.exact("tide", "wave", "late", "ebb"); hits == 0 {
				t.Error("nothing was ever found: this proved nothing")
			}
			for name, s := range m.stores {
				if _, waiting := m.found(s, "tide"); waiting > 0 {
					t.Errorf("%q reads %d lines after everything was indexed", name, waiting)
				}
			}
		})
	}
}
