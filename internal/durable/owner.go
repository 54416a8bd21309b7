package durable

import (
	"fmt"
	"io/fs"
	"os"
)

// Ours returns nil for a folder that nobody but this user can change: we put
// there what is in it. A link does not qualify.
func Ours(dir string) error {
	i, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	return ours(dir, i, fs.ModeDir, 0o022)
}

// OursAlone returns nil for a file that nobody but this user can read or change.
// A link does not qualify.
func OursAlone(name string) error {
	i, err := os.Lstat(name)
	if err != nil {
		return err
	}
	return ours(name, i, 0, 0o077)
}

// OwnedByUs reports whether what i describes belongs to this user.
func OwnedByUs(i fs.FileInfo) bool { return ownedByUs(i) }

func ours(name string, i fs.FileInfo, want, wide fs.FileMode) error {
	switch {
	case i.Mode().Type() != want:
		return fmt.Errorf("%s is a link, or of another type", name)
	case !ownedByUs(i):
		return fmt.Errorf("%s belongs to another user", name)
	case hasModes && i.Mode().Perm()&wide != 0:
		return fmt.Errorf("%s has mode %#o, which lets others in", name, i.Mode().Perm())
	}
	return nil
}
