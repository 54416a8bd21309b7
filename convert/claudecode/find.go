package claudecode

import (
	"io/fs"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// source is a transcript that was found, and what is known of it before it is
// read completely.
type source struct {
	head
	file string // in the Source
	home string // the folder with tasks and file-history, "": not in the Source
	same bool   // none of its files was changed since the last import

	growth *convert.Growth // its transcript became longer since; nil: not only that

	agents []string // transcripts of helper agents beside it
	copied string   // the session that its beginning was copied from
	first  int64    // when its own part began, in Unix milliseconds; 0: not known
}

// projectFolders are where the projects are in a Source.
var projectFolders = []string{".claude/projects", ".config/claude/projects", "projects"}

// find returns the transcripts of a Source: a home folder, .claude, projects, or
// the folder of one project.
func find(p convert.Source) (found []source, skips []error) {
	for _, below := range projectFolders {
		dir := path.Join(p.Path, below)
		dirs, err := fs.ReadDir(p.FS, dir)
		if err != nil {
			if convert.IsDir(p.FS, dir) {
				skips = append(skips, &convert.Skip{What: dir, Why: err})
			}
			continue
		}
		for _, d := range dirs {
			project := path.Join(dir, d.Name())
			if !convert.IsDir(p.FS, project) {
				continue
			}
			some, err := inProject(p.FS, project, path.Dir(dir))
			if err != nil {
				skips = append(skips, &convert.Skip{What: project, Why: err})
			}
			found = append(found, some...)
		}
	}
	if len(found) > 0 || len(skips) > 0 {
		return found, skips
	}
	return findBare(p)
}

// findBare looks for transcripts directly in the folder or one level below.
// Names prove nothing there, so only files that look like a transcript are used.
func findBare(p convert.Source) (found []source, skips []error) {
	dirs := []string{p.Path}
	entries, _ := fs.ReadDir(p.FS, p.Path)
	for _, d := range entries {
		if d.IsDir() {
			dirs = append(dirs, path.Join(p.Path, d.Name()))
		}
	}
	for _, dir := range dirs {
		some, _ := inProject(p.FS, dir, "")
		for _, s := range some {
			if looksRight(p.FS, s.file) {
				found = append(found, s)
			}
		}
	}
	return found, nil
}

// inProject returns the transcripts in the folder of one project. Older
// versions keep those of helper agents there, too.
func inProject(fsys fs.FS, dir, home string) ([]source, error) {
	entries, err := fs.ReadDir(fsys, dir)
	var found []source
	var agents []string
	for _, e := range entries {
		file := path.Join(dir, e.Name())
		switch {
		case path.Ext(file) != ".jsonl" || !e.Type().IsRegular() && !convert.IsFile(fsys, file):
		case strings.HasPrefix(e.Name(), "agent-"):
			agents = append(agents, file)
		default:
			found = append(found, source{file: file, home: home})
		}
	}
	for i := range found {
		found[i].agents = agents
	}
	return found, err
}

// one is the transcript of a Source that is a single file.
func one(p convert.Source) ([]source, []error) {
	if strings.HasPrefix(path.Base(p.Path), "agent-") {
		return nil, []error{convert.Skipf(p.Path, "is the transcript of a helper agent: it comes with its session")}
	}
	dir := path.Dir(p.Path)
	siblings, _ := inProject(p.FS, dir, "")
	s := source{file: p.Path}
	for _, sibling := range siblings {
		if sibling.file == p.Path {
			s = sibling
		}
	}
	return []source{s}, nil
}

// named is the session's id according to the file's name, or "".
func named(file string) string {
	id, err := tidemark.ParseSessionID(strings.TrimSuffix(path.Base(file), ".jsonl"))
	if err != nil {
		return ""
	}
	return string(id)
}
