package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

func TestMain(m *testing.M) { os.Exit(placetest.Main(m, os.Args, os.Stdin, os.Stdout)) }

func openPlace(t *testing.T, url string, o *remote.Options) remote.Blobs {
	t.Helper()
	p, err := remote.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func list(t *testing.T, p remote.Blobs, prefix string) (names []string) {
	t.Helper()
	for name, err := range p.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		// Whoever lists may ask for what is listed.
		if _, err := p.Get(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// keepsItsPromises tries what every place promises, on an empty one.
func keepsItsPromises(t *testing.T, p remote.Blobs) {
	ctx := t.Context()
	if _, err := p.Get(ctx, "m/1/head"); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("a missing blob: %v", err)
	}
	for range 2 { // the same again is no error
		if err := p.PutNew(ctx, "m/1/b/aa/aabb", []byte("one")); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.PutNew(ctx, "m/1/b/aa/aabb", []byte("two")); !errors.Is(err, tidemark.ErrExists) {
		t.Errorf("another one of that name: %v", err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	for _, data := range [][]byte{[]byte("first"), {}, large, []byte("second")} {
		if err := p.Replace(ctx, "m/1/head", data); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Get(ctx, "m/1/head"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("got %.20q, %v; want %.20q", got, err, data)
		}
	}
	if got := list(t, p, ""); !slices.Equal(got, []string{"m/1/b/aa/aabb", "m/1/head"}) {
		t.Errorf("all: %q", got)
	}
	if got := list(t, p, "m/1/b/"); !slices.Equal(got, []string{"m/1/b/aa/aabb"}) {
		t.Errorf("some: %q", got)
	}
	if got := list(t, p, "none/"); got != nil {
		t.Errorf("none: %q", got)
	}
	for range 2 {
		if err := p.Delete(ctx, "m/1/head"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Get(ctx, "m/1/head"); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("a deleted blob: %v", err)
	}
	for _, name := range []string{"", "/etc", "../x", "m//x", "M", "m/.", "m/x/"} {
		if _, err := p.Get(ctx, name); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("name %q: %v", name, err)
		}
		if err := p.Replace(ctx, name, nil); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("replace %q: %v", name, err)
		}
	}
	// Of several that make one blob at once, one makes it.
	var made sync.Map
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() {
			switch err := p.PutNew(ctx, "ring/0000000001", []byte{byte(n)}); {
			case err == nil:
				made.Store(n, true)
			case !errors.Is(err, tidemark.ErrExists):
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := p.Get(ctx, "ring/0000000001")
	if err != nil || len(got) != 1 {
		t.Fatalf("got %q, %v", got, err)
	}
	made.Range(func(n, _ any) bool {
		if n.(int) != int(got[0]) {
			t.Errorf("%d was told that it made what %d made", n, got[0])
		}
		return true
	})
	// Each caller gets its own answer, however many ask.
	for n := range 24 {
		all.Go(func() {
			name, data := fmt.Sprintf("m/1/b/bb/%d", n), bytes.Repeat([]byte{byte(n)}, 1+n<<12)
			if err := p.PutNew(ctx, name, data); err != nil {
				t.Error(err)
			}
			if got, err := p.Get(ctx, name); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(data))
			}
			if _, err := p.Get(ctx, name+"0-none"); !errors.Is(err, tidemark.ErrNotFound) {
				t.Errorf("a missing one beside it: %v", err)
			}
			if got := list(t, p, "ring/"); len(got) != 1 {
				t.Errorf("rings: %q", got)
			}
		})
	}
	all.Wait()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.Get(gone, "ring/0000000001"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
}

func TestAFolderKeepsItsPromises(t *testing.T) {
	dir := t.TempDir()
	p := openPlace(t, "file:"+dir, nil)
	keepsItsPromises(t, p)
	// What something else leaves in the folder is nobody's blob.
	before := list(t, p, "")
	for _, name := range []string{".stfolder", "m/1/head.sync-conflict-2026", "m/1/~syncthing~head.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, p, ""); !slices.Equal(got, before) {
		t.Errorf("with the files of another program: %q", got)
	}
	i, err := os.Stat(filepath.Join(dir, "m", "1", "b", "aa", "aabb"))
	if err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("a blob has mode %v, %v", i.Mode(), err)
	}
}

func TestAPlaceThatIsNotThereIsNotMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stick")
	if _, err := remote.Open(t.Context(), "file:"+dir, nil); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("a folder that is not mounted: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
	for _, url := range []string{"", "stick", "ftp://x", "file:relative",
		"ssh://host", "ssh://host/", "ssh:///path", "ssh://-oProxyCommand=id/path", "ssh://-l@host/path", "ssh://ada:secret@host/path", "ssh://a b/path", "ssh://$(id)/path", "ssh://host/path?port=1", "ssh://host/pa\nth"} {
		if _, err := remote.Open(t.Context(), url, nil); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%q: %v", url, err)
		}
	}
	if got := remote.Clean("file:../stick", "/home/ada"); got != "file:/home/stick" {
		t.Errorf("Clean = %q", got)
	}
}
