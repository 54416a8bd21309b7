package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// tree is a store of JSON files: session/<project>/<id>.json,
// message/<session>/<id>.json and part/<message>/<id>.json. The oldest one has
// info/<id>.json, message/<session>/<id>.json and
// part/<session>/<message>/<id>.json, below one folder per project.
type tree struct {
	fsys      fs.FS
	root      string
	outputDir string // "": none
	old       bool
}

func (t tree) open(context.Context) error { return nil }
func (t tree) close()                     {}

// files are the session files.
func (t tree) files() []string {
	if t.old {
		return convert.Glob(t.fsys, t.root, "info/ses_*.json")
	}
	return convert.Glob(t.fsys, t.root, "session/*/ses_*.json")
}

func (t tree) sessions(context.Context) iter.Seq2[*session, error] {
	return func(yield func(*session, error) bool) {
		for _, name := range t.files() {
			s, err := t.session(name)
			if err != nil {
				err = &convert.Skip{What: name, Why: err}
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

func (t tree) session(name string) (*session, error) {
	b, err := convert.ReadFile(t.fsys, name)
	if err != nil {
		return nil, err
	}
	s, err := parseSession(b)
	if err != nil {
		return nil, err
	}
	if s.id+".json" != path.Base(name) {
		return nil, tidemark.Invalidf("it says that it is session %s", s.id)
	}
	if s.directory == "" && !t.old {
		s.directory = t.worktree(path.Base(path.Dir(name)))
	}
	return s, nil
}

// worktree is the folder of a project, for sessions that do not state theirs.
func (t tree) worktree(project string) string {
	var p struct {
		Worktree string `json:"worktree"`
	}
	b, err := convert.ReadFile(t.fsys, path.Join(t.root, "project", project+".json"))
	if err != nil || json.Unmarshal(b, &p) != nil {
		return ""
	}
	return p.Worktree
}

func (t tree) messages(_ context.Context, session string) iter.Seq2[item, error] {
	return t.items(path.Join(t.root, "message", session))
}

func (t tree) parts(_ context.Context, session, message string) iter.Seq2[item, error] {
	if t.old {
		return t.items(path.Join(t.root, "part", session, message))
	}
	return t.items(path.Join(t.root, "part", message))
}

// items yields the objects in a folder by name, which is the order of their ids
// and of time. A session without messages has no folder.
func (t tree) items(dir string) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		list, err := fs.ReadDir(t.fsys, dir)
		if err != nil && convert.IsDir(t.fsys, dir) {
			yield(item{}, &convert.Skip{What: dir, Why: err})
			return
		}
		for _, d := range list {
			id, ok := strings.CutSuffix(d.Name(), ".json")
			if !ok || !d.Type().IsRegular() {
				continue
			}
			name := path.Join(dir, d.Name())
			b, err := t.read(name)
			if err != nil {
				err = &convert.Skip{What: name, Why: err}
			}
			if !yield(item{id: id, data: b}, err) {
				return
			}
		}
	}
}

func (t tree) read(name string) ([]byte, error) {
	info, err := fs.Stat(t.fsys, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > convert.MaxLine {
		return nil, tidemark.Invalidf("is longer than %d bytes", convert.MaxLine)
	}
	return convert.ReadFile(t.fsys, name)
}

func (t tree) todo(_ context.Context, session string) json.RawMessage {
	b, err := t.read(path.Join(t.root, "todo", session+".json"))
	if err != nil {
		return nil
	}
	return b
}

func (t tree) outputs() fs.FS { return folder(t.fsys, t.outputDir) }

// exported is the file that `opencode export` writes: one session in one
// object.
type exported struct {
	fsys  fs.FS
	name  string
	index map[string]int // of the messages, by id
	file  struct {
		Info     json.RawMessage `json:"info"`
		Messages []struct {
			Info  json.RawMessage   `json:"info"`
			Parts []json.RawMessage `json:"parts"`
		} `json:"messages"`
	}
}

// isExport recognizes an export by its beginning.
func isExport(b []byte) bool {
	b = bytes.Join(bytes.Fields(b[:min(len(b), 4096)]), nil)
	return bytes.HasPrefix(b, []byte(`{"info":{`)) && bytes.Contains(b, []byte(`"ses_`))
}

func (x *exported) open(context.Context) error {
	b, err := convert.ReadFile(x.fsys, x.name)
	if err == nil {
		err = json.Unmarshal(b, &x.file)
	}
	if err != nil {
		return &convert.Skip{What: x.name, Why: tidemark.Invalidf("%w", err)}
	}
	x.index = map[string]int{}
	for i, m := range x.file.Messages {
		x.index[idOf(m.Info)] = i
	}
	return nil
}

func (x *exported) close() {}

func (x *exported) sessions(context.Context) iter.Seq2[*session, error] {
	return func(yield func(*session, error) bool) {
		s, err := parseSession(x.file.Info)
		if err != nil {
			err = &convert.Skip{What: x.name, Why: err}
		}
		yield(s, err)
	}
}

func (x *exported) messages(context.Context, string) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for _, m := range x.file.Messages {
			if !yield(item{id: idOf(m.Info), data: m.Info}, nil) {
				return
			}
		}
	}
}

func (x *exported) parts(_ context.Context, _, message string) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		i, ok := x.index[message]
		if !ok {
			return
		}
		for _, p := range x.file.Messages[i].Parts {
			if !yield(item{id: idOf(p), data: p}, nil) {
				return
			}
		}
	}
}

func (x *exported) todo(context.Context, string) json.RawMessage { return nil }
func (x *exported) outputs() fs.FS                               { return nil }

func idOf(object json.RawMessage) string {
	var w struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(object, &w) != nil {
		return ""
	}
	return w.ID
}
