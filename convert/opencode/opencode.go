// Package opencode imports the sessions of opencode: the SQLite database of its
// later versions, the tree of JSON files of its earlier ones, and the file that
// its export command writes; such a file is what it exports. It does the same for
// Kilo, a fork of opencode with the same database under another name.
//
// It reads sessions, messages, parts, todo lists and long tool outputs, and
// never accounts, credentials, shares or auth.json. The log of events beside the
// messages repeats everything and is ignored.
//
//	for s, err := range opencode.Tool().Import(ctx, place) { … }
package opencode

import (
	"bytes"
	"context"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark/convert"
)

// name is the key of what is kept in Extra, also for Kilo: the fields are
// opencode's.
const name = "opencode"

// headBytes is enough to recognize a file.
const headBytes = 64 << 10

// product is opencode or a fork of it.
type product struct {
	title string
	home  string // the same on every system
	file  string // with this, the names of its databases begin
	agent string // the one that answers by default
	first bool   // it has what only opencode had: trees of files, and databases under any name
}

// Tool is opencode.
func Tool() convert.Tool {
	p := product{title: "opencode", home: ".local/share/opencode", file: "opencode", agent: "build", first: true}
	return convert.Tool{Name: name, Title: p.title, Homes: []string{p.home}, Moved: []convert.Moved{{Variable: "XDG_DATA_HOME", Below: p.file}},
		Detect: p.detect, Import: p.importAll, Files: convert.FilesLike(p.listed()...), Export: p.export, Handover: p.handover()}
}

// Kilo is Kilo CLI since version 7. An exported file does not
// tell which of the two wrote it, and is taken for opencode's unless the tool is
// named.
func Kilo() convert.Tool {
	p := product{title: "Kilo CLI", home: ".local/share/kilo", file: "kilo", agent: "code"}
	return convert.Tool{Name: "kilo-cli", Title: p.title, Homes: []string{p.home}, Moved: []convert.Moved{{Variable: "XDG_DATA_HOME", Below: p.file}},
		Detect: p.detect, Import: p.importAll, Files: convert.FilesLike(p.listed()...), Export: p.export, Handover: p.handover()}
}

// handover is how sessions are given to the tool: it has to be told to take them in.
func (of product) handover() *convert.Handover {
	return &convert.Handover{NewID: newID, Load: func(file string) []string { return []string{of.file, "import", file} }, Waits: of.exportFile}
}

// listed are the files in every place that look finds stores in.
func (of product) listed() (patterns []string) {
	for _, base := range []string{".", of.home} {
		patterns = append(patterns, convert.DatabaseFiles(path.Join(base, of.file+"*.db"))...)
		patterns = append(patterns, path.Join(base, outputFolder, "**"), path.Join(base, of.exportFolder(), "ses_*.json"))
		if !of.first {
			continue
		}
		for _, root := range []string{path.Join(base, "storage"), base} {
			for _, part := range []string{"session", "message", "part", "todo", "project"} {
				patterns = append(patterns, path.Join(root, part, "**"))
			}
		}
	}
	return patterns
}

// found is what a Source contains.
type found struct {
	databases []string
	trees     []tree
	exports   []string
	named     bool   // the exports are in a folder that says whose they are
	only      string // the only session that was requested
}

// look finds the stores of a Source: a home, the data folder in it, its storage
// folder, or one file.
func (of product) look(p convert.Source) (f found) {
	info, err := fs.Stat(p.FS, p.Path)
	if err != nil {
		return f
	}
	if !info.IsDir() {
		of.single(p, &f)
		return f
	}
	for _, below := range []string{".", of.home} {
		base := path.Join(p.Path, below)
		// The store of another release channel has the channel's name after a
		// dash.
		f.databases = append(f.databases, convert.Glob(p.FS, base, of.file+"*.db")...)
		for _, file := range convert.Glob(p.FS, base, of.exportFolder()+"/ses_*.json") {
			if b, _ := convert.Head(p.FS, file, headBytes); isExport(b) {
				f.exports, f.named = append(f.exports, file), true
			}
		}
		if !of.first {
			continue
		}
		for _, root := range []string{path.Join(base, "storage"), base} {
			if convert.IsDir(p.FS, path.Join(root, "session")) && convert.IsDir(p.FS, path.Join(root, "message")) {
				f.trees = append(f.trees, tree{fsys: p.FS, root: root, outputDir: path.Join(path.Dir(root), outputFolder)})
			}
		}
		// Before 0.6 each project had its own tree.
		for _, infos := range convert.Glob(p.FS, base, "project/*/storage/session/info") {
			f.trees = append(f.trees, tree{fsys: p.FS, root: path.Dir(infos), old: true})
		}
	}
	return f
}

// single examines a single file.
func (of product) single(p convert.Source, f *found) {
	b, _ := convert.Head(p.FS, p.Path, headBytes)
	root := path.Dir(path.Dir(path.Dir(p.Path)))
	switch base := path.Base(p.Path); {
	case bytes.HasPrefix(b, []byte(convert.SQLiteMagic)):
		if strings.HasPrefix(base, of.file) || of.first && bytes.Contains(b, []byte("`session`")) && bytes.Contains(b, []byte("`part`")) {
			f.databases = []string{p.Path}
		}
	case isExport(b):
		f.exports = []string{p.Path}
	case of.first && strings.HasPrefix(base, "ses_") && path.Base(path.Dir(path.Dir(p.Path))) == "session" && convert.IsDir(p.FS, path.Join(root, "message")):
		f.trees = []tree{{fsys: p.FS, root: root, outputDir: path.Join(path.Dir(root), outputFolder)}}
		f.only = strings.TrimSuffix(base, ".json")
	}
}

func (of product) detect(_ context.Context, p convert.Source) bool {
	f := of.look(p)
	for _, db := range f.databases {
		if b, _ := convert.Head(p.FS, db, headBytes); bytes.HasPrefix(b, []byte(convert.SQLiteMagic)) {
			return true
		}
	}
	for _, t := range f.trees {
		if len(t.files()) > 0 {
			return true
		}
	}
	return f.named || len(f.exports) > 0 && of.first
}

// importAll yields the sessions of every store at the place, each id once. A
// database comes before a tree, whose content it has taken over.
func (of product) importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		f := of.look(p)
		var stores []store
		for _, db := range f.databases {
			stores = append(stores, &database{SourceDatabase: convert.SourceDatabase{Source: p, Name: db}})
		}
		for _, t := range f.trees {
			stores = append(stores, t)
		}
		for _, e := range f.exports {
			stores = append(stores, &exported{fsys: p.FS, name: e})
		}
		if len(stores) == 0 {
			yield(nil, convert.Skipf(p.Path, "there is no store of %s", of.title))
			return
		}
		seen := map[string]bool{}
		for _, st := range stores {
			if !importStore(ctx, st, f.only, seen, yield) {
				return
			}
		}
	}
}
