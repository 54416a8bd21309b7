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
	"time"

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
		Kin:      func(state []byte) (names, others []string) { return []string{string(state)}, nil },
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
				var from state
				if g, ok := p.Grown(f.Unit, &from); ok {
					s = goOn(p.FS, name, g, from)
				}
				if s == nil {
					s, err = session(p.FS, name)
				}
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

// state is what a Bookmark has of a session: what its lines said about it, and what
// the reader of entries knew.
type state struct {
	Header  json.RawMessage `json:"header"` // its first line
	Title   string          `json:"title,omitempty"`
	Model   string          `json:"model,omitempty"`
	Mode    string          `json:"mode,omitempty"`
	Updated time.Time       `json:"updated,omitzero"`
	Reader  *reader         `json:"reader,omitempty"`

	at convert.Mark
}

// reader returns a reader that goes on there.
func (s state) reader() *reader {
	if s.Reader == nil {
		return &reader{}
	}
	r := *s.Reader
	return &r
}

func (s state) with(r *reader) state {
	s.Reader = r
	return s
}

// outline reads lines for the fields of the session as a whole.
type outline struct {
	*convert.Session
	header, last []byte
}

// read reads from a mark to the end, and returns the state at the last line that
// is whole.
func (o *outline) read(fsys fs.FS, name string, at convert.Mark) (convert.Mark, state, error) {
	torn := false
	for l, err := range convert.LinesFrom(fsys, name, at) {
		if err != nil && (o.ForeignID == "" || !convert.IsSkip(err)) {
			return at, state{}, err
		}
		var before state
		if torn = l.Torn; torn {
			before = o.state()
		}
		switch {
		case err != nil:
		case o.ForeignID == "":
			h, err := parseHeader(l.Text)
			if err != nil {
				return at, state{}, err
			}
			begin(o.Session, h, l.Text)
			o.header, o.UpdatedAt = bytes.Clone(l.Text), o.CreatedAt
		default:
			o.last = append(o.last[:0], l.Text...)
			about(o.Session, l.Text)
		}
		if torn {
			return at, before, nil
		}
		at = l.End
	}
	return at, o.state(), nil
}

// state is what is known now.
func (o *outline) state() state {
	return state{Header: o.header, Title: o.Title, Model: o.Model, Mode: o.Mode, Updated: o.updated()}
}

// updated is when the session was last changed.
func (o *outline) updated() time.Time {
	var end struct{ Timestamp string }
	if json.Unmarshal(o.last, &end) == nil && convert.ParseTime(end.Timestamp).After(o.CreatedAt) {
		return convert.ParseTime(end.Timestamp)
	}
	if o.last == nil {
		return o.UpdatedAt
	}
	return o.CreatedAt
}

// session reads a file once for the fields of the session as a whole.
func session(fsys fs.FS, name string) (*convert.Session, error) {
	o := outline{Session: &convert.Session{}}
	end, known, err := o.read(fsys, name, convert.Mark{})
	if err != nil {
		return nil, err
	}
	if o.ForeignID == "" {
		return nil, tidemark.Invalidf("is empty")
	}
	s := o.finish(fsys, name, convert.Mark{}, end, known)
	settle(fsys, name, s)
	return s, nil
}

// finish completes a session whose entries begin at a mark.
func (o *outline) finish(fsys fs.FS, name string, from, end convert.Mark, known state) *convert.Session {
	o.UpdatedAt = o.updated()
	marker := &convert.Marker{End: end}
	known.at = from
	o.Entries = entries(fsys, name, known, marker)
	o.Units = []convert.Unit{{Name: name, State: []byte(o.ForeignID), Bookmark: marker.Bookmark}}
	return o.Session
}

// goOn reads what was added to a file. It is nil if that takes a reading of all of
// it: labels and a head may belong to any entry.
func goOn(fsys fs.FS, name string, g convert.Growth, from state) *convert.Session {
	h, err := parseHeader(from.Header)
	if err != nil || from.Reader == nil {
		return nil
	}
	o := outline{Session: &convert.Session{}, header: from.Header}
	begin(o.Session, h, from.Header)
	o.Title, o.Model, o.Mode, o.UpdatedAt = from.Title, from.Model, from.Mode, from.Updated
	end, known, err := o.read(fsys, name, g.Mark)
	if err != nil || o.Head != "" || o.Labels != nil {
		return nil
	}
	known.Reader = from.Reader
	s := o.finish(fsys, name, g.Mark, end, known)
	s.From, s.Whole = &g.Bookmark, func() (*convert.Session, error) { return session(fsys, name) }
	return s
}

// settle drops labels and a head that belong to no entry.
func settle(fsys fs.FS, name string, s *convert.Session) {
	if s.Head == "" && len(s.Labels) == 0 {
		return
	}
	labels, head := map[string]string{}, ""
	for e, err := range entries(fsys, name, state{}, nil) {
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
