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

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// follower is a client of a stream.
type follower struct {
	res  *http.Response
	in   *bufio.Scanner
	stop context.CancelFunc
	last string // the seq of the last entry
	id   string // the id of its event
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
			f.id = line[4:]
			f.last, _, _ = strings.Cut(f.id, "-")
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

func TestWhatAToolIsStillWritingIsReadAndFollowedWhenAskedFor(t *testing.T) {
	kept := store.New(memory.New(), &store.Options{Places: search.EachWord})
	s := newTestServer(t, func(o *Options) {
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) { return kept, nil }
	})
	w := kept.Create(tidemark.Session{Title: "tides", Tool: "fake", ForeignID: "f"}, tidemark.Holder{Program: "import"})
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "when?")); err != nil {
		t.Fatal(err)
	}
	draft := func(entries ...tidemark.Entry) {
		t.Helper()
		if err := w.KeepDraft(t.Context(), "", entries...); err != nil {
			t.Fatal(err)
		}
	}
	draft(tidemark.Say(tidemark.Assistant, "at no"), tidemark.Say(tidemark.User, "and then?"))
	path := request.SessionsPath + "/" + string(w.ID()) + "/entries"
	list := func(query, tag string, status int) (all []string, next, newTag string) {
		var page api.EntryList
		a := s.call(t, "reader-a", "GET", path+query, nil, "If-None-Match: "+tag).want(t, status)
		if status == 200 {
			a.into(t, &page)
		}
		for _, e := range page.Items {
			all = append(all, fmt.Sprintf("%d %s %v", e.Seq, e.Text(), e.Draft))
		}
		if status == 200 && page.Head != 1 {
			t.Errorf("%s: the head is %d, want 1, from which to follow", query, page.Head)
		}
		return all, page.Next, a.Header.Get("ETag")
	}
	if got, _, _ := list("", "", 200); !cmp.Equal(got, []string{"1 when? false"}) {
		t.Errorf("without asking: %q", got)
	}
	first, next, tag := list("?draft=true&limit=2", "", 200)
	list("?draft=true", tag, 304)
	second, _, _ := list("?cursor="+next, "", 200)
	if got := append(first, second...); !cmp.Equal(got, []string{"1 when? false", "2 at no true", "3 and then? true"}) {
		t.Errorf("with the draft, page by page: %q", got)
	}
	if got, _, _ := list("?draft=true&tail=1", "", 200); !cmp.Equal(got, []string{"3 and then? true"}) {
		t.Errorf("the newest: %q", got)
	}

	f := s.follow(t, "reader-a", path+"/stream?draft=true", "")
	event := func() string {
		name, data := f.event()
		var e api.LogEntry
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(name, data, err)
		}
		return fmt.Sprintf("%s %d %s, last %s", name, e.Seq, e.Text(), f.last)
	}
	for _, want := range []string{" 1 when?, last 1", "draft 2 at no, last 1", "draft 3 and then?, last 1"} {
		if got := event(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	draft(tidemark.Say(tidemark.Assistant, "at noon"))
	if got := event(); got != "draft 2 at noon, last 1" {
		t.Errorf("after it changed: %q", got)
	}
	if got, _, newTag := list("?draft=true", tag, 200); newTag == tag || len(got) != 2 {
		t.Errorf("after it changed: %q, tag %s and before %s", got, newTag, tag)
	}
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.Assistant, "at noon.")); err != nil {
		t.Fatal(err)
	}
	if got := event(); got != " 2 at noon., last 2" {
		t.Errorf("when it is final: %q", got)
	}
}
