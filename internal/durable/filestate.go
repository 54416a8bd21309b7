package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// FileKind is what stands at a name in a workspace.
type FileKind string

const (
	Absent  FileKind = "absent"
	Regular FileKind = "file"
	Link    FileKind = "link"  // a symbolic one
	Other   FileKind = "other" // a folder, a pipe, a device: nothing that is replaced
)

// FileState is what stands at a name in a workspace at one instant.
type FileState struct {
	Kind FileKind
	Mode fs.FileMode // of a file: its permission bits; 0 for one to be made with the user's own
	Size int64       // of a file
	Data []byte      // of a file: its content, unless Unread says otherwise
	// Unread says why the content of a file was not read; "" if it was.
	Unread string
	Target string // of a link
	// Folder is, where nothing stands, the deepest folder on the way that exists,
	// "." for the workspace itself.
	Folder string

	seen fs.FileInfo
}

// ErrChanged says that somebody changed a file between a look at it and its
// replacement. Nothing was replaced then.
var ErrChanged = errors.New("it was changed in the meantime")

// State looks at what stands at a name, without following a link that stands
// there. A file with more than most bytes, and one that may not be read, is
// returned without its content. It never waits: a pipe is not opened.
func (w *Workspace) State(name string, most int64) (FileState, error) {
	info, err := w.root.Lstat(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return FileState{Kind: Absent, Folder: w.existing(path.Dir(name))}, nil
	}
	if err != nil {
		return FileState{}, err
	}
	s := FileState{Kind: Other, seen: info}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		s.Kind = Link
		s.Target, err = w.root.Readlink(filepath.FromSlash(name))
		return s, err
	case !info.Mode().IsRegular():
		return s, nil
	}
	s.Kind, s.Mode, s.Size = Regular, info.Mode().Perm(), info.Size()
	return s, w.content(name, most, &s)
}

// content reads the content of a file into s.
func (w *Workspace) content(name string, most int64, s *FileState) error {
	tooLarge := func() error {
		s.Unread = fmt.Sprintf("it has %d bytes, and at most %d are kept", s.Size, most)
		return nil
	}
	if s.Size > most {
		return tooLarge()
	}
	f, err := w.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		s.Unread = "it may not be read"
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	if !opened.Mode().IsRegular() || !os.SameFile(opened, s.seen) {
		return &fs.PathError{Op: "read", Path: name, Err: ErrChanged}
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return err
	}
	if s.Size = int64(len(data)); s.Size > most { // it grows
		return tooLarge()
	}
	s.Data = data
	return nil
}

// existing returns the deepest folder on the way to dir that exists.
func (w *Workspace) existing(dir string) string {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, err := w.root.Lstat(filepath.FromSlash(dir)); err == nil {
			return dir
		}
	}
	return dir
}

// still returns ErrChanged unless what State saw at a name stands there still.
func (w *Workspace) still(name string, was FileState) error {
	info, err := w.root.Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && was.Kind == Absent:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil || was.seen == nil || !os.SameFile(info, was.seen) || info.Size() != was.seen.Size() || !info.ModTime().Equal(was.seen.ModTime()):
		return &fs.PathError{Op: "write", Path: name, Err: ErrChanged}
	}
	return nil
}

// Put replaces what State saw at a name by another state, in one step: a
// reader, even after a crash, finds the one or the other, complete. ErrChanged:
// something else stands there by now. ErrLeadsOut: a folder on the way is a link,
// or the new state is a link that leads out of the workspace. What is no file and
// no link is never replaced. Where nothing stands afterwards, folders are removed,
// too, if they are empty and were not there before the file was made (to.Folder).
func (w *Workspace) Put(name string, was, to FileState) error {
	if err := w.Direct(name); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	if was.Kind == Other {
		return &fs.PathError{Op: "write", Path: name, Err: errors.New("not a regular file")}
	}
	still := func() error { return w.still(name, was) }
	switch to.Kind {
	case Absent:
		return w.remove(name, was, to.Folder)
	case Link:
		if err := LinkInside(name, to.Target); err != nil {
			return &fs.PathError{Op: "link", Path: name, Err: err}
		}
		return w.swap(name, was.Kind == Absent, still, func(tmp string) error { return w.root.Symlink(to.Target, tmp) })
	case Regular:
		if to.Unread != "" {
			return &fs.PathError{Op: "write", Path: name, Err: errors.New(to.Unread)}
		}
		return w.swap(name, was.Kind == Absent, still, func(tmp string) error { return w.create(tmp, to.Data, to.Mode, to.Mode != 0) })
	}
	return &fs.PathError{Op: "write", Path: name, Err: errors.New("not a regular file")}
}

// LinkInside returns ErrLeadsOut for a link at a name of a workspace that leads out
// of it.
func LinkInside(name, target string) error {
	if filepath.IsAbs(target) || filepath.VolumeName(target) != "" || !fs.ValidPath(path.Join(path.Dir(name), filepath.ToSlash(target))) {
		return fmt.Errorf("a link to %q %w", target, ErrLeadsOut)
	}
	return nil
}

// swap makes something beside a name and renames it there, unless the last look
// at what it replaces, still, returns an error. Folders are made for what is new.
// What a Sweep took away before the rename is made again.
func (w *Workspace) swap(name string, new bool, still func() error, make func(tmp string) error) error {
	dir := path.Dir(name)
	if new {
		if err := w.root.MkdirAll(filepath.FromSlash(dir), ownDirMode); err != nil {
			return err
		}
	}
	var err error
	for range swapTries {
		tmp := filepath.FromSlash(path.Join(dir, temporaryPrefix+rand.Text()))
		if err = make(tmp); err == nil {
			err = still()
		}
		if err == nil {
			err = renameRetrying(func() error { return w.root.Rename(tmp, filepath.FromSlash(name)) })
			if err == nil {
				return w.syncDir(dir)
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		w.root.Remove(tmp)
		return err
	}
	return err
}

// remove removes a file, and the folders above it that were made for it.
func (w *Workspace) remove(name string, was FileState, folder string) error {
	if was.Kind == Absent {
		return nil
	}
	if err := w.still(name, was); err != nil {
		return err
	}
	if err := w.root.Remove(filepath.FromSlash(name)); err != nil {
		return err
	}
	dir := path.Dir(name)
	for folder != "" && dir != folder && dir != "." && w.root.Remove(filepath.FromSlash(dir)) == nil {
		dir = path.Dir(dir)
	}
	return w.syncDir(dir)
}

// Direct returns an error unless a name leads to its file without any link on
// the way: what is put back belongs where it was, and not behind a link that
// somebody made since.
func (w *Workspace) Direct(name string) error {
	if !fs.ValidPath(name) || name == "." {
		return fmt.Errorf("%w, or is not the name of a file", ErrLeadsOut)
	}
	done := ""
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		done = path.Join(done, part)
		info, err := w.root.Lstat(filepath.FromSlash(done))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link by now, which may lead elsewhere: %w", done, ErrLeadsOut)
		}
	}
	return nil
}
