package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// said is a body that appends one message of the user for each text.
func said(texts ...string) api.Appending {
	var b api.Appending
	for _, text := range texts {
		b.Entries = append(b.Entries, api.NewEntry{Role: tidemark.User, Content: text})
	}
	return b
}

func (s *testServer) append(t *testing.T, path string, b api.Appending, headers ...string) []int64 {
	t.Helper()
	var got api.Appended
	s.call(t, wA, "POST", path+"/entries", b, headers...).want(t, 201).into(t, &got)
	return got.Seqs
}

func TestEntriesAreReadByRangeTailBranchAndLog(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one", "two", "three")
	s.call(t, wA, "POST", path+"/labels", `{"at":"n1","text":"Second"}`).want(t, 201)
	s.call(t, wA, "POST", path+"/branch", `{"at":"n0"}`).want(t, 201)
	s.append(t, path, said("other"))
	worker := said("from a worker")
	worker.Worker = "w1"
	s.append(t, path, worker)
	for query, want := range map[string][]string{
		"":                       {"1 one", "2 re one", "8 other"},
		"?at=n2":                 {"1 one", "2 re one", "3 two", "4 re two", "5 three", "6 re three"},
		"?at=second":             {"1 one", "2 re one", "3 two", "4 re two"},
		"?at=second~1":           {"1 one", "2 re one"},
		"?at=5":                  {"1 one", "2 re one", "3 two", "4 re two", "5 three"},
		"?at=n2&from=3&to=4":     {"3 two", "4 re two"},
		"?tail=2":                {"2 re one", "8 other"},
		"?tail=2&at=n2":          {"5 three", "6 re three"},
		"?before=5&limit=2":      {"3 two", "4 re two"},
		"?all=true&from=6":       {"6 re three", "7 ", "8 other"},
		"?all=true&from=6&to=6":  {"6 re three"},
		"?worker=w1":             {"1 from a worker"},
		"?from=100":              nil,
		"?all=true&from=5&to=3":  nil,
		"?worker=w1&all=true":    {"1 from a worker"},
		"?worker=w1&tail=5":      {"1 from a worker"},
		"?at=n2&from=5&limit=50": {"5 three", "6 re three"},
	} {
		if got := texts(s.entries(t, path+"/entries"+query).Items); !cmp.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for query, want := range map[string]int{"?at=n9": 404, "?at=lost": 404, "?worker=w2": 404, "?worker=..": 400, "?tail=1&before=2": 400, "?all=true&at=n0": 400,
		"?before=99": 404, "?limit=0": 422, "?from=-1": 422, "?from=x": 422} {
		s.call(t, wA, "GET", path+"/entries"+query, nil).want(t, want).problem(t)
	}
	a := s.call(t, wA, "GET", path+"/entries?tail=1", nil).want(t, 200)
	s.call(t, wA, "GET", path+"/entries?tail=1", nil, "If-None-Match: "+a.Header.Get("ETag")).want(t, 304)
	s.append(t, path, said("more"))
	s.call(t, wA, "GET", path+"/entries?tail=1", nil, "If-None-Match: "+a.Header.Get("ETag")).want(t, 200)
	var tree struct {
		Nodes   []store.Node
		Workers []string
	}
	a = s.call(t, wA, "GET", path+"/tree", nil).want(t, 200)
	a.into(t, &tree)
	if len(tree.Nodes) != 5 || tree.Nodes[1].Label != "Second" || !tree.Nodes[4].Current || !cmp.Equal(tree.Workers, []string{"w1"}) {
		t.Errorf("%+v", tree)
	}
	s.call(t, wA, "GET", path+"/tree", nil, "If-None-Match: "+a.Header.Get("ETag")).want(t, 304)
	for query, want := range map[string]int{"limit=1": 200, "limit=0": 200, "limit=-1": 422, "cursor=bm9uZQ": 400} {
		s.call(t, wA, "GET", path+"/tree?"+query, nil).want(t, want)
	}
	whole, pages := treeOf(t, s, path+"/tree"), treeOf(t, s, path+"/tree?limit=1")
	if len(whole) < 2 || !cmp.Equal(whole, pages) {
		t.Errorf("nodes %v, one by one %v", whole, pages)
	}
}

// treeOf reads the nodes of a session page by page.
func treeOf(t *testing.T, s *testServer, path string) (nodes []store.Node) {
	t.Helper()
	for at := path; at != ""; {
		var page struct {
			Nodes []store.Node
			Next  string
		}
		s.call(t, wA, "GET", at, nil).want(t, 200).into(t, &page)
		nodes = append(nodes, page.Nodes...)
		if at = ""; page.Next != "" {
			at = path + "&cursor=" + page.Next
		}
	}
	return nodes
}

func TestPagesOfEntriesMeetWithoutAGap(t *testing.T) {
	s := newTestServer(t, func(o *Options) { o.Limits.Page = 7 })
	path := newSession(t, s, wA, "tides")
	var all []string
	for i := range 50 {
		all = append(all, fmt.Sprintf("%d m%d", i+1, i))
		s.append(t, path, said(fmt.Sprint("m", i)))
	}
	for _, query := range []string{"?limit=3", "?limit=999", "?all=true&limit=4"} {
		var got []string
		for next := path + "/entries" + query; next != ""; {
			l := s.entries(t, next)
			got = append(got, texts(l.Items)...)
			if len(l.Items) > 7 {
				t.Errorf("a page of %d", len(l.Items))
			}
			// What is said between two pages is on none of them.
			if next = ""; l.Next != "" {
				next = path + "/entries?limit=3&cursor=" + l.Next
			}
		}
		if d := cmp.Diff(all, got); d != "" {
			t.Errorf("%s: %s", query, d)
		}
	}
}

func TestAForkSharesItsPastAndAsksForItsOwn(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one", "two")
	s.call(t, wA, "POST", path+"/branch", `{"at":"n0"}`).want(t, 201)
	s.append(t, path, said("beside"))
	var f api.SessionInfo
	s.call(t, wA, "POST", path+"/fork", `{"at":"n1","title":"fork"}`, "Idempotency-Key: f").want(t, 201).into(t, &f)
	var again api.SessionInfo
	s.call(t, wA, "POST", path+"/fork", `{"at":"n1","title":"fork"}`, "Idempotency-Key: f").want(t, 201).into(t, &again)
	if again.ID != f.ID || f.Base == nil || *f.TurnCount != 2 {
		t.Errorf("%s and %s", f.ID, again.ID)
	}
	s.call(t, wA, "POST", path+"/fork", `{"at":"n1","title":"other"}`, "Idempotency-Key: f").want(t, 422).problem(t)
	fork := request.SessionsPath + "/" + string(f.ID)
	s.append(t, fork, said("mine"))
	want := []string{"1 one", "2 re one", "3 two", "4 re two", "6 mine"}
	if got := texts(s.entries(t, fork+"/entries").Items); !cmp.Equal(got, want) {
		t.Errorf("%q", got)
	}
	followed := s.follow(t, wA, fork+"/entries/stream", "")
	for _, w := range []string{"1 one", "2 re one", "3 two", "4 re two", "5 ", "6 mine"} {
		if got := followed.next(t); got != w {
			t.Errorf("followed %q, want %q", got, w)
		}
	}
	followed.close()
}

func TestWhatIsSentAgainIsAppendedOnce(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one")
	first := s.append(t, path, said("a", "b"), "Idempotency-Key: k1")
	s.append(t, path, said("between"))
	if again := s.append(t, path, said("a", "b"), "Idempotency-Key: k1"); !cmp.Equal(first, again) {
		t.Errorf("first %v, then %v", first, again)
	}
	p := s.call(t, wA, "POST", path+"/entries", said("a", "c"), "Idempotency-Key: k1").want(t, 422).problem(t)
	if !strings.Contains(p.Detail, "Idempotency-Key") {
		t.Errorf("%+v", p)
	}
	// For another session it is another request. Another caller's keys are their own.
	other := newSession(t, s, wA, "other", "one")
	s.call(t, wA, "POST", other+"/entries", said("a", "b"), "Idempotency-Key: k1").want(t, 422).problem(t)
	s.call(t, "writer-b", "POST", request.SessionsPath, `{"title":"x"}`, "Idempotency-Key: k1").want(t, 201)
	own := said("x")
	own.Entries[0].Key = "mine"
	if a, b := s.append(t, path, own), s.append(t, path, own); !cmp.Equal(a, b) {
		t.Errorf("by the key of the entry: %v, then %v", a, b)
	}
	if got := s.entries(t, path+"/entries").Head; got != 6 {
		t.Errorf("%d entries", got)
	}
	var one, two api.SessionInfo
	body := `{"title":"once","entries":[{"role":"user","content":"hello"}]}`
	s.call(t, wA, "POST", request.SessionsPath, body, "Idempotency-Key: c1").want(t, 201).into(t, &one)
	s.call(t, wA, "POST", request.SessionsPath, body, "Idempotency-Key: c1").want(t, 201).into(t, &two)
	if one.ID != two.ID || two.Entries != 1 {
		t.Errorf("%s and %s with %d entries", one.ID, two.ID, two.Entries)
	}
	s.call(t, wA, "POST", request.SessionsPath, `{"title":"twice"}`, "Idempotency-Key: c1").want(t, 422).problem(t)
	s.call(t, wA, "POST", request.SessionsPath, `{"title":"bare"}`, "Idempotency-Key: c2").want(t, 201).into(t, &one)
	s.call(t, wA, "POST", request.SessionsPath, `{"title":"bare"}`, "Idempotency-Key: c2").want(t, 201).into(t, &two)
	if one.ID != two.ID {
		t.Errorf("%s and %s", one.ID, two.ID)
	}
}

func TestConcurrentWritersWithoutALeaseTakeTurns(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one")
	const writers, each = 8, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				key := fmt.Sprintf("Idempotency-Key: %d-%d", w, i)
				for range 2 { // a client that did not hear the first answer
					s.call(t, wA, "POST", path+"/entries", said(fmt.Sprintf("%d-%d", w, i)), key).want(t, 201)
				}
			}
		})
	}
	wg.Wait()
	seen := make(map[string]int)
	last := make(map[string]int)
	for _, e := range s.entries(t, path+"/entries?from=3&limit=500").Items {
		seen[e.Text()]++
		var w, i int
		fmt.Sscanf(e.Text(), "%d-%d", &w, &i)
		if i < last[fmt.Sprint(w)] {
			t.Errorf("%s after %d", e.Text(), last[fmt.Sprint(w)])
		}
		last[fmt.Sprint(w)] = i
	}
	if len(seen) != writers*each {
		t.Errorf("%d of %d entries", len(seen), writers*each)
	}
	for text, n := range seen {
		if n != 1 {
			t.Errorf("%s: %d times", text, n)
		}
	}
}

func TestTheLastEntriesAreAsManyAsAskedForOrAsLargeAsAPage(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides")
	for i := 0; i < 150; i += 50 {
		var all []string
		for n := range 50 {
			all = append(all, fmt.Sprint("m", i+n))
		}
		s.append(t, path, said(all...))
	}
	list := func(query string) []string {
		t.Helper()
		var page api.EntryList
		s.call(t, wA, "GET", path+"/entries?"+query, nil).want(t, 200).into(t, &page)
		return texts(page.Items)
	}
	for query, want := range map[string][2]int{"tail=3": {148, 150}, "tail=140": {11, 150}, "tail=500": {1, 150}, "before=101&limit=90": {11, 100}, "before=3": {1, 2}} {
		got := list(query)
		if n := want[1] - want[0] + 1; len(got) != n || got[0] != fmt.Sprintf("%d m%d", want[0], want[0]-1) || got[n-1] != fmt.Sprintf("%d m%d", want[1], want[1]-1) {
			t.Errorf("%s: %d entries, %s … %s", query, len(got), got[0], got[len(got)-1])
		}
	}
	large := strings.Repeat("x", 1<<20)
	for range 140 {
		s.append(t, path, said(large))
	}
	if n := len(list("tail=140")); n < 16 || n >= 140 {
		t.Errorf("%d entries of a megabyte are a page", n)
	}
}
