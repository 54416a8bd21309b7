// Package extension reads what a person or a project wrote in Markdown files to
// extend the agent: slash commands, which are messages that the person sends by
// a name, skills, which are texts that the agent loads when it needs them, and
// agents, which are workers with a prompt and tools of their own. The files are
// those that Claude Code reads, too.
//
// A project's files are written by anybody. So what is read here is text and
// nothing more: what a head says about tools that are allowed never allows one,
// and nothing is started. No link leads out of the project, and sizes and counts
// are bounded. Nothing is written.
//
//	for _, c := range extension.Commands(extension.Options{Project: dir}) { … }
package extension

import (
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/expression"
)

const (
	maxFile  = 64 << 10
	maxFiles = 256
	maxDepth = 3 // folders below the one that is looked through
)

// Options say where to look. An empty path is not looked at.
type Options struct {
	Project string // the root of the project
	Own     string // the person's folder of all projects, which has a folder for each kind
	Claude  string // the person's folder for Claude Code, which has the same folders
}

// nameOf is what a file or folder may be called to be part of a name.
var nameOf = expression.WhenNeeded(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// file is a file that was found.
type file struct {
	tree  fs.FS
	at    string // in the tree
	rel   string // below the folder that was looked through
	shown string // relative to the project, or absolute for the person's own
	own   bool
	// foreign means that the person wrote it for another tool.
	foreign bool
}

// find returns what take makes of the wanted files of one kind, by name. The person's
// own come first, then those that they wrote for Claude Code; the first of a name
// counts, and without a name none does.
func find[T any](o Options, kind string, folders []string, wanted func(rel string) bool, take func(file) (T, string)) []T {
	type named struct {
		name string
		made T
	}
	var all []named
	add := func(f file) {
		made, name := take(f)
		if name != "" && len(all) < maxFiles && !slices.ContainsFunc(all, func(o named) bool { return o.name == name }) {
			all = append(all, named{name, made})
		}
	}
	for _, own := range []string{o.Own, o.Claude} {
		if own == "" {
			continue
		}
		walk(own, kind, wanted, func(f file) {
			f.own, f.foreign, f.shown = true, own == o.Claude, filepath.Join(own, filepath.FromSlash(f.at))
			add(f)
		})
	}
	if o.Project != "" {
		for _, folder := range folders {
			walk(o.Project, folder, wanted, add)
		}
	}
	slices.SortFunc(all, func(a, b named) int { return strings.Compare(a.name, b.name) })
	var sorted []T
	for _, n := range all {
		sorted = append(sorted, n.made)
	}
	return sorted
}

// isMarkdown reports whether a file is text of the kind that counts.
func isMarkdown(rel string) bool { return strings.HasSuffix(rel, ".md") }

// walk calls add with the files that are wanted in a folder of a tree that
// nothing leads out of.
func walk(root, folder string, wanted func(rel string) bool, add func(file)) {
	w, err := durable.OpenWorkspace(root)
	if err != nil {
		return
	}
	defer w.Close()
	tree, seen := w.ReadOnly(), 0
	err = fs.WalkDir(tree, folder, func(at string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(strings.TrimPrefix(at, folder), "/")
		switch {
		case err != nil && at == folder:
			return fs.SkipAll
		case err != nil || at == folder:
			return nil
		case seen == maxFiles:
			return fs.SkipAll
		case d.IsDir() && (strings.Count(rel, "/") >= maxDepth || !nameOf().MatchString(path.Base(at))):
			return fs.SkipDir
		case d.IsDir() || !wanted(rel):
			return nil
		}
		seen++
		add(file{tree: tree, at: at, rel: rel, shown: at})
		return nil
	})
	if err != nil {
		return // WalkDir returns what the function returns, which is nothing else
	}
}

// read returns the content of a file, "" when it has none that can be used.
func (f file) read() string {
	info, err := fs.Stat(f.tree, f.at)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return ""
	}
	open, err := f.tree.Open(f.at)
	if err != nil {
		return ""
	}
	defer open.Close()
	b, err := io.ReadAll(io.LimitReader(open, maxFile))
	if err != nil || strings.ContainsRune(string(b), 0) {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimPrefix(string(b), "\uFEFF"), "\uFFFD")
}

// split returns the head of a file, which stands between lines of ---, and the
// text behind it. The head is read line by line and not as YAML, because what
// people write there often is none: KEY: VALUE, where the value may follow
// indented, as a list or as text of several lines, which become one.
func split(content string) (head map[string]string, body string) {
	head = make(map[string]string)
	body = strings.ReplaceAll(content, "\r\n", "\n")
	rest, ok := strings.CutPrefix(body, "---\n")
	if !ok {
		return head, strings.TrimSpace(body)
	}
	lines, behind, ok := strings.Cut("\n"+rest+"\n", "\n---\n")
	if !ok {
		return head, strings.TrimSpace(body)
	}
	key := ""
	for line := range strings.Lines(lines) {
		value := strings.TrimSpace(line)
		if value == "" {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' || strings.HasPrefix(value, "- ") {
			item, isItem := strings.CutPrefix(value, "- ")
			between := " "
			if isItem {
				between = ", "
			}
			if key != "" {
				head[key] = strings.TrimLeft(head[key]+between+unquoted(item), ", ")
			}
			continue
		}
		key, value, ok = strings.Cut(value, ":")
		if key = strings.TrimSpace(key); !ok {
			key = ""
			continue
		}
		if value = strings.TrimSpace(value); strings.Trim(value, "|>+-0123456789") == "" && strings.ContainsAny(value[:min(1, len(value))], "|>") {
			value = "" // it follows
		}
		head[key] = unquoted(value)
	}
	return head, strings.TrimSpace(behind)
}

// unquoted is a value without the quotes around it.
func unquoted(value string) string {
	value = strings.TrimSpace(value)
	if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}
