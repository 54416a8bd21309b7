package store_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestSessionsFollowAProjectThatWasMoved(t *testing.T) {
	there := []string{"/old/app", "/copy/app", "/other"}
	marks := map[string][]string{"/old/app": {"root:1"}, "/copy/app": {"root:1", "remote:h/app"}, "/new/app": {"root:1"}, "/other": {"root:2"}}
	s := store.New(memory.New(), &store.Options{
		Marks: func(_ context.Context, path string) []string { return marks[path] },
		There: func(path string) bool { return slices.Contains(there, path) },
	})
	for _, project := range []string{"/old/app", "/copy/app", "/other"} {
		w := s.Create(tidemark.Session{Title: "in " + project, Project: project}, who("test"))
		add(t, w, user("what lies in "+project))
	}
	here := func(project string) (titles []string) {
		t.Helper()
		for i, err := range s.Sessions(t.Context(), store.Filter{Project: project}) {
			if err != nil {
				t.Fatal(err)
			}
			titles = append(titles, i.Title)
		}
		return titles
	}
	if d := cmp.Diff([]string{"in /old/app"}, here("/old/app")); d != "" {
		t.Errorf("before the move, another copy is a place of its own: %s", d)
	}
	there[0] = "/new/app"
	add(t, s.Create(tidemark.Session{Title: "in /new/app", Project: "/new/app"}, who("test")), user("what lies in /new/app"))
	got := here("/new/app")
	slices.Sort(got)
	if d := cmp.Diff([]string{"in /new/app", "in /old/app"}, got); d != "" {
		t.Errorf("after the move: %s", d)
	}
	if p, err := s.Resolve(t.Context(), "@-2", "/new/app"); err != nil || p.Title != "in /old/app" {
		t.Errorf("@-2 = %v, %v", p.View, err)
	}
	if got := here("/other"); len(got) != 1 {
		t.Errorf("another project has %v", got)
	}
	answer, err := s.Search(t.Context(), store.Question{Project: "/new/app", Match: func(e tidemark.Entry) bool { return e.Role == tidemark.User }})
	if err != nil || len(answer.Found) != 2 {
		t.Errorf("search found %d, %v; want 2", len(answer.Found), err)
	}
}
