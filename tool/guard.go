package tool

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// The tools that work on files themselves follow the rules of the sandbox:
// they open nothing that is hidden, and write files that run by themselves
// later only when a person saw exactly that change.

// hides reports whether no tool may open a path.
func (b *Box) hides(path string) bool {
	return len(b.o.Hidden) > 0 && belowAny(b.o.Hidden, path)
}

// errHidden is the error for a hidden path.
func errHidden(path string) error {
	return fmt.Errorf("path %q: this is where Tidemark keeps its sessions and keys, and no tool opens it", path)
}

// guarded is a folder without the hidden files in it, and without the
// empty folders by which a sandbox reserves names.
type guarded struct {
	fs.FS
	box  *Box
	root string
}

// without returns a folder as tools may see it.
func (b *Box) without(fsys fs.FS, root string) fs.FS {
	// A link in the folder could lead to anything below it.
	hidden := slices.ContainsFunc(b.o.Hidden, func(path string) bool {
		_, ok := below(realPath(root), realPath(path))
		return ok
	})
	if !hidden && b.o.Sandbox == nil {
		return fsys
	}
	return guarded{fsys, b, root}
}

// placeholder reports whether a name exists only because a sandbox reserves it.
func (g guarded) placeholder(name string) bool {
	if g.box.o.Sandbox == nil || name != ".git" && !slices.Contains(sandbox.Protected, name) {
		return false
	}
	info, err := fs.Stat(g.FS, name)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o500 {
		return false
	}
	has, err := fs.ReadDir(g.FS, name)
	return err == nil && len(has) == 0
}

func (g guarded) hides(name string) bool {
	return g.box.hides(filepath.Join(g.root, filepath.FromSlash(name)))
}

func (g guarded) Open(name string) (fs.File, error) {
	gone := &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	if g.hides(name) || g.placeholder(name) {
		return nil, gone
	}
	f, err := g.FS.Open(name)
	if err == nil && g.hides(name) { // a link was put there meanwhile
		f.Close()
		return nil, gone
	}
	return f, err
}

// ReadDir leaves out what is hidden.
func (g guarded) ReadDir(name string) ([]fs.DirEntry, error) {
	if g.hides(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	all, err := fs.ReadDir(g.FS, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool {
		at := path.Join(name, e.Name())
		return g.hides(at) || g.placeholder(at)
	}), err
}

// makeWay ends the programs of the session before one of the protected names is
// written: their sandbox reserves it while they run.
func (b *Box) makeWay(p place) {
	if b.o.Sandbox != nil && p.kind == inside && sandbox.RunsByItself(p.name) != "" {
		b.Reset(b.State())
	}
}

// eachWrite says why a change of a file needs approval each time.
func (b *Box) eachWrite(input json.RawMessage) string {
	var named string
	fields, err := readObject(input)
	if err != nil || json.Unmarshal(fields["path"], &named) != nil {
		return ""
	}
	p, err := b.locate(named)
	if err != nil || p.kind == stored {
		return ""
	}
	top := p.folder
	if p.kind == inside {
		top = b.o.Root
	}
	written := filepath.Join(top, filepath.FromSlash(p.name))
	for _, way := range []string{written, realPath(written)} { // the link, and its target
		if name := sandbox.RunsByItself(filepath.ToSlash(way)); name != "" {
			return name + " is what git, editors, shells or agents run by themselves later"
		}
	}
	home, _ := getenv(b.o.Environ, "HOME")
	if rel, ok := below(realPath(home), realPath(written)); p.kind == outside && home != "" && ok && strings.HasPrefix(rel, ".") {
		return rel + " in the home folder is configuration of other programs"
	}
	return ""
}
