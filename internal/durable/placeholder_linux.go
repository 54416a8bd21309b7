package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Placeholder is an empty folder at a free name, so that something can be
// mounted over it. Several processes may hold one; the last to close it removes
// it. After a crash it stays, and the next process that holds it removes it.
type Placeholder struct {
	path string
	fd   int
}

// placeholderMode distinguishes a placeholder from a folder that somebody made.
const placeholderMode = 0o500

// HoldPlaceholder makes a placeholder or shares the existing one. It returns nil
// when something else has the name.
func HoldPlaceholder(path string) (*Placeholder, error) {
	for {
		if err := os.Mkdir(path, placeholderMode); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		switch {
		case errors.Is(err, unix.ENOENT):
			continue // its last holder removed it
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EACCES):
			return nil, nil
		case err != nil:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		if err := unix.Flock(fd, unix.LOCK_SH); err != nil {
			unix.Close(fd)
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		var held, there unix.Stat_t
		if unix.Fstat(fd, &held) != nil || unix.Lstat(path, &there) != nil || held.Ino != there.Ino || held.Dev != there.Dev {
			unix.Close(fd)
			continue
		}
		if held.Mode&0o7777 != placeholderMode {
			unix.Close(fd)
			return nil, nil
		}
		return &Placeholder{path, fd}, nil
	}
}

// Close releases the placeholder. It is removed when nobody else holds it and it
// is empty.
func (p *Placeholder) Close() {
	if unix.Flock(p.fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
		unix.Rmdir(p.path)
	}
	unix.Close(p.fd)
}
