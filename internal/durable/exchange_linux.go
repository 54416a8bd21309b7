package durable

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

func (d *Dir) exchange(a, b string) (exchanged bool, err error) {
	err = d.in(a, func(s *sub, from string) error {
		return d.in(b, func(t *sub, to string) error {
			return withFd(s.dir, func(fromDir int) error {
				return withFd(t.dir, func(toDir int) error {
					return unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_EXCHANGE)
				})
			})
		})
	})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.EPERM):
		return false, nil
	}
	return false, &fs.PathError{Op: "rename", Path: b, Err: err}
}
