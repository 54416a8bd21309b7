package transfer

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/store"
)

// Listed are files of a Place, as Importer.Files lists them.
type Listed struct {
	Units  map[string][]convert.SourceFile // all files of each unit
	Shared []string                        // files that any session may be made of
}

// Add adds a file.
func (l *Listed) Add(f convert.SourceFile) {
	if f.Shared {
		l.Shared = append(l.Shared, f.Path)
		return
	}
	if l.Units == nil {
		l.Units = make(map[string][]convert.SourceFile)
	}
	f.Entry = nil // only the names are of use later
	l.Units[f.Unit] = append(l.Units[f.Unit], f)
}

// Part imports the sessions of some units of a place that was imported before, and
// looks at no file besides theirs. It reports false, and did nothing, if it takes a look at
// all sessions to tell what these are: one is new, a fork, or has files that are
// not listed. The ledger stays as it is, so that the next import of the whole place
// has the last word on what was imported here.
func (i *Importer) Part(ctx context.Context, at Place, listed Listed, units ...string) (ok bool, err error) {
	dir, err := filepath.Abs(at.Path)
	if err != nil || i.Opened == nil || at.Tool.Import == nil || at.Tool.Files == nil {
		return false, nil
	}
	src := store.Source{Machine: machineOf(i.Holder), Tool: at.Tool.Name, Path: dir}
	seen := slices.Clone(listed.Shared)
	for _, unit := range units {
		files, err := i.filesOf(ctx, src, listed, unit)
		if err != nil || len(files) == 0 {
			return false, err
		}
		seen = append(seen, files...)
	}
	p, done, err := openSource(at.Path, i.getenv)
	if err != nil {
		return false, err
	}
	defer done()
	if p.Path != "." {
		return false, nil
	}
	p.FS = newSomeFiles(p.FS, seen)
	p.Growth = func(unit string) (g convert.Growth, ok bool) {
		u, err := i.Opened.Store.SourceUnit(ctx, src, unit)
		if err != nil || i.Again {
			return g, false
		}
		f, err := stampsOf(p.FS, unit, listed.Units[unit])
		if err != nil {
			return g, false
		}
		g, ok = growth(ctx, i.Opened.Store, p.FS, src, unit, f)
		g.Known = u.State
		return g, ok
	}
	t := newToolImport(i, at.Tool)
	t.folder, t.root = i.projectOf(at.Tool, at.Path), i.rootOf(p, at.Path)
	return true, t.all(ctx, p, at.Path)
}

// filesOf returns the files of the session that a unit belongs to; none if that is
// not a session that can be read alone.
func (i *Importer) filesOf(ctx context.Context, src store.Source, listed Listed, unit string) (files []string, err error) {
	s := i.Opened.Store
	unknown := func(err error) bool {
		return errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt)
	}
	u, err := s.SourceUnit(ctx, src, unit)
	if unknown(err) || err == nil && u.Session == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	is, err := s.Session(ctx, u.Session)
	if unknown(err) {
		return nil, nil
	}
	if err != nil || is.State != store.Live || is.Tool != src.Tool || is.Base != nil || originOf(is.Session).Copied != "" {
		return nil, err
	}
	for u, err := range s.SessionUnits(ctx, src, u.Session) {
		if err != nil {
			return nil, err
		}
		some := listed.Units[u.Unit]
		if len(some) == 0 {
			return nil, nil
		}
		for _, f := range some {
			files = append(files, f.Path)
		}
	}
	return files, nil
}

// someFiles is a file system in which there are only some files, and the folders
// that they are in.
type someFiles struct {
	fs.FS
	in map[string][]string // the names in each folder; of a file none
}

func newSomeFiles(fsys fs.FS, files []string) someFiles {
	s := someFiles{fsys, map[string][]string{".": {}}}
	for _, file := range files {
		for at, new := file, true; new && at != "."; at = path.Dir(at) {
			if s.in[at] == nil {
				s.in[at] = []string{}
			}
			dir := path.Dir(at)
			if new = s.in[dir] == nil || !slices.Contains(s.in[dir], path.Base(at)); new {
				s.in[dir] = append(s.in[dir], path.Base(at))
			}
		}
	}
	return s
}

// check is that a name is there.
func (s someFiles) check(op, name string) error {
	if s.in[name] == nil {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return nil
}

// Open implements fs.FS.
func (s someFiles) Open(name string) (fs.File, error) {
	if err := s.check("open", name); err != nil {
		return nil, err
	}
	return s.FS.Open(name)
}

// Stat implements fs.StatFS.
func (s someFiles) Stat(name string) (fs.FileInfo, error) {
	if err := s.check("stat", name); err != nil {
		return nil, err
	}
	return fs.Stat(s.FS, name)
}

// ReadDir implements fs.ReadDirFS, without a look at what else is in the folder.
func (s someFiles) ReadDir(name string) (entries []fs.DirEntry, err error) {
	if err := s.check("open", name); err != nil {
		return nil, err
	}
	for _, base := range slices.Sorted(slices.Values(s.in[name])) {
		info, err := fs.Stat(s.FS, path.Join(name, base))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return entries, err
		}
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	return entries, nil
}
