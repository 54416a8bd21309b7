package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// The files of a workspace are the user's own and not those of a store: a new
// one has the mode that the user's umask gives an editor, so that a compiler, a
// web server or a colleague who may read the others may read it, too.
const (
	ownFileMode fs.FileMode = 0o666
	ownDirMode  fs.FileMode = 0o777
)

// maxLinks bounds the symbolic links on the way to one file, as systems do, so
// that cyclic links end in an error.
const maxLinks = 40

// ErrLeadsOut says that a name or a symbolic link leads out of a workspace.
var ErrLeadsOut = errors.New("leads out of the folder")

// Workspace is a folder of the user's own files. Names are slash-separated and
// relative to it; neither a name nor a symbolic link leads out of it. All
// methods may be called concurrently.
type Workspace struct{ root *os.Root }

// OpenWorkspace opens an existing folder.
func OpenWorkspace(dir string) (*Workspace, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Workspace{root}, nil
}

// Close releases the folder.
func (w *Workspace) Close() error { return w.root.Close() }

// ReadOnly returns the folder as a read-only file system. Links inside it are
// followed, and none leads out.
func (w *Workspace) ReadOnly() fs.FS { return w.root.FS() }

// Replace gives a file new content in one step: a reader, even after a crash,
// finds the old content or the new, complete. An existing file keeps its mode,
// and one that its owner may not write is refused; a link inside the workspace
// stays a link, and the file behind it is replaced. A new file has mode 0666 and
// missing folders 0777, both less the umask. Hard links to the old file keep the
// old content.
func (w *Workspace) Replace(name string, data []byte) error {
	return w.ReplaceKeeping(name, data, nil)
}

// Keep is called before a file is changed, with its name behind all links and
// with what stands there. Unless it returns nil, nothing is changed.
type Keep func(name string, look func(most int64) (FileState, error), to FileState) error

// ReplaceKeeping is Replace that calls keep first; keep may be nil. A file that
// somebody else changes after keep looked at it is ErrChanged.
func (w *Workspace) ReplaceKeeping(name string, data []byte, keep Keep) error {
	real, err := w.resolve(name)
	if err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	mode, there, err := w.writable(real)
	if err != nil {
		return err
	}
	var was FileState
	to := FileState{Kind: Regular, Mode: mode, Size: int64(len(data)), Data: data}
	if keep != nil {
		look := func(most int64) (FileState, error) {
			was, err = w.State(real, most)
			return was, err
		}
		if err := keep(real, look, to); err != nil {
			return err
		}
	}
	still := func() error { return nil }
	if keep != nil {
		still = func() error { return w.still(real, was) }
	}
	return w.swap(real, !there, still, func(tmp string) error { return w.create(tmp, data, mode, there) })
}

// writable returns the mode of an existing file, and refuses what a write in
// place would refuse, too: a rename only needs rights on the folder.
func (w *Workspace) writable(name string) (mode fs.FileMode, there bool, err error) {
	info, err := w.root.Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case !info.Mode().IsRegular():
		return 0, false, &fs.PathError{Op: "write", Path: name, Err: errors.New("not a regular file")}
	}
	f, err := w.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY, 0)
	if err != nil {
		return 0, false, err
	}
	return info.Mode().Perm(), true, f.Close()
}

// create writes and syncs a new file. Until it has the content, and the mode of
// the file it replaces, nobody else may open it.
func (w *Workspace) create(tmp string, data []byte, mode fs.FileMode, there bool) error {
	first := ownFileMode
	if there {
		first = mode & 0o600
	}
	f, err := w.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, first)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && there {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = syncData(f)
	}
	return errors.Join(err, f.Close())
}

// syncDir makes a name durable if the folder is readable; one that can only be
// written and traversed cannot be synced.
func (w *Workspace) syncDir(dir string) error {
	f, err := w.root.Open(filepath.FromSlash(dir))
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return syncDir(f)
}

// resolve returns the name behind all links of a name. A missing one is returned
// as it is. The root guards against a link that is put in the way afterwards;
// this only finds the file that a rename has to replace.
func (w *Workspace) resolve(name string) (string, error) {
	if !fs.ValidPath(name) || name == "." {
		return "", fmt.Errorf("%w, or is not the name of a file", ErrLeadsOut)
	}
	done, rest := "", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if done == "" {
				return "", ErrLeadsOut
			}
			done = strings.TrimPrefix(path.Dir("/"+done), "/")
			continue
		}
		next := path.Join(done, part)
		info, err := w.root.Lstat(filepath.FromSlash(next))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", errors.New("too many links")
		}
		target, err := w.root.Readlink(filepath.FromSlash(next))
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) || filepath.VolumeName(target) != "" {
			return "", fmt.Errorf("a link to %q %w", target, ErrLeadsOut)
		}
		rest = append(strings.Split(filepath.ToSlash(target), "/"), rest...)
	}
	if done == "" {
		return "", errors.New("a link to the folder itself")
	}
	return done, nil
}
