package durable

import (
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

const (
	// temporaryPrefix begins the name of what is made beside a file before it
	// takes its place; a rand.Text follows.
	temporaryPrefix = ".tidemark-"
	temporaryRandom = 26
	// swapTries bounds how often a file is made beside another: a second time is
	// needed only if a Sweep comes in between.
	swapTries = 4
)

// Sweep removes what a process that was killed left beside a file: what was to
// take its place. What another process is about to put there is removed, too, and
// made again by it. A folder that is missing or may not be read has nothing to
// sweep.
func (w *Workspace) Sweep(name string) error {
	real, err := w.resolve(name)
	if err != nil {
		return &fs.PathError{Op: "sweep", Path: name, Err: err}
	}
	dir := path.Dir(real)
	f, err := w.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return nil
	}
	defer f.Close()
	for {
		// Some at a time: the folder may have a million.
		entries, err := f.ReadDir(1000)
		for _, e := range entries {
			if isTemporary(e.Name()) && (e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0) {
				w.root.Remove(filepath.FromSlash(path.Join(dir, e.Name()))) // whoever comes next tries again
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// isTemporary reports whether swap gives such names.
func isTemporary(name string) bool {
	random, ok := strings.CutPrefix(name, temporaryPrefix)
	return ok && len(random) == temporaryRandom && strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
