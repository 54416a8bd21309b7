// Package gemini imports and exports the sessions of Gemini CLI. It reads the folders chats
// and tool-outputs of its projects, the names of the projects, and of the settings
// how long the client keeps sessions; it never opens accounts or keys.
//
//	for s, err := range gemini.Tool().Import(ctx, place) { … }
package gemini

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

const name = "gemini-cli"

// Tool is Gemini CLI.
func Tool() convert.Tool {
	return convert.Tool{
		Name: name, Title: "Gemini CLI", Homes: []string{".gemini"},
		Detect: detect, Import: imports, Files: convert.UnitsLike(unit, listed()...), Retention: retention,
		Export: export, Handover: &handover,
	}
}

// listed are the files that sessions are made of, in every place that chats looks
// at.
func listed() (patterns []string) {
	for _, below := range []string{".gemini/tmp", "tmp", "."} {
		for _, project := range []string{"*", "."} {
			dir := path.Join(below, project)
			patterns = append(patterns, dir+"/chats/**", dir+"/tool-outputs/**", dir+"/.project_root")
		}
	}
	return append(patterns, "*.json*", "*/*.jsonl")
}

// unit is a session file, by which what the client deletes is counted. Everything
// else is read with all of them.
func unit(file string) string {
	if strings.HasPrefix(path.Base(file), "session-") {
		return file
	}
	return "."
}

// file is one file of a session: its name and its first content.
type file struct {
	name string
	head op
}

func detect(_ context.Context, p convert.Source) bool {
	files := []string{p.Path}
	if convert.IsDir(p.FS, p.Path) {
		files = chats(p).main
	}
	return convert.Sniff(files, func(name string) bool {
		f, err := readHead(p.FS, name)
		return err == nil && f.head.ProjectHash != ""
	})
}

// found is what the chats folders of a Source contain.
type found struct {
	main    []string // session-….jsonl, formerly .json
	helpers []string // <session>/<agent>.jsonl
	skips   []error
}

// chats searches a folder: a home, its .gemini, the tmp in it, one project of
// that, or the chats themselves.
func chats(p convert.Source) (all found) {
	for _, below := range []string{".gemini/tmp/*/chats", "tmp/*/chats", "*/chats", "chats", "."} {
		for _, dir := range convert.Glob(p.FS, p.Path, below) {
			all.list(p.FS, dir, false)
		}
		if len(all.main) > 0 || len(all.skips) > 0 {
			break
		}
		all = found{}
	}
	return all
}

// list adds the files of a folder. Helpers are in folders below it, which are
// searched if the folder is one of chats: it may be any folder.
func (all *found) list(fsys fs.FS, dir string, below bool) {
	list, err := fs.ReadDir(fsys, dir)
	if err != nil {
		all.skips = append(all.skips, &convert.Skip{What: dir, Why: err})
	}
	isChats := !below && path.Base(dir) == "chats"
	var dirs []string
	for _, d := range list {
		name := path.Join(dir, d.Name())
		kind := path.Ext(name)
		switch {
		case d.IsDir() && !below:
			dirs = append(dirs, name)
		case !d.Type().IsRegular():
		case below && kind == ".jsonl":
			all.helpers = append(all.helpers, name)
		case !below && strings.HasPrefix(d.Name(), "session-") && (kind == ".jsonl" || kind == ".json"):
			all.main = append(all.main, name)
			isChats = true
		}
	}
	for _, d := range dirs {
		if isChats {
			all.list(fsys, d, true)
		}
	}
}

// readHead reads enough of a file to tell whose it is. The old form is one
// object with the messages after the head; they are not read here.
func readHead(fsys fs.FS, name string) (file, error) {
	f := file{name: name}
	start, err := convert.Head(fsys, name, 1<<16)
	if err != nil {
		return f, err
	}
	if err := f.head.readStart(start); err != nil {
		return f, err
	}
	if f.head.SessionID == "" {
		return f, tidemark.Invalidf("does not begin like a session of Gemini CLI")
	}
	return f, nil
}

// readStart reads the fields of an object up to the first long one.
func (o *op) readStart(start []byte) error {
	dec := json.NewDecoder(bytes.NewReader(start))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return tidemark.Invalidf("is no JSON object")
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if k, ok := key.(string); err == nil && ok && k != "messages" {
			var v json.RawMessage
			if dec.Decode(&v) == nil {
				fields[k] = v
				continue
			}
		}
		break
	}
	whole, err := json.Marshal(fields)
	if err != nil {
		return tidemark.Invalidf("is no JSON object: %w", err)
	}
	return convert.Loose(whole, o)
}

func imports(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		info, err := fs.Stat(p.FS, p.Path)
		if err != nil {
			yield(nil, err)
			return
		}
		names := []string{p.Path}
		if info.IsDir() {
			all := chats(p)
			names = append(all.main, all.helpers...)
			for _, skip := range all.skips {
				if !yield(nil, skip) {
					return
				}
			}
		}
		groups, order := map[string][]file{}, []string{}
		for _, n := range names {
			f, err := readHead(p.FS, n)
			if err != nil {
				if !yield(nil, &convert.Skip{What: n, Why: err}) {
					return
				}
				continue
			}
			id := f.head.SessionID
			if groups[id] == nil {
				order = append(order, id)
			}
			groups[id] = append(groups[id], f)
		}
		for _, id := range order {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if isWorker(groups, groups[id][0]) {
				continue
			}
			s, err := session(p, groups, id)
			if s == nil && err == nil {
				continue
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// isWorker reports whether a file belongs to an existing session. A helper whose
// session the tool has deleted is imported as a session.
func isWorker(groups map[string][]file, f file) bool {
	owner := path.Base(path.Dir(f.name))
	return f.head.Kind == "subagent" && groups[owner] != nil && owner != f.head.SessionID
}

// session makes one session from the files with its id; nil when nothing was
// said in it. The tool leaves such a file at each start, and a second one for a
// session that was resumed.
func session(p convert.Source, groups map[string][]file, id string) (*convert.Session, error) {
	files := groups[id]
	slices.SortStableFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.head.StartTime, b.head.StartTime), cmp.Compare(a.name, b.name))
	})
	r, err := read(p.FS, files)
	if err != nil {
		return nil, &convert.Skip{What: files[0].name, Why: err}
	}
	if len(r.items) == 0 && r.harms == 0 {
		return nil, nil
	}
	s := &convert.Session{Entries: r.entries(), Head: r.headID(), UpdatedAt: r.updated}
	s.ForeignID, s.Agent, s.Model = id, name, r.model
	s.CreatedAt = r.created
	s.Title = firstLine(r.title)
	s.Project = project(p, files[0], r)
	s.Extra = r.extra()
	addWorkers(p, groups, s, r)
	addFiles(p, files[0].name, s)
	return s, nil
}

// addWorkers adds the helpers of a session, and the helpers of those.
func addWorkers(p convert.Source, groups map[string][]file, s *convert.Session, r *replay) {
	calls := r.agents
	done := map[string]bool{s.ForeignID: true}
	for queue := []string{s.ForeignID}; len(queue) > 0; queue = queue[1:] {
		for _, id := range ownedBy(groups, queue[0]) {
			if done[id] {
				continue
			}
			done[id] = true
			queue = append(queue, id)
			w, err := read(p.FS, groups[id])
			if err != nil {
				s.Lost = append(s.Lost, "helper "+id+": "+err.Error())
				continue
			}
			for agent, call := range w.agents {
				calls[agent] = call
			}
			s.Workers = append(s.Workers, convert.Worker{Name: id, Entries: w.entries()})
		}
	}
	for i := range s.Workers {
		s.Workers[i].Call = calls[s.Workers[i].Name]
	}
}

func ownedBy(groups map[string][]file, owner string) []string {
	var ids []string
	for id, files := range groups {
		if isWorker(groups, files[0]) && path.Base(path.Dir(files[0].name)) == owner {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// addFiles imports the long tool output beside a session.
func addFiles(p convert.Source, first string, s *convert.Session) {
	if !fs.ValidPath(s.ForeignID) || strings.Contains(s.ForeignID, "/") {
		return
	}
	base := path.Dir(path.Dir(first))
	dir := path.Join(base, "tool-outputs", "session-"+s.ForeignID)
	list, _ := fs.ReadDir(p.FS, dir)
	for _, d := range list {
		if d.Type().IsRegular() {
			s.Take(p.FS, path.Join(dir, d.Name()), "tool-outputs/"+d.Name())
		}
	}
}

// project is the folder that a session worked in. The tool stores it beside the
// chats; a file on its own has it in its first message.
func project(p convert.Source, f file, r *replay) string {
	dir := path.Dir(f.name)
	for range 3 {
		if b, err := fs.ReadFile(p.FS, path.Join(dir, ".project_root")); err == nil {
			return strings.TrimSpace(string(b))
		}
		dir = path.Dir(dir)
	}
	if len(f.head.Directories) > 0 {
		return f.head.Directories[0]
	}
	return r.workspace
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(line); len(r) > 200 {
		return string(r[:200]) + "…"
	}
	return line
}
