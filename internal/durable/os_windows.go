package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

var errQuota error = windows.ERROR_DISK_QUOTA_EXCEEDED

func isFullHere(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// lockAt is the position of the locked byte: locks are mandatory here, and far
// beyond the content it keeps nobody from reading the file.
const lockAt = 1 << 30

// lockFile takes the lock of a file; without wait it reports false when
// somebody else has it. It belongs to the handle, and the system releases it
// however the process ends.
func lockFile(f *os.File, wait bool) (bool, error) {
	at := windows.Overlapped{OffsetHigh: lockAt}
	how := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK)
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

func unlockFile(f *os.File) error {
	at := windows.Overlapped{OffsetHigh: lockAt}
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &at)
}

// syncDir does nothing: a directory cannot be flushed here, and NTFS journals
// its names.
func syncDir(*os.File) error { return nil }

// The first wait and the number of tries of a rename or a remove while a scanner
// or an indexer holds the file: some two seconds in all.
const (
	firstWait = time.Millisecond
	tries     = 11
)

func (s *sub) openRead(base string) (*os.File, error) { return s.Root.Open(base) }

func renameRetrying(call func() error) (err error) {
	for i := range tries {
		err = call()
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_LOCK_VIOLATION) &&
			!errors.Is(err, syscall.ERROR_ACCESS_DENIED) {
			return err
		}
		if i < tries-1 {
			time.Sleep(firstWait << i)
		}
	}
	return err
}

func (s *sub) stat(base string) (Info, error) {
	i, err := s.Lstat(base)
	if err != nil {
		return Info{}, err
	}
	return infoOf(i), nil
}

// leadsTo is as in os_unix.go.
func (d *Dir) leadsTo(dir string, s *sub) bool { return d.bothStat(dir, s) }

// statAll is as in os_unix.go.
func (s *sub) statAll(names []string, infos []Info) error {
	for i, name := range names {
		info, err := s.stat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		infos[i] = info
	}
	return nil
}

// readAll is as in os_unix.go: here every file is opened by the system's package.
func (s *sub) readAll(string) ([]byte, bool, error) { return nil, false, nil }

// FileID is as in os_unix.go.
func FileID(fs.FileInfo) uint64 { return 0 }

// hasModes is false: access is determined by the access lists of the folder,
// which in a profile name the user, the system and administrators.
const hasModes = false

func ownedByUs(fs.FileInfo) bool { return true }
