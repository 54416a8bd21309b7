package convert

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// maxFolders bounds how deep ** goes: other tools' folders are not deep, and
// links may make a circle.
const maxFolders = 12

// FilesLike returns the Files of a tool whose sessions are read all or not at
// all: every file that one of the patterns matches below the Source. They are
// those of path.Match, and ** at the end means everything below. What is not there
// is left out; a folder that cannot be read is an error.
func FilesLike(patterns ...string) func(context.Context, Source) iter.Seq2[SourceFile, error] {
	return UnitsLike(func(string) string { return "." }, patterns...)
}

// UnitsLike is FilesLike for a tool that keeps each session in files of its own.
// Unit returns, by the name of a file, the unit that it belongs to.
func UnitsLike(unit func(file string) string, patterns ...string) func(context.Context, Source) iter.Seq2[SourceFile, error] {
	return func(ctx context.Context, p Source) iter.Seq2[SourceFile, error] {
		return func(yield func(SourceFile, error) bool) {
			l := lister{ctx: ctx, fsys: p.FS, yield: yield, unit: unit}
			for _, pattern := range patterns {
				if !l.list(p.Path, strings.Split(path.Clean(pattern), "/"), 0) {
					return
				}
			}
		}
	}
}

// WithBeside is a list of files, some of which hold none of the entries.
func WithBeside(files func(context.Context, Source) iter.Seq2[SourceFile, error], beside func(file string) bool) func(context.Context, Source) iter.Seq2[SourceFile, error] {
	return func(ctx context.Context, p Source) iter.Seq2[SourceFile, error] {
		return func(yield func(SourceFile, error) bool) {
			for f, err := range files(ctx, p) {
				f.Beside = err == nil && beside(f.Path)
				if !yield(f, err) {
					return
				}
			}
		}
	}
}

// DatabaseFiles are the patterns of the files that a database is made of.
func DatabaseFiles(file string) []string { return []string{file, file + "-wal", file + "-journal"} }

// lister lists files until it is stopped.
type lister struct {
	ctx   context.Context
	fsys  fs.FS
	yield func(SourceFile, error) bool
	unit  func(file string) string
}

// list lists what the parts of a pattern match in a folder, and reports whether to
// go on.
func (l *lister) list(dir string, parts []string, deep int) bool {
	part := parts[0]
	if !strings.ContainsAny(part, `*?[`) {
		return l.named(path.Join(dir, part), parts[1:], deep)
	}
	if deep > maxFolders {
		return l.yield(SourceFile{}, tidemark.Invalidf("%s: more than %d folders deep", dir, maxFolders))
	}
	entries, err := fs.ReadDir(l.fsys, dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || !IsDir(l.fsys, dir) || l.yield(SourceFile{}, err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if ok, _ := path.Match(part, e.Name()); !ok && part != "**" {
			continue
		}
		rest := parts[1:]
		if part == "**" {
			rest = parts
		}
		folder := e.IsDir() || e.Type()&fs.ModeSymlink != 0 && IsDir(l.fsys, name)
		switch {
		case folder && len(rest) > 0:
			if !l.list(name, rest, deep+1) {
				return false
			}
		case !folder && (len(rest) == 0 || part == "**"):
			if !l.file(name, e) {
				return false
			}
		}
	}
	return true
}

// named goes on at a name without a pattern.
func (l *lister) named(name string, rest []string, deep int) bool {
	if len(rest) > 0 {
		return l.list(name, rest, deep)
	}
	info, err := fs.Stat(l.fsys, name)
	if err != nil || info.IsDir() {
		return true
	}
	return l.file(name, fs.FileInfoToDirEntry(info))
}

func (l *lister) file(name string, e fs.DirEntry) bool {
	if !e.Type().IsRegular() && !IsFile(l.fsys, name) {
		return true
	}
	return l.yield(SourceFile{Path: name, Unit: l.unit(name), Entry: e}, l.ctx.Err())
}
