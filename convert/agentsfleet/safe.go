package agentsfleet

import (
	"io/fs"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// checkName returns ErrInvalid for a path in a session file that is more than a
// file name: it is used as the last part of a path, here and by agents-fleet, on
// every system.
func checkName(name string) error {
	switch {
	case name == "" || name == ".":
		return tidemark.Invalidf("path %.80q: names no file", name)
	case strings.HasPrefix(name, "/") || strings.HasPrefix(name, `\`) || len(name) > 1 && name[1] == ':':
		return tidemark.Invalidf("path %.80q: is absolute", name)
	case strings.Contains(name, ".."):
		return tidemark.Invalidf("path %.80q: holds \"..\"", name)
	case strings.ContainsAny(name, `/\:`):
		return tidemark.Invalidf("path %.80q: holds a separator", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return tidemark.Invalidf("path %.80q: holds a control character", name)
	case len(name) > 255:
		return tidemark.Invalidf("path %.80q: is longer than the name of a file", name)
	}
	return nil
}

// checkFile returns an error unless name is a regular file in dir: a link inside
// dir could lead out of it just as dots could.
func checkFile(fsys fs.FS, dir, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if info, err := fs.Lstat(fsys, dir); err != nil {
		return err
	} else if !info.IsDir() {
		return tidemark.Invalidf("%s: is no folder", dir)
	}
	info, err := fs.Lstat(fsys, path.Join(dir, name))
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return tidemark.Invalidf("path %.80q: is a link, which may escape its folder", name)
	case !info.Mode().IsRegular():
		return tidemark.Invalidf("path %.80q: is no file", name)
	}
	return nil
}
