package remote_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

func TestAPlaceKeepsItsPromises(t *testing.T) {
	dir := t.TempDir()
	p, err := remote.Open(t.Context(), "file:"+dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
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
	for _, text := range []string{"first", "second"} {
		if err := p.Replace(ctx, "m/1/head", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Get(ctx, "m/1/head"); err != nil || string(got) != text {
			t.Errorf("got %q, %v; want %q", got, err, text)
		}
	}
	// What something else leaves in the folder is nobody's blob.
	for _, name := range []string{".stfolder", "m/1/head.sync-conflict-2026", "m/1/~syncthing~head.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := func(prefix string) (names []string) {
		for name, err := range p.List(ctx, prefix) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	if got := list(""); !slices.Equal(got, []string{"m/1/b/aa/aabb", "m/1/head"}) {
		t.Errorf("all: %q", got)
	}
	if got := list("m/1/b/"); !slices.Equal(got, []string{"m/1/b/aa/aabb"}) {
		t.Errorf("some: %q", got)
	}
	if got := list("none/"); got != nil {
		t.Errorf("none: %q", got)
	}
	for range 2 {
		if err := p.Delete(ctx, "m/1/head"); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", "/etc", "../x", "m//x", "M", "m/.", "m/x/"} {
		if _, err := p.Get(ctx, name); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	i, err := os.Stat(filepath.Join(dir, "m", "1", "b", "aa", "aabb"))
	if err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("a blob has mode %v, %v", i.Mode(), err)
	}
}

func TestAPlaceThatIsNotThereIsNotMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stick")
	if _, err := remote.Open(t.Context(), "file:"+dir); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("a folder that is not mounted: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
	for _, url := range []string{"", "stick", "ftp://x", "file:relative"} {
		if _, err := remote.Open(t.Context(), url); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%q: %v", url, err)
		}
	}
	if got := remote.Clean("file:../stick", "/home/ada"); got != "file:/home/stick" {
		t.Errorf("Clean = %q", got)
	}
}
