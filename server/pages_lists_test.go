package server

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// countedReads is a backend that counts the sessions that it lists.
type countedReads struct {
	tidemark.Backend
	sessions atomic.Int64
}

func (c *countedReads) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		for r, err := range c.Backend.List(ctx, q) {
			if r.Kind == "session" {
				c.sessions.Add(1)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// titles are those of the sessions that a list shows.
func titles(t *testing.T, s *testServer, path string) []string {
	t.Helper()
	var v struct{ Sessions []struct{ Title string } }
	s.call(t, "reader-a", "GET", path, nil).want(t, 200).into(t, &v)
	all := []string{}
	for _, row := range v.Sessions {
		all = append(all, row.Title)
	}
	return all
}

// countedList waits until a list is counted, and returns what it says.
func countedList(t *testing.T, s *testServer, query string) string {
	t.Helper()
	tags := regexp.MustCompile(`<[^>]*>`)
	for end := time.Now().Add(patient); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if page := s.read(t, "reader-a", "/sessions/totals?"+query, 200); strings.Contains(page, " turn") {
			return tags.ReplaceAllString(page, "")
		}
	}
	t.Fatal("the sessions were never counted")
	return ""
}

func TestManySessionsAreNotReadForEachList(t *testing.T) {
	b := &countedReads{Backend: memory.New()}
	// All were left alone for longer than a day.
	begin := time.Now().Add(-1000 * time.Hour)
	now := begin
	s, st := pagesServerOf(t, b, func() time.Time { return now })
	var ids []tidemark.SessionID
	for n := range 1200 {
		now = now.Add(time.Second)
		sess := tidemark.Session{Title: fmt.Sprintf("boat %04d", n), Model: "tide-1"}
		if n == 3 {
			sess.Tool, sess.ForeignID, sess.Model = "codex", "x-3", "tide-2"
		}
		out := st.Create(sess, process.Self("talk"))
		must[[]int64](t)(out.Append(t.Context(), tidemark.Say(tidemark.User, "hello")))
		if err := out.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, out.ID())
	}
	if err := cmp.Or(st.Tag(t.Context(), ids[5], []string{"oak"}, nil), st.Tag(t.Context(), ids[6], []string{"elm"}, nil)); err != nil {
		t.Fatal(err)
	}
	now = time.Now()
	if got := countedList(t, s, ""); !strings.HasPrefix(got, "1.2k sessions") && !strings.HasPrefix(got, "1200 sessions") {
		t.Fatalf("the list says %q", got)
	}
	// What changes is seen at once, wherever in the order it stands.
	if err := st.Trash(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	if err := st.Trash(t.Context(), ids[1199]); err != nil {
		t.Fatal(err)
	}
	// A label on an entry counts as a tag.
	if err := cmp.Or(st.Tag(t.Context(), ids[7], []string{"oak"}, nil), st.Tag(t.Context(), ids[6], nil, []string{"elm"}), st.Label(t.Context(), ids[8], 1, "oak")); err != nil {
		t.Fatal(err)
	}
	fresh := st.Create(tidemark.Session{Title: "a new boat"}, process.Self("talk"))
	must[[]int64](t)(fresh.Append(t.Context(), tidemark.Say(tidemark.User, "hello")))
	if err := fresh.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.sessions.Store(0)
	steps := []struct {
		path string
		want []string
	}{
		{"/sessions.json?sort=title", []string{"a new boat", "boat 0001", "boat 0002"}},
		{"/sessions.json?sort=title&order=down", []string{"boat 1198", "boat 1197"}},
		{"/sessions.json?sort=age&order=up", []string{"boat 0001", "boat 0002"}},
		{"/sessions.json?sort=title&from=1160", []string{"boat 1160", "boat 1161"}},
		{"/sessions.json?tool=codex", []string{"boat 0003"}},
		{"/sessions.json?model=tide-2", []string{"boat 0003"}},
		{"/sessions.json?until=" + begin.AddDate(0, 0, -1).Format(time.DateOnly), nil},
		{"/sessions.json?gone=yes", nil},
		{"/sessions.json?label=oak&sort=title", []string{"boat 0005", "boat 0007", "boat 0008"}},
		{"/sessions.json?label=oak&tool=codex", nil},
		{"/sessions.json?label=elm", nil},
		{"/sessions.json?label=none", nil},
	}
	for _, step := range steps {
		got := titles(t, s, step.path)
		if len(got) < len(step.want) || !slices.Equal(got[:len(step.want)], step.want) || len(step.want) < 2 && len(got) != len(step.want) {
			t.Errorf("%s: %q, want %q first", step.path, got, step.want)
		}
	}
	if got := countedList(t, s, ""); !strings.HasPrefix(got, "1.2k sessions") && !strings.HasPrefix(got, "1199 sessions") {
		t.Errorf("the list says %q", got)
	}
	if n := b.sessions.Load(); n > int64(200*(len(steps)+1)) {
		t.Errorf("%d sessions were read for %d lists of %d", n, len(steps)+1, len(ids))
	}
	// A long list is followed to its end, each session once.
	seen := make(map[string]bool)
	for path := "/sessions.json?model=tide-1"; path != ""; {
		var v struct {
			Sessions []struct{ Title string }
			Older    string
		}
		s.call(t, "reader-a", "GET", path, nil).want(t, 200).into(t, &v)
		for _, row := range v.Sessions {
			if seen[row.Title] {
				t.Errorf("%s is listed twice", row.Title)
			}
			seen[row.Title] = true
		}
		path = strings.Replace(v.Older, "/sessions?", "/sessions.json?", 1)
	}
	if len(seen) != 1197 { // without those in the trash, the new one and the one of another model
		t.Errorf("%d sessions were listed", len(seen))
	}
}

func TestWhatIsNotKnownIsSortedLast(t *testing.T) {
	s, st := pagesServer(t)
	spent(t, st, tidemark.Session{Title: "dear", Model: "b", Project: "/srv/b"}, 1, 3)
	spent(t, st, tidemark.Session{Title: "cheap", Model: "a", Project: "/srv/a"}, 1, 1)
	out := st.Create(tidemark.Session{Title: "unknown"}, process.Self("talk"))
	must[[]int64](t)(out.Append(t.Context(), tidemark.Say(tidemark.User, "what does it cost?")))
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	countedList(t, s, "")
	for _, column := range []string{"cost", "tokens", "model", "project"} {
		for order, want := range map[string]string{"up": "cheap dear unknown", "down": "dear cheap unknown"} {
			q := url.Values{"sort": {column}, "order": {order}}
			if got := strings.Join(titles(t, s, "/sessions.json?"+q.Encode()), " "); got != want {
				t.Errorf("by %s, %s: %q, want %q", column, order, got, want)
			}
		}
	}
}

func TestEachTagOfASearchLeadsToWhatItCounts(t *testing.T) {
	s, st := pagesServer(t)
	for tags, turns := range map[string]int{"oak": 3, "oak elm": 2} {
		id := talk(t, st, tidemark.Session{Title: tags}, turns)
		if err := st.Tag(t.Context(), id, strings.Fields(tags), nil); err != nil {
			t.Fatal(err)
		}
	}
	type facet struct {
		Name   string
		Values []struct {
			Value, Path string
			N           int
			On          bool
		}
	}
	facets := func(path string) (all map[string]facet) {
		t.Helper()
		var v struct{ Facets []facet }
		s.call(t, "reader-a", "GET", strings.Replace(path, "/sessions", "/sessions.json", 1), nil).want(t, 200).into(t, &v)
		all = make(map[string]facet)
		for _, f := range v.Facets {
			all[f.Name] = f
		}
		return all
	}
	hits := func(path string) (n int) {
		t.Helper()
		for _, v := range facets(path)["role"].Values {
			n += v.N
		}
		return n
	}
	for _, path := range []string{"/sessions?q=tide", "/sessions?label=elm&q=tide", "/sessions?label=oak&q=tide"} {
		values := facets(path)["tag"].Values
		if len(values) == 0 {
			t.Errorf("%s has no tags", path)
		}
		for _, v := range values {
			if got := hits(v.Path); !v.On && got != v.N {
				t.Errorf("%s: %s counts %d, and %s has %d", path, v.Value, v.N, v.Path, got)
			}
		}
	}
}
