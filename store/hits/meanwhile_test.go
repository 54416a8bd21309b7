package hits_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// meanwhile is something that happens before one of the calls by which a search reads.
type meanwhile struct {
	mu    sync.Mutex // a search may make calls beside each other
	calls int        // that were made
	at    int        // the one before which it happens
	do    func()
}

func (m *meanwhile) call() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls++; m.calls == m.at {
		m.do()
	}
}

// interrupted is a Backend under a search.
type interrupted struct {
	tidemark.Backend
	*meanwhile
}

func (i interrupted) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	i.call()
	return i.Backend.Get(ctx, key)
}

func (i interrupted) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	i.call()
	return i.Backend.List(ctx, q)
}

func (i interrupted) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	i.call()
	return i.Backend.Lines(ctx, log, spans...)
}

// interruptedFar is one that reads lines of several logs in one call, as those do where
// each call takes a round trip: a search makes its calls beside each other there.
type interruptedFar struct{ interrupted }

func (i interruptedFar) LinesOf(ctx context.Context, asked []tidemark.LogLines) ([][]tidemark.Line, error) {
	if len(asked) > 0 {
		i.call()
	}
	return gathered(ctx, i.Backend, asked)
}

// interruptedTeam is one of somebody with whom others share.
type interruptedTeam struct {
	tidemark.Backend
	tidemark.Sharer
	wrap func(tidemark.Backend) tidemark.Backend
}

func (i interruptedTeam) Of(owner string) (tidemark.Backend, error) {
	b, err := i.Sharer.Of(owner)
	return i.wrap(b), err
}

func (i interruptedTeam) LinesOf(ctx context.Context, asked []tidemark.LogLines) ([][]tidemark.Line, error) {
	return tidemark.LinesOf(ctx, i.Backend, asked, func(string) bool { return false })
}

// interrupting returns b under a search that something happens to.
func interrupting(b tidemark.Backend, m *meanwhile, isFar bool) tidemark.Backend {
	wrap := func(b tidemark.Backend) tidemark.Backend {
		if isFar {
			return interruptedFar{interrupted{b, m}}
		}
		return interrupted{b, m}
	}
	if sharer, ok := b.(tidemark.Sharer); ok {
		return interruptedTeam{wrap(b), sharer, wrap}
	}
	return wrap(b)
}

// A search looks at an index, at what the index lacks and at the index again. Others
// index, move and share in between, and it finds what was there when it began.
func TestASearchMissesNothingThatOthersIndexMeanwhile(t *testing.T) {
	t.Parallel()
	ago := time.Now().Add(-48 * time.Hour)
	past := func() time.Time { return ago }
	alone := func(t *testing.T) (tidemark.Backend, *store.Store) {
		b := memory.New()
		return b, store.New(b, &store.Options{Places: search.EachWord})
	}
	says := func(t *testing.T, s *store.Store) tidemark.SessionID {
		w := s.Create(tidemark.Session{}, store.Self("test"))
		_, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "tide"), tidemark.Say(tidemark.User, "tide again"))
		if err == nil {
			err = w.Close(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return w.ID()
	}
	others := sync.OnceValue(func() *team { return newTeam(t) })
	another := func(t *testing.T) *team {
		db, tenant := others().db, tidemark.NewBatchID()
		m := &team{T: t, tenant: tenant, db: db, people: peopleOf(tenant)}
		m.begin()
		return m
	}
	catchUp := func(t *testing.T, s *store.Store) {
		if _, err := s.CatchUp(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	for name, begin := range map[string]func(*testing.T) (tidemark.Backend, func()){
		"what was imported is indexed": func(t *testing.T) (tidemark.Backend, func()) {
			b, s := alone(t)
			says(t, s)
			catchUp(t, s)
			says(t, s.ChangedAt(past))
			return b, func() { catchUp(t, s) }
		},
		"a session moves": func(t *testing.T) (tidemark.Backend, func()) {
			b, s := alone(t)
			id := says(t, s.ChangedAt(past))
			says(t, s)
			catchUp(t, s)
			return b, func() {
				if err := s.ChangedAt(past).SetOrigin(t.Context(), id, tidemark.Session{Project: "/elsewhere", CreatedAt: ago}); err != nil {
					t.Error(err)
				}
				if err := s.RewriteIndex(t.Context()); err != nil {
					t.Error(err)
				}
			}
		},
		"what a workspace had is shared with all": func(t *testing.T) (tidemark.Backend, func()) {
			m := another(t)
			id := m.says("ada", "tide", "tide again")
			m.says("ada", "other")
			m.share("ada", id, "crew")
			m.catchUp("ada", "bob")
			return m.db.For(m.people["bob"]), func() {
				m.share("ada", id, tidemark.InTenant)
				m.begin()
				m.catchUp("bob")
			}
		},
		"what is shared with all is indexed": func(t *testing.T) (tidemark.Backend, func()) {
			m := another(t)
			id := m.says("ada", "tide", "tide again")
			m.share("ada", id, "crew")
			m.catchUp("ada", "bob")
			m.share("ada", id, tidemark.InTenant)
			return m.db.For(m.people["bob"]), func() { m.catchUp("bob") }
		},
	} {
		missesNothing := func(t *testing.T, isFar bool) {
			query, err := search.Parse("tide")
			if err != nil {
				t.Fatal(err)
			}
			for at := 1; ; at++ {
				b, do := begin(t)
				find := func(b tidemark.Backend) (refs []string) {
					a, err := store.New(b, &store.Options{Places: search.EachWord}).Search(t.Context(), store.Question{Limit: 1000}.About(query))
					if err != nil || a.Damage != nil {
						t.Fatalf("before call %d: %v, %v", at, err, a.Damage)
					}
					for _, f := range a.Found {
						refs = append(refs, f.Ref())
					}
					slices.Sort(refs)
					return refs
				}
				want := find(b)
				m := &meanwhile{at: at, do: do}
				if d := cmp.Diff(want, find(interrupting(b, m, isFar))); d != "" || len(want) == 0 {
					t.Errorf("before call %d of %d (-want +got):\n%s", at, m.calls, d)
				}
				if m.calls < at {
					if at < 8 {
						t.Errorf("a search made %d calls: this proved little", m.calls)
					}
					break
				}
			}
		}
		t.Run(name, func(t *testing.T) { missesNothing(t, false) })
		t.Run(name+", far away", func(t *testing.T) { missesNothing(t, true) })
	}
}
