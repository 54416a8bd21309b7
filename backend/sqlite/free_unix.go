//go:build linux || darwin

package sqlite

import "golang.org/x/sys/unix"

// freeBytes is how much still fits where dir is.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// canWrite asks whether a file may be written, without opening it: closing it
// again would give up this process's locks on it.
func canWrite(path string) bool { return unix.Access(path, unix.W_OK) == nil }
