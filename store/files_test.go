package store_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

func putFile(t *testing.T, w *store.Writer, name string, content []byte) {
	t.Helper()
	if _, err := w.PutFile(t.Context(), name, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

// keys counts everything that is kept under a kind.
func keys(t *testing.T, b tidemark.Backend, kind string) (n int) {
	t.Helper()
	for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		if k.Kind == kind {
			n++
		}
	}
	return n
}

func TestAFileComesBackAsItWasPut(t *testing.T) {
	disk, err := files.Open(t.Context(), t.TempDir(), &files.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 1<<20+7)
	rand.Read(large)
	for name, b := range map[string]tidemark.Backend{"memory": memory.New(), "files": disk} {
		t.Run(name, func(t *testing.T) {
			s := store.New(b, nil)
			defer s.Close()
			w := begin(t, s, user("hello"))
			for name, content := range map[string][]byte{"memory/notes.md": []byte("remember"), "buffers/large": large, "meta/empty": {}} {
				putFile(t, w, name, []byte("an older one"))
				putFile(t, w, name, content)
				got, err := s.ReadFile(t.Context(), w.ID(), name)
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(content))
				}
			}
			all, err := s.Files(t.Context(), w.ID())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range all {
				names = append(names, f.Name)
			}
			if d := cmp.Diff([]string{"buffers/large", "memory/notes.md", "meta/empty"}, names); d != "" {
				t.Error(d)
			}
			if n := keys(t, b, "file"); n != 5 { // three records and two logs: an empty file needs none
				t.Errorf("%d keys, want 5: what was replaced is gone", n)
			}
			if err := w.RemoveFile(t.Context(), "memory/notes.md"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.ReadFile(t.Context(), w.ID(), "memory/notes.md"); !errors.Is(err, tidemark.ErrNotFound) {
				t.Errorf("after RemoveFile: %v", err)
			}
			if err := s.Purge(t.Context(), w.ID(), who("test")); err == nil {
				t.Error("a session that is held was purged")
			}
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Purge(t.Context(), w.ID(), who("test")); err != nil {
				t.Fatal(err)
			}
			if n := keys(t, b, "file"); n != 0 {
				t.Errorf("%d keys are left after the purge", n)
			}
		})
	}
}

// dying is a reader whose writer dies after a first part.
type dying struct{ n int }

func (d *dying) Read(p []byte) (int, error) {
	if d.n++; d.n > 300 {
		runtime.Goexit()
	}
	return copy(p, bytes.Repeat([]byte("x"), 1<<10)), nil
}

func TestAPurgeFindsTheFileThatAWriterDiedOver(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Dead: func(tidemark.Holder) bool { return true }})
	defer s.Close()
	w := begin(t, s, user("hello"))
	done := make(chan bool)
	go func() {
		defer close(done)
		w.PutFile(t.Context(), "buffers/large", &dying{})
	}()
	<-done
	if n := keys(t, b, "file"); n == 0 {
		t.Fatal("nothing of the file was written")
	}
	if all, err := s.Files(t.Context(), w.ID()); err != nil || len(all) != 0 {
		t.Errorf("files %v, %v; want none", all, err)
	}
	if err := s.Purge(t.Context(), w.ID(), tidemark.Holder{Program: "test", PID: 2}); err != nil {
		t.Fatal(err)
	}
	if n := keys(t, b, "file"); n != 0 {
		t.Errorf("%d keys of files are left", n)
	}
}

func TestAWriterThatLostItsLeaseKeepsNoFile(t *testing.T) {
	s := open(t)
	w := s.Create(tidemark.Session{}, who("dead"))
	add(t, w, user("hello"))
	attach(t, s, w.ID(), "another")
	if _, err := w.PutFile(t.Context(), "memory/a", strings.NewReader("late")); !errors.Is(err, tidemark.ErrHeld) && !errors.Is(err, tidemark.ErrConflict) {
		t.Fatalf("PutFile = %v", err)
	}
	if all, err := s.Files(t.Context(), w.ID()); err != nil || len(all) != 0 {
		t.Errorf("Files = %v, %v", all, err)
	}
}

func TestNamesThatLeadOutAreRefused(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("hello"))
	for _, name := range []string{"", ".", "..", "../a", "/a", "a/../b", "a//b", `a\b`, "a\x00b", "a\nb", strings.Repeat("x", 600)} {
		if _, err := w.PutFile(t.Context(), name, strings.NewReader("x")); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("PutFile(%q) = %v, want ErrInvalid", name, err)
		}
	}
}
