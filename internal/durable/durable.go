// Package durable is the only package that calls fsync, rename and flock: a
// small file system under one root, and the few operations on it that survive a
// crash of the process and a power cut. It knows nothing of sessions, records or
// logs, never leaves its root, and in a store never makes a file wider than 0600
// or a directory wider than 0700.
//
//	dir, err := durable.OpenDir(path)
//	err = durable.Replace(durable.Retrying(dir), "tmp/1", "records/a.json", data)
package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// FS is what a store needs of a file system. Names are slash-separated and
// relative to one root; "." is the root itself. All methods may be called
// concurrently. The interface is small so that a test can interrupt every call.
type FS interface {
	// OpenFile opens a file with the flags of package os; one that is created
	// has mode 0600.
	OpenFile(name string, flag int) (File, error)
	// Mkdir makes a directory of mode 0700.
	Mkdir(name string) error
	// Rename replaces to by from in one step. It is durable when the directory
	// of to has been synced.
	Rename(from, to string) error
	Remove(name string) error
	// Names returns the names in a directory, in no order.
	Names(dir string) ([]string, error)
	Stat(name string) (Info, error)
	// SyncDir makes the names in a directory durable, not what they name.
	SyncDir(dir string) error
	Close() error
}

// File is an open file. Closing it releases its lock.
type File interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	// Sync makes the content and the size durable, not the name.
	Sync() error
	Stat() (Info, error)
	// TryLock takes the advisory lock of the file for this open file, and
	// reports false when another open file has it, in this process or another.
	TryLock() (bool, error)
	Unlock() error
	Close() error
}

// Info is what is known of a file without opening it.
type Info struct {
	Size    int64
	ModTime time.Time
	Mode    fs.FileMode
	ID      uint64 // the inode where there is one, else 0
}

// SyncError is a failed sync: what the disk holds is unknown, and trying again
// would not tell.
type SyncError struct {
	Name string
	Err  error
}

func (e *SyncError) Error() string { return "sync " + e.Name + ": " + e.Err.Error() }
func (e *SyncError) Unwrap() error { return e.Err }

// IsFull reports whether err says that there is no space left.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) || isFullHere(err)
}

// smallFile is more than most files of a store have.
const smallFile = 4096

// ReadFile returns the content of a file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	if data, done, err := ReadSmall(fsys, name); done {
		return data, err
	}
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Most files fit the first read, which saves a call for the size.
	buf := make([]byte, 4096)
	n := 0
	for {
		m, err := f.ReadAt(buf[n:], int64(n))
		n += m
		if err == io.EOF {
			return buf[:n], nil
		}
		if err != nil {
			return nil, err
		}
		if n == len(buf) {
			buf = append(buf, make([]byte, 3*len(buf))...)
		}
	}
}

// ReadSmall reads a file in one go where that can be done with less than opening it
// takes: a small one, on a system that it knows how to ask. It says that it did, or that
// there is none, by done.
func ReadSmall(fsys FS, name string) (data []byte, done bool, err error) {
	if d := dirOf(fsys); d != nil {
		return d.readSmall(name)
	}
	return nil, false, nil
}

// StatAll looks at many names in one directory. What is missing has no Info.
func StatAll(fsys FS, dir string, names []string, infos []Info) error {
	if d := dirOf(fsys); d != nil && len(names) > 0 {
		return d.statAll(dir, names, infos)
	}
	for i, name := range names {
		info, err := fsys.Stat(dir + "/" + name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		infos[i] = info
	}
	return nil
}

// dirOf returns the directory that is behind fsys, nil when there is none.
func dirOf(fsys FS) *Dir {
	if p, ok := fsys.(patientFS); ok {
		fsys = p.FS
	}
	d, _ := fsys.(*Dir)
	return d
}

// Create makes a new file with the given content and syncs it. Its name is not
// durable until the directory is synced. A file that could not be written
// completely is removed again.
func Create(fsys FS, name string, data []byte) error { return create(fsys, name, data, true) }

// Write is Create without a sync, for what is durable elsewhere.
func Write(fsys FS, name string, data []byte) error { return create(fsys, name, data, false) }

func create(fsys FS, name string, data []byte, sync bool) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil && sync {
		err = SyncFile(f, name)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		fsys.Remove(name)
	}
	return err
}

// Replace writes data to the new file tmp, syncs it, renames it to name and
// syncs the directory of name: after a crash, name holds the old content or the
// new, complete. When it fails, tmp is gone.
func Replace(fsys FS, tmp, name string, data []byte) error {
	if err := Create(fsys, tmp, data); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		fsys.Remove(tmp)
		return err
	}
	return SyncDir(fsys, path.Dir(name))
}

// SyncFile syncs f; its error is a *SyncError.
func SyncFile(f File, name string) error {
	if err := f.Sync(); err != nil {
		return &SyncError{name, err}
	}
	return nil
}

// SyncDir syncs a directory; its error is a *SyncError.
func SyncDir(fsys FS, dir string) error {
	if err := fsys.SyncDir(dir); err != nil {
		return &SyncError{dir, err}
	}
	return nil
}

// MkdirAll makes dir and missing parents, and makes each new name durable.
func MkdirAll(fsys FS, dir string) error {
	if dir == "." {
		return nil
	}
	err := fsys.Mkdir(dir)
	switch {
	case err == nil:
		return SyncDir(fsys, path.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := MkdirAll(fsys, path.Dir(dir)); err != nil {
		return err
	}
	if err := fsys.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(fsys, path.Dir(dir))
}
