package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
)

const (
	// grepLine bounds one shown line.
	grepLine = 400
	// maxContext bounds the lines shown around a match.
	maxContext = 20
)

type grepArguments struct {
	Pattern    string `json:"pattern" say:"a regular expression (RE2), matched within each line" need:"yes"`
	Path       string `json:"path" say:"the file or folder to search: a path in the workspace, or session: for the durable storage of this session; default: the root of the workspace"`
	Glob       string `json:"glob" say:"search only files whose paths match, like *.go"`
	IgnoreCase bool   `json:"ignore_case" say:"capital and small letters are the same; default false"`
	Context    int    `json:"context" say:"how many lines to show before and after each match, up to 20; default 0"`
	FilesOnly  bool   `json:"files_only" say:"show only the paths of files with a match; default false"`
}

func (b *Box) grepTool() Tool {
	return Tool{
		Name: "grep",
		Description: "Searches the text of files with a regular expression (RE2), in the workspace or with session: in the durable storage of this session. " +
			"Shows path:line:text. Binary files, files over 10 MB and .git are left out.",
		Schema: schemaOf(grepArguments{}),
		Effect: Reads,
		Scope:  func(input json.RawMessage) string { return b.scopeOf(input, place.readScope) },
		Run: func(ctx context.Context, input json.RawMessage) (Result, error) {
			var a grepArguments
			if err := readArgs(input, &a); err != nil {
				return failed(err.Error()), nil
			}
			return b.grep(ctx, a)
		},
	}
}

func (b *Box) grep(ctx context.Context, a grepArguments) (Result, error) {
	g := grepper{lister: lister{most: b.o.OutputBytes}, args: a, around: min(max(a.Context, 0), maxContext)}
	var err error
	if g.re, err = lineExpression(a); err != nil {
		return failed(err.Error()), nil
	}
	var only *regexp.Regexp
	if a.Glob != "" {
		if only, err = Glob(a.Glob); err != nil {
			return failed(err.Error()), nil
		}
	}
	p, err := b.locate(a.Path)
	if err != nil {
		return failed(err.Error()), nil
	}
	whole, err := b.walk(ctx, p, only, g.file)
	if err != nil {
		return b.explain(ctx, p, err)
	}
	if g.n == 0 && !g.full {
		g.out.WriteString("no line matches")
	}
	res := g.result(0)
	if g.skipped > 0 {
		res.Text += fmt.Sprintf("\n[%d files were left out: too large or not to be read]\n", g.skipped)
	}
	return notWhole(res, whole), nil
}

func lineExpression(a grepArguments) (*regexp.Regexp, error) {
	flags := ""
	if a.IgnoreCase {
		flags = "(?i)"
	}
	re, err := regexp.Compile(flags + a.Pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern is not a regular expression: %w", err)
	}
	return re, nil
}

type grepper struct {
	lister
	args    grepArguments
	re      *regexp.Regexp
	around  int
	skipped int
}

// file searches one file.
func (g *grepper) file(fsys fs.FS, name, shown string) error {
	data, ok := g.load(fsys, name)
	if !ok {
		g.skipped++
		return nil
	}
	if looksBinary(data) {
		return nil
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	next := 0 // the first line not shown yet
	for i, line := range lines {
		if !g.re.Match(bytes.TrimSuffix(line, []byte("\r"))) {
			continue
		}
		if g.args.FilesOnly {
			return g.more(shown)
		}
		from, to := max(i-g.around, next), min(i+g.around+1, len(lines))
		if g.around > 0 && g.n > 0 && (next == 0 || from > next) {
			if err := g.more("--"); err != nil {
				return err
			}
		}
		// The context after a match ends at the next match, which is marked
		// itself.
		for j := from; j < to; j++ {
			if j > i && g.re.Match(bytes.TrimSuffix(lines[j], []byte("\r"))) {
				break
			}
			mark := "-"
			if j == i {
				mark = ":"
			}
			text := strings.TrimSuffix(string(lines[j]), "\r")
			if err := g.more(fmt.Sprintf("%s%s%d%s%s", shown, mark, j+1, mark, cutLine(text, grepLine))); err != nil {
				return err
			}
			next = j + 1
		}
	}
	return nil
}

func (g *grepper) more(line string) error {
	if !g.add(line) {
		return fs.SkipAll
	}
	return nil
}

// load reads a file that is regular and not too large.
func (g *grepper) load(fsys fs.FS, name string) ([]byte, bool) {
	info, err := fs.Stat(fsys, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxEdit {
		return nil, false
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEdit))
	return data, err == nil
}
