package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData asks the drive to empty its cache, which fsync does not do here.
func syncData(f *os.File) error {
	return withFd(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
		return err
	})
}
