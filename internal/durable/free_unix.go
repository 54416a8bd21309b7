//go:build linux || darwin

package durable

import "golang.org/x/sys/unix"

// FreeBytes is the free space of the file system of dir.
func FreeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
