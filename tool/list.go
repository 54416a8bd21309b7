package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

const (
	// maxListed bounds the number of names in a result.
	maxListed = 1000
	// maxWalked bounds how many files a search visits, so that one that
	// starts in a home folder ends.
	maxWalked = 200_000
)

type lsArguments struct {
	Path string `json:"path" say:"the folder: a path in the workspace (relative to its root), or session: or session:FOLDER for the durable storage of this session; default: the root of the workspace"`
}

func (b *Box) lsTool() Tool {
	return Tool{
		Name:        "ls",
		Description: "Lists a folder of the workspace, or with session: the durable storage of this session. Folders end in a slash; files have their size in bytes.",
		Schema:      schemaOf(lsArguments{}),
		Effect:      Reads,
		Scope:       func(input json.RawMessage) string { return b.scopeOf(input, place.readScope) },
		Run: func(ctx context.Context, input json.RawMessage) (Result, error) {
			var a lsArguments
			if err := readArgs(input, &a); err != nil {
				return failed(err.Error()), nil
			}
			p, err := b.locate(a.Path)
			if err != nil {
				return failed(err.Error()), nil
			}
			return b.ls(ctx, p)
		},
	}
}

func (b *Box) ls(ctx context.Context, p place) (Result, error) {
	fsys, done, err := b.view(ctx, p)
	if err != nil {
		return b.explain(ctx, p, err)
	}
	defer done()
	if info, err := fs.Stat(fsys, p.name); err == nil && !info.IsDir() {
		return Result{Text: fmt.Sprintf("%s\t%d\n", path.Base(p.name), info.Size())}, nil
	}
	entries, err := fs.ReadDir(fsys, p.name)
	if err != nil {
		return b.explain(ctx, p, err)
	}
	if len(entries) == 0 {
		return Result{Text: "(" + p.shown + " is empty)"}, nil
	}
	l := lister{most: b.o.OutputBytes}
	for _, e := range entries {
		if !l.add(entryLine(e)) {
			break
		}
	}
	return l.result(len(entries)), nil
}

func entryLine(e fs.DirEntry) string {
	switch {
	case e.IsDir():
		return e.Name() + "/"
	case e.Type()&fs.ModeSymlink != 0:
		return e.Name() + "\tlink"
	case !e.Type().IsRegular():
		return e.Name() + "\tspecial"
	}
	info, err := e.Info()
	if err != nil {
		return e.Name()
	}
	return fmt.Sprintf("%s\t%d", e.Name(), info.Size())
}

// lister collects lines up to the limits.
type lister struct {
	most int
	out  strings.Builder
	n    int
	full bool
}

func (l *lister) add(line string) bool {
	line = valid(line)
	if l.n == maxListed || l.out.Len()+len(line)+1 > l.most {
		l.full = true
		return false
	}
	l.n++
	l.out.WriteString(line + "\n")
	return true
}

// result says how many there are in total when not all fitted; all is 0 when
// that is not known.
func (l *lister) result(all int) Result {
	text := l.out.String()
	switch {
	case l.full && all > 0:
		text += fmt.Sprintf("[%d of %d are shown]\n", l.n, all)
	case l.full:
		text += fmt.Sprintf("[only the first %d are shown; narrow the search]\n", l.n)
	}
	return Result{Text: text, Truncated: l.full}
}

type globArguments struct {
	Pattern string `json:"pattern" say:"what paths look like: *.go, cmd/**/main.go, src/*.{ts,tsx}; * and ? stay within a name, ** crosses folders; a pattern without a slash matches names at any depth" need:"yes"`
	Path    string `json:"path" say:"the folder to begin in: a path in the workspace, or session: for the durable storage of this session; default: the root of the workspace"`
}

func (b *Box) globTool() Tool {
	return Tool{
		Name:        "glob",
		Description: "Finds files by their paths, in the workspace or with session: in the durable storage of this session. .git is left out, links to folders are not followed.",
		Schema:      schemaOf(globArguments{}),
		Effect:      Reads,
		Scope:       func(input json.RawMessage) string { return b.scopeOf(input, place.readScope) },
		Run: func(ctx context.Context, input json.RawMessage) (Result, error) {
			var a globArguments
			if err := readArgs(input, &a); err != nil {
				return failed(err.Error()), nil
			}
			re, err := Glob(a.Pattern)
			if err != nil {
				return failed(err.Error()), nil
			}
			p, err := b.locate(a.Path)
			if err != nil {
				return failed(err.Error()), nil
			}
			return b.glob(ctx, p, re)
		},
	}
}

func (b *Box) glob(ctx context.Context, p place, re *regexp.Regexp) (Result, error) {
	l := lister{most: b.o.OutputBytes}
	whole, err := b.walk(ctx, p, re, func(_ fs.FS, _, shown string) error {
		if !l.add(shown) {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return b.explain(ctx, p, err)
	}
	if l.n == 0 && !l.full {
		l.out.WriteString("no file matches")
	}
	return notWhole(l.result(0), whole), nil
}

// notWhole adds a note to the result of a search that stopped early.
func notWhole(r Result, whole bool) Result {
	if whole {
		return r
	}
	r.Truncated = true
	r.Text += fmt.Sprintf("\n[stopped after %d files; begin in a smaller folder]\n", maxWalked)
	return r
}

// walk visits the files below a place whose paths, relative to it, match re;
// nil matches all. shown is the file's name in results. It returns false
// when it stopped early.
func (b *Box) walk(ctx context.Context, p place, re *regexp.Regexp, visit func(fsys fs.FS, name, shown string) error) (bool, error) {
	fsys, done, err := b.view(ctx, p)
	if err != nil {
		return false, err
	}
	defer done()
	seen := 0
	err = fs.WalkDir(fsys, p.name, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && name == p.name:
			return err
		case err != nil:
			return nil // an unreadable folder hides only its own content
		case d.IsDir() && isHistory(d.Name()) && name != p.name:
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if seen++; seen > maxWalked {
			return fs.SkipAll
		}
		rel := name
		if p.name != "." {
			rel = strings.TrimPrefix(strings.TrimPrefix(name, p.name), "/")
		}
		if rel == "" {
			rel = path.Base(name) // the place itself is a file
		}
		if re != nil && !re.MatchString(rel) {
			return nil
		}
		return visit(fsys, name, b.show(p, name))
	})
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return seen <= maxWalked, err
}

// show returns the path by which a model can refer to a file below a place.
func (b *Box) show(p place, name string) string {
	switch p.kind {
	case stored:
		return storedPrefix + name
	case outside:
		return path.Join(p.folder, name)
	}
	return name
}

// isHistory reports whether a folder belongs to version control.
func isHistory(name string) bool { return name == ".git" || name == ".hg" || name == ".svn" }
