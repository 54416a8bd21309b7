package durable

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The turn is a lock of the first byte. On a local disk it has nothing to do with the
// lock of the file as a whole, and it belongs to the open file as that does.
func turn(kind int16) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Whence: io.SeekStart, Len: 1}
}

// turnTaken reports whether another open file has the turn.
func turnTaken(f *os.File) bool {
	t := turn(unix.F_WRLCK)
	err := withFd(f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, t) })
	return err == nil && t.Type != unix.F_UNLCK
}

// takeTurn reports false when somebody else has it, or the system knows no such locks.
func takeTurn(f *os.File) bool {
	return withFd(f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, turn(unix.F_WRLCK)) }) == nil
}

func leaveTurn(f *os.File) {
	withFd(f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, turn(unix.F_UNLCK)) })
}
