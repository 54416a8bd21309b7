package transfer

import (
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"slices"
	"time"

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
	switch {
	case f.Apart:
		return
	case f.Shared:
		l.Shared = append(l.Shared, f.Path)
		return
	}
	if l.Units == nil {
		l.Units = make(map[string][]convert.SourceFile)
	}
	f.Entry = nil // only the names are of use later
	l.Units[f.Unit] = append(l.Units[f.Unit], f)
}

// Family tells which sessions of a place have to do with each other, so that a new
// one can be imported without a look at all. The zero Family knows nothing; the first
// Part with a new session reads it from the ledger.
type Family struct {
	seed  maphash.Seed
	units map[uint64]uint64 // the unit with a name, by their hashes; several: 0
}

// hash is short, because there is one for each session of a place.
func (f *Family) hash(text string) uint64 { return max(maphash.String(f.seed, text), 1) }

// add notes the names of a unit, and of those that it has to do with.
func (f *Family) add(unit string, names, others []string) {
	of := f.hash(unit)
	for _, name := range slices.Concat(names, others) {
		if name == "" {
			continue
		}
		h := f.hash(name)
		if is, ok := f.units[h]; !ok {
			f.units[h] = of
		} else if is != of {
			f.units[h] = 0
		}
	}
}

// alone reports whether a unit names nobody else, and nobody besides some units has
// one of its names.
func (f *Family) alone(names, others []string, among ...string) bool {
	for _, other := range others {
		if other != "" && !slices.Contains(names, other) {
			return false
		}
	}
	for _, name := range names {
		is, ok := f.units[f.hash(name)]
		if name != "" && ok && !slices.ContainsFunc(among, func(unit string) bool { return f.hash(unit) == is }) {
			return false
		}
	}
	return true
}

// fill notes the names of all units.
func (f *Family) fill(tool convert.Tool, all iter.Seq2[store.SourceUnit, error]) error {
	f.seed, f.units = maphash.MakeSeed(), make(map[uint64]uint64)
	for u, err := range all {
		if err != nil {
			f.units = nil
			return err
		}
		names, others := tool.Kin(u.State)
		f.add(u.Unit, names, others)
	}
	return nil
}

// Part imports the sessions of some units of a place that was imported before, and
// looks at no file besides theirs. It is not ok, and nothing was done that another
// import would not do, if it takes a look at all sessions to tell what these are: one
// is a fork, or has files that are not listed. It is kept if an import of the place would
// do no more; else that has the last word.
func (i *Importer) Part(ctx context.Context, at Place, listed Listed, units ...string) (ok, kept bool, err error) {
	dir, err := filepath.Abs(at.Path)
	if err != nil || i.Opened == nil || at.Tool.Import == nil || at.Tool.Files == nil {
		return false, false, nil
	}
	part := &part{Importer: i, at: at, listed: listed, related: make(map[string]bool)}
	part.ledger = &ledger{s: i.Opened.Store, source: store.Source{Machine: machineOf(i.Holder), Tool: at.Tool.Name, Path: dir}, used: !i.Again, at: time.Now(),
		units: make(map[string]*fileStamps), known: make(map[string]store.SourceUnit)}
	for _, unit := range units {
		if ok, err = part.add(ctx, unit); !ok {
			return false, false, err
		}
	}
	p, done, err := i.openSource(at.Path)
	if err != nil {
		return false, false, err
	}
	defer done()
	if p.Path != "." {
		return false, false, nil
	}
	return part.run(ctx, p)
}

// part is an import of some units.
type part struct {
	*Importer
	at      Place
	ledger  *ledger
	listed  Listed
	units   []string        // those of the sessions that are imported
	related map[string]bool // those that others have to do with
}

// add adds a unit, and those that its session is made of besides. It is false if
// that is not a session that can be read alone.
func (p *part) add(ctx context.Context, unit string) (ok bool, err error) {
	src, s := p.ledger.source, p.Opened.Store
	unknown := func(err error) bool {
		return errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt)
	}
	u, err := s.SourceUnit(ctx, src, unit)
	if err != nil && !unknown(err) {
		return false, err
	}
	is := store.Info{}
	if err == nil && u.Session != "" {
		if is, err = s.Session(ctx, u.Session); err != nil && !unknown(err) {
			return false, err
		}
	}
	if err != nil || is.State != store.Live { // it is new, or not wanted here
		return p.at.Tool.Kin != nil && p.Family != nil && p.has(u, unit), nil
	}
	if is.Tool != src.Tool || is.Base != nil || originOf(is.Session).Copied != "" {
		return false, nil
	}
	for u, err := range s.SessionUnits(ctx, src, u.Session) {
		if err != nil || !p.has(u, u.Unit) {
			return false, err
		}
	}
	return true, nil
}

// has adds a unit as the ledger knows it, if its files are listed.
func (p *part) has(u store.SourceUnit, unit string) bool {
	if len(p.listed.Units[unit]) == 0 {
		return false
	}
	if !slices.Contains(p.units, unit) {
		p.units = append(p.units, unit)
	}
	if u.Unit != "" {
		p.ledger.known[unit] = u
	}
	return true
}

// errRelated is that a session has to do with others, which are not looked at.
var errRelated = errors.New("it has to do with other sessions")

// run does the import.
func (p *part) run(ctx context.Context, from convert.Source) (ok, kept bool, err error) {
	files := slices.Clone(p.listed.Shared)
	for _, unit := range p.units {
		stamps, err := stampsOf(from.FS, unit, p.listed.Units[unit])
		if err != nil {
			return false, false, nil // it is gone, or about to change
		}
		p.ledger.units[unit] = stamps
		for _, f := range p.listed.Units[unit] {
			files = append(files, f.Path)
		}
	}
	if p.at.Tool.Kin != nil && p.Family != nil && p.Family.units == nil {
		if err := p.Family.fill(p.at.Tool, p.Opened.Store.SourceUnits(ctx, p.ledger.source)); err != nil {
			return false, false, err
		}
	}
	from.FS = newSomeFiles(from.FS, files)
	p.ledger.fsys, from.Known, from.Growth = from.FS, p.ledger.state, p.ledger.growth(ctx)
	tool := p.at.Tool
	tool.Import = p.sessions
	t := newToolImport(p.Importer, tool)
	t.folder, t.root, t.ledger = p.projectOf(p.at.Tool, p.at.Path), p.rootOf(from, p.at.Path), p.ledger
	left := p.Skipped + p.Waiting
	if err = t.all(ctx, from, p.at.Path); err != nil {
		if errors.Is(err, errRelated) {
			err = nil
		}
		return false, false, err
	}
	if p.DryRun {
		return true, false, nil
	}
	p.ledger.done = slices.DeleteFunc(p.ledger.done, func(u store.SourceUnit) bool { return p.related[u.Unit] })
	kept = p.Skipped+p.Waiting == left && p.isKept()
	return true, kept, errors.Join(p.ledger.unfinish(ctx), p.ledger.keep(ctx))
}

// isKept reports whether all units are, or will be, in the ledger as they are now. Those
// that were changed a moment ago, and those of what is ignored, never are.
func (p *part) isKept() bool {
	for _, unit := range p.units {
		stamp := p.ledger.units[unit].text(p.ledger.at)
		if p.related[unit] || stamp != "" && p.Ignored == 0 && p.ledger.known[unit].Stamp != stamp {
			return false
		}
	}
	return true
}

// sessions yields what the tool reads, until a new session has to do with others.
func (p *part) sessions(ctx context.Context, from convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		for s, err := range p.at.Tool.Import(ctx, from) {
			if err == nil && !s.Unchanged && !p.place(s) {
				s, err = nil, errRelated
			}
			if !yield(s, err) || errors.Is(err, errRelated) {
				return
			}
		}
	}
}

// place places a session among the others of the place. It is false if it is new, and
// has to do with one that is not read.
func (p *part) place(s *convert.Session) bool {
	new := len(s.Units) == 0
	alone := p.at.Tool.Kin != nil && p.Family != nil && s.Fork == nil && s.Copied == ""
	for _, u := range s.Units {
		if u.Shared {
			continue
		}
		_, known := p.ledger.known[u.Name]
		new = new || !known
		if !alone {
			continue
		}
		names, others := p.at.Tool.Kin(u.State)
		alone = len(names) > 0 && p.Family.alone(names, others, p.units...)
		p.Family.add(u.Name, names, others)
	}
	for _, u := range s.Units {
		p.related[u.Name] = !alone
	}
	return alone || !new
}

// UnitOf returns a file of a place, by its path in it, that is a unit alone unless
// others are listed with it. It is false for what is none: it is not there, no session
// is made of it, or its name does not tell of which.
func (i *Importer) UnitOf(ctx context.Context, at Place, file string) (f convert.SourceFile, ok bool) {
	p, done, err := i.openSource(at.Path)
	if err != nil {
		return f, false
	}
	defer done()
	if at.Tool.Files == nil || p.Path != "." || !fs.ValidPath(file) {
		return f, false
	}
	p.FS = newSomeFiles(p.FS, []string{file})
	for f, err := range at.Tool.Files(ctx, p) {
		if err == nil && f.Path == file {
			return f, f.Unit == file && !f.Shared
		}
	}
	return f, false
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
