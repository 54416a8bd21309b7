package convert

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// IsFile reports whether there is a regular file, also behind a link inside the
// Source. A pipe does not count: reading it would block.
func IsFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

// IsDir reports whether there is a folder.
func IsDir(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.IsDir()
}

// Head returns the first bytes of a file, at most n. If they are all white space
// it is ErrInvalid.
func Head(fsys fs.FS, name string, n int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, n))
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, tidemark.Invalidf("is empty")
	}
	return b, nil
}

// Folder returns the first of the folders below dir that exists, or dir. An
// inaccessible one counts as existing: reading it reports why.
func Folder(fsys fs.FS, dir string, below ...string) string {
	for _, b := range below {
		name := path.Join(dir, b)
		info, err := fs.Stat(fsys, name)
		if err == nil && info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return name
		}
	}
	return dir
}

// Glob returns what a pattern matches below dir, whose own name may hold
// characters of a pattern.
func Glob(fsys fs.FS, dir, pattern string) []string {
	quoted := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
	names, err := fs.Glob(fsys, path.Join(quoted, pattern))
	if err != nil {
		return nil
	}
	return names
}

// Match is Glob that also names the folders on the way that exist and cannot be
// read: what is in them is not there for the reader, and should not be missing
// silently.
func Match(fsys fs.FS, dir, pattern string) (names []string, skips []error) {
	names = []string{dir}
	for part := range strings.SplitSeq(path.Clean(pattern), "/") {
		var below []string
		for _, name := range names {
			switch {
			case part == ".":
				below = append(below, name)
			case !strings.ContainsAny(part, `*?[`):
				if _, err := fs.Stat(fsys, path.Join(name, part)); err == nil {
					below = append(below, path.Join(name, part))
				} else if !errors.Is(err, fs.ErrNotExist) && IsDir(fsys, name) {
					skips = append(skips, &Skip{What: path.Join(name, part), Why: err})
				}
			default:
				list, err := fs.ReadDir(fsys, name)
				if err != nil && IsDir(fsys, name) {
					skips = append(skips, &Skip{What: name, Why: err})
				}
				for _, e := range list {
					if ok, _ := path.Match(part, e.Name()); ok {
						below = append(below, path.Join(name, e.Name()))
					}
				}
			}
		}
		names = below
	}
	return names, skips
}

// sniffed bounds the files by which a folder is recognized. Other tools keep
// other things under the same names; so one file proves little.
const sniffed = 16

// Sniff reports whether one of the first few files looks right.
func Sniff(files []string, right func(file string) bool) bool {
	return slices.ContainsFunc(files[:min(len(files), sniffed)], right)
}

// IDs finds the sessions of a tool that keeps each in files with the id in their
// names: the folder, which may be below that of the Source, and the ids. idOf
// extracts the id from a name. A Source that is one file has just its id.
func (p Source) IDs(idOf func(name string) (string, bool), below ...string) (dir string, ids []string, err error) {
	if !IsDir(p.FS, p.Path) {
		if _, err := fs.Stat(p.FS, p.Path); err != nil {
			return p.Path, nil, err
		}
		id, ok := idOf(path.Base(p.Path))
		if !ok {
			return p.Path, nil, tidemark.Invalidf("its name is not that of a session")
		}
		return path.Dir(p.Path), []string{id}, nil
	}
	dir = Folder(p.FS, p.Path, below...)
	list, err := fs.ReadDir(p.FS, dir)
	for _, f := range list {
		if id, ok := idOf(f.Name()); ok && !f.IsDir() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return dir, slices.Compact(ids), err
}

// MaxFiles bounds the bytes of the files that are imported with one session.
const MaxFiles = 64 << 20

// Take reads a file into Files under the name as. One that cannot be read, or
// exceeds MaxFiles with the others, is named in Lost; a missing one is ignored.
func (s *Session) Take(fsys fs.FS, file, as string) {
	held := 0
	for _, b := range s.Files {
		held += len(b)
	}
	b, err := ReadFile(fsys, file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil && held+len(b) > MaxFiles {
		err = tidemark.Invalidf("more than %d bytes of files", MaxFiles)
	}
	if err != nil {
		s.Lost = append(s.Lost, as+": "+err.Error())
		return
	}
	if s.Files == nil {
		s.Files = map[string][]byte{}
	}
	s.Files[as] = b
}

// WriteFile writes a whole file. After an error, which names it, nothing is left
// behind.
func WriteFile(out Out, name string, data []byte) error {
	f, err := out.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.CloseWithError(err)
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Close()
}

// WriteLines writes a file of JSON lines, each by a call of put, which keeps the
// first error. After an error nothing is left behind.
func WriteLines(out Out, name string, write func(put func(line any))) error {
	f, err := out.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	var failed error
	write(func(line any) {
		b, err := Encode(line)
		if failed = cmp.Or(failed, err); failed == nil {
			w.Write(append(b, '\n')) // a bufio.Writer keeps its first error
		}
	})
	if failed = cmp.Or(failed, w.Flush()); failed != nil {
		f.CloseWithError(failed)
		return fmt.Errorf("%s: %w", name, failed)
	}
	return f.Close()
}
