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
		Marks: func(_ context.Context, path string) ([]string, error) { return marks[path], nil },
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

func TestMarksThatThereWasNoTimeForAreFoundLater(t *testing.T) {
	slow := true
	s := store.New(memory.New(), &store.Options{
		Marks: func(context.Context, string) ([]string, error) {
			if slow {
				return nil, context.DeadlineExceeded
			}
			return []string{"root:1"}, nil
		},
		There: func(string) bool { return true },
	})
	begin := func() {
		t.Helper()
		add(t, s.Create(tidemark.Session{Project: "/app"}, who("test")), user("hello"))
	}
	begin()
	if same, err := s.SameProject(t.Context(), "/app", "/copy"); same || err != nil {
		t.Errorf("while nothing is known: %v, %v", same, err)
	}
	slow = false
	if same, err := s.SameProject(t.Context(), "/app", "/copy"); !same || err != nil {
		t.Errorf("a search without time was kept: %v, %v", same, err)
	}
	begin()
	if paths, err := s.ProjectPaths(t.Context(), "root:1"); err != nil || !slices.Equal(paths, []string{"/app"}) {
		t.Errorf("recorded with the next session: %v, %v", paths, err)
	}
}
