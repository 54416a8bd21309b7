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
	file, id, from        string
	title, model, project string
	created, own, updated time.Time
	version               string
	telemetry             int
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
			return convert.Identity{ID: s.id, Original: s.from}
		},
		Session: func(s source, _ []source) *convert.Session { return s.session(ctx, p.FS) },
	}.Import(ctx, p)
}

// outline reads a transcript once for what must be known of the session before
// its entries.
func outline(ctx context.Context, fsys fs.FS, file string) (source, error) {
	s := source{file: file}
	if id, err := tidemark.ParseSessionID(strings.TrimSuffix(path.Base(file), ".jsonl")); err == nil {
		s.id = string(id)
	}
	found := false
	var skip error
	for r, err := range records(ctx, fsys, file) {
		if err != nil {
			if !convert.IsSkip(err) {
				return s, err
			}
			skip = cmp.Or(skip, err)
			continue
		}
		found = true
		s.id = cmp.Or(s.id, string(r.Session))
		s.see(r.record)
	}
	switch {
	case !found && skip != nil:
		return s, skip
	case !found:
		return s, convert.Skipf(file, "holds no message of Qwen Code")
	case s.id == "":
		return s, convert.Skipf(file, "neither its name nor its records say which session it is")
	}
	return s, nil
}

func (s *source) see(r record) {
	s.project = cmp.Or(s.project, string(r.Cwd))
	s.model = cmp.Or(string(r.Model), s.model)
	s.version = cmp.Or(string(r.Version), s.version)
	from := convert.Field(r.ForkedFrom, "sessionId")
	s.from = cmp.Or(from, s.from)
	if title := convert.Field(r.Payload, "customTitle"); r.Subtype == "custom_title" && title != "" {
		s.title = title
	}
	if r.Subtype == telemetry {
		s.telemetry++
	}
	at := r.at()
	if at.IsZero() {
		return
	}
	if s.created.IsZero() {
		s.created = at
	}
	if from == "" && s.own.IsZero() {
		s.own = at
	}
	if at.After(s.updated) {
		s.updated = at
	}
}

func (s source) session(ctx context.Context, fsys fs.FS) *convert.Session {
	out := &convert.Session{
		Session: tidemark.Session{Title: s.title, Agent: name, Model: s.model, Project: s.project, ForeignID: s.id, CreatedAt: s.created},
		Entries: entries(ctx, fsys, s.file), UpdatedAt: s.updated,
	}
	if s.from != s.id {
		out.Copied = s.from
	}
	if out.Copied != "" && !s.own.IsZero() {
		out.CreatedAt = s.own
	}
	out.Extra, _ = json.Marshal(map[string]any{name: map[string]string{"version": s.version}}) // strings always marshal
	if s.telemetry > 0 {
		out.Lost = []string{fmt.Sprintf("%d telemetry records, which repeat the conversation", s.telemetry)}
	}
	dir := path.Join(path.Dir(path.Dir(s.file)), "subagents", s.id)
	files, _ := fs.ReadDir(fsys, dir)
	for _, f := range files {
		file := path.Join(dir, f.Name())
		if path.Ext(file) != ".jsonl" || !convert.IsFile(fsys, file) {
			continue
		}
		stem := strings.TrimSuffix(file, ".jsonl")
		worker := convert.Worker{Name: strings.TrimPrefix(path.Base(stem), "agent-"), Entries: entries(ctx, fsys, file)}
		if meta, err := convert.ReadFile(fsys, stem+".meta.json"); err == nil {
			worker.Call = convert.Field(meta, "toolUseId")
			worker.Name = cmp.Or(convert.Field(meta, "agentId"), worker.Name)
		}
		out.Workers = append(out.Workers, worker)
	}
	return out
}
