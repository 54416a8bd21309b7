// Package qwen imports and exports the sessions of Qwen Code. It reads only transcripts and
// those of helper agents, no settings and no credentials.
//
// A transcript is JSON Lines, a tree by parentUuid, with messages made of
// Gemini's parts. Telemetry, which repeats the replies, is left out.
//
//	for s, err := range qwen.Tool().Import(ctx, place) { … }
package qwen

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// name is the name of the tool, and its key in Extra.
const name = "qwen-code"

// Tool returns the converter of Qwen Code.
func Tool() convert.Tool {
	return convert.Tool{Name: name, Title: "Qwen Code", Homes: []string{".qwen"}, Moved: []convert.Moved{{Variable: "QWEN_HOME"}}, Detect: detect, Import: importAll, Grows: true, Files: files, Kin: convert.TranscriptKin,
		Export: export, Handover: &convert.Handover{}}
}

// files lists the transcripts, and below subagents those of helper agents, in every
// place that find looks at.
var files = convert.UnitsLike(unit, ".qwen/projects/*/chats/*.jsonl", ".qwen/projects/*/subagents/**", "projects/*/chats/*.jsonl", "projects/*/subagents/**",
	"*/chats/*.jsonl", "*/subagents/**", "chats/*.jsonl", "subagents/**", "*.jsonl")

// unit is the transcript that a file belongs to. Those of helper agents are in a
// folder that is named for their session, beside that of the transcripts.
func unit(file string) string {
	for up := file; up != "."; up = path.Dir(up) {
		if dir := path.Dir(up); path.Base(dir) == "subagents" {
			return path.Join(path.Dir(dir), "chats", path.Base(up)+".jsonl")
		}
	}
	return file
}

func detect(_ context.Context, p convert.Source) bool {
	if convert.IsFile(p.FS, p.Path) {
		return path.Ext(p.Path) == ".jsonl" && looksRight(p.FS, p.Path)
	}
	files, _ := find(p)
	return slices.ContainsFunc(files, func(file string) bool { return looksRight(p.FS, file) })
}

// looksRight reports whether one of the first lines is a record of a
// transcript.
func looksRight(fsys fs.FS, file string) bool {
	for line, err := range convert.Lines(fsys, file) {
		if err != nil || line.Number > 20 {
			return false
		}
		r, err := decode(line.Text)
		if err != nil || r.UUID == "" || r.Session == "" {
			continue
		}
		switch r.Type {
		case "user", "assistant", "tool_result":
			return r.Message.Parts != nil
		case "system":
			if r.Payload != nil {
				return true
			}
		}
	}
	return false
}

// find returns the transcripts of a Source: a home folder, .qwen, projects, the
// folder of a project or its chats.
func find(p convert.Source) (files []string, skips []error) {
	for _, pattern := range []string{".qwen/projects/*/chats", "projects/*/chats", "*/chats", "chats", "."} {
		for _, dir := range convert.Glob(p.FS, p.Path, pattern) {
			entries, err := fs.ReadDir(p.FS, dir)
			if err != nil {
				skips = append(skips, &convert.Skip{What: dir, Why: err})
			}
			for _, e := range entries {
				file := path.Join(dir, e.Name())
				if path.Ext(file) == ".jsonl" && convert.IsFile(p.FS, file) && (pattern != "." && pattern != "*/chats" || looksRight(p.FS, file)) {
					files = append(files, file)
				}
			}
		}
		if len(files) > 0 {
			break
		}
	}
	return files, skips
}

// source is a transcript and the result of its first reading.
type source struct {
	file, id string
	about                 // all of it
	known    about        // what a later reading goes on with
	from, to convert.Mark // what was read; the last message may go on
	reader   *reader      // of the entries; nil: they are read from the beginning
}

// about is what records tell of a session.
type about struct {
	From      string    `json:"from,omitempty"`
	Title     string    `json:"title,omitempty"`
	Model     string    `json:"model,omitempty"`
	Project   string    `json:"project,omitempty"`
	Created   time.Time `json:"created,omitzero"`
	Own       time.Time `json:"own,omitzero"`
	Updated   time.Time `json:"updated,omitzero"`
	Version   string    `json:"version,omitempty"`
	Telemetry int       `json:"telemetry,omitempty"`
}

// state is what a Bookmark has of a session.
type state struct {
	ID     string  `json:"id"`
	About  about   `json:"about"`
	Reader *reader `json:"reader"`
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return convert.Transcripts[source]{
		Find: func(p convert.Source) ([]string, []error) {
			if convert.IsFile(p.FS, p.Path) {
				return []string{p.Path}, nil
			}
			return find(p)
		},
		Look: func(file string) (source, error) { return outline(ctx, p.FS, file) },
		Identity: func(s source) convert.Identity {
			return convert.Identity{ID: s.id, Original: s.From}
		},
		Session: func(s source, _ []source) *convert.Session { return s.session(ctx, p.FS) },
		GoOn: func(file string, g convert.Growth) *convert.Session {
			var was state
			if json.Unmarshal(g.State, &was) != nil || was.Reader == nil {
				return nil
			}
			s := source{file: file, id: was.ID, about: was.About, from: g.Mark, reader: was.Reader}
			if found, _, err := s.read(ctx, p.FS); !found || err != nil || s.From != was.About.From {
				return nil
			}
			return s.session(ctx, p.FS)
		},
	}.Import(ctx, p)
}

// outline reads a transcript once for what must be known of the session before
// its entries.
func outline(ctx context.Context, fsys fs.FS, file string) (source, error) {
	s := source{file: file}
	if id, err := tidemark.ParseSessionID(strings.TrimSuffix(path.Base(file), ".jsonl")); err == nil {
		s.id = string(id)
	}
	found, skip, err := s.read(ctx, fsys)
	switch {
	case err != nil:
		return s, err
	case !found && skip != nil:
		return s, skip
	case !found:
		return s, convert.Skipf(file, "holds no message of Qwen Code")
	case s.id == "":
		return s, convert.Skipf(file, "neither its name nor its records say which session it is")
	}
	return s, nil
}

// read reads the records, and the first error of one of them.
func (s *source) read(ctx context.Context, fsys fs.FS) (found bool, skip, err error) {
	for r, err := range records(ctx, fsys, s.file, s.from, s.reader.clone()) {
		if err != nil {
			if !convert.IsSkip(err) {
				return found, skip, err
			}
			skip = cmp.Or(skip, err)
			continue
		}
		if found = true; r.begins() {
			s.to, s.known = r.start, s.about
		}
		s.id = cmp.Or(s.id, string(r.Session))
		s.see(r.record)
	}
	return found, skip, nil
}

func (s *about) see(r record) {
	s.Project = cmp.Or(s.Project, string(r.Cwd))
	s.Model = cmp.Or(string(r.Model), s.Model)
	s.Version = cmp.Or(string(r.Version), s.Version)
	from := convert.Field(r.ForkedFrom, "sessionId")
	s.From = cmp.Or(from, s.From)
	if title := convert.Field(r.Payload, "customTitle"); r.Subtype == "custom_title" && title != "" {
		s.Title = title
	}
	if r.Subtype == telemetry {
		s.Telemetry++
	}
	at := r.at()
	if at.IsZero() {
		return
	}
	if s.Created.IsZero() {
		s.Created = at
	}
	if from == "" && s.Own.IsZero() {
		s.Own = at
	}
	if at.After(s.Updated) {
		s.Updated = at
	}
}

func (s source) session(ctx context.Context, fsys fs.FS) *convert.Session {
	out := &convert.Session{
		Session:   tidemark.Session{Title: s.Title, Agent: name, Model: s.Model, Project: s.Project, ForeignID: s.id, CreatedAt: s.Created},
		UpdatedAt: s.Updated,
	}
	marker := &convert.Marker{End: s.to}
	out.Entries, out.Units = s.entries(ctx, fsys, marker), []convert.Unit{{Bookmark: marker.Bookmark}}
	if s.From != s.id {
		out.Copied = s.From
	}
	if out.Copied != "" && !s.Own.IsZero() {
		out.CreatedAt = s.Own
	}
	out.Extra, _ = json.Marshal(map[string]any{name: map[string]string{"version": s.Version}}) // strings always marshal
	if s.Telemetry > 0 {
		out.Lost = []string{fmt.Sprintf("%d telemetry records, which repeat the conversation", s.Telemetry)}
	}
	if s.reader != nil {
		return out // its helpers are as they were
	}
	dir := path.Join(path.Dir(path.Dir(s.file)), "subagents", s.id)
	files, _ := fs.ReadDir(fsys, dir)
	for _, f := range files {
		file := path.Join(dir, f.Name())
		if path.Ext(file) != ".jsonl" || !convert.IsFile(fsys, file) {
			continue
		}
		stem := strings.TrimSuffix(file, ".jsonl")
		worker := convert.Worker{Name: strings.TrimPrefix(path.Base(stem), "agent-"), Entries: source{file: file}.entries(ctx, fsys, nil)}
		if meta, err := convert.ReadFile(fsys, stem+".meta.json"); err == nil {
			worker.Call = convert.Field(meta, "toolUseId")
			worker.Name = cmp.Or(convert.Field(meta, "agentId"), worker.Name)
		}
		out.Workers = append(out.Workers, worker)
	}
	return out
}
