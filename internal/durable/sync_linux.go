package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData does not sync metadata that readers do not need (times), which saves
// a journal commit when the size stays the same.
func syncData(f *os.File) error {
	return doFd(f, func(fd, _ int) error { return unix.Fdatasync(fd) }, 0)
}
