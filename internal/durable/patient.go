package durable

import (
	"errors"
	"io"
	"syscall"
)

// maxInterrupts bounds how often one call is retried after EINTR, so that a file
// system that always returns it causes an error and not a loop.
const maxInterrupts = 100

// Retrying returns fsys with interrupted calls retried and short writes
// continued, so that callers see neither.
func Retrying(fsys FS) FS { return patientFS{fsys} }

type patientFS struct{ FS }

func again(call func() error) (err error) {
	for range maxInterrupts {
		if err = call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
	return err
}

func (p patientFS) OpenFile(name string, flag int) (f File, err error) {
	err = again(func() error { f, err = p.FS.OpenFile(name, flag); return err })
	if err != nil {
		return nil, err
	}
	return patientFile{f}, nil
}

func (p patientFS) Mkdir(name string) error { return again(func() error { return p.FS.Mkdir(name) }) }

func (p patientFS) Rename(from, to string) error {
	return again(func() error { return p.FS.Rename(from, to) })
}

func (p patientFS) Remove(name string) error { return again(func() error { return p.FS.Remove(name) }) }

func (p patientFS) Names(dir string) (names []string, err error) {
	err = again(func() error { names, err = p.FS.Names(dir); return err })
	return names, err
}

func (p patientFS) Stat(name string) (info Info, err error) {
	err = again(func() error { info, err = p.FS.Stat(name); return err })
	return info, err
}

func (p patientFS) SyncDir(dir string) error {
	return again(func() error { return p.FS.SyncDir(dir) })
}

type patientFile struct{ File }

func (p patientFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = again(func() error { n, err = p.File.ReadAt(b, off); return err })
	return n, err
}

func (p patientFile) WriteAt(b []byte, off int64) (n int, err error) {
	for tries := 0; n < len(b); tries++ {
		m, err := p.File.WriteAt(b[n:], off+int64(n))
		n += m
		switch {
		case err == nil && m == 0, tries == maxInterrupts && m == 0:
			return n, io.ErrShortWrite
		case err != nil && !errors.Is(err, syscall.EINTR) && !errors.Is(err, io.ErrShortWrite):
			return n, err
		}
	}
	return n, nil
}

func (p patientFile) Truncate(size int64) error {
	return again(func() error { return p.File.Truncate(size) })
}

// Sync may be repeated after EINTR, which says that the call did not run, but
// after no other error.
func (p patientFile) Sync() error { return again(p.File.Sync) }

func (p patientFile) Stat() (info Info, err error) {
	err = again(func() error { info, err = p.File.Stat(); return err })
	return info, err
}

func (p patientFile) TryLock() (ok bool, err error) {
	err = again(func() error { ok, err = p.File.TryLock(); return err })
	return ok, err
}
