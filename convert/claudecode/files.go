package claudecode

import (
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark/convert"
)

// list yields the files of the sessions below the projects of a Source. The unit
// of a session is its transcript; files in its folder, its tasks and its copies of
// edited files belong to it. Transcripts of helper agents beside those of the
// sessions, as in older versions, are a unit of their project, which all its
// sessions share.
func list(ctx context.Context, p convert.Source) iter.Seq2[convert.SourceFile, error] {
	return func(yield func(convert.SourceFile, error) bool) {
		l := lister{ctx: ctx, fsys: p.FS, yield: yield, unit: map[string]string{}}
		for _, file := range histories(p) {
			if info, err := fs.Stat(p.FS, file); err == nil && !yield(convert.SourceFile{Path: file, Unit: file, Apart: true, Entry: fs.FileInfoToDirEntry(info)}, nil) {
				return
			}
		}
		for _, below := range projectFolders {
			dir := path.Join(p.Path, below)
			projects, err := fs.ReadDir(p.FS, dir)
			if err != nil {
				if convert.IsDir(p.FS, dir) {
					yield(convert.SourceFile{}, err)
					return
				}
				continue
			}
			clear(l.unit)
			l.found = l.found[:0]
			for _, project := range projects {
				if !l.project(path.Join(dir, project.Name())) {
					return
				}
			}
			for _, beside := range []string{"tasks", "file-history"} {
				if !l.beside(path.Join(path.Dir(dir), beside)) {
					return
				}
			}
		}
	}
}

// lister lists files until it is stopped.
type lister struct {
	ctx   context.Context
	fsys  fs.FS
	yield func(convert.SourceFile, error) bool
	found []string          // transcripts that are not in unit yet
	unit  map[string]string // of a session, by the name of its transcript
}

// unitOf is the unit of the session that a folder is named for, "" if there is none.
// Most homes have few such folders, so transcripts are sorted when one is met.
func (l *lister) unitOf(folder string) string {
	for _, file := range l.found {
		l.unit[strings.TrimSuffix(path.Base(file), ".jsonl")] = file
	}
	l.found = l.found[:0]
	return l.unit[folder]
}

// project lists the files of the sessions of one project.
func (l *lister) project(dir string) bool {
	entries, err := fs.ReadDir(l.fsys, dir)
	if err != nil {
		return !convert.IsDir(l.fsys, dir) || l.yield(convert.SourceFile{}, err)
	}
	var folders []string
	for _, e := range entries {
		file := dir + "/" + e.Name()
		f := convert.SourceFile{Path: file, Unit: file, Entry: e}
		switch {
		case e.IsDir():
			folders = append(folders, file)
			continue
		case path.Ext(file) != ".jsonl" || !e.Type().IsRegular() && !convert.IsFile(l.fsys, file):
			continue
		case strings.HasPrefix(e.Name(), "agent-"):
			f.Unit, f.Shared = dir, true
		default:
			l.found = append(l.found, file)
		}
		if !l.yield(f, l.ctx.Err()) {
			return false
		}
	}
	for _, folder := range folders {
		if l.unitOf(path.Base(folder)) == folder+".jsonl" && !l.below(folder, folder+".jsonl") {
			return false
		}
	}
	return true
}

// beside lists the files in folders that are named for sessions.
func (l *lister) beside(dir string) bool {
	folders, err := fs.ReadDir(l.fsys, dir)
	if err != nil {
		return true // there is none, or nothing of it can be read
	}
	for _, folder := range folders {
		if unit := l.unitOf(folder.Name()); unit != "" && !l.below(path.Join(dir, folder.Name()), unit) {
			return false
		}
	}
	return true
}

// below lists all files below a folder.
func (l *lister) below(dir, unit string) bool {
	more := true
	walk(l.fsys, dir, func(file string, e fs.DirEntry) {
		more = more && l.yield(convert.SourceFile{Path: file, Unit: unit, Beside: !strings.Contains(file, "/subagents/"), Entry: e}, l.ctx.Err())
	})
	return more
}

// head is what lineage needs of a transcript that is not read again.
type head struct {
	ID    string `json:"id"`
	First string `json:"first"`          // the uuid of its first record
	From  string `json:"from,omitempty"` // the session that that says it was copied from
	// Placed is its place among those with the same first record; nil: there were none.
	Placed *placement `json:"placed,omitempty"`
}

// kinOf is the Kin of the tool: forks begin with the record that their original begins
// with, or name it.
func kinOf(state []byte) (names, others []string) {
	var h head
	if json.Unmarshal(state, &h) != nil {
		return nil, nil
	}
	return []string{h.ID, h.First}, []string{h.From}
}

// headOf returns the head of a transcript, from an earlier import if it did not
// change since, or only became longer.
func headOf(ctx context.Context, p convert.Source, file string) (h head, known bool, growth *convert.Growth, err error) {
	if state, ok := p.State(file); ok && json.Unmarshal(state, &h) == nil && h.First != "" {
		return h, true, nil, nil
	}
	if g, ok := p.Grown(file, new(json.RawMessage)); ok && json.Unmarshal(g.Known, &h) == nil && h.First != "" {
		return h, false, &g, nil
	}
	r, err := peek(ctx, p.FS, file)
	if err != nil {
		return h, false, nil, err
	}
	h = head{ID: named(file), First: r.UUID, From: convert.Field(r.ForkedFrom, "sessionId")}
	if h.ID == "" {
		h.ID = r.Session
	}
	return h, false, nil, nil
}

// units are the units of files that the session of a source is made of.
func (src source) units() []convert.Unit {
	state, err := json.Marshal(src.head)
	if err != nil {
		return nil
	}
	all := []convert.Unit{{Name: src.file, State: state}}
	if len(src.agents) > 0 {
		all = append(all, convert.Unit{Name: path.Dir(src.file), Shared: true})
	}
	return all
}

// besideUnchanged reports whether nothing besides the transcript was changed that the
// session is made of.
func (src source) besideUnchanged(p convert.Source) bool {
	return len(src.agents) == 0 || p.Unchanged(path.Dir(src.file))
}
