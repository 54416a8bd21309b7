package durable

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
)

// Dir is the FS of a directory on disk. Everything goes through os.Root: no
// name and no symbolic link leads out of it.
type Dir struct {
	root *os.Root
	mu   sync.RWMutex
	subs map[string]*sub // a handle on each directory in use saves resolving its path
}

// sub is a directory in use.
type sub struct {
	*os.Root
	dir *os.File // the same directory, to look up names in it
}

func openSub(root *os.Root) (*sub, error) {
	dir, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &sub{root, dir}, nil
}

func (s *sub) close() {
	s.dir.Close()
	s.Root.Close()
}

// OpenDir opens an existing directory.
func OpenDir(dir string) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	top, err := openSub(root)
	if err != nil {
		return nil, err
	}
	return &Dir{root: root, subs: map[string]*sub{".": top}}, nil
}

// MakeDir makes a directory of mode 0700 with missing parents, each with a
// durable name, or makes an existing one private.
func MakeDir(dir string) error {
	dir = filepath.Clean(dir)
	if err := makeMissing(dir); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

func makeMissing(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeMissing(filepath.Dir(dir)); err != nil {
			return err
		}
		if err = os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
			return nil // another process made it meanwhile
		}
	}
	if err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(dir))
	if errors.Is(err, fs.ErrPermission) {
		return nil // a directory that can be traversed but not read cannot be synced
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return syncDir(parent)
}

// ReadOnly returns the directory as a read-only file system. No link leads out
// of it, and nothing but files and directories is opened: a pipe would be waited
// for, and a device may have no end.
func (d *Dir) ReadOnly() fs.FS { return plainFS{d.root} }

// Close releases the directory. Open files stay open.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.subs {
		s.close()
	}
	d.subs = nil
	return nil
}

// sub returns a handle on the directory of name and the name inside it.
func (d *Dir) sub(name string) (*sub, string, error) {
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	d.mu.RLock()
	s := d.subs[dir]
	d.mu.RUnlock()
	if s != nil {
		return s, base, nil
	}
	root, err := d.root.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return nil, "", err
	}
	if s, err = openSub(root); err != nil {
		return nil, "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.subs == nil {
		s.close()
		return nil, "", fs.ErrClosed
	}
	if other := d.subs[dir]; other != nil {
		s.close()
		return other, base, nil
	}
	d.subs[dir] = s
	return s, base, nil
}

// in runs call inside the directory of name. A directory that was removed and
// made again while it was in use is looked up again, so that "not found" is only
// believed of the current tree.
func (d *Dir) in(name string, call func(s *sub, base string) error) error {
	s, base, err := d.sub(name)
	if err != nil {
		return err
	}
	if err = call(s, base); !errors.Is(err, fs.ErrNotExist) || s.Root == d.root {
		return err
	}
	dir := path.Dir(name)
	if d.leadsTo(dir, s) {
		return err
	}
	d.mu.Lock()
	if d.subs[dir] == s {
		delete(d.subs, dir) // not closed: another goroutine may be using it
	}
	d.mu.Unlock()
	if s, base, err = d.sub(name); err != nil {
		return err
	}
	return call(s, base)
}

// bothStat says whether dir still leads to s, by looking at both.
func (d *Dir) bothStat(dir string, s *sub) bool {
	held, err := s.dir.Stat()
	if err != nil {
		return false
	}
	now, err := d.root.Stat(filepath.FromSlash(dir))
	return err == nil && os.SameFile(held, now)
}

func (d *Dir) OpenFile(name string, flag int) (File, error) {
	var f *os.File
	err := d.in(name, func(s *sub, base string) (err error) {
		if flag == os.O_RDONLY {
			f, err = s.openRead(base)
		} else {
			f, err = s.OpenFile(base, flag, 0o600)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &file{f}, nil
}

// readSmall reads a file at once where it is small; done says that it did, or that
// there is none.
func (d *Dir) readSmall(name string) (data []byte, done bool, err error) {
	err = d.in(name, func(s *sub, base string) (err error) {
		data, done, err = s.readAll(base)
		return err
	})
	return data, done || errors.Is(err, fs.ErrNotExist), err
}

func (d *Dir) statAll(dir string, names []string, infos []Info) error {
	err := d.in(path.Join(dir, names[0]), func(s *sub, _ string) error {
		if err := s.statAll(names, infos); err != nil {
			return err
		}
		for i := range infos {
			if infos[i] != (Info{}) {
				return nil
			}
		}
		return fs.ErrNotExist // all of them: perhaps the directory is another one by now
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *Dir) Mkdir(name string) error {
	return d.in(name, func(s *sub, base string) error { return s.Mkdir(base, 0o700) })
}

func (d *Dir) Rename(from, to string) error {
	return renameRetrying(func() error {
		return d.root.Rename(filepath.FromSlash(from), filepath.FromSlash(to))
	})
}

func (d *Dir) Remove(name string) error {
	return renameRetrying(func() error {
		return d.in(name, func(s *sub, base string) error { return s.Remove(base) })
	})
}

func (d *Dir) Names(dir string) ([]string, error) {
	f, err := d.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d *Dir) Stat(name string) (info Info, err error) {
	err = d.in(name, func(s *sub, base string) (err error) {
		info, err = s.stat(base)
		return err
	})
	return info, err
}

func (d *Dir) SyncDir(dir string) error {
	f, err := d.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return err
	}
	defer f.Close()
	return syncDir(f)
}

func infoOf(i fs.FileInfo) Info {
	return Info{Size: i.Size(), ModTime: i.ModTime(), Mode: i.Mode(), ID: FileID(i)}
}

type file struct{ *os.File }

func (f *file) Stat() (Info, error) {
	i, err := f.File.Stat()
	if err != nil {
		return Info{}, err
	}
	return infoOf(i), nil
}

func (f *file) Sync() error { return syncData(f.File) }

func (f *file) TryLock() (bool, error) { return lockFile(f.File, false) }

func (f *file) Unlock() error { return unlockFile(f.File) }
