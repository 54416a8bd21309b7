package tool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Files is the durable storage of a session: whole files in the folders
// memory/, artifacts/, buffers/ and meta/. Names are slash-separated and
// valid for io/fs. A missing file is ErrNotFound of the root package or
// fs.ErrNotExist. When WriteFile returns nil, the file is durable.
type Files interface {
	ReadFile(ctx context.Context, name string) ([]byte, error)
	WriteFile(ctx context.Context, name string, data []byte) error
	// List returns the names that begin with prefix, in any order.
	List(ctx context.Context, prefix string) ([]string, error)
}

// Keeper is what Files are that also keep what files of the workspace were before
// a tool changes them.
type Keeper interface {
	// Keep is called before the file name below the folder root is changed, with
	// a look at what stands there and with what will stand there. When it returns
	// nil, the old file can be put back whatever happens next; otherwise the file
	// is not changed.
	Keep(ctx context.Context, root, name string, look func(most int64) (durable.FileState, error), to durable.FileState) error
}

// keeping returns what is called before a file below a folder is changed, nil
// when nothing is kept.
func (b *Box) keeping(ctx context.Context, root string) durable.Keep {
	k, ok := b.o.Files.(Keeper)
	if !ok {
		return nil
	}
	return func(name string, look func(int64) (durable.FileState, error), to durable.FileState) error {
		var ofFile error // and not of the storage
		err := k.Keep(ctx, root, name, func(most int64) (s durable.FileState, err error) {
			s, err = look(most)
			ofFile = err
			return s, err
		}, to)
		if ofFile != nil {
			return ofFile
		}
		return storageError(err)
	}
}

// storedFS shows Files as a file system, so that the tools that read the
// workspace can read the storage as well. Folders follow from the names; the
// four are always there.
type storedFS struct {
	ctx   context.Context // of the call that reads
	files Files
}

func (s storedFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	entries, err := s.entries(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if name == "." || isStoredFolder(name) || len(entries) > 0 {
		return &storedDir{storedInfo{name: path.Base(name), dir: true}, entries}, nil
	}
	data, err := s.read(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &storedFile{storedInfo{name: path.Base(name), size: int64(len(data))}, bytes.NewReader(data)}, nil
}

func (s storedFS) read(name string) ([]byte, error) {
	data, err := s.files.ReadFile(s.ctx, name)
	return data, storageError(err)
}

// brokenStorage is a failure of the storage that the call did not cause.
type brokenStorage struct{ err error }

func (e *brokenStorage) Error() string { return e.err.Error() }
func (e *brokenStorage) Unwrap() error { return e.err }

// storageError classifies the errors of Files.
func storageError(err error) error {
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, tidemark.ErrInvalid):
		return err
	case errors.Is(err, tidemark.ErrNotFound):
		return fs.ErrNotExist
	}
	return &brokenStorage{err}
}

// entries returns the content of a folder, sorted; nothing if it is no folder.
func (s storedFS) entries(dir string) ([]fs.DirEntry, error) {
	prefix := ""
	if dir != "." {
		prefix = dir + "/"
	}
	names, err := s.files.List(s.ctx, prefix)
	if err != nil {
		return nil, storageError(err)
	}
	found := make(map[string]storedEntry)
	if dir == "." {
		for _, f := range storedFolders {
			found[f] = storedEntry{storedInfo{name: f, dir: true}, s, f}
		}
	}
	for _, n := range names {
		rest, ok := strings.CutPrefix(n, prefix)
		if !ok || !fs.ValidPath(n) || rest == "" {
			continue
		}
		first, _, deeper := strings.Cut(rest, "/")
		if e, ok := found[first]; !ok || !e.dir {
			found[first] = storedEntry{storedInfo{name: first, dir: deeper}, s, prefix + first}
		}
	}
	entries := make([]fs.DirEntry, 0, len(found))
	for _, e := range found {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// storedInfo describes a stored file.
type storedInfo struct {
	name string
	size int64
	dir  bool
}

func (i storedInfo) Name() string       { return i.name }
func (i storedInfo) Size() int64        { return i.size }
func (i storedInfo) IsDir() bool        { return i.dir }
func (i storedInfo) ModTime() time.Time { return time.Time{} }
func (i storedInfo) Sys() any           { return nil }
func (i storedInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// storedEntry is a name in a folder. Its size is determined only on demand,
// because that takes a read.
type storedEntry struct {
	storedInfo
	fsys storedFS
	full string
}

func (e storedEntry) Type() fs.FileMode { return e.Mode().Type() }
func (e storedEntry) Info() (fs.FileInfo, error) {
	if e.dir {
		return e.storedInfo, nil
	}
	data, err := e.fsys.read(e.full)
	if err != nil {
		return nil, err
	}
	return storedInfo{name: e.name, size: int64(len(data))}, nil
}

type storedFile struct {
	info storedInfo
	*bytes.Reader
}

func (f *storedFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *storedFile) Close() error               { return nil }

type storedDir struct {
	info storedInfo
	rest []fs.DirEntry
}

func (d *storedDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *storedDir) Close() error               { return nil }
func (d *storedDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: errors.New("is a folder")}
}

func (d *storedDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.rest) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.rest) {
		n = len(d.rest)
	}
	head := d.rest[:n]
	d.rest = d.rest[n:]
	return head, nil
}
