// Package copilot imports the sessions of GitHub Copilot CLI. It reads the
// folder session-state, and never settings, accounts or the databases beside it,
// which repeat the same.
//
//	for s, err := range copilot.Tool().Import(ctx, place) { … }
package copilot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

const name = "copilot-cli"

// Tool is GitHub Copilot CLI. It only imports.
func Tool() convert.Tool {
	return convert.Tool{
		Name: name, Title: "GitHub Copilot CLI", Homes: []string{".copilot"},
		Detect: detect, Import: imports, Grows: true, Files: listed, Kin: convert.TranscriptKin,
	}
}

// listed are the files of sessions: in a folder for each, or, as in the first
// versions and where the Source is one session, beside each other.
var listed = convert.UnitsLike(unit, ".copilot/session-state/*", ".copilot/session-state/*/*", ".copilot/session-state/*/files/*",
	"session-state/*", "session-state/*/*", "session-state/*/files/*", "*/events.jsonl", "*/workspace.yaml", "*/plan.md", "*/files/*",
	"*.jsonl", "workspace.yaml", "plan.md", "files/*")

// unit is the event file of the session that a file belongs to.
func unit(file string) string {
	dir := path.Dir(file)
	switch {
	case path.Ext(file) == ".jsonl":
		return file
	case path.Base(dir) == "files":
		dir = path.Dir(dir)
	}
	return path.Join(dir, eventFile)
}

// eventFile is the event file of a session that has a folder.
const eventFile = "events.jsonl"

func detect(_ context.Context, p convert.Source) bool {
	files, _ := find(p)
	return convert.Sniff(files, func(file string) bool { return begins(p.FS, file) == nil })
}

// find returns the event files below a folder: a home, its .copilot, the
// session-state in it, or one session of that. A file stands for itself.
func find(p convert.Source) (files []string, skips []error) {
	if !convert.IsDir(p.FS, p.Path) {
		return []string{p.Path}, nil
	}
	dir := convert.Folder(p.FS, p.Path, ".copilot/session-state", "session-state")
	list, err := fs.ReadDir(p.FS, dir)
	if err != nil {
		return nil, []error{&convert.Skip{What: dir, Why: err}}
	}
	for _, d := range list {
		name := path.Join(dir, d.Name())
		switch {
		case d.Type().IsRegular() && (d.Name() == eventFile || dir != p.Path && path.Ext(name) == ".jsonl"):
			files = append(files, name)
		case d.IsDir():
			name = path.Join(name, eventFile)
			_, err := fs.Stat(p.FS, name)
			if err == nil {
				files = append(files, name)
			} else if !errors.Is(err, fs.ErrNotExist) {
				skips = append(skips, &convert.Skip{What: name, Why: err})
			}
		}
	}
	return files, skips
}

// begins returns, from its first bytes, why a file is not an event file.
func begins(fsys fs.FS, name string) error {
	b, err := convert.Head(fsys, name, 1<<10)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) || !bytes.Contains(b, []byte(`"session.start"`)) {
		return tidemark.Invalidf("does not begin like a session of Copilot CLI")
	}
	return nil
}

func imports(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return convert.Transcripts[*survey]{
		Find: find,
		Look: func(file string) (*survey, error) { return look(p.FS, file) },
		Identity: func(s *survey) convert.Identity {
			return convert.Identity{ID: s.id, Original: s.copied, CreatedAt: cmp.Or(s.forkedAt, s.created)}
		},
		Session: func(s *survey, _ []*survey) *convert.Session { return s.session(p.FS) },
	}.Import(ctx, p)
}

// event is one line. Its parent is always the previous line.
type event struct {
	Type      string          `json:"type"`
	Data      json.RawMessage `json:"data"`
	ID        string          `json:"id"`
	Timestamp string          `json:"timestamp"`
	AgentID   string          `json:"agentId"`
	line      int
}

// read yields the events of a file; if wanted is not nil, only those of the
// lines that it selects.
func read(fsys fs.FS, file string, wanted func(text []byte) bool) iter.Seq2[*event, error] {
	return func(yield func(*event, error) bool) {
		for l, err := range convert.Lines(fsys, file) {
			if err != nil {
				if !yield(nil, err) || !convert.IsSkip(err) {
					return
				}
				continue
			}
			if wanted != nil && !wanted(l.Text) {
				continue
			}
			e := &event{line: l.Number}
			if err := convert.Loose(l.Text, e); err != nil {
				if !yield(nil, convert.Skipf(file, "line %d is not JSON: %w", l.Number, err)) {
					return
				}
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// survey is what one reading of a file tells about the session.
type survey struct {
	file               string
	id, copied         string
	created, updated   time.Time
	forkedAt           time.Time // when a copy became its own session
	model, cwd, title  string
	agents             []agent
	known              map[string]int // agents by id
	rewound            bool           // something was undone
	head               string         // set when that was the last thing
	context, workspace json.RawMessage
}

type agent struct{ id, name, call string }

func look(fsys fs.FS, file string) (*survey, error) {
	if err := begins(fsys, file); err != nil {
		return nil, err
	}
	s := &survey{file: file, known: map[string]int{}}
	var last []byte
	tells := func(text []byte) bool {
		last = append(last[:0], text...)
		return bytes.Contains(text, []byte(`"session.`)) || bytes.Contains(text, []byte(`"agentId"`))
	}
	for e, err := range read(fsys, file, tells) {
		if err != nil && !convert.IsSkip(err) {
			return nil, err
		}
		if err == nil {
			s.take(e)
		}
	}
	if e := (event{}); convert.Loose(last, &e) == nil {
		s.take(&e)
	}
	var about map[string]string
	if path.Base(file) == eventFile { // and has a folder
		about = workspace(fsys, path.Join(path.Dir(file), "workspace.yaml"))
	}
	started := s.id
	switch dir := path.Base(path.Dir(file)); {
	case about["id"] != "":
		s.id = about["id"]
	case path.Base(file) != eventFile:
		s.id = strings.TrimSuffix(path.Base(file), ".jsonl")
	case dir != "." && dir != "/":
		s.id = dir
	}
	if s.id == "" {
		return nil, tidemark.Invalidf("has no session id")
	}
	if started != "" && started != s.id && path.Base(file) == eventFile {
		s.copied = started
	}
	s.title = cmp.Or(about["name"], s.title)
	s.cwd = cmp.Or(s.cwd, about["cwd"])
	if len(about) > 0 {
		s.workspace, _ = json.Marshal(about)
	}
	if s.rewound {
		s.head = (&stream{fsys: fsys, file: file}).endsAt()
	}
	return s, nil
}

func (s *survey) take(e *event) {
	if at := convert.ParseTime(e.Timestamp); !at.IsZero() {
		if s.created.IsZero() {
			s.created = at
		}
		s.updated = at
	}
	var d struct {
		SessionID        string          `json:"sessionId"`
		SelectedModel    string          `json:"selectedModel"`
		NewModel         string          `json:"newModel"`
		Title            string          `json:"title"`
		ToolCallID       string          `json:"toolCallId"`
		AgentName        string          `json:"agentName"`
		AgentDisplayName string          `json:"agentDisplayName"`
		Context          json.RawMessage `json:"context"`
	}
	switch {
	case e.Type == "session.snapshot_rewind" || e.Type == "session.context_cleared":
		s.rewound = true
		return
	case e.Type == "session.start" || e.Type == "session.resume" || e.Type == "session.model_change" ||
		e.Type == "session.title_changed" || e.Type == "subagent.started":
		if convert.Loose(e.Data, &d) != nil {
			return
		}
	case e.AgentID == "":
		return
	}
	if e.AgentID != "" {
		i, ok := s.known[e.AgentID]
		if !ok {
			i = len(s.agents)
			s.known[e.AgentID] = i
			s.agents = append(s.agents, agent{id: e.AgentID})
		}
		if e.Type == "subagent.started" {
			s.agents[i].call = cmp.Or(s.agents[i].call, d.ToolCallID)
			s.agents[i].name = cmp.Or(d.AgentDisplayName, d.AgentName)
		}
		return
	}
	s.model = cmp.Or(d.SelectedModel, d.NewModel, s.model)
	s.title = cmp.Or(d.Title, s.title)
	if e.Type != "session.start" && e.Type != "session.resume" {
		return
	}
	if s.id == "" {
		s.id = d.SessionID
	} else if e.Type == "session.start" {
		s.forkedAt = convert.ParseTime(e.Timestamp)
	}
	var c struct{ Cwd string }
	if convert.Loose(d.Context, &c) == nil && s.cwd == "" {
		s.cwd, s.context = c.Cwd, d.Context
	}
}

func (s *survey) session(fsys fs.FS) *convert.Session {
	out := &convert.Session{UpdatedAt: s.updated, Copied: s.copied, Head: s.head}
	out.ForeignID, out.Agent, out.Model, out.Project = s.id, name, s.model, s.cwd
	out.Title, out.CreatedAt = s.title, s.created
	kept := map[string]json.RawMessage{}
	if s.context != nil {
		kept["context"] = s.context
	}
	if s.workspace != nil {
		kept["workspace"] = s.workspace
	}
	if len(kept) > 0 {
		out.Extra, _ = json.Marshal(map[string]any{name: kept})
	}
	out.Entries = (&stream{fsys: fsys, file: s.file}).entries()
	if path.Base(s.file) == eventFile {
		addFiles(fsys, path.Dir(s.file), out)
	}
	for _, a := range s.agents {
		w := convert.Worker{Name: a.id, Call: a.call}
		w.Entries = (&stream{fsys: fsys, file: s.file, agent: a.id, agentName: a.name}).entries()
		out.Workers = append(out.Workers, w)
	}
	return out
}

// addFiles imports the plan of a session and the files that it made for itself.
func addFiles(fsys fs.FS, dir string, s *convert.Session) {
	s.Take(fsys, path.Join(dir, "plan.md"), "plan.md")
	list, _ := fs.ReadDir(fsys, path.Join(dir, "files"))
	for _, d := range list {
		if d.Type().IsRegular() {
			name := path.Join("files", d.Name())
			s.Take(fsys, path.Join(dir, name), name)
		}
	}
}
