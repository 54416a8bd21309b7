package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// backendCutter is a bad line between a client and a server: each connection
// carries some bytes in each direction and is then cut.
type backendCutter struct {
	net.Listener
	to   string
	cuts atomic.Int64
	mu   sync.Mutex
	dice *rand.Rand
	most int64
}

func backendCut(t testing.TB, s *httptest.Server, seed uint64, most int64) *backendCutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &backendCutter{Listener: l, to: s.Listener.Addr().String(), dice: rand.New(rand.NewPCG(seed, 1)), most: most}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.carry(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.CloseClientConnections()
		wg.Wait()
	})
	return c
}

func (c *backendCutter) url() string { return "http://" + c.Addr().String() }

func (c *backendCutter) draw() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 300 + c.dice.Int64N(c.most)
}

func (c *backendCutter) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer far.Close()
	done := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		if n, _ := io.CopyN(to, from, c.draw()); n > 0 {
			c.cuts.Add(1)
		}
		done <- struct{}{}
	}
	go pipe(far, near)
	go pipe(near, far)
	<-done
	near.Close()
	far.Close()
	<-done
}

func backendSay(text string) tidemark.Entry { return tidemark.Say(tidemark.User, text) }

func backendWords(e tidemark.Entry) []string { return strings.Fields(strings.ToLower(e.Text())) }

func backendPlaces(e tidemark.Entry, yield func([]byte, int)) bool {
	for i, word := range backendWords(e) {
		yield([]byte(word[:min(len(word), 64)]), i)
	}
	return true
}

// TestCutConnectionsLoseAndDoubleNothing appends through a bad line, and reads
// through one.
func TestCutConnectionsLoseAndDoubleNothing(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			kept := memory.New()
			line := backendCut(t, backendServed(t, kept), seed, 24000)
			far := backendOpened(t, line.url())
			s := store.New(far, &store.Options{Places: backendPlaces})
			w := s.Create(tidemark.Session{Title: "over a bad line"}, tidemark.Holder{Program: "test"})
			var want []string
			for i := range 80 {
				text := fmt.Sprintf("message %d %s", i, strings.Repeat("x", i*7))
				if _, err := w.Append(t.Context(), backendSay(text)); err != nil {
					t.Fatalf("append %d: %v", i, err)
				}
				want = append(want, text)
			}
			near := store.New(kept.Again(), &store.Options{Places: backendPlaces})
			for name, s := range map[string]*store.Store{"here": near, "there": s} {
				if d := cmp.Diff(want, backendTexts(t, s, w.ID())); d != "" {
					t.Errorf("%s (-want +got):\n%s", name, d)
				}
			}
			if _, err := near.CatchUp(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			backendSameReading(t, kept, far, tidemark.Key{Kind: "session", ID: string(w.ID())})
			if line.cuts.Load() < 10 {
				t.Errorf("only %d connections were cut: this proved nothing", line.cuts.Load())
			}
		})
	}
}

func backendTexts(t *testing.T, s *store.Store, id tidemark.SessionID) (texts []string) {
	t.Helper()
	v, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range v.Log(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, e.Text())
	}
	return texts
}

// backendSameReading compares every way of reading two Backends.
func backendSameReading(t *testing.T, kept *memory.Backend, far tidemark.Backend, log tidemark.Key) {
	t.Helper()
	ctx := t.Context()
	for i := range 40 {
		r := backendtest.NewRecord(tidemark.Key{Kind: "job", ID: fmt.Sprint("j", i)}, 1, strings.Repeat("y", 100*i+1))
		if _, err := kept.Commit(ctx, tidemark.Batch{ID: tidemark.NewBatchID(), Puts: []tidemark.Record{r}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, spans := range [][]tidemark.Span{nil, {{Backwards: true}}, {{Newest: 50}}, {{Newest: 50, Backwards: true}}, {{To: 60, Newest: 30}},
		{{From: 3, To: 90}, {From: 5, To: 80, Backwards: true}, {}, {From: 500}, {Newest: 1}, {Newest: 1, Backwards: true}}} {
		backendSame(t, fmt.Sprint("lines ", spans), backendAll(t, kept.Lines(ctx, log, spans...)), backendAll(t, far.Lines(ctx, log, spans...)))
	}
	for _, q := range []tidemark.Query{{}, {Limit: 30}, {Order: tidemark.ByID}} {
		q.Kind = "job"
		backendSame(t, fmt.Sprintf("list %+v", q), backendAll(t, kept.List(ctx, q)), backendAll(t, far.List(ctx, q)))
	}
	backendSame(t, "walk", backendAll(t, kept.Walk(ctx, tidemark.Key{})), backendAll(t, far.Walk(ctx, tidemark.Key{})))
}

func backendSame(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-here +there):\n%s", what, d)
	}
}

func backendAll[T any](t *testing.T, seq func(func(T, error) bool)) (all []T) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// backendDeaf carries out the first commit and cuts the connection before
// anybody hears of it. Servers is how many servers there are to come back to.
func backendDeaf(t *testing.T, be tidemark.Backend, servers int, between func()) *httptest.Server {
	t.Helper()
	open := func(*http.Request) (tidemark.Backend, error) { return be, nil }
	var handlers []http.Handler
	for range servers {
		handlers = append(handlers, Handler(open))
	}
	var commits atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/commit") {
			handlers[0].ServeHTTP(w, r)
			return
		}
		n := int(commits.Add(1)) - 1
		if n > 0 {
			handlers[n%servers].ServeHTTP(w, r)
			return
		}
		handlers[0].ServeHTTP(httptest.NewRecorder(), r)
		if between != nil {
			between()
		}
		panic(http.ErrAbortHandler)
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s
}

func TestALostAnswerIsAskedForAgain(t *testing.T) {
	log, rec, old := tidemark.Key{Kind: "session", ID: "s"}, tidemark.Key{Kind: "agent", ID: "a"}, tidemark.Key{Kind: "agent", ID: "old"}
	keyed := backendtest.NewLine(log, 1, `{}`)
	keyed.Key = "k"
	keyed.Sum = keyed.Checksum(log)
	for _, c := range []struct {
		name    string
		batch   tidemark.Batch
		between tidemark.Batch // what somebody else does meanwhile
		one     error          // where the server remembers
		two     error          // where another one is asked
	}{
		{name: "append", batch: tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{backendtest.NewLine(log, 1, `{}`)}}}}},
		{name: "append with a key", batch: tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{keyed}}}}},
		{name: "put", batch: tidemark.Batch{Puts: []tidemark.Record{backendtest.NewRecord(rec, 1, `{}`)}}},
		{name: "put that was replaced", batch: tidemark.Batch{Puts: []tidemark.Record{backendtest.NewRecord(rec, 1, `{}`)}},
			between: tidemark.Batch{Puts: []tidemark.Record{backendtest.NewRecord(rec, 2, `{}`)}}, two: tidemark.ErrUnknown},
		{name: "delete", batch: tidemark.Batch{Deletes: []tidemark.Precondition{{Key: old, Version: 1}}}, two: tidemark.ErrUnknown},
		{name: "conflict", batch: tidemark.Batch{Puts: []tidemark.Record{backendtest.NewRecord(old, 3, `{}`)}}, one: tidemark.ErrConflict, two: tidemark.ErrConflict},
		{name: "refused at first", batch: tidemark.Batch{Puts: []tidemark.Record{backendtest.NewRecord(old, 3, `{}`)}},
			between: tidemark.Batch{Puts: []tidemark.Record{backendtest.NewRecord(old, 2, `{}`)}}, one: tidemark.ErrConflict},
	} {
		for servers, want := range map[int]error{1: c.one, 2: c.two} {
			t.Run(fmt.Sprintf("%s with %d", c.name, servers), func(t *testing.T) {
				kept := memory.New()
				backendKeep(t, kept, tidemark.Batch{Puts: []tidemark.Record{backendtest.NewRecord(old, 1, `{}`)}})
				s := backendDeaf(t, kept, servers, func() {
					if len(c.between.Puts) > 0 {
						backendKeep(t, kept, c.between)
					}
				})
				c.batch.ID = tidemark.NewBatchID()
				_, err := backendOpened(t, s.URL).Commit(t.Context(), c.batch)
				if !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("Commit = %v, want %v", err, want)
				}
			})
		}
	}
}

func backendKeep(t testing.TB, b tidemark.Backend, batch tidemark.Batch) {
	t.Helper()
	batch.ID = tidemark.NewBatchID()
	if _, err := b.Commit(context.Background(), batch); err != nil {
		t.Error(err)
	}
}

func backendLine(log tidemark.Key) tidemark.Batch {
	return tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{backendtest.NewLine(log, 1, `{}`)}}}}
}

// backendToward reaches one address under any name.
func backendToward(address string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}
