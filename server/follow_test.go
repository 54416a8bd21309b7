package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// follower is a client of a stream.
type follower struct {
	res  *http.Response
	in   *bufio.Scanner
	stop context.CancelFunc
	last string // the id of the last event
}

func (s *testServer) follow(t *testing.T, who, path, last string) *follower {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+who)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("Content-Type"); res.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("status %d, content type %q", res.StatusCode, got)
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<20)
	return &follower{res: res, in: in, stop: stop}
}

func (f *follower) close() {
	f.stop()
	f.res.Body.Close()
}

// event returns the name and data of the next event, "" when there is none.
func (f *follower) event() (name, data string) {
	for f.in.Scan() {
		line := f.in.Text()
		switch {
		case strings.HasPrefix(line, "id: "):
			f.last = line[4:]
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
		case line == "" && data != "":
			return name, data
		}
	}
	return name, data
}

// next returns the next entry.
func (f *follower) next(t *testing.T) string {
	t.Helper()
	name, data := f.event()
	var e api.LogEntry
	if name != "" || data == "" {
		return name + " " + data
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(e.Seq) != f.last {
		t.Errorf("entry %d has the id %s", e.Seq, f.last)
	}
	return fmt.Sprintf("%d %s", e.Seq, e.Text())
}

func TestAFollowerIsCutOffAgainAndAgainAndMissesNothing(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides")
	const entries, followers = 120, 6
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range entries {
			s.append(t, path, said(fmt.Sprint("m", i)))
		}
	})
	var want []string
	for i := range entries {
		want = append(want, fmt.Sprintf("%d m%d", i+1, i))
	}
	for n := range followers {
		wg.Go(func() {
			var got []string
			f := s.follow(t, "reader-a", path+"/entries/stream", "")
			for len(got) < entries {
				if len(got)%(n+3) == n { // the connection is cut
					f.close()
					f = s.follow(t, "reader-a", path+"/entries/stream", fmt.Sprint(len(got)))
				}
				got = append(got, f.next(t))
			}
			f.close()
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("follower %d: %s", n, d)
			}
		})
	}
	wg.Wait()
}

func TestWorkersAreFollowedAndAfterIsLastEventID(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one")
	b := said("a", "b")
	b.Worker = "w"
	s.append(t, path, b)
	f := s.follow(t, wA, path+"/entries/stream?worker=w&after=1", "")
	if got := f.next(t); got != "2 b" {
		t.Errorf("%q", got)
	}
	s.append(t, path, b)
	if got := f.next(t) + "|" + f.next(t); got != "3 a|4 b" {
		t.Errorf("%q", got)
	}
	for query, want := range map[string]int{"?worker=lost": 404, "?after=x": 400, "?after=-1": 400} {
		s.call(t, wA, "GET", path+"/entries/stream"+query, nil).want(t, want).problem(t)
	}
	s.call(t, wA, "GET", request.SessionsPath+"/"+absent+"/entries/stream", nil).want(t, 404).problem(t)
}

func TestAFollowerOfARemovedSessionIsTold(t *testing.T) {
	s := newTestServer(t)
	for query, state := range map[string]string{"": "trash", "?purge=true": "gone"} {
		path := newSession(t, s, wA, "tides", "one")
		f := s.follow(t, wA, path+"/entries/stream", "")
		for _, want := range []string{"1 one", "2 re one"} {
			if got := f.next(t); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		s.call(t, wA, "DELETE", path+query, nil).want(t, 200)
		if name, data := f.event(); name != "gone" || data != `{"state":"`+state+`"}` {
			t.Errorf("%q %s", name, data)
		}
		if name, _ := f.event(); name != "end" {
			t.Errorf("then %q", name)
		}
		if f.in.Scan() && f.in.Text() != "" {
			t.Errorf("after the end: %q", f.in.Text())
		}
	}
	path := newSession(t, s, wA, "tides", "one")
	s.call(t, wA, "DELETE", path, nil).want(t, 200)
	f := s.follow(t, wA, path+"/entries/stream", "1")
	if got := f.next(t); got != "2 re one" {
		t.Errorf("from the trash %q", got)
	}
	if name, _ := f.event(); name != "gone" {
		t.Errorf("from the trash %q", name)
	}
}

func TestFollowersAreSentAwayWhenTheServerDrains(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one")
	f := s.follow(t, wA, path+"/entries/stream", "")
	f.next(t)
	f.next(t)
	s.Drain()
	if name, _ := f.event(); name != "bye" {
		t.Errorf("%q", name)
	}
}
