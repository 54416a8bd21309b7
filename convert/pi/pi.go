// Package pi imports and exports the sessions of the pi coding agent: one file of
// JSON lines per session, a tree of entries by id and parent. It reads only session
// files, no settings and no credentials.
//
//	for s, err := range pi.Tool().Import(ctx, place) { … }
package pi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Tool returns the converter.
func Tool() convert.Tool {
	return convert.Tool{
		Name:   "pi",
		Title:  "pi",
		Homes:  []string{".pi/agent/sessions"},
		Moved:  []convert.Moved{{Variable: "PI_CODING_AGENT_DIR", Below: "sessions"}},
		Detect: detect,
		Import: importAll,
		Export: export,

		Handover: &convert.Handover{},
		Grows:    true,
		Files: func(_ context.Context, p convert.Source) iter.Seq2[convert.SourceFile, error] {
			return files(p.FS, p.Path)
		},
	}
}

func detect(_ context.Context, p convert.Source) bool {
	info, err := fs.Stat(p.FS, p.Path)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return begins(p.FS, p.Path)
	}
	for f, err := range files(p.FS, p.Path) {
		if err == nil && begins(p.FS, f.Path) {
			return true
		}
	}
	return false
}

// firstBytes is enough for a header with a long path in it.
const firstBytes = 8 << 10

// begins reports whether a file begins like a session: with a header that has
// an id, a time and a folder.
func begins(fsys fs.FS, name string) bool {
	b, err := convert.Head(fsys, name, firstBytes)
	if err != nil {
		return false
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	_, err = parseHeader(line)
	return err == nil
}

// files yields the session files below a folder: a home folder, one on the way
// to the sessions, or the folder of one project.
func files(fsys fs.FS, dir string) iter.Seq2[convert.SourceFile, error] {
	return func(yield func(convert.SourceFile, error) bool) {
		root := convert.Folder(fsys, dir, ".pi/agent/sessions", "agent/sessions", "sessions")
		known := path.Base(root) == "sessions"
		entries, err := fs.ReadDir(fsys, root)
		if err != nil {
			yield(convert.SourceFile{}, &convert.Skip{What: root, Why: err})
			return
		}
		for _, e := range entries {
			name := path.Join(root, e.Name())
			project := strings.HasPrefix(e.Name(), "--") && strings.HasSuffix(e.Name(), "--")
			switch {
			case e.IsDir() && (known || project):
				if !inProject(fsys, name, yield) {
					return
				}
			case e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".jsonl"):
				if !yield(convert.SourceFile{Path: name, Unit: name, Entry: e}, nil) {
					return
				}
			}
		}
	}
}

func inProject(fsys fs.FS, dir string, yield func(convert.SourceFile, error) bool) bool {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return yield(convert.SourceFile{}, &convert.Skip{What: dir, Why: err})
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.Type().IsRegular() && strings.HasSuffix(name, ".jsonl") && !yield(convert.SourceFile{Path: name, Unit: name, Entry: e}, nil) {
			return false
		}
	}
	return true
}

// header is the first line of a session.
type header struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Timestamp string `json:"timestamp"`
	CWD       string `json:"cwd"`
	Model     string `json:"modelId"`       // in the first versions
	Parent    string `json:"parentSession"` // the file that it was copied from
	Branched  string `json:"branchedFrom"`  // the same, in the first versions
}

func parseHeader(line []byte) (header, error) {
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return h, tidemark.Invalidf("its first line is not JSON: %w", err)
	}
	if h.Type != "session" || h.CWD == "" || convert.ParseTime(h.Timestamp).IsZero() {
		return h, tidemark.Invalidf("does not begin with the header of a session")
	}
	return h, tidemark.CheckID(h.ID)
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		info, err := fs.Stat(p.FS, p.Path)
		if err != nil {
			yield(nil, err)
			return
		}
		found := files(p.FS, p.Path)
		if !info.IsDir() {
			found = func(yield func(convert.SourceFile, error) bool) { yield(convert.SourceFile{Path: p.Path}, nil) }
		}
		seen := map[string]string{}
		for f, err := range found {
			name := f.Path
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			var s *convert.Session
			if id, same := p.State(f.Unit); err == nil && same {
				s = &convert.Session{Session: tidemark.Session{ForeignID: string(id)}, Unchanged: true}
			} else if err == nil {
				s, err = session(p.FS, name)
			}
			if err == nil && seen[s.ForeignID] != "" {
				err = tidemark.Invalidf("is session %s, which is already in %s", s.ForeignID, seen[s.ForeignID])
			}
			if err != nil {
				if !convert.IsSkip(err) {
					err = &convert.Skip{What: name, Why: err}
				}
				s = nil
			} else {
				seen[s.ForeignID] = name
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// session reads a file once for the fields of the session as a whole.
func session(fsys fs.FS, name string) (*convert.Session, error) {
	s := &convert.Session{}
	var last []byte
	for l, err := range convert.Lines(fsys, name) {
		switch {
		case err != nil && (s.ForeignID == "" || !convert.IsSkip(err)):
			return nil, err
		case err != nil:
		case s.ForeignID == "":
			h, err := parseHeader(l.Text)
			if err != nil {
				return nil, err
			}
			begin(s, h, l.Text)
		default:
			last = append(last[:0], l.Text...)
			about(s, l.Text)
		}
	}
	if s.ForeignID == "" {
		return nil, tidemark.Invalidf("is empty")
	}
	s.UpdatedAt = s.CreatedAt
	var end struct{ Timestamp string }
	if json.Unmarshal(last, &end) == nil && convert.ParseTime(end.Timestamp).After(s.CreatedAt) {
		s.UpdatedAt = convert.ParseTime(end.Timestamp)
	}
	s.Entries = entries(fsys, name)
	s.Units = []convert.Unit{{Name: name, State: []byte(s.ForeignID)}}
	settle(s)
	return s, nil
}

// settle drops labels and a head that belong to no entry.
func settle(s *convert.Session) {
	if s.Head == "" && len(s.Labels) == 0 {
		return
	}
	labels, head := map[string]string{}, ""
	for e, err := range s.Entries {
		if err != nil {
			continue
		}
		if label, ok := s.Labels[e.ID]; ok {
			labels[e.ID] = label
		}
		if e.ID == s.Head {
			head = e.ID
		}
	}
	s.Labels, s.Head = labels, head
}

func begin(s *convert.Session, h header, line []byte) {
	s.ForeignID, s.Project, s.Model, s.CreatedAt = h.ID, h.CWD, h.Model, convert.ParseTime(h.Timestamp)
	if source := sourceID(h.Parent + h.Branched); source != h.ID {
		s.Copied = source
	}
	if b, err := json.Marshal(map[string]json.RawMessage{"pi": line}); err == nil {
		s.Extra = b
	}
}

// sourceID finds the id in the name of a session file, <time>_<id>.jsonl.
func sourceID(file string) string {
	base := strings.TrimSuffix(file[strings.LastIndexAny(file, `/\`)+1:], ".jsonl")
	_, id, ok := strings.Cut(base, "_")
	if !ok || tidemark.CheckID(id) != nil {
		return ""
	}
	return id
}

// about reads what an entry says about the session: its name, its model, labels
// of entries, its head.
func about(s *convert.Session, line []byte) {
	head := line[:min(len(line), 64)]
	s.Head = ""
	if bytes.Contains(head, []byte(`"message"`)) {
		return // most lines, and the long ones
	}
	var e struct {
		Type   string `json:"type"`
		Name   string `json:"name"`
		Model  string `json:"modelId"`
		By     string `json:"provider"`
		Target string `json:"targetId"`
		Label  string `json:"label"`
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	switch e.Type {
	case "session_info":
		s.Title = e.Name
	case "model_change":
		s.Model, s.Mode = e.Model, cmp.Or(convert.ModeOf(e.By), s.Mode)
	case "leaf":
		s.Head = e.Target
	case "label":
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		if s.Labels[e.Target] = e.Label; e.Label == "" {
			delete(s.Labels, e.Target)
		}
	}
}
