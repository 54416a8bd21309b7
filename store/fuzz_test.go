package store_test

import (
	"errors"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// FuzzResolve gives a store all kinds of references: each is found, not found
// or refused, and nothing else happens.
func FuzzResolve(f *testing.F) {
	s := open(nil)
	w := s.Create(tidemark.Session{ID: "aaaa1111-0000-4000-8000-000000000001", Title: "first"}, who("test"))
	for _, seed := range []string{"first", "last", "aaaa", "@-1", "first@n0", "first@1~1", "first@label~9", "@", "~", "@@~~", "first@n99999999999999999999", "\x00", "aaaa1111-0000-4000-8000-000000000001@2"} {
		f.Add(seed)
	}
	if _, err := w.Append(f.Context(), user("1"), assistant("2"), user("3")); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		p, err := s.Resolve(t.Context(), ref, "")
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) && !errors.Is(err, tidemark.ErrInvalid) {
			t.Fatalf("%q: %v", ref, err)
		}
		if err == nil && (p.ID != w.ID() || p.Seq < 0 || p.Seq > 3) {
			t.Fatalf("%q is %s@%d", ref, p.ID, p.Seq)
		}
	})
}
