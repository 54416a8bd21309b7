package claudecode

import (
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

// The client deletes transcripts, and keeps what was typed at its prompt in one
// file for all sessions. Of a session without a transcript that is all there is:
// the prompts, when, and in which project.

// historyFile is where the client keeps prompts, beside the folder of projects.
const historyFile = "history.jsonl"

// maxSalvaged bounds the bytes of the prompts that are held at a time.
const maxSalvaged = 64 << 20

// historyLine is a line of that file.
type historyLine struct {
	Display string `json:"display"`
	Pasted  map[string]struct {
		Content string `json:"content"`
	} `json:"pastedContents"`
	Timestamp int64  `json:"timestamp"` // in milliseconds
	Project   string `json:"project"`
	Session   string `json:"sessionId"`
}

// text is what was typed, with what was pasted in its place where it was kept.
func (t historyLine) text() string {
	text := t.Display
	for n, pasted := range t.Pasted {
		at := strings.Index(text, "[Pasted text #"+n)
		if at < 0 || pasted.Content == "" {
			continue
		}
		if end := strings.IndexByte(text[at:], ']'); end > 0 {
			text = text[:at] + pasted.Content + text[at+end+1:]
		}
	}
	return text
}

// histories are the files of prompts in a Source.
func histories(p convert.Source) (files []string) {
	for _, below := range projectFolders {
		file := path.Join(p.Path, path.Dir(below), historyFile)
		if convert.IsFile(p.FS, file) {
			files = append(files, file)
		}
	}
	return files
}

// looksTyped reports whether a file begins with a prompt: all transcripts may be
// gone.
func looksTyped(fsys fs.FS, file string) bool {
	for line, err := range convert.Lines(fsys, file) {
		var t historyLine
		return err == nil && json.Unmarshal(line.Text, &t) == nil && t.Display != "" && t.Session != "" && t.Timestamp > 0
	}
	return false
}

// salvage yields what is left of the sessions that have no transcript any more.
func salvage(ctx context.Context, p convert.Source, there []source) iter.Seq2[*convert.Session, error] {
	has := make(map[string]bool, len(there))
	for _, src := range there {
		has[src.ID] = true
	}
	return func(yield func(*convert.Session, error) bool) {
		for _, file := range histories(p) {
			if p.Unchanged(file) {
				continue // and so nothing was deleted since that is not here
			}
			sessions, skip, err := promptsIn(ctx, p.FS, file, has)
			if err != nil {
				yield(nil, err)
				return
			}
			if skip != nil && !yield(nil, skip) {
				return
			}
			for _, s := range sessions {
				if !yield(s.session(file), nil) {
					return
				}
			}
		}
	}
}

// salvaged is a session of which only prompts are left.
type salvaged struct {
	id      string
	project string
	entries []convert.Entry
	spoken  bool // there is more than commands to the client
}

// promptsIn reads the prompts of the sessions that are not there. Lines without the
// id of a session, which old versions wrote, are passed over: nobody can tell
// whether their session is there.
func promptsIn(ctx context.Context, fsys fs.FS, file string, there map[string]bool) (all []*salvaged, skip, err error) {
	byID, size := make(map[string]*salvaged), 0
	for line, err := range convert.Lines(fsys, file) {
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case convert.IsSkip(err):
			continue
		case err != nil:
			return nil, nil, &convert.Skip{What: file, Why: err}
		}
		var t historyLine
		if json.Unmarshal(line.Text, &t) != nil {
			continue // it is being written, or damaged; a prompt more or less of what is lost
		}
		id, err := tidemark.ParseSessionID(t.Session)
		text := t.text()
		if err != nil || there[string(id)] || strings.TrimSpace(text) == "" {
			continue
		}
		if size += len(text); size > maxSalvaged {
			skip = convert.Skipf(file, "has more than %d MiB of prompts whose sessions are gone", maxSalvaged>>20)
			break
		}
		s := byID[string(id)]
		if s == nil {
			s = &salvaged{id: string(id), project: t.Project}
			byID[s.id] = s
			all = append(all, s)
		}
		s.add(t, text)
	}
	return slices.DeleteFunc(all, func(s *salvaged) bool { return !s.spoken }), skip, nil
}

// add adds a prompt, or a command to the client or the shell.
func (s *salvaged) add(t historyLine, text string) {
	e := tidemark.Say(tidemark.User, text)
	if strings.HasPrefix(text, "/") || strings.HasPrefix(text, "!") {
		e = tidemark.Entry{Kind: convert.KindCommand, Blocks: []tidemark.Block{tidemark.Text(text)}}
	} else {
		s.spoken = true
	}
	if t.Timestamp > 0 {
		e.At = time.UnixMilli(t.Timestamp).UTC()
	}
	s.entries = append(s.entries, convert.Entry{Entry: e, ID: fmt.Sprintf("prompt.%d", len(s.entries)+1)})
}

func (s *salvaged) session(file string) *convert.Session {
	first, last := s.entries[0].At, s.entries[len(s.entries)-1].At
	return &convert.Session{
		Session:   tidemark.Session{Agent: name, Project: s.project, ForeignID: s.id + convert.PromptsOnly, CreatedAt: first},
		Entries:   convert.All(s.entries),
		PromptsOf: s.id,
		UpdatedAt: last,
		Lost:      []string{"everything but the prompts: its transcript was deleted"},
		Units:     []convert.Unit{{Name: file, Shared: true}},
	}
}
