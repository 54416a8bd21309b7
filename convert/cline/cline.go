// Package cline imports the sessions of Cline. It reads the folder
// data/sessions, and never settings, providers, secrets or their database.
//
//	for s, err := range cline.Tool().Import(ctx, place) { … }
package cline

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

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

const (
	name   = "cline"
	ending = ".messages.json"
)

// Tool is Cline. It only imports.
func Tool() convert.Tool {
	return convert.Tool{
		Name: name, Title: "Cline", Homes: []string{".cline"},
		Detect: detect, Import: imports, Files: listed, Kin: convert.TranscriptKin,
	}
}

// listed are the two files of each session, in every place that find looks at.
var listed = convert.UnitsLike(messagesOf, ".cline/data/sessions/*.json", ".cline/data/sessions/*/*.json", "data/sessions/*.json", "data/sessions/*/*.json",
	"sessions/*.json", "sessions/*/*.json", "*.json", "*/*.json")

func detect(_ context.Context, p convert.Source) bool {
	files, _ := find(p)
	return convert.Sniff(files, func(file string) bool { return begins(p.FS, file) == nil })
}

// messagesOf is the messages file of a session, given either of its files.
func messagesOf(file string) string {
	if strings.HasSuffix(file, ending) {
		return file
	}
	return strings.TrimSuffix(file, ".json") + ending
}

// find returns the messages files below a folder: a home, its .cline, the data
// or the sessions in it, or one session. A file stands for its session.
func find(p convert.Source) (files []string, skips []error) {
	if !convert.IsDir(p.FS, p.Path) {
		return []string{messagesOf(p.Path)}, nil
	}
	dir := convert.Folder(p.FS, p.Path, ".cline/data/sessions", "data/sessions", "sessions")
	list(p.FS, dir, 1, &files, &skips)
	return files, skips
}

func list(fsys fs.FS, dir string, deeper int, files *[]string, skips *[]error) {
	all, err := fs.ReadDir(fsys, dir)
	if err != nil {
		*skips = append(*skips, &convert.Skip{What: dir, Why: err})
		return
	}
	for _, d := range all {
		file := path.Join(dir, d.Name())
		switch {
		case d.IsDir() && deeper > 0 && !strings.HasPrefix(d.Name(), "."):
			list(fsys, file, deeper-1, files, skips)
		case d.Type().IsRegular() && strings.HasSuffix(file, ending):
			*files = append(*files, file)
		}
	}
}

// begins returns, from its first bytes, why a file is not a messages file.
func begins(fsys fs.FS, file string) error {
	b, err := convert.Head(fsys, file, 1<<12)
	if err != nil {
		return err
	}
	if b = bytes.TrimSpace(b); b[0] != '{' || !bytes.Contains(b, []byte(`"messages"`)) || !bytes.Contains(b, []byte(`"version"`)) {
		return tidemark.Invalidf("does not begin like a session of Cline")
	}
	return nil
}

// about is what the tool stores of a session besides its messages.
type about struct {
	SessionID     string `json:"session_id"`
	ParentID      string `json:"parent_session_id"`
	StartedAt     string `json:"started_at"`
	EndedAt       string `json:"ended_at"`
	Model         string `json:"model"`
	Provider      string `json:"provider"`
	Cwd           string `json:"cwd"`
	WorkspaceRoot string `json:"workspace_root"`
	Metadata      struct {
		Title string `json:"title"`
	} `json:"metadata"`
	fields map[string]json.RawMessage
}

// transcript is the messages file.
type transcript struct {
	UpdatedAt    string            `json:"updated_at"`
	SessionID    string            `json:"sessionId"`
	SystemPrompt string            `json:"system_prompt"`
	Messages     []json.RawMessage `json:"messages"`
}

func read(fsys fs.FS, file string) (*transcript, error) {
	if err := begins(fsys, file); err != nil {
		return nil, err
	}
	b, err := convert.ReadFile(fsys, file)
	if err != nil {
		return nil, err
	}
	var t transcript
	if err := convert.Loose(b, &t); err != nil {
		return nil, tidemark.Invalidf("not JSON: %w", err)
	}
	return &t, nil
}

// readAbout reads the other file; a session is imported even without it.
func readAbout(fsys fs.FS, file string) (a about, err error) {
	b, err := convert.ReadFile(fsys, file)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	if err := convert.Loose(b, &a); err != nil {
		return a, tidemark.Invalidf("not JSON: %w", err)
	}
	if json.Unmarshal(b, &a.fields) != nil {
		return a, nil
	}
	// Fields that are represented elsewhere, and those of one run or machine.
	for _, k := range []string{"session_id", "started_at", "model", "cwd", "prompt", "pid", "messages_path"} {
		delete(a.fields, k)
	}
	var meta map[string]json.RawMessage
	if json.Unmarshal(a.fields["metadata"], &meta) == nil && meta != nil {
		delete(meta, "systemPrompt")
		delete(meta, "prompt")
		a.fields["metadata"], err = json.Marshal(meta)
	}
	return a, err
}

// found is a session being imported, and the session whose helper it is.
type found struct {
	out   *convert.Session
	owner string
}

func imports(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return convert.Transcripts[found]{
		Find: find,
		Look: func(file string) (found, error) { return session(p.FS, file) },
		Identity: func(f found) convert.Identity {
			// The id of a helper begins with that of its session and two underscores.
			id := f.out.ForeignID
			session, _, _ := strings.Cut(id, "__")
			return convert.Identity{ID: id, Owners: []string{f.owner, session}, CreatedAt: f.out.CreatedAt}
		},
		Session: func(f found, helpers []found) *convert.Session {
			for _, h := range helpers {
				f.out.Workers = append(f.out.Workers, convert.Worker{Name: h.out.ForeignID, Entries: h.out.Entries})
			}
			return f.out
		},
	}.Import(ctx, p)
}

func session(fsys fs.FS, file string) (found, error) {
	t, err := read(fsys, file)
	if err != nil {
		return found{}, err
	}
	s := &convert.Session{}
	a, err := readAbout(fsys, strings.TrimSuffix(file, ending)+".json")
	if err != nil {
		s.Lost = append(s.Lost, "what Cline says about the session: "+err.Error())
	}
	s.ForeignID = cmp.Or(t.SessionID, a.SessionID, strings.TrimSuffix(path.Base(file), ending))
	s.Agent, s.Model, s.Title, s.Mode = name, a.Model, a.Metadata.Title, convert.ModeOf(a.Provider)
	s.Project = cmp.Or(a.Cwd, a.WorkspaceRoot)
	s.CreatedAt, s.UpdatedAt = convert.ParseTime(a.StartedAt), convert.ParseTime(t.UpdatedAt)
	for _, raw := range t.Messages {
		var m message
		if convert.Loose(raw, &m) == nil && s.CreatedAt.IsZero() {
			s.CreatedAt = m.at()
		}
		s.Model, s.Mode = cmp.Or(s.Model, m.ModelInfo.ID), cmp.Or(s.Mode, convert.ModeOf(m.ModelInfo.Provider))
	}
	if ended := convert.ParseTime(a.EndedAt); ended.After(s.UpdatedAt) {
		s.UpdatedAt = ended
	}
	if len(a.fields) > 0 {
		s.Extra, _ = json.Marshal(map[string]any{name: a.fields})
	}
	s.Entries = entries(fsys, file)
	return found{s, a.ParentID}, nil
}
