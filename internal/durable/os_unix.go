//go:build unix

package durable

import (
	"errors"
	"io/fs"
	"os"
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
		err := withFd(f, func(fd int) error { return unix.Flock(fd, how) })
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
	return withFd(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) })
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
	var st unix.Stat_t
	for {
		err = withFd(s.dir, func(fd int) error { return unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW) })
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return info, &fs.PathError{Op: "stat", Path: base, Err: err}
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
