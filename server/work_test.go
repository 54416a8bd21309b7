package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// breaking is a Backend whose connection breaks, once, in the commit that
// writes a lease in a state; done says whether the commit is carried out. Nor
// can be seen, by the next who looks, what became of it.
type breaking struct {
	tidemark.Backend
	mu    sync.Mutex
	state string // "": none
	done  bool
	blind bool
}

var errBroke = fmt.Errorf("%w: the connection broke", tidemark.ErrStorage)

// looks fails once after the connection broke.
func (b *breaking) looks() (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blind {
		err = errBroke
	}
	b.blind = false
	return err
}

func (b *breaking) Get(ctx context.Context, k tidemark.Key) (tidemark.Record, error) {
	if err := b.looks(); err != nil {
		return tidemark.Record{}, err
	}
	return b.Backend.Get(ctx, k)
}

func (b *breaking) Lines(ctx context.Context, log tidemark.Key, s ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if err := b.looks(); err != nil {
		return func(yield func(tidemark.Line, error) bool) { yield(tidemark.Line{}, err) }
	}
	return b.Backend.Lines(ctx, log, s...)
}

func (b *breaking) next(state string, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state, b.done = state, done
}

func (b *breaking) broken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == ""
}

func (b *breaking) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	b.mu.Lock()
	breaks, done := false, b.done
	for _, r := range batch.Puts {
		breaks = breaks || r.Kind == "lease" && b.state != "" && r.State == b.state
	}
	if breaks {
		b.state, b.blind = "", true
	}
	b.mu.Unlock()
	if !breaks {
		return b.Backend.Commit(ctx, batch)
	}
	if done {
		if _, err := b.Backend.Commit(ctx, batch); err != nil {
			return tidemark.Receipt{}, err
		}
	}
	return tidemark.Receipt{}, errors.Join(errBroke, tidemark.ErrUnknown)
}

// brokenPair returns two servers over one store whose connection breaks. They
// are two processes to each other.
func brokenPair(t *testing.T) (one, two *testServer, b *breaking) {
	t.Helper()
	b = &breaking{Backend: memory.New()}
	open := func(pid int) func(o *Options) {
		return func(o *Options) {
			o.Holder = process.Self("test")
			o.Holder.PID += pid
			o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) {
				return store.New(b, &store.Options{Dead: func(tidemark.Holder) bool { return false }}), nil
			}
		}
	}
	return newTestServer(t, open(0)), newTestServer(t, open(1)), b
}

func TestWhatIsWrittenIsAcknowledgedAlsoWhenItsLeaseCannotBeReleased(t *testing.T) {
	one, two, b := brokenPair(t)
	path := newSession(t, one, wA, "tides", "first")
	b.next("free", false)
	one.call(t, wA, "PUT", path+"/files/a", "second").want(t, 200) // an append takes no lease
	if !b.broken() {
		t.Fatal("the connection did not break")
	}
	if got := two.call(t, wA, "GET", path+"/files/a", nil).want(t, 200); string(got.Body) != "second" {
		t.Errorf("kept %q", got.Body)
	}
	two.call(t, wA, "POST", path+"/entries", api.Appending{Entries: []api.NewEntry{{Role: tidemark.User, Content: "third"}}}).want(t, 201)
	if d := cmp.Diff([]string{"1 first", "2 re first", "3 third"}, texts(one.entries(t, path+"/entries").Items)); d != "" {
		t.Error(d)
	}
}

func TestALeaseThatWasTakenWithoutAnAnswerIsNotLeftBehind(t *testing.T) {
	for _, done := range []bool{true, false} {
		one, two, b := brokenPair(t)
		path := newSession(t, one, wA, "tides", "first")
		b.next("held", done)
		if a := one.call(t, wA, "PUT", path+"/files/a", "x"); a.Status/100 != 5 || !b.broken() {
			t.Fatalf("with a broken connection: %d %s", a.Status, a.Body)
		}
		two.call(t, wA, "PUT", path+"/files/a", "x").want(t, 200)
		say := api.Appending{Entries: []api.NewEntry{{Role: tidemark.User, Content: "second", Key: "k"}}}
		two.call(t, wA, "POST", path+"/entries", say).want(t, 201)
		one.call(t, wA, "POST", path+"/entries", say).want(t, 201)
		if d := cmp.Diff([]string{"1 first", "2 re first", "3 second"}, texts(one.entries(t, path+"/entries").Items)); d != "" {
			t.Error(d)
		}
	}
}

func TestASessionThatWasMadeWithoutAnAnswerCanBeWrittenTo(t *testing.T) {
	one, two, b := brokenPair(t)
	b.next("held", true)
	body := api.NewSession{Title: "tides", Entries: []api.NewEntry{{Role: tidemark.User, Content: "first"}}}
	if a := one.call(t, wA, "POST", request.SessionsPath, body, "Idempotency-Key: once"); a.Status/100 != 5 || !b.broken() {
		t.Fatalf("with a broken connection: %d %s", a.Status, a.Body)
	}
	var i api.SessionInfo
	two.call(t, wA, "POST", request.SessionsPath, body, "Idempotency-Key: once").want(t, 201).into(t, &i)
	path := request.SessionsPath + "/" + string(i.ID)
	two.call(t, wA, "POST", path+"/entries", api.Appending{Entries: []api.NewEntry{{Role: tidemark.User, Content: "second"}}}).want(t, 201)
	if d := cmp.Diff([]string{"1 first", "2 second"}, texts(one.entries(t, path+"/entries").Items)); d != "" {
		t.Error(d)
	}
}
