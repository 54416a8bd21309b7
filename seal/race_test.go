package seal_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// actor is somebody at work on a store. Each call of its Backend waits for its
// turn, so that the test decides how the calls of several interleave.
type actor struct {
	tidemark.Backend
	turn chan struct{} // one call may be made
	here chan bool     // it waits for its turn; false: it is done
}

// act starts work on a Backend of its own and returns when it waits for its
// first turn, or is done.
func act(b tidemark.Backend, work func(tidemark.Backend)) *actor {
	a := &actor{Backend: b, turn: make(chan struct{}), here: make(chan bool)}
	go func() {
		work(a)
		a.here <- false
	}()
	return a
}

func (a *actor) wait() {
	a.here <- true
	<-a.turn
}

func (a *actor) Get(c ctxT, k tidemark.Key) (tidemark.Record, error) {
	a.wait()
	return a.Backend.Get(c, k)
}

func (a *actor) List(c ctxT, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	a.wait()
	return a.Backend.List(c, q)
}

func (a *actor) Lines(c ctxT, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	a.wait()
	return a.Backend.Lines(c, log, spans...)
}

func (a *actor) Commit(c ctxT, b tidemark.Batch) (tidemark.Receipt, error) {
	a.wait()
	return a.Backend.Commit(c, b)
}

func (a *actor) Walk(c ctxT, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	a.wait()
	return a.Backend.Walk(c, after)
}

// interleave lets actors make their calls one by one, in an order that the seed
// decides, until all are done.
func interleave(t *testing.T, seed uint64, actors ...*actor) {
	order := rand.New(rand.NewPCG(seed, 0))
	for _, a := range actors {
		if !<-a.here {
			t.Fatal("somebody was done before the first call")
		}
	}
	for len(actors) > 0 {
		i := order.IntN(len(actors))
		actors[i].turn <- struct{}{}
		if !<-actors[i].here {
			actors = append(actors[:i], actors[i+1:]...)
		}
	}
}

// racePlace is where a store is, opened anew by each call.
type racePlace func(t testing.TB) func() tidemark.Backend

func racePlaces(t *testing.T) map[string]racePlace {
	db := pgtest.Start(t).Database(t)
	if err := (postgres.Migration{Role: db.Role}).Run(ctx, db.Owner); err != nil {
		t.Fatal(err)
	}
	connected := must[*postgres.Database](t)(postgres.Connect(ctx, db.Server, nil))
	t.Cleanup(connected.Close)
	return map[string]racePlace{
		"memory": func(testing.TB) func() tidemark.Backend {
			m := memory.New()
			return func() tidemark.Backend { return m.Again() }
		},
		"sqlite": inSQLite,
		"files": func(t testing.TB) func() tidemark.Backend {
			dir := filepath.Join(t.TempDir(), "store")
			return func() tidemark.Backend {
				b := must[*files.Backend](t)(files.Open(ctx, dir, &files.Options{Create: true}))
				t.Cleanup(func() { b.Close() })
				return b
			}
		},
		"postgres": func(testing.TB) func() tidemark.Backend {
			who := tidemark.TenantOf(tidemark.NewBatchID(), "ada")
			return func() tidemark.Backend { return connected.For(who) }
		},
	}
}

// TestAStoreIsPlainOrSealedForGood has two processes that opened an empty store
// in the clear write to it while a third one seals it. Whatever the order of
// their calls: when sealing succeeded, nothing in the clear is kept, nor can be
// from then on; when it did not, everything that was acknowledged is there.
func TestAStoreIsPlainOrSealedForGood(t *testing.T) {
	for name, place := range racePlaces(t) {
		t.Run(name, func(t *testing.T) {
			rounds := 20
			if name == "memory" {
				rounds = 1000
			}
			for range rounds {
				raceOnce(t, rand.Uint64(), place(t))
			}
		})
	}
}

func raceOnce(t *testing.T, seed uint64, again func() tidemark.Backend) {
	var opened []tidemark.Backend
	open := func() tidemark.Backend {
		opened = append(opened, again())
		return opened[len(opened)-1]
	}
	defer func() {
		if t.Failed() {
			t.Logf("with seed %d", seed)
		}
		for _, b := range opened {
			b.Close()
		}
	}()
	slot, key := fileKey(t)
	acknowledged := make([]int, 2)
	errs := make([]error, 2)
	var sealErr error
	actors := []*actor{act(open(), func(b tidemark.Backend) { _, sealErr = seal.Create(ctx, b, slot) })}
	for i := range errs {
		actors = append(actors, act(open(), func(b tidemark.Backend) {
			acknowledged[i], errs[i] = plainWork(store.New(b, nil), fmt.Sprint("writer ", i))
		}))
	}
	interleave(t, seed, actors...)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	inner := open()
	if sealErr != nil {
		if !errors.Is(sealErr, tidemark.ErrInvalid) && !errors.Is(sealErr, tidemark.ErrConflict) {
			t.Fatalf("seal.Create = %v, want ErrInvalid or ErrConflict", sealErr)
		}
		expectKept(t, store.New(inner, nil), acknowledged[0]+acknowledged[1])
		return
	}
	if acknowledged[0]+acknowledged[1] > 0 {
		t.Fatalf("%v things were acknowledged in the clear, and the store was sealed", acknowledged)
	}
	sealed := store.New(must[*seal.Backend](t)(seal.Open(ctx, inner, key)), nil)
	w := sealed.Create(tidemark.Session{}, store.Self("owner"))
	if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "sealed")); err != nil {
		t.Fatal(err)
	}
	// Who opened it in the clear is refused from now on, with or without a lease.
	late := store.New(open(), nil)
	if n, err := plainWork(late, "late"); n > 0 || err != nil || !errors.Is(late.Standing(ctx), tidemark.ErrSealed) {
		t.Fatalf("%d things were kept in the clear after the sealing: %v; standing: %v", n, err, late.Standing(ctx))
	}
	for err := range sealed.VerifyAll(ctx, nil) {
		t.Fatalf("after the sealing: %v", err)
	}
}

// plainWork appends some entries to a new session and leaves a memory beside
// it, as far as it is let. It returns how many of them were acknowledged, and
// what went wrong other than that the store is sealed.
func plainWork(s *store.Store, title string) (int, error) {
	n := 0
	w := s.Create(tidemark.Session{Title: title}, store.Self(title))
	for i := range 3 {
		_, err := w.Append(ctx, tidemark.Say(tidemark.User, fmt.Sprintf("plain %d", i)))
		if err == nil {
			n++
		} else if !errors.Is(err, tidemark.ErrSealed) {
			return n, err
		}
	}
	_, _, err := s.Remember(ctx, store.Memory{Project: "/p", Text: title})
	if err == nil {
		n++
	} else if errors.Is(err, tidemark.ErrSealed) {
		err = nil
	}
	return n, err
}

// expectKept counts entries and memories.
func expectKept(t *testing.T, s *store.Store, want int) {
	got := 0
	for _, err := range s.Own(ctx, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		got++
	}
	for _, err := range s.Memories(ctx, "/p") {
		if err != nil {
			t.Fatal(err)
		}
		got++
	}
	if got != want {
		t.Fatalf("%d things are there, and %d were acknowledged", got, want)
	}
}
