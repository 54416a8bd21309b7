package server

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// Clients write while the database is killed. Each gets an answer that says
// whether to come back; what was acknowledged is there once, and the server
// works again by itself.
func TestADatabaseThatIsKilledLosesNothingThatWasAcknowledged(t *testing.T) {
	cluster := pgtest.New(t, pgtest.Options{Durable: true})
	db := migrated(t, cluster.Database(t))
	served := connectTo(t, db, nil)
	w := &world{served: served, stores: make(map[string]*store.Store), table: people()}
	s := newTestServer(t, func(o *Options) { o.Open, o.Backend = w.open, w.backend })
	const writers = 4
	paths := make([]string, writers)
	for i := range paths {
		paths[i] = newSession(t, s, wA, "tides", "hello")
	}
	var wait sync.WaitGroup
	stop := make(chan struct{})
	kept := make([][]string, writers)
	wrong := make(chan string, 5)
	for i := range writers {
		wait.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprintf("message %d of %d.", n, i)
				got := s.call(t, wA, "POST", paths[i]+"/entries", fmt.Sprintf(`{"entries":[{"role":"user","content":%q,"key":"k%d"}]}`, text, n))
				switch {
				case got.Status == http.StatusCreated:
					kept[i] = append(kept[i], text)
				case got.Status == http.StatusServiceUnavailable && got.Header.Get("Retry-After") != "" && got.Header.Get("Content-Type") == "application/problem+json":
					n-- // the same again, under the same key
				case got.Status == http.StatusLocked:
					n-- // the lease of a call that nobody could end
					time.Sleep(50 * time.Millisecond)
				default:
					select {
					case wrong <- fmt.Sprintf("%d %v %s", got.Status, got.Header, got.Body):
					default:
					}
					n--
				}
				if strings.Contains(string(got.Body), "tidemark-pg-") || strings.Contains(string(got.Body), "SQLSTATE") {
					select {
					case wrong <- "tells where the database is: " + string(got.Body):
					default:
					}
				}
			}
		})
	}
	reach(t, s, paths[0], http.StatusOK)
	cluster.Kill(t)
	reach(t, s, paths[0], http.StatusServiceUnavailable)
	cluster.Restart(t)
	for _, path := range paths {
		reach(t, s, path, http.StatusOK)
	}
	close(stop)
	wait.Wait()
	close(wrong)
	for text := range wrong {
		t.Error(text)
	}
	for i, path := range paths {
		var all strings.Builder
		for next := ""; ; {
			var page api.EntryList
			s.call(t, wA, "GET", path+"/entries?limit=1000&cursor="+next, nil).want(t, 200).into(t, &page)
			for _, e := range page.Items {
				all.WriteString(e.Text() + "\n")
			}
			if next = page.Next; next == "" {
				break
			}
		}
		for _, text := range kept[i] {
			if n := strings.Count(all.String(), text+"\n"); n != 1 {
				t.Errorf("%q is there %d times", text, n)
			}
		}
	}
}

// reach asks until the answer is the one wanted; a server that never gives it
// runs into the limit of the test.
func reach(t *testing.T, s *testServer, path string, status int) {
	t.Helper()
	for {
		got := s.call(t, wA, "GET", path, nil)
		if got.Status == status {
			return
		}
		if got.Status != http.StatusOK && got.Status != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
}

// A WebSocket is no way around: what the caller may not read is not found, and
// what others shared can be read and not written.
func TestAWebSocketLeadsToOnesOwnSessionsAlone(t *testing.T) {
	db := newDatabase(t)
	w := newWorld(t, connectTo(t, db, nil))
	w.db = db
	before := w.digest(t)
	flock := &parrots{}
	s := newTestServer(t, func(o *Options) { o.Open, o.Backend, o.Auth, o.Chat = w.open, w.backend, w, flock.chat })
	for _, who := range w.callers {
		if !who.known || who.Operator || who.Role == request.Reader || who.Token != "" {
			continue
		}
		c := connect(t, s, who.token)
		for _, th := range w.things {
			if th.kind != "session" || th.tenant == "alpha" && th.owner == who.owner {
				continue
			}
			foreign := th.tenant != "alpha" || !who.sees(th.tenant, th.owner, th.scope)
			c.say(api.SocketRequest{Type: api.SocketAttach, Session: th.id})
			got, err := c.hear()
			if err != nil || got.Problem == nil || foreign && got.Problem.Status != http.StatusNotFound {
				t.Fatalf("%s attaches to %+v: %+v, %v", who.name, th, got, err)
			}
			c.say(api.SocketRequest{Type: api.SocketAttach, Session: twinOf(th.id)})
			absent, err := c.hear()
			if err != nil || absent.Problem == nil {
				t.Fatalf("%+v, %v", absent, err)
			}
			if was, is := strings.ReplaceAll(got.Problem.Detail, th.id, "ID"), strings.ReplaceAll(absent.Problem.Detail, twinOf(th.id), "ID"); foreign && was != is {
				t.Errorf("%s: %q, and %q for one that is not there", who.name, was, is)
			}
		}
		c.Conn.Close(websocket.StatusNormalClosure, "")
	}
	if w.digest(t) != before {
		t.Error("something of somebody else was changed")
	}
}
