// Package kimi imports and exports the sessions of Kimi Code: a folder a session, with one
// journal of JSON lines for each agent in it. It reads journals, state.json,
// plans, the output of background commands and images, and neither settings nor
// credentials nor the copies of edited files.
//
//	for s, err := range kimi.Tool().Import(ctx, place) { … }
package kimi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// name is the name of the tool, and its key in Extra.
const name = "kimi-code"

// journal is what was said with the main agent, below the folder of a session.
const journal = "agents/main/wire.jsonl"

// Tool returns the converter of Kimi Code.
func Tool() convert.Tool {
	return convert.Tool{Name: name, Title: "Kimi Code", Homes: []string{".kimi-code"}, Moved: []convert.Moved{{Variable: "KIMI_CODE_HOME"}},
		Detect: detect, Import: importAll, Grows: true, Files: listed, Kin: convert.TranscriptKin,
		Export: export, Handover: &convert.Handover{NewID: newID}}
}

// listed are the files of sessions, in every place that find looks at.
var listed = convert.WithBeside(convert.UnitsLike(unit, ".kimi-code/sessions/*/*/state.json", ".kimi-code/sessions/*/*/agents/**", "sessions/*/*/state.json", "sessions/*/*/agents/**",
	"wd_*/session_*/state.json", "wd_*/session_*/agents/**", "session_*/state.json", "session_*/agents/**", "state.json", "agents/**"),
	func(file string) bool { return path.Base(file) == "state.json" })

// unit is the journal of the session that a file belongs to.
func unit(file string) string {
	dir := path.Dir(file)
	for up := file; up != "."; up = path.Dir(up) {
		if path.Base(up) == "agents" {
			dir = path.Dir(up)
		}
	}
	return path.Join(dir, journal)
}

func detect(_ context.Context, p convert.Source) bool {
	files, _ := find(p)
	return convert.Sniff(files, func(file string) bool { return begins(p.FS, file) })
}

// begins reports whether a file begins like a journal.
func begins(fsys fs.FS, file string) bool {
	b, err := convert.Head(fsys, file, 1<<10)
	first, _, _ := bytes.Cut(b, []byte("\n"))
	return err == nil && convert.Field(first, "type") == "metadata" && convert.Field(first, "protocol_version") != ""
}

// find returns the journals of a Source: a home folder, .kimi-code, sessions,
// the folder of a project or of a session. The index of sessions has absolute
// paths, and is not asked.
func find(p convert.Source) (files []string, skips []error) {
	for _, pattern := range []string{".kimi-code/sessions/*/*", "sessions/*/*", "wd_*/session_*", "session_*", "."} {
		found, bad := convert.Match(p.FS, p.Path, path.Join(pattern, journal))
		if files, skips = append(files, found...), append(skips, bad...); len(files) > 0 {
			break
		}
	}
	return files, skips
}

// source is a session and the result of the first reading of its journals.
type source struct {
	dir, id  string
	state    convert.Object    // of state.json
	about                      // all of it
	known    about             // what a later reading goes on with
	from, to convert.Mark      // what was read of the journal, up to the last step that ended
	reader   *reader           // of the entries; nil: they are read from the beginning
	calls    map[string]string // the call that started each helper
	helpers  []string          // their journals
}

// about is what records tell of a session.
type about struct {
	Model    string    `json:"model,omitempty"`
	Mode     string    `json:"mode,omitempty"`
	Cwd      string    `json:"cwd,omitempty"`
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	Repeated int       `json:"repeated,omitempty"`
}

// bookmark is what a Bookmark has of a session.
type bookmark struct {
	About  about   `json:"about"`
	Reader *reader `json:"reader"`
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return convert.Transcripts[*source]{
		Find: find,
		Look: func(file string) (*source, error) { return look(ctx, p.FS, file) },
		Identity: func(s *source) convert.Identity {
			return convert.Identity{ID: s.id, Original: s.state.Text("forkedFrom"), CreatedAt: s.created()}
		},
		Session: func(s *source, _ []*source) *convert.Session { return s.session(ctx, p.FS) },
		GoOn: func(file string, g convert.Growth) *convert.Session {
			s := goOn(ctx, p.FS, file, g)
			if s == nil {
				return nil
			}
			return s.session(ctx, p.FS)
		},
	}.Import(ctx, p)
}

// look reads a session once for what must be known of it before its entries.
func look(ctx context.Context, fsys fs.FS, file string) (*source, error) {
	if !begins(fsys, file) {
		return nil, tidemark.Invalidf("does not begin like a journal of Kimi Code")
	}
	s := &source{calls: map[string]string{}}
	if err := s.readState(fsys, file); err != nil {
		return nil, err
	}
	s.helpers = convert.Glob(fsys, s.dir, "agents/*/wire.jsonl")
	s.helpers = slices.DeleteFunc(s.helpers, func(h string) bool { return h == file || !begins(fsys, h) })
	err := s.read(ctx, fsys, file)
	for _, journal := range s.helpers {
		for r, readErr := range convert.Objects(ctx, fsys, journal) {
			if readErr != nil && !convert.IsSkip(readErr) {
				return nil, readErr
			}
			if readErr == nil {
				s.see(r.Object, false)
			}
		}
	}
	return s, err
}

// goOn reads what was added to a journal; nil if that takes a reading of all: a
// helper was started, or there are some, whose journals tell of the session, too.
func goOn(ctx context.Context, fsys fs.FS, file string, g convert.Growth) *source {
	var was bookmark
	if json.Unmarshal(g.State, &was) != nil || was.Reader == nil {
		return nil
	}
	s := &source{about: was.About, from: g.Mark, reader: was.Reader, calls: map[string]string{}}
	if s.readState(fsys, file) != nil || s.read(ctx, fsys, file) != nil || len(s.calls) > 0 {
		return nil
	}
	return s
}

// readState reads what the tool says of a session, which it replaces whole. If it is
// not there or cannot be read, that costs the title; what was said is in the journal.
func (s *source) readState(fsys fs.FS, file string) error {
	s.dir = path.Dir(path.Dir(path.Dir(file)))
	if b, err := convert.ReadFile(fsys, path.Join(s.dir, "state.json")); err != nil || json.Unmarshal(b, &s.state) != nil {
		s.state = nil
	}
	if s.id = s.state.Text("id"); tidemark.CheckID(s.id) != nil {
		s.id = path.Base(s.dir)
	}
	return tidemark.CheckID(s.id)
}

// read reads the journal of the session.
func (s *source) read(ctx context.Context, fsys fs.FS, file string) error {
	open := false // a step has begun
	s.to, s.known = s.from, s.about
	for r, err := range convert.ObjectsFrom(ctx, fsys, file, s.from) {
		if err != nil && !convert.IsSkip(err) {
			return err
		}
		if err == nil {
			s.see(r.Object, true)
			open = steps(r.Object, open)
		}
		if !open && !r.Torn {
			s.to, s.known = r.End, s.about
		}
	}
	return nil
}

// steps reports whether a step is open after a record.
func steps(r convert.Object, open bool) bool {
	switch r.Text("type") {
	case "turn.ended", "turn.prompt", "context.undo", "context.clear":
		return false
	case "context.append_loop_event":
		ev, _ := r.Object("event")
		switch ev.Text("type") {
		case "step.begin", "content.part", "tool.call":
			return true
		case "step.end":
			return false
		}
	}
	return open
}

// see takes over what a record tells about the session.
func (s *source) see(r convert.Object, main bool) {
	if at := convert.Milli(r.Number("time")); !at.IsZero() {
		s.First = cmp.Or(s.First, at)
		if at.After(s.Last) {
			s.Last = at
		}
	}
	kind := r.Text("type")
	switch {
	case repeats(kind):
		s.Repeated++
	case kind == "subagent.spawned":
		s.calls[r.Text("subagentId")] = r.Text("parentToolCallId")
	}
	switch {
	case !main:
	case kind == "llm.request":
		s.Model, s.Mode = cmp.Or(r.Text("model"), s.Model), cmp.Or(convert.ModeOf(r.Text("provider")), s.Mode)
	case kind == "profile.bind" || kind == "config.update":
		where, _ := r.Object("environmentDisclosure")
		s.Cwd, s.Model = cmp.Or(where.Text("cwd"), s.Cwd), cmp.Or(s.Model, r.Text("modelAlias"))
	}
}

func (s *source) created() time.Time {
	return cmp.Or(convert.Milli(s.state.Number("createdAt")), s.First)
}

func (s *source) session(ctx context.Context, fsys fs.FS) *convert.Session {
	out := &convert.Session{
		Session:   tidemark.Session{Title: s.state.Text("title"), Agent: name, Model: s.Model, Mode: s.Mode, Project: cmp.Or(s.state.Text("cwd"), s.Cwd), ForeignID: s.id, CreatedAt: s.created()},
		UpdatedAt: cmp.Or(convert.Milli(s.state.Number("updatedAt")), s.Last),
	}
	var marker *convert.Marker
	if len(s.helpers) == 0 {
		marker = &convert.Marker{End: s.to}
		out.Units = []convert.Unit{{Bookmark: marker.Bookmark}}
	}
	out.Entries = s.entries(ctx, fsys, marker)
	if from := s.state.Text("forkedFrom"); from != s.id {
		out.Copied = from
	}
	// The agents are the workers, and where they are is the tool's own affair.
	out.Extra = convert.Keep(name, s.state.Without("id", "cwd", "title", "forkedFrom", "createdAt", "updatedAt", "agents"))
	if s.Repeated > 0 {
		out.Lost = []string{fmt.Sprintf("%d records that repeat others or describe requests", s.Repeated)}
	}
	if s.reader != nil {
		return out // its files are as they were
	}
	for _, helper := range s.helpers {
		agent := path.Base(path.Dir(helper))
		out.Workers = append(out.Workers, convert.Worker{Name: agent, Call: s.calls[agent], Entries: (&reader{fsys: fsys, file: helper, helper: true}).entries(ctx, convert.Mark{}, nil)})
	}
	for _, pattern := range []string{"agents/*/plans/*.md", "agents/*/tasks/*/output.log"} {
		for _, file := range convert.Glob(fsys, s.dir, pattern) {
			if convert.IsFile(fsys, file) {
				out.Take(fsys, file, path.Join(name, file[len(s.dir)+1:]))
			}
		}
	}
	return out
}
