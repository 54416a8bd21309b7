package claudecode

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// formatVersion is the version of the client whose records are written for a
// session that comes from elsewhere.
const formatVersion = "2.1.197"

// export writes a session below a folder like ~/.claude. Records that came from
// Claude Code are written as they were; others are generated.
func export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	var extra map[string]sessionExtra
	_ = json.Unmarshal(s.Extra, &extra) // another tool's Extra is ignored
	mine, known := extra[name]
	lost := losses{}
	id := exportID(s, known)
	dir := Folder(s.Project)
	if s.Project == "" && safeName(mine.Dir) == mine.Dir && mine.Dir != "" {
		dir = mine.Dir
	}
	base := path.Join("projects", dir, id)
	w := &writer{session: id, project: s.Project, version: cmp.Or(mine.Version, formatVersion), lost: lost}
	if s.Fork != nil {
		lost["the part that it shares with the session it was forked from"]++
	}
	err := w.file(ctx, out, base+".jsonl", s.Entries, func() error { return w.end(s, mine, known) })
	if err != nil {
		return nil, err
	}
	agents := map[string]bool{}
	for i, worker := range s.Workers {
		if worker.Name = cmp.Or(safeName(worker.Name), "worker"); agents[worker.Name] {
			worker.Name = fmt.Sprintf("%s-%d", worker.Name, i)
		}
		agents[worker.Name] = true
		if err := exportWorker(ctx, out, path.Join(base, "subagents"), w, s, worker); err != nil {
			return nil, err
		}
	}
	if err := exportFiles(out, s, id, base, lost); err != nil {
		return nil, err
	}
	lost.ofSession(s)
	return lost.list(), nil
}

// exportID is the id to write under: the session's id in Claude Code when it has
// one, so that a later import finds the same session.
func exportID(s *convert.Session, known bool) string {
	if id, err := tidemark.ParseSessionID(s.ForeignID); err == nil && known {
		return string(id)
	}
	if id, err := tidemark.ParseSessionID(string(s.ID)); err == nil {
		return string(id)
	}
	return hashID("session", s.ForeignID)
}

// maxFolder is the client's limit for the name of a folder.
const maxFolder = 200

// Folder is the client's name for the folder of a project: every character that
// is no ASCII letter or digit becomes a dash, counted in UTF-16 units. A long
// name is truncated, and a hash of the whole path replaces the rest.
func Folder(project string) string {
	var b strings.Builder
	var sum int32
	for _, c := range utf16.Encode([]rune(project)) {
		sum = sum*31 + int32(c)
		if c < 128 && isPlain(rune(c)) {
			b.WriteByte(byte(c))
		} else {
			b.WriteByte('-')
		}
	}
	if b.Len() > maxFolder {
		return b.String()[:maxFolder] + "-" + strconv.FormatInt(max(int64(sum), -int64(sum)), 36)
	}
	return cmp.Or(b.String(), "-")
}

func isPlain(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// safeName makes a file name from the name of a helper agent or a folder.
func safeName(s string) string {
	s = strings.Map(func(c rune) rune {
		if isPlain(c) || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, s)
	if len(s) > 80 {
		s = s[:80]
	}
	return s
}

// losses counts what the transcript cannot represent.
type losses map[string]int

func (l losses) list() (all []string) {
	for _, what := range slices.Sorted(maps.Keys(l)) {
		if n := l[what]; n > 1 {
			what = fmt.Sprintf("%s (%d times)", what, n)
		}
		all = append(all, what)
	}
	return all
}

func (l losses) ofSession(s *convert.Session) {
	for what, is := range map[string]bool{
		"labels of entries":        len(s.Labels) > 0,
		"tags":                     len(s.Tags) > 0,
		"the checkpoint":           len(s.Checkpoint) > 0,
		"pins and holds":           s.Pinned || s.OnHold,
		"the mode of the session ": s.Mode == tidemark.ModeLocal,
	} {
		if is {
			l[strings.TrimSpace(what)]++
		}
	}
}

// file writes one transcript. After an error it is not closed, so that an
// incomplete one never gets its name.
func (w *writer) file(ctx context.Context, out convert.Out, name string, entries iter.Seq2[convert.Entry, error], end func() error) error {
	f, err := out.Create(name)
	if err != nil {
		return err
	}
	w.begin(f)
	err = w.entries(ctx, entries)
	if err == nil && end != nil {
		err = end()
	}
	if err == nil {
		err = w.out.Flush()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, f.CloseWithError(err))
	}
	return f.Close()
}

func (w *writer) begin(f io.Writer) {
	w.out = bufio.NewWriter(f)
	w.tails, w.calls, w.written = map[string]string{}, map[string]string{}, map[string]bool{}
	w.tail, w.title, w.leaf, w.prompt = "", "", "", ""
}

func (w *writer) entries(ctx context.Context, entries iter.Seq2[convert.Entry, error]) error {
	if entries == nil {
		return nil
	}
	for e, err := range entries {
		if cause := ctx.Err(); cause != nil {
			return cause
		}
		if convert.IsSkip(err) {
			w.lost["damaged entries"]++
			continue
		}
		if err != nil {
			return err
		}
		if err := w.entry(e); err != nil {
			return err
		}
	}
	return nil
}

// end writes what follows the last record: the notes that were there, the title,
// and where the session is.
func (w *writer) end(s *convert.Session, mine sessionExtra, known bool) error {
	for _, note := range mine.After {
		if err := w.note(note); err != nil {
			return err
		}
	}
	if s.Title != "" && s.Title != w.title {
		if err := w.put(map[string]any{"type": "custom-title", "customTitle": s.Title, "sessionId": w.session}); err != nil {
			return err
		}
	}
	leaf := w.tail
	if s.Head != "" {
		leaf = cmp.Or(w.tails[s.Head], leaf)
	}
	if leaf == "" || leaf == w.leaf || s.Head == "" && known || w.leafIn(s.Head) {
		return nil
	}
	return w.put(map[string]any{"type": "last-prompt", "lastPrompt": w.prompt, "leafUuid": leaf, "sessionId": w.session})
}

func exportWorker(ctx context.Context, out convert.Out, dir string, main *writer, s *convert.Session, worker convert.Worker) error {
	agent := worker.Name
	w := &writer{session: main.session, project: main.project, version: main.version, agent: agent, lost: main.lost}
	if err := w.file(ctx, out, path.Join(dir, "agent-"+agent+".jsonl"), worker.Entries, nil); err != nil {
		return err
	}
	meta, ok := s.Files["subagents/agent-"+agent+".meta.json"]
	if !ok {
		if worker.Call == "" {
			return nil
		}
		var err error
		if meta, err = json.Marshal(map[string]string{"agentType": "general-purpose", "description": worker.Name,
			"toolUseId": callID(worker.Call)}); err != nil {
			return err
		}
	}
	return convert.WriteFile(out, path.Join(dir, "agent-"+agent+".meta.json"), meta)
}

// exportFiles writes the files that the client knows to the places where it
// looks for them.
func exportFiles(out convert.Out, s *convert.Session, id, base string, lost losses) error {
	for _, file := range slices.Sorted(maps.Keys(s.Files)) {
		folder, rest, _ := strings.Cut(file, "/")
		to := ""
		switch {
		case !fs.ValidPath(file):
		case folder == "tool-results":
			to = path.Join(base, file)
		case folder == "tasks", folder == "file-history":
			to = path.Join(folder, id, rest)
		case folder == "subagents":
			continue
		}
		if to == "" {
			lost["the file "+file]++
			continue
		}
		if err := convert.WriteFile(out, to, s.Files[file]); err != nil {
			return err
		}
	}
	return nil
}
