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
var listed = convert.UnitsLike(unit, ".factory/sessions/*.json*", ".factory/sessions/-*/*.json*",
	"sessions/*.json*", "sessions/-*/*.json*", "*.json*", "-*/*.json*")

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
	file, id           string
	header, settings   convert.Object
	model              string
	created, own, last time.Time
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return convert.Transcripts[*source]{
		Find: find,
		Look: func(file string) (*source, error) { return look(ctx, p.FS, file) },
		Identity: func(s *source) convert.Identity {
			// A helper agent has a file of its own.
			return convert.Identity{ID: s.id, Original: s.header.Text("parent"), Owners: []string{s.header.Text("callingSessionId")}, CreatedAt: s.created}
		},
		Session: func(s *source, helpers []*source) *convert.Session { return s.session(ctx, p.FS, helpers) },
	}.Import(ctx, p)
}

// look reads a file once for what must be known of the session before its
// entries.
func look(ctx context.Context, fsys fs.FS, file string) (*source, error) {
	h, err := header(fsys, file)
	if err != nil {
		return nil, err
	}
	s := &source{file: file, header: h, id: h.Text("id")}
	copied := h.Text("forkedAtMessageId")
	for o, err := range convert.Objects(ctx, fsys, file) {
		if err != nil && !convert.IsSkip(err) {
			return nil, err
		}
		if err != nil {
			continue
		}
		if m, ok := o.Object.Object("message"); ok {
			s.model = cmp.Or(m.Text("modelId"), s.model)
		}
		if at := convert.ParseTime(o.Text("timestamp")); !at.IsZero() {
			if s.created = cmp.Or(s.created, at); copied == "" {
				s.own = cmp.Or(s.own, at)
			}
			if at.After(s.last) {
				s.last = at
			}
		}
		if copied != "" && o.Text("id") == copied {
			copied = "" // what follows is the fork's own
		}
	}
	b, err := convert.ReadFile(fsys, strings.TrimSuffix(file, ".jsonl")+settingsFile)
	if err != nil || json.Unmarshal(b, &s.settings) != nil {
		s.settings = nil // only the sums are in there
	}
	return s, nil
}

func (s *source) session(ctx context.Context, fsys fs.FS, workers []*source) *convert.Session {
	out := &convert.Session{
		Session: tidemark.Session{Title: s.header.Text("title"), Agent: name, Model: cmp.Or(s.model, s.settings.Text("model")), Project: s.header.Text("cwd"),
			ForeignID: s.id, CreatedAt: cmp.Or(s.own, s.created)},
		Entries: entries(ctx, fsys, s.file), UpdatedAt: s.last,
	}
	if from := s.header.Text("parent"); from != s.id {
		out.Copied = from
	}
	rest := s.header.Without("type", "id", "title", "cwd", "parent")
	if len(s.settings) > 0 {
		rest.Set("settings", s.settings)
	}
	helpers := convert.Object{}
	for _, h := range workers {
		out.Workers = append(out.Workers, convert.Worker{Name: h.id, Call: h.header.Text("callingToolUseId"), Entries: entries(ctx, fsys, h.file)})
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
