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
var listed = convert.WithBeside(convert.UnitsLike(unit, ".copilot/session-state/*", ".copilot/session-state/*/*", ".copilot/session-state/*/files/*",
	"session-state/*", "session-state/*/*", "session-state/*/files/*", "*/events.jsonl", "*/workspace.yaml", "*/plan.md", "*/files/*",
	"*.jsonl", "workspace.yaml", "plan.md", "files/*"), func(file string) bool { return path.Base(file) == workspaceFile })

// workspaceFile says where a session was; the tool replaces it whole.
const workspaceFile = "workspace.yaml"

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
			return convert.Identity{ID: s.id, Original: s.copied, CreatedAt: cmp.Or(s.ForkedAt, s.Created)}
		},
		Session: func(s *survey, _ []*survey) *convert.Session { return s.session(p.FS) },
		GoOn: func(file string, g convert.Growth) *convert.Session {
			s := goOn(p.FS, file, g)
			if s == nil {
				return nil
			}
			return s.session(p.FS)
		},
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
	start     convert.Mark
}

// read yields the events of a file from a mark on; if wanted is not nil, only those of
// the lines that it selects.
func read(fsys fs.FS, file string, from convert.Mark, wanted func(l convert.Line) bool) iter.Seq2[*event, error] {
	return func(yield func(*event, error) bool) {
		for l, err := range convert.LinesFrom(fsys, file, from) {
			if err != nil {
				if !yield(nil, err) || !convert.IsSkip(err) {
					return
				}
				continue
			}
			if wanted != nil && !wanted(l) {
				continue
			}
			e := &event{line: l.Number, start: l.Start}
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
	file       string
	id, copied string
	about                   // all of it
	known      about        // what a later reading goes on with
	from, to   convert.Mark // what was read, but for the last line
	reader     *stream      // of the entries; nil: they are read from the beginning
	agents     []agent
	agentsByID map[string]int
	rewound    bool   // something was undone
	head       string // set when that was the last thing
	workspace  json.RawMessage
}

// about is what events tell of a session.
type about struct {
	Started  string          `json:"started,omitempty"` // the id that it had then
	Created  time.Time       `json:"created,omitzero"`
	Updated  time.Time       `json:"updated,omitzero"`
	ForkedAt time.Time       `json:"forked_at,omitzero"` // when a copy became its own session
	Model    string          `json:"model,omitempty"`
	Cwd      string          `json:"cwd,omitempty"`
	Title    string          `json:"title,omitempty"`
	Context  json.RawMessage `json:"context,omitempty"`
}

// bookmark is what a Bookmark has of a session.
type bookmark struct {
	About  about   `json:"about"`
	Reader *stream `json:"reader"`
}

type agent struct{ id, name, call string }

func look(fsys fs.FS, file string) (*survey, error) {
	if err := begins(fsys, file); err != nil {
		return nil, err
	}
	s := &survey{file: file, agentsByID: map[string]int{}}
	if err := s.read(fsys); err != nil {
		return nil, err
	}
	if err := s.name(fsys); err != nil {
		return nil, err
	}
	if s.rewound {
		s.head = (&stream{fsys: fsys, file: file}).endsAt()
	}
	return s, nil
}

// goOn reads what was added to a file; nil if that takes a reading of all of it:
// something was undone, or a helper said something, whose events are in it, too.
func goOn(fsys fs.FS, file string, g convert.Growth) *survey {
	var was bookmark
	if json.Unmarshal(g.State, &was) != nil || was.Reader == nil {
		return nil
	}
	s := &survey{file: file, about: was.About, from: g.Mark, reader: was.Reader, agentsByID: map[string]int{}}
	if s.read(fsys) != nil || s.rewound || len(s.agents) > 0 || s.name(fsys) != nil {
		return nil
	}
	return s
}

// read reads the events that tell something of the session, and the last one, which
// tells when it was changed.
func (s *survey) read(fsys fs.FS) error {
	var last []byte
	s.to, s.known = s.from, s.about
	tells := func(l convert.Line) bool {
		s.to, s.known = l.Start, s.about
		last = append(last[:0], l.Text...)
		return bytes.Contains(l.Text, []byte(`"session.`)) || bytes.Contains(l.Text, []byte(`"agentId"`))
	}
	for e, err := range read(fsys, s.file, s.from, tells) {
		if err != nil && !convert.IsSkip(err) {
			return err
		}
		if err == nil {
			s.take(e)
		}
	}
	s.seen(last)
	return nil
}

// seen notes when a line was written.
func (s *survey) seen(line []byte) {
	if at := convert.ParseTime(convert.Field(line, "timestamp")); !at.IsZero() {
		s.Created, s.Updated = cmp.Or(s.Created, at), at
	}
}

// name finds out which session it is.
func (s *survey) name(fsys fs.FS) error {
	var about map[string]string
	if path.Base(s.file) == eventFile { // and has a folder
		about = workspace(fsys, path.Join(path.Dir(s.file), workspaceFile))
	}
	s.id = s.Started
	switch dir := path.Base(path.Dir(s.file)); {
	case about["id"] != "":
		s.id = about["id"]
	case path.Base(s.file) != eventFile:
		s.id = strings.TrimSuffix(path.Base(s.file), ".jsonl")
	case dir != "." && dir != "/":
		s.id = dir
	}
	if s.id == "" {
		return tidemark.Invalidf("has no session id")
	}
	if s.Started != "" && s.Started != s.id && path.Base(s.file) == eventFile {
		s.copied = s.Started
	}
	s.Title = cmp.Or(about["name"], s.Title)
	s.Cwd = cmp.Or(s.Cwd, about["cwd"])
	if len(about) > 0 {
		s.workspace, _ = json.Marshal(about)
	}
	return nil
}

func (s *survey) take(e *event) {
	if at := convert.ParseTime(e.Timestamp); !at.IsZero() {
		if s.Created.IsZero() {
			s.Created = at
		}
		s.Updated = at
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
		i, ok := s.agentsByID[e.AgentID]
		if !ok {
			i = len(s.agents)
			s.agentsByID[e.AgentID] = i
			s.agents = append(s.agents, agent{id: e.AgentID})
		}
		if e.Type == "subagent.started" {
			s.agents[i].call = cmp.Or(s.agents[i].call, d.ToolCallID)
			s.agents[i].name = cmp.Or(d.AgentDisplayName, d.AgentName)
		}
		return
	}
	s.Model = cmp.Or(d.SelectedModel, d.NewModel, s.Model)
	s.Title = cmp.Or(d.Title, s.Title)
	if e.Type != "session.start" && e.Type != "session.resume" {
		return
	}
	if s.Started == "" {
		s.Started = d.SessionID
	} else if e.Type == "session.start" {
		s.ForkedAt = convert.ParseTime(e.Timestamp)
	}
	var c struct{ Cwd string }
	if convert.Loose(d.Context, &c) == nil && s.Cwd == "" {
		s.Cwd, s.Context = c.Cwd, d.Context
	}
}

func (s *survey) session(fsys fs.FS) *convert.Session {
	out := &convert.Session{UpdatedAt: s.Updated, Copied: s.copied, Head: s.head}
	out.ForeignID, out.Agent, out.Model, out.Project = s.id, name, s.Model, s.Cwd
	out.Title, out.CreatedAt = s.Title, s.Created
	kept := map[string]json.RawMessage{}
	if s.Context != nil {
		kept["context"] = s.Context
	}
	if s.workspace != nil {
		kept["workspace"] = s.workspace
	}
	if len(kept) > 0 {
		out.Extra, _ = json.Marshal(map[string]any{name: kept})
	}
	var marker *convert.Marker
	if !s.rewound {
		marker = &convert.Marker{End: s.to}
		out.Units = []convert.Unit{{Bookmark: marker.Bookmark}}
	}
	out.Entries = s.entries(fsys, marker)
	if s.reader != nil {
		return out // its files and helpers are as they were
	}
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
