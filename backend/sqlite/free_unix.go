//go:build linux || darwin

package sqlite

import "golang.org/x/sys/unix"

// freeBytes is the free space of the file system of dir.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// canWrite reports whether a file may be written, without opening it: closing it
// would release this process's locks on it.
func canWrite(path string) bool { return unix.Access(path, unix.W_OK) == nil }
