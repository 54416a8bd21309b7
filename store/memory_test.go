package store_test

import (
	"errors"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestWhatWasLearnedIsKeptOncePerProject(t *testing.T) {
	s := open(t)
	for _, m := range []store.Memory{
		{Project: "/app", Text: "Tests run with make test."},
		{Project: "/app", Text: "  tests run with MAKE test. "},
		{Project: "/other", Text: "Tests run with make test."},
	} {
		if _, _, err := s.Remember(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	count := func(project string) (n int, last store.Memory) {
		t.Helper()
		for m, err := range s.Memories(t.Context(), project) {
			if err != nil {
				t.Fatal(err)
			}
			n, last = n+1, m
		}
		return n, last
	}
	if n, _ := count(""); n != 2 {
		t.Errorf("%d memories, want 2", n)
	}
	n, m := count("/app")
	if n != 1 {
		t.Fatalf("%d memories in the project, want 1", n)
	}
	if got, err := s.Memory(t.Context(), m.ID[:5]); err != nil || got != m {
		t.Errorf("Memory = %v, %v", got, err)
	}
	if err := s.Forget(t.Context(), m.ID); err != nil {
		t.Fatal(err)
	}
	if n, _ := count("/app"); n != 0 {
		t.Errorf("%d memories after Forget", n)
	}
	if err := s.Forget(t.Context(), m.ID); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("Forget twice = %v", err)
	}
	if _, _, err := s.Remember(t.Context(), store.Memory{Text: " \n"}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Remember nothing = %v", err)
	}
}
