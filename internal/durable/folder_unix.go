//go:build linux || darwin

package durable

import (
	"errors"

	"golang.org/x/sys/unix"
)

// tellsFolders reports whether the file system says at once when names in a directory
// change.
func (d *Dir) tellsFolders() bool {
	d.mu.RLock()
	top := d.subs["."]
	d.mu.RUnlock()
	return top != nil && withFd(top.dir, func(fd int) error {
		var st unix.Statfs_t
		if err := unix.Fstatfs(fd, &st); err != nil {
			return err
		}
		if !timesFolders(&st) {
			return unix.ENOTSUP
		}
		return nil
	}) == nil
}

func (d *Dir) folder(dir string) (f Folder, err error) {
	err = d.in(dir, func(s *sub, base string) error {
		return withFd(s.dir, func(fd int) error {
			var st unix.Stat_t
			err := unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
			if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
				err = unix.ENOTDIR
			}
			if err == nil {
				f = Folder{uint64(st.Ino), unix.TimespecToNsec(st.Ctim)}
			}
			return err
		})
	})
	if errors.Is(err, unix.ENOENT) {
		return Folder{}, nil
	}
	return f, err
}
