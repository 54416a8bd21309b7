package sync

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

// testdata/format1 is a remote as the first version wrote it, with a code that opens
// it: a session with a branch, a label and a tag, a fork, a worker and a tombstone.
// It never changes. TIDEMARK_UPDATE=1 makes it where there is none.
func TestARemoteOfFormatOneIsRead(t *testing.T) {
	from := filepath.Join("testdata", "format1")
	if _, err := os.Stat(from); os.IsNotExist(err) && os.Getenv("TIDEMARK_UPDATE") == "1" {
		makeFormatOne(t, from)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "remote"), os.DirFS(filepath.Join(from, "remote"))); err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(filepath.Join(from, "code.txt"))
	if err != nil {
		t.Fatal(err)
	}
	h := newHome(t, "new")
	h.must(h.remotes().Add(t.Context(), "r", "file:"+filepath.Join(dir, "remote"), string(code)))
	if r := h.sync(); r.Pulled.Sessions != 2 {
		t.Errorf("pulled %+v", r.Pulled)
	}
	titles := make(map[string][]string)
	for i, err := range h.s.SessionsWithPrefix(t.Context(), "", 10) {
		h.must(err)
		titles[i.Title+" "+strings.Join(i.Tags, ",")] = h.path(i.ID)
	}
	want := map[string][]string{"plan trip": {"one", "another two"}, "other way ": {"one", "two", "three"}}
	if d := cmp.Diff(want, titles); d != "" {
		t.Error(d)
	}
}

func makeFormatOne(t *testing.T, to string) {
	dir := filepath.Join(to, "remote")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	a := newHome(t, "first")
	a.join(abs, nil)
	id := a.create("plan", "one", "two")
	fork, err := a.s.Fork(t.Context(), id, 2, "other way")
	a.must(err)
	a.add(fork.ID, "three")
	w, err := a.s.Attach(t.Context(), id, a.holder())
	a.must(err)
	a.must(w.Branch(t.Context(), 1))
	a.append(w, "another two")
	_, err = w.AppendTo(t.Context(), "helper", tidemark.Say(tidemark.Assistant, "found it"))
	a.must(err)
	a.must(w.Close(t.Context()))
	a.must(a.s.Tag(t.Context(), id, []string{"trip"}, nil))
	a.must(a.s.Label(t.Context(), id, 2, "here"))
	gone := a.create("gone", "gone")
	a.sync()
	a.must(a.s.Purge(t.Context(), gone, a.holder()))
	a.sync()
	code, err := a.remotes().Pair(t.Context(), "r", time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC))
	a.must(err)
	a.must(os.WriteFile(filepath.Join(to, "code.txt"), []byte(code+"\n"), 0o600))
	a.must(os.Remove(filepath.Join(dir, "lock")))
	a.must(os.RemoveAll(filepath.Join(dir, "tmp")))
}
