package durable

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSweepRemovesWhatAKilledProcessLeft(t *testing.T) {
	w, dir := openWorkspace(t)
	random := rand.Text()
	theirs := []string{".tidemark-notes", ".tidemark-" + random + "X", "tidemark-" + random, ".tidemark-" + random[1:] + "a", "a.txt"}
	for _, name := range theirs {
		put(t, filepath.Join(dir, "sub", name), "theirs", 0o600)
	}
	put(t, filepath.Join(dir, "sub", ".tidemark-"+random), "half", 0o600)
	put(t, filepath.Join(dir, ".tidemark-"+random), "of another folder", 0o600)
	if err := os.Mkdir(filepath.Join(dir, "sub", ".tidemark-"+rand.Text()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.txt", filepath.Join(dir, "sub", ".tidemark-"+rand.Text())); err != nil {
		t.Log("no links here: ", err)
	}
	if err := os.Symlink("sub", filepath.Join(dir, "link")); err == nil {
		if err := w.Sweep("link/a.txt"); err != nil {
			t.Fatal(err)
		}
	} else if err := w.Sweep("sub/a.txt"); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "sub"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if !e.IsDir() && !slices.Contains(theirs, e.Name()) {
			t.Errorf("%s was left", e.Name())
		}
	}
	if len(left) != len(theirs)+1 {
		t.Errorf("%d are left of %d files and a folder", len(left), len(theirs))
	}
	if content(t, filepath.Join(dir, ".tidemark-"+random)) == "" {
		t.Error("another folder was swept")
	}
	if err := w.Sweep("missing/x"); err != nil {
		t.Errorf("a missing folder: %v", err)
	}
	if err := w.Sweep("../x"); !errors.Is(err, ErrLeadsOut) {
		t.Errorf("a name that leads out: %v", err)
	}
}

// TestASweepLosesNoWrite sweeps between all steps of a replacement.
func TestASweepLosesNoWrite(t *testing.T) {
	w, dir := openWorkspace(t)
	put(t, filepath.Join(dir, "a.txt"), "old", 0o640)
	sweeps := 0
	still := func() error {
		if sweeps++; sweeps < swapTries {
			return w.Sweep("a.txt")
		}
		return nil
	}
	err := w.swap("a.txt", false, still, func(tmp string) error { return w.create(tmp, []byte("new"), 0o640, true) })
	if err != nil || content(t, filepath.Join(dir, "a.txt")) != "new" || sweeps != swapTries {
		t.Errorf("after %d sweeps: %v, %q", sweeps, err, content(t, filepath.Join(dir, "a.txt")))
	}
	err = w.swap("a.txt", false, func() error { return w.Sweep("a.txt") }, func(tmp string) error { return w.create(tmp, []byte("never"), 0o640, true) })
	if !errors.Is(err, fs.ErrNotExist) || content(t, filepath.Join(dir, "a.txt")) != "new" {
		t.Errorf("swept each time: %v, %q", err, content(t, filepath.Join(dir, "a.txt")))
	}
	noLeftovers(t, dir)
}

func TestTheNamesThatSwapGivesAreSwept(t *testing.T) {
	w, dir := openWorkspace(t)
	var tmp string
	stop := errors.New("killed here")
	err := w.swap("x", true, func() error { return nil }, func(name string) error { tmp = name; return stop })
	if err != stop || !isTemporary(tmp) {
		t.Errorf("%v, %q", err, tmp)
	}
	put(t, filepath.Join(dir, tmp), "half", 0o600)
	if err := w.Sweep("x"); err != nil {
		t.Fatal(err)
	}
	noLeftovers(t, dir)
}
