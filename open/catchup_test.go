package open_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// behind makes a plain store with a line that is not indexed, and returns how many
// lines of it are not indexed when it is asked.
func behind(t *testing.T, url string, o open.Options) func() int64 {
	t.Helper()
	o.Access, o.Plain = open.Create, true
	s, err := open.Store(t.Context(), url, &o)
	if err != nil {
		t.Fatal(err)
	}
	w := s.Create(tidemark.Session{}, store.Self("test"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "tide")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	o.Access = open.Read
	return func() int64 {
		s, err := open.Store(t.Context(), url, &o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		n, err := s.Unindexed(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

func TestAReaderHasWhatItReadIndexed(t *testing.T) {
	dir, environ := home(t)
	for _, url := range []string{"sqlite:" + filepath.Join(dir, "a.db"), "files:" + filepath.Join(dir, "a")} {
		o := open.Options{Environ: environ}
		left := behind(t, url, o)
		s, err := open.Open(t.Context(), url, &o)
		if err != nil {
			t.Fatal(err)
		}
		before := left()
		err = s.CatchUp(t.Context(), url, &o, nil)
		if after := left(); err != nil || before != 1 || after != 0 {
			t.Errorf("%s: CatchUp = %v; %d lines were behind, then %d", url, err, before, after)
		}
		s.Close()
	}
}

func TestAReaderUpgradesNoStoreToIndexIt(t *testing.T) {
	dir, environ := home(t)
	url, about := "files:"+filepath.Join(dir, "a"), filepath.Join(dir, "a", "tidemark.json")
	o := open.Options{Environ: environ}
	left := behind(t, url, o)
	now, err := os.ReadFile(about)
	if err != nil {
		t.Fatal(err)
	}
	older := bytes.Replace(now, []byte(`"version":2`), []byte(`"version":1`), 1)
	if err := os.WriteFile(about, older, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := open.Open(t.Context(), url, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.CatchUp(t.Context(), url, &o, nil); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("CatchUp in a store of format 1 = %v, want ErrUnsupported", err)
	}
	if kept, err := os.ReadFile(about); err != nil || !bytes.Equal(kept, older) || left() != 1 {
		t.Errorf("afterwards there is %s (%v), and %d lines are behind", kept, err, left())
	}
}
