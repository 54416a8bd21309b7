//go:build unix

package durable

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var errQuota error = syscall.EDQUOT

func isFullHere(error) bool { return false }

func withFd(f *os.File, call func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var cerr error
	if err := c.Control(func(fd uintptr) { cerr = call(int(fd)) }); err != nil {
		return err
	}
	return cerr
}

// fdOp is a call with a file descriptor and one argument. They are used again: an append
// in a store of files makes eight, and each would be several pieces of memory.
type fdOp struct {
	op  func(fd, arg int) error
	arg int
	err error
	run func(fd uintptr)
}

var fdOps = sync.Pool{New: func() any {
	o := new(fdOp)
	o.run = func(fd uintptr) { o.err = o.op(int(fd), o.arg) }
	return o
}}

// doFd is withFd for a function that has no surroundings.
func doFd(f *os.File, op func(fd, arg int) error, arg int) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	o := fdOps.Get().(*fdOp)
	o.op, o.arg, o.err = op, arg, nil
	if err = c.Control(o.run); err == nil {
		err = o.err
	}
	fdOps.Put(o)
	return err
}

// statOp is fdOp for what stat asks.
type statOp struct {
	base string
	info Info
	err  error
	run  func(fd uintptr)
}

var statOps = sync.Pool{New: func() any {
	o := new(statOp)
	o.run = func(fd uintptr) { o.info, o.err = statAt(int(fd), o.base) }
	return o
}}

// lockFile takes the flock of a file; without wait it reports false when
// somebody else has it. It belongs to the open file, so it also excludes a
// second handle in the same process, and the kernel releases it however the
// process ends.
func lockFile(f *os.File, wait bool) (bool, error) {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err := doFd(f, unix.Flock, how)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return err == nil, err
		}
	}
}

func unlockFile(f *os.File) error {
	return doFd(f, unix.Flock, unix.LOCK_UN)
}

// syncDir accepts file systems that report that they cannot sync a directory.
func syncDir(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

func renameRetrying(call func() error) error { return call() }

// stat examines one name in the directory. It follows no link, so it stays
// inside.
func (s *sub) stat(base string) (info Info, err error) {
	c, err := s.dir.SyscallConn()
	if err != nil {
		return info, err
	}
	o := statOps.Get().(*statOp)
	o.base = base
	if err = c.Control(o.run); err == nil {
		info, err = o.info, o.err
	}
	*o = statOp{run: o.run}
	statOps.Put(o)
	if err != nil {
		return info, &fs.PathError{Op: "stat", Path: base, Err: err}
	}
	return info, nil
}

// statAll examines many names in the directory; a missing one has no Info.
func (s *sub) statAll(names []string, infos []Info) error {
	return withFd(s.dir, func(fd int) error {
		for i, base := range names {
			info, err := statAt(fd, base)
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return &fs.PathError{Op: "stat", Path: base, Err: err}
			}
			infos[i] = info
		}
		return nil
	})
}

func statAt(fd int, base string) (info Info, err error) {
	var st unix.Stat_t
	for {
		if err = unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return info, err
	}
	info = Info{Size: st.Size, ModTime: time.Unix(st.Mtim.Unix()), Mode: fs.FileMode(st.Mode & 0o777), ID: st.Ino}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		info.Mode |= fs.ModeDir
	default:
		info.Mode |= fs.ModeIrregular
	}
	return info, nil
}

// leadsTo reports whether dir is still the directory that s holds open. A link on the
// way may lead anywhere: nothing is read there but the number of the directory.
func (d *Dir) leadsTo(dir string, s *sub) bool {
	d.mu.RLock()
	top := d.subs["."]
	d.mu.RUnlock()
	if top == nil {
		return false
	}
	var held, now unix.Stat_t
	err := withFd(s.dir, func(fd int) error { return unix.Fstat(fd, &held) })
	if err == nil {
		err = withFd(top.dir, func(fd int) error { return unix.Fstatat(fd, dir, &now, 0) })
	}
	if err != nil {
		return d.bothStat(dir, s)
	}
	return held.Dev == now.Dev && held.Ino == now.Ino
}

// readAll returns the content of a small file in the directory, with three calls of
// the system. Anything else than a file that is there and holds less than a page is
// left to who opens files: done is false.
func (s *sub) readAll(base string) (data []byte, done bool, err error) {
	var buf [smallFile]byte
	n := 0
	err = withFd(s.dir, func(dir int) error {
		fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		n, err = unix.Read(fd, buf[:])
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, true, &fs.PathError{Op: "open", Path: base, Err: err}
	}
	if err != nil || n == 0 || n == len(buf) {
		return nil, false, nil
	}
	return append(make([]byte, 0, n), buf[:n]...), true, nil
}

// openRead opens a file in the directory for reading, with two calls of the system
// where package os makes six to find out that a file need not be waited for. A link is
// left to os.Root, which knows whether it leads out of it.
func (s *sub) openRead(base string) (*os.File, error) {
	fd := 0
	err := withFd(s.dir, func(dir int) (err error) {
		for {
			fd, err = unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), base), nil
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES):
		return nil, &fs.PathError{Op: "open", Path: base, Err: err}
	}
	return s.Root.Open(base)
}

// FileID is the number by which the file system tells a file from others of the
// same name; 0: it does not say.
func FileID(i fs.FileInfo) uint64 {
	if s, ok := i.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino)
	}
	return 0
}

// hasModes says that the mode of a file determines who may read and change it.
const hasModes = true

func ownedByUs(i fs.FileInfo) bool {
	s, ok := i.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
