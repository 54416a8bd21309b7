// Package droid imports the sessions of Factory Droid: a file of JSON lines a
// session, a tree of messages in Anthropic's blocks, and a file of settings
// beside it. It reads these two, and neither accounts nor the index of sessions,
// and writes nothing.
//
//	for s, err := range droid.Tool().Import(ctx, place) { … }
package droid

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// name is the name of the tool, and its key in Extra.
const name = "factory-droid"

// Tool returns the converter of Factory Droid.
func Tool() convert.Tool {
	return convert.Tool{Name: name, Title: "Factory Droid", Homes: []string{".factory/sessions"}, Detect: detect, Import: importAll, Grows: true, Files: listed, Kin: convert.TranscriptKin}
}

// listed are the files of sessions with their settings, in every place that find
// looks at.
var listed = convert.WithBeside(convert.UnitsLike(unit, ".factory/sessions/*.json*", ".factory/sessions/-*/*.json*",
	"sessions/*.json*", "sessions/-*/*.json*", "*.json*", "-*/*.json*"), func(file string) bool { return strings.HasSuffix(file, settingsFile) })

// unit is the session file that a file belongs to.
func unit(file string) string {
	if stem, ok := strings.CutSuffix(file, settingsFile); ok {
		return stem + ".jsonl"
	}
	return file
}

// settingsFile follows the stem of a session file in the name of its settings.
const settingsFile = ".settings.json"

func detect(_ context.Context, p convert.Source) bool {
	files, _ := find(p)
	return convert.Sniff(files, func(file string) bool {
		_, err := header(p.FS, file)
		return err == nil
	})
}

// find returns the session files of a Source: a home folder, .factory, sessions,
// the folder of a project, or one file. The first versions had no folder a
// project.
func find(p convert.Source) (files []string, skips []error) {
	if convert.IsFile(p.FS, p.Path) {
		return []string{p.Path}, nil
	}
	for _, dir := range []string{".factory/sessions", "sessions", "."} {
		for _, pattern := range []string{"*.jsonl", "-*/*.jsonl"} {
			found, bad := convert.Match(p.FS, p.Path, path.Join(dir, pattern))
			files, skips = append(files, found...), append(skips, bad...)
		}
		if len(files) > 0 {
			break
		}
	}
	return files, skips
}

// maxHeader is enough for a header with a long title and path in it.
const maxHeader = 64 << 10

// header reads the first line, which the tool writes again when the title
// changes.
func header(fsys fs.FS, file string) (h convert.Object, err error) {
	b, err := convert.Head(fsys, file, maxHeader)
	if err != nil {
		return nil, err
	}
	first, _, _ := bytes.Cut(b, []byte("\n"))
	if json.Unmarshal(first, &h) != nil || h.Text("type") != "session_start" || h.Text("id") == "" || h["payload"] != nil {
		return nil, tidemark.Invalidf("does not begin like a session of Factory Droid")
	}
	return h, tidemark.CheckID(h.Text("id"))
}

// source is a session file and the result of its first reading.
type source struct {
	file, id         string
	header, settings convert.Object
	about                         // all of it
	known            about        // what a later reading goes on with
	from, to         convert.Mark // what was read, but for a last line that is not whole
	reader           *reader      // of the entries; nil: they are read from the beginning
}

// about is what lines tell of a session.
type about struct {
	Model   string    `json:"model,omitempty"`
	Copied  string    `json:"copied,omitempty"` // the message up to which a fork is a copy, until it was read
	Created time.Time `json:"created,omitzero"`
	Own     time.Time `json:"own,omitzero"` // of what is the fork's own
	Last    time.Time `json:"last,omitzero"`
}

// state is what a Bookmark has of a session.
type state struct {
	About  about   `json:"about"`
	Reader *reader `json:"reader"`
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return convert.Transcripts[*source]{
		Find: find,
		Look: func(file string) (*source, error) { return look(ctx, p.FS, file) },
		Identity: func(s *source) convert.Identity {
			// A helper agent has a file of its own.
			return convert.Identity{ID: s.id, Original: s.header.Text("parent"), Owners: []string{s.header.Text("callingSessionId")}, CreatedAt: s.Created}
		},
		Session: func(s *source, helpers []*source) *convert.Session { return s.session(ctx, p.FS, helpers) },
		GoOn: func(file string, g convert.Growth) *convert.Session {
			s := goOn(ctx, p.FS, file, g)
			if s == nil {
				return nil
			}
			return s.session(ctx, p.FS, nil)
		},
	}.Import(ctx, p)
}

// look reads a file once for what must be known of the session before its
// entries.
func look(ctx context.Context, fsys fs.FS, file string) (*source, error) {
	h, err := header(fsys, file)
	if err != nil {
		return nil, err
	}
	s := &source{file: file, header: h, id: h.Text("id"), about: about{Copied: h.Text("forkedAtMessageId")}}
	return s, s.read(ctx, fsys)
}

// goOn reads what was added to a file; nil if that takes a reading of all of it.
func goOn(ctx context.Context, fsys fs.FS, file string, g convert.Growth) *source {
	h, err := header(fsys, file)
	var was state
	if err != nil || json.Unmarshal(g.State, &was) != nil || was.Reader == nil {
		return nil
	}
	s := &source{file: file, header: h, id: h.Text("id"), about: was.About, from: g.Mark, reader: was.Reader}
	if s.read(ctx, fsys) != nil {
		return nil
	}
	return s
}

// read reads the lines, and the settings beside them.
func (s *source) read(ctx context.Context, fsys fs.FS) error {
	s.to, s.known = s.from, s.about
	for o, err := range convert.ObjectsFrom(ctx, fsys, s.file, s.from) {
		if err != nil && !convert.IsSkip(err) {
			return err
		}
		if err == nil {
			s.see(o.Object)
		}
		if !o.Torn {
			s.to, s.known = o.End, s.about
		}
	}
	b, err := convert.ReadFile(fsys, strings.TrimSuffix(s.file, ".jsonl")+settingsFile)
	if err != nil || json.Unmarshal(b, &s.settings) != nil {
		s.settings = nil // only the sums are in there
	}
	return nil
}

// see takes over what a line tells of the session.
func (s *about) see(o convert.Object) {
	if m, ok := o.Object("message"); ok {
		s.Model = cmp.Or(m.Text("modelId"), s.Model)
	}
	if at := convert.ParseTime(o.Text("timestamp")); !at.IsZero() {
		if s.Created = cmp.Or(s.Created, at); s.Copied == "" {
			s.Own = cmp.Or(s.Own, at)
		}
		if at.After(s.Last) {
			s.Last = at
		}
	}
	if s.Copied != "" && o.Text("id") == s.Copied {
		s.Copied = "" // what follows is the fork's own
	}
}

func (s *source) session(ctx context.Context, fsys fs.FS, workers []*source) *convert.Session {
	out := &convert.Session{
		Session: tidemark.Session{Title: s.header.Text("title"), Agent: name, Model: cmp.Or(s.Model, s.settings.Text("model")), Project: s.header.Text("cwd"),
			ForeignID: s.id, CreatedAt: cmp.Or(s.Own, s.Created)},
		UpdatedAt: s.Last,
	}
	marker := &convert.Marker{End: s.to}
	out.Entries, out.Units = s.entries(ctx, fsys, marker), []convert.Unit{{Bookmark: marker.Bookmark}}
	if from := s.header.Text("parent"); from != s.id {
		out.Copied = from
	}
	rest := s.header.Without("type", "id", "title", "cwd", "parent")
	if len(s.settings) > 0 {
		rest.Set("settings", s.settings)
	}
	helpers := convert.Object{}
	for _, h := range workers {
		out.Workers = append(out.Workers, convert.Worker{Name: h.id, Call: h.header.Text("callingToolUseId"), Entries: h.entries(ctx, fsys, nil)})
		about := h.header.Without("type", "id")
		if len(h.settings) > 0 {
			about.Set("settings", h.settings)
		}
		helpers.Set(h.id, about)
	}
	if len(helpers) > 0 {
		rest.Set("helpers", helpers)
	}
	out.Extra = convert.Keep(name, rest)
	return out
}
