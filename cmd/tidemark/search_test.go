//go:build !windows

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/store"
)

// After an upgrade nothing is indexed: the first search reads everything, and has it
// indexed for the next one.
func TestASearchThatReadMuchHasItIndexed(t *testing.T) {
	d := newDesk(t, "files:DIR/store")
	dir := filepath.Join(d.dir, "store")
	b, err := files.Open(t.Context(), dir, &files.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(b, nil) // it indexes nothing
	w := s.Create(tidemark.Session{}, store.Self("test"))
	said := make([]tidemark.Entry, manyWaiting)
	for i := range said {
		said[i] = tidemark.Say(tidemark.User, "ebb")
	}
	said[7] = tidemark.Say(tidemark.User, "tide")
	if _, err := w.Append(t.Context(), said...); err != nil {
		t.Fatal(err)
	}
	w.Close(t.Context())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	about := filepath.Join(dir, "tidemark.json")
	now, err := os.ReadFile(about)
	if err != nil {
		t.Fatal(err)
	}
	older := bytes.Replace(now, []byte(`"version":2`), []byte(`"version":1`), 1)
	if err := os.WriteFile(about, older, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, told, code := d.run("", "search", "tide"); code != 0 || !strings.Contains(out, "@8") || !strings.Contains(told, "the next command that writes upgrades it") {
		t.Errorf("search in a store of format 1: %d\n%s%s", code, out, told)
	}
	if kept, err := os.ReadFile(about); err != nil || !bytes.Equal(kept, older) {
		t.Errorf("a search left %s (%v)", kept, err)
	}

	if err := os.WriteFile(about, now, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, behind := range []string{"2000 entries are not indexed yet", "up to date"} {
		if said, _, _ := d.run("", "doctor"); !strings.Contains(said, behind) {
			t.Errorf("doctor says\n%s, not: %s", said, behind)
		}
		if out, told, code := d.run("", "search", "tide"); code != 0 || !strings.Contains(out, "@8") || strings.Contains(told, "read") {
			t.Errorf("search: %d\n%s%s", code, out, told)
		}
	}
}
