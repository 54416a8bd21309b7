package hits_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// People write, share, unshare and purge while others index what they wrote, and
// those who index, their connections or the database itself die. Whatever happens,
// everybody finds exactly what looking at everything finds, and what was purged is
// nowhere in the index. Trouble comes by counts of steps and bytes, never by the
// clock.

// The environment of a process that indexes: where, and for whom.
const (
	indexerURL    = "TIDEMARK_TEST_INDEXER_URL"
	indexerTenant = "TIDEMARK_TEST_INDEXER_TENANT"
)

// shortLease is for indexers whose lease nobody gives back: others wait for its end.
const shortLease = time.Second

// indexer is the process that is killed. It ends by itself when the test has ended.
func indexer() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		db, err := postgres.Connect(context.Background(), os.Getenv(indexerURL), &postgres.Options{Pooler: postgres.Direct, Unchecked: true})
		if err == nil {
			indexing(context.Background(), db, peopleOf(os.Getenv(indexerTenant)))
		}
	}
}

// indexing indexes for everybody, again and again, until ctx ends.
func indexing(ctx context.Context, db *postgres.Database, people map[string]tidemark.Principal) {
	_, stores := storesOf(db, people, shortLease)
	for ctx.Err() == nil {
		for _, s := range stores {
			_, _ = s.CatchUp(ctx, nil) // what fails is tried again
		}
		breathe()
	}
}

// breathe leaves the machine to others for a moment.
func breathe() { time.Sleep(5 * time.Millisecond) }

// trouble is how indexing is disturbed.
type trouble struct {
	url   string       // by which the indexers of this process reach the database; "": there are none
	make  func()       // trouble between two steps
	count func() int64 // how much trouble there was
	stop  func()       // ends it
}

func TestTheIndexIsExactWhateverKillsThoseWhoMakeIt(t *testing.T) {
	t.Parallel()
	terminating := func(t *testing.T, made *pgtest.Database, url string) trouble {
		super, err := pgx.Connect(t.Context(), made.Super)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { super.Close(context.Background()) })
		var n atomic.Int64
		return trouble{url: url + "&application_name=indexer", count: n.Load, make: func() {
			tag, err := super.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'indexer' and datname = current_database()`)
			if err != nil {
				t.Error(err)
			}
			n.Add(tag.RowsAffected())
		}}
	}
	for name, begin := range map[string]func(*testing.T, *pgtest.Cluster, *pgtest.Database, string) trouble{
		"connections are cut": func(t *testing.T, c *pgtest.Cluster, made *pgtest.Database, _ string) trouble {
			p := c.CutAtRandom(t, 100_000, nil)
			return trouble{url: p.Through(t, made.Server), count: p.Cuts, make: func() {}}
		},
		"connections are terminated": func(t *testing.T, _ *pgtest.Cluster, made *pgtest.Database, _ string) trouble {
			return terminating(t, made, made.Server)
		},
		"connections behind a pooler are terminated": func(t *testing.T, _ *pgtest.Cluster, made *pgtest.Database, _ string) trouble {
			return terminating(t, made, pgtest.Bouncer(t, made))
		},
		"processes are killed": func(t *testing.T, c *pgtest.Cluster, made *pgtest.Database, tenant string) trouble {
			return killing(t, c, made, tenant)
		},
		"the database is killed": func(t *testing.T, c *pgtest.Cluster, made *pgtest.Database, _ string) trouble {
			var n atomic.Int64
			steps := 0
			return trouble{url: made.Server, count: n.Load, make: func() {
				if steps++; steps%4 == 0 {
					c.Restart(t)
					n.Add(1)
				}
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("make quick leaves out what needs PostgreSQL")
			}
			c := pgtest.Start(t)
			if name == "the database is killed" {
				c = pgtest.New(t, pgtest.Options{Durable: true})
			} else {
				t.Parallel()
			}
			made := c.Prepared(t, "", func(db *pgtest.Database) error { return postgres.Migrate(t.Context(), db.Owner, db.Role) })
			m := newTeamIn(t, made.Server)
			ordeal(m, made, begin(t, c, made, m.tenant))
		})
	}
}

// killing runs processes that index, one after the other, each until a random byte of
// one of its connections.
func killing(t *testing.T, c *pgtest.Cluster, made *pgtest.Database, tenant string) trouble {
	var mu sync.Mutex
	var now *exec.Cmd
	var n atomic.Int64
	p := c.CutAtRandom(t, 300_000, func() {
		mu.Lock()
		defer mu.Unlock()
		if now != nil && now.Process.Kill() == nil {
			n.Add(1)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), indexerURL+"="+p.Through(t, made.Server), indexerTenant+"="+tenant)
			stdin, err := cmd.StdinPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			now = cmd
			mu.Unlock()
			ended := make(chan struct{})
			go func() { _ = cmd.Wait(); close(ended) }() // it ends by a signal
			select {
			case <-ended:
			case <-over:
				stdin.Close()
				<-ended
				return
			}
		}
	})
	var once sync.Once
	stop := func() { once.Do(func() { close(over); running.Wait() }) }
	t.Cleanup(stop)
	return trouble{make: func() {}, count: n.Load, stop: stop}
}

// crashSteps is how many things happen; the environment asks for long runs.
func crashSteps(t *testing.T) int {
	s := os.Getenv("TIDEMARK_CRASH_STEPS")
	if s == "" {
		return 16
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("TIDEMARK_CRASH_STEPS: %v", err)
	}
	return n
}

// ordeal has things happen in a team while indexers are disturbed.
func ordeal(m *team, made *pgtest.Database, tr trouble) {
	seed := rand.Uint64()
	m.Logf("seed %d", seed)
	h := &history{team: m, url: made.Server, rnd: rand.New(rand.NewPCG(seed, 1))}
	ctx, cancel := context.WithCancel(m.Context())
	var indexers sync.WaitGroup
	for range 2 {
		if tr.url == "" {
			break
		}
		var db *postgres.Database
		h.again(func() (err error) {
			db, err = postgres.Connect(m.Context(), tr.url, &postgres.Options{Unchecked: true, MaxConns: 4})
			return err
		})
		indexers.Go(func() {
			defer db.Close()
			indexing(ctx, db, m.people)
		})
	}
	h.bulk()
	for n := 0; n < crashSteps(m.T) || tr.count() < 3; n++ {
		h.step()
		tr.make()
	}
	h.purge(h.rnd.IntN(len(h.talks)))
	cancel()
	indexers.Wait()
	if tr.stop != nil {
		tr.stop()
	}
	m.Logf("%d times in trouble, %d sessions purged", tr.count(), len(h.purged))
	h.inspect()
}

// history is what happens to a team.
type history struct {
	*team
	url    string
	rnd    *rand.Rand
	talks  []talk
	purged []string // words that nobody may have any more
}

type talk struct {
	who  string
	id   tidemark.SessionID
	word string // that no other has
}

// again does something until the database answers and nobody is in the way.
func (h *history) again(do func() error) {
	h.Helper()
	for {
		err := do()
		switch {
		case errors.Is(err, tidemark.ErrConflict), errors.Is(err, tidemark.ErrHeld), errors.Is(err, postgres.ErrUnavailable), errors.Is(err, tidemark.ErrUnknown):
		case err != nil:
			h.Fatal(err)
		default:
			return
		}
		if h.Context().Err() != nil {
			h.Fatal(err)
		}
		breathe()
	}
}

// word is one that shares hardly a beginning with another, so that it stands whole in
// a block.
func (h *history) word() string {
	b := make([]byte, 12)
	for i := range b {
		b[i] = byte('a' + h.rnd.IntN(26))
	}
	return string(b)
}

// speak begins a session with some entries.
func (h *history) speak(who string, texts ...string) {
	t := talk{who: who, word: h.word()}
	h.again(func() error {
		w := h.stores[who].Create(tidemark.Session{}, store.Self("test"))
		t.id = w.ID()
		entries := []tidemark.Entry{tidemark.Say(tidemark.User, t.word)}
		for _, text := range texts {
			entries = append(entries, tidemark.Say(tidemark.User, text))
		}
		if _, err := w.Append(h.Context(), entries...); err != nil {
			return err
		}
		return w.Close(h.Context())
	})
	h.talks = append(h.talks, t)
}

// bulk is so much that its segment takes several commits.
func (h *history) bulk() {
	texts := make([]string, 60)
	for i := range texts {
		var b strings.Builder
		for range 300 {
			b.WriteString(h.word() + " ")
		}
		texts[i] = b.String()
	}
	h.speak("ada", texts...)
	h.again(func() error {
		return h.stores["ada"].Share(h.Context(), h.talks[0].id, tidemark.Scope{With: tidemark.InWorkspace, Workspace: h.room("crew")})
	})
}

func (h *history) step() {
	people := []string{"ada", "bob", "eve", ""}
	n := h.rnd.IntN(len(h.talks))
	of := h.talks[n]
	switch h.rnd.IntN(8) {
	case 0, 1, 2:
		h.speak(people[h.rnd.IntN(len(people))], "tide", "tide wave", "late ebb")
	case 3, 4:
		scope := tidemark.Scope{With: []string{tidemark.Private, tidemark.InTenant}[h.rnd.IntN(2)]}
		if (of.who == "ada" || of.who == "bob") && h.rnd.IntN(2) == 0 {
			scope = tidemark.Scope{With: tidemark.InWorkspace, Workspace: h.room("crew")}
		}
		h.again(func() error { return h.stores[of.who].Share(h.Context(), of.id, scope) })
	case 5:
		h.purge(n)
	default:
		h.exactNow("tide", "wave", of.word)
	}
}

// purge destroys a session, and looks for its word everywhere at once.
func (h *history) purge(n int) {
	of := h.talks[n]
	h.again(func() error {
		err := h.stores[of.who].Purge(h.Context(), of.id, store.Self("test"))
		if errors.Is(err, tidemark.ErrNotFound) { // an attempt before was cut off behind it
			err = h.stores[of.who].RewriteIndex(h.Context())
		}
		return err
	})
	h.talks = append(h.talks[:n:n], h.talks[n+1:]...)
	h.purged = append(h.purged, of.word)
	h.gone(of.word)
	if len(h.talks) == 0 {
		h.speak("ada", "tide")
	}
}

// exactNow is exact while the database may be just coming back.
func (h *history) exactNow(words ...string) {
	h.again(func() error { return h.db.Ping(h.Context()) })
	h.exact(words...)
}

// gone looks for a purged word in every block there is, of segments that count and of
// those that nobody finished.
func (h *history) gone(words ...string) {
	h.Helper()
	var all []tidemark.Backend
	for _, p := range h.people {
		all = append(all, h.db.For(p))
	}
	for _, scope := range []string{h.room("crew"), h.room("deck"), h.people[""].User} {
		keeper, err := h.db.For(h.people["bob"]).Keeper(scope)
		h.must(err)
		all = append(all, keeper)
	}
	for _, b := range all {
		h.again(func() error {
			for r, err := range b.List(h.Context(), tidemark.Query{Kind: tidemark.KindSegment}) {
				if err != nil {
					return err
				}
				for l, err := range b.Lines(h.Context(), r.Key) {
					if errors.Is(err, tidemark.ErrNotFound) {
						break
					}
					if err != nil {
						return err
					}
					for _, word := range words {
						if bytes.Contains(l.Body, []byte(word[4:])) {
							return fmt.Errorf("a word of what was purged is in segment %s (%s)", r.ID, r.State)
						}
					}
				}
			}
			return nil
		})
	}
}

// inspect looks as a process that knows nothing of what was before.
func (h *history) inspect() {
	db, err := postgres.Connect(h.Context(), h.url, nil)
	h.must(err)
	h.Cleanup(db.Close)
	h.db, h.lease = db, shortLease
	h.begin()
	words := append([]string{"tide", "wave", "late"}, h.purged...)
	for range 3 {
		words = append(words, h.talks[h.rnd.IntN(len(h.talks))].word)
	}
	if h.exact(words...) == 0 {
		h.Error("nothing was found: this proved nothing")
	}
	for _, s := range h.stores {
		h.again(func() error { _, err := s.CatchUp(h.Context(), nil); return err })
	}
	h.exact(words...)
	for name, s := range h.stores {
		if _, waiting := h.found(s, "tide"); waiting > 0 {
			h.Errorf("%q reads %d lines after everything was indexed", name, waiting)
		}
		if wrong, err := s.VerifyIndex(h.Context()); err != nil || len(wrong) > 0 {
			h.Errorf("the index of %q: %v, %v", name, wrong, err)
		}
	}
	h.gone(h.purged...)
}
