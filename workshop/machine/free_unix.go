//go:build unix

package machine

import "syscall"

// Free returns the free space, in bytes, of the file system that dir lies on.
func Free(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
