package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// place is where a path that a model names leads. There are three kinds:
//
//   - inside the workspace: relative to its root, or absolute below it. A
//     link that leads out is refused, and its target named.
//   - outside: any other path. The call needs approval, with the real folder
//     as its scope, and no link may lead out of that folder.
//   - the durable storage of the session: session:memory/notes.md.
type place struct {
	kind   placeKind
	folder string // outside: the real folder
	name   string // slash-separated, below the root, the folder or the storage
	shown  string // its name in results
	asked  string // inside: the scope that reading needs approval for, "" when it needs none
}

type placeKind int

const (
	inside placeKind = iota
	outside
	stored
)

const storedPrefix = "session:"

// StoredScope is the scope of writes to the storage of the session.
const StoredScope = storedPrefix

// storedFolders are the folders of a session's durable storage.
var storedFolders = []string{"memory", "artifacts", "buffers", "meta"}

// locate determines which place a path names. Its error is a sentence for the
// model.
func (b *Box) locate(p string) (place, error) {
	if strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return place{}, fmt.Errorf("path %.80q: it has a control character in it", p)
	}
	if name, ok := strings.CutPrefix(p, storedPrefix); ok {
		return b.locateStored(name)
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		home, _ := getenv(b.o.Environ, "HOME")
		if home == "" {
			return place{}, fmt.Errorf("path %q: the home folder is not known here", p)
		}
		p = filepath.Join(home, rest)
	}
	abs := filepath.Clean(p)
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(b.o.Root, abs)
	}
	if b.hides(abs) {
		return place{}, errHidden(p)
	}
	for _, root := range []string{b.o.Root, b.realRoot} {
		if rel, ok := below(root, abs); ok {
			p := place{kind: inside, name: rel, shown: rel}
			if b.o.AskToLook {
				p.asked = locateOutside(abs).folder
			}
			return p, nil
		}
	}
	return locateOutside(abs), nil
}

// below returns the slash-separated path of abs relative to root.
func below(root, abs string) (string, bool) {
	if root == "" {
		return "", false
	}
	rel, ok := sandbox.Below(root, abs)
	if !ok {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// locateOutside follows all links first, so that the folder that is approved
// is the one that is touched.
func locateOutside(abs string) place {
	real := abs
	if r, err := filepath.EvalSymlinks(abs); err == nil {
		real = r
	} else if r, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		real = filepath.Join(r, filepath.Base(abs))
	}
	if info, err := os.Stat(real); err == nil && info.IsDir() {
		return place{kind: outside, folder: real, name: ".", shown: abs}
	}
	return place{kind: outside, folder: filepath.Dir(real), name: filepath.Base(real), shown: abs}
}

func (b *Box) locateStored(name string) (place, error) {
	shown := storedPrefix + name
	if b.o.Files == nil {
		return place{}, fmt.Errorf("%s: this session has no durable storage", shown)
	}
	if name = strings.TrimSuffix(name, "/"); name == "" {
		name = "."
	}
	top, _, _ := strings.Cut(name, "/")
	if !fs.ValidPath(name) || name != "." && !isStoredFolder(top) {
		return place{}, fmt.Errorf("%s: durable storage has the folders %s; write session:memory/NAME, for example", shown, strings.Join(storedFolders, ", "))
	}
	return place{kind: stored, name: name, shown: shown}, nil
}

func isStoredFolder(name string) bool {
	for _, f := range storedFolders {
		if f == name {
			return true
		}
	}
	return false
}

// where describes the place in a sentence.
func (p place) where() string {
	switch p.kind {
	case inside:
		return p.shown + " in the workspace"
	case outside:
		return p.shown + ", outside of the workspace"
	}
	return p.shown + " in the durable storage of the session"
}

// readScope is the scope that reading a place needs approval for.
func (p place) readScope() string {
	if p.kind == outside {
		return p.folder
	}
	return p.asked
}

// writeScope is the folder of a file to be written. Folders of the workspace
// begin with a dot, so that none is mistaken for another scope.
func (p place) writeScope() string {
	switch p.kind {
	case outside:
		return p.folder
	case stored:
		return StoredScope
	}
	if dir := path.Dir(p.name); dir != "." {
		return "./" + dir
	}
	return "."
}

// view opens a place for reading. The returned function closes it.
func (b *Box) view(ctx context.Context, p place) (fs.FS, func(), error) {
	switch p.kind {
	case inside:
		return b.without(b.workspace.ReadOnly(), b.o.Root), func() {}, nil
	case stored:
		return storedFS{ctx, b.o.Files}, func() {}, nil
	}
	w, err := durable.OpenWorkspace(p.folder)
	if err != nil {
		return nil, nil, err
	}
	return b.without(w.ReadOnly(), p.folder), func() { w.Close() }, nil
}

// replace writes a whole file.
func (b *Box) replace(ctx context.Context, p place, data []byte) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch p.kind {
	case inside:
		return b.workspace.ReplaceKeeping(p.name, data, b.keeping(ctx, b.o.Root))
	case stored:
		return storageError(b.o.Files.WriteFile(ctx, p.name, data))
	}
	w, err := durable.OpenWorkspace(p.folder)
	if err != nil {
		return err
	}
	defer w.Close()
	return w.ReplaceKeeping(p.name, data, b.keeping(ctx, p.folder))
}

// explain says what went wrong at a place, and what to do about it. A
// failure of the Box itself is an error.
func (b *Box) explain(ctx context.Context, p place, err error) (Result, error) {
	if ctx.Err() != nil {
		return failed("stopped"), ctx.Err()
	}
	if real, ok := b.leadsOut(p); ok {
		return failed(fmt.Sprintf("%s is a link that leads out of the folder, to %s; use that path, and the user will be asked", p.shown, real)), nil
	}
	why := err
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		why = pe.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, tidemark.ErrNotFound):
		return failed("there is no " + p.where()), nil
	case errors.Is(err, fs.ErrPermission):
		return failed(p.shown + ": permission denied"), nil
	}
	res := failed(valid(fmt.Sprintf("%s: %v", p.shown, why)))
	if broken := (*brokenStorage)(nil); errors.As(err, &broken) {
		// The storage itself has failed, which affects more than this call.
		return res, fmt.Errorf("%s: %w", p.shown, broken.err)
	}
	return res, nil
}

// leadsOut returns the target of a link that leaves its folder.
func (b *Box) leadsOut(p place) (string, bool) {
	root := p.folder
	switch p.kind {
	case stored:
		return "", false
	case inside:
		root = b.o.Root
		if b.realRoot != "" {
			root = b.realRoot
		}
	}
	real, err := filepath.EvalSymlinks(filepath.Join(root, filepath.FromSlash(p.name)))
	if err != nil {
		return "", false
	}
	_, ok := below(root, real)
	return real, !ok
}
