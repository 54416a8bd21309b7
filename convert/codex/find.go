package codex

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Rollouts are in year/month/day, four levels including the files. Deeper
// folders belong to something else.
const maxDepth = 4

// home returns the folder that contains sessions: the given one, or its .codex
// when it is a home folder.
func home(fsys fs.FS, dir string) string {
	if sub := path.Join(dir, ".codex"); convert.IsDir(fsys, sub) {
		return sub
	}
	return dir
}

// rollouts yields the rollouts below a folder, the archived ones last. A folder
// that cannot be read is a *Skip.
func rollouts(ctx context.Context, fsys fs.FS, dir string) iter.Seq2[convert.SourceFile, error] {
	return func(yield func(convert.SourceFile, error) bool) {
		dir := home(fsys, dir)
		known := false
		for _, name := range []string{"sessions", "archived_sessions"} {
			if sub := path.Join(dir, name); convert.IsDir(fsys, sub) {
				known = true
				if !walk(ctx, fsys, sub, 1, yield) {
					return
				}
			}
		}
		if !known {
			walk(ctx, fsys, dir, 1, yield)
		}
	}
}

// list yields the files that threads are made of, and those with their names.
func list(ctx context.Context, p convert.Source) iter.Seq2[convert.SourceFile, error] {
	return func(yield func(convert.SourceFile, error) bool) {
		for f, err := range rollouts(ctx, p.FS, p.Path) {
			if !yield(f, err) {
				return
			}
		}
		for _, dir := range slices.Compact([]string{p.Path, home(p.FS, p.Path)}) {
			name := path.Join(dir, indexFile)
			if info, err := fs.Stat(p.FS, name); err == nil && !yield(convert.SourceFile{Path: name, Unit: name, Shared: true, Entry: fs.FileInfoToDirEntry(info)}, nil) {
				return
			}
		}
	}
}

// walk enters only folders whose name is a number, as Codex names them by date,
// so that a foreign folder is left after one look.
func walk(ctx context.Context, fsys fs.FS, dir string, depth int, yield func(convert.SourceFile, error) bool) bool {
	if ctx.Err() != nil {
		return yield(convert.SourceFile{}, ctx.Err())
	}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return yield(convert.SourceFile{}, &convert.Skip{What: dir, Why: err})
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && depth < maxDepth && strings.Trim(e.Name(), "0123456789") == "":
			if !walk(ctx, fsys, name, depth+1, yield) {
				return false
			}
		case e.Type().IsRegular() && isRollout(e.Name()):
			if !yield(convert.SourceFile{Path: name, Unit: name, Entry: e}, nil) {
				return false
			}
		case e.Type().IsRegular() && isRollout(strings.TrimSuffix(e.Name(), ".zst")):
			if !yield(convert.SourceFile{}, convert.Skipf(name, "is compressed with zstd, which is not read here: unpack it first")) {
				return false
			}
		}
	}
	return true
}

// headLines bounds the search for the model and the name of a thread in its
// first lines.
const headLines = 40

// readHead reads the first lines of a rollout and the time of its last one.
func readHead(fsys fs.FS, name string) (*rollout, error) {
	r := &rollout{path: name, archived: isArchived(name)}
	for l, err := range convert.Lines(fsys, name) {
		if err != nil {
			if convert.IsSkip(err) && r.id != "" {
				break
			}
			return nil, err
		}
		rec, err := parseRecord(l.Text)
		if r.id == "" {
			if err != nil {
				return nil, tidemark.Invalidf("line %d is not JSON of a rollout: %w", l.Number, err)
			}
			if rec.Type != "session_meta" {
				return nil, tidemark.Invalidf("does not begin with a session_meta")
			}
			if err := r.begin(rec); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil {
			r.note(rec)
		}
		if l.Number > headLines || r.model != "" && r.title != "" {
			break
		}
	}
	if r.id == "" {
		return nil, tidemark.Invalidf("is empty")
	}
	r.readTail(fsys)
	return r, nil
}

// wholeMeta reads the session_meta again. It contains the vendor's instructions,
// which are too long to hold for every file.
func (r *rollout) wholeMeta(fsys fs.FS) json.RawMessage {
	for l, err := range convert.Lines(fsys, r.path) {
		if err != nil {
			return nil
		}
		rec, err := parseRecord(l.Text)
		if err != nil {
			return nil
		}
		return bytes.Clone(rec.Payload)
	}
	return nil
}

func (r *rollout) begin(rec record) error {
	m, err := parseMeta(rec.Payload)
	if err != nil {
		return err
	}
	r.meta, r.thread, r.id = m, m.ID, m.ID
	if id, ok := nameID(path.Base(r.path)); ok {
		r.id = id
	}
	if r.created = convert.ParseTime(m.Timestamp); r.created.IsZero() {
		r.created = rec.at()
	}
	r.updated = rec.at()
	return nil
}

// note records what a line says about the thread as a whole.
func (r *rollout) note(rec record) {
	var p struct {
		Type  string `json:"type"`
		Model string `json:"model"`
		Name  string `json:"thread_name"`
	}
	if rec.Type != "turn_context" && rec.Type != "event_msg" || json.Unmarshal(rec.Payload, &p) != nil {
		return
	}
	if rec.Type == "turn_context" && p.Model != "" {
		r.model = p.Model
	}
	if p.Type == "thread_name_updated" && p.Name != "" {
		r.title = p.Name
	}
}

// tailBytes is read from the end of a file for its last time; if the last line
// is longer, the time of the file is used.
const tailBytes = 256 << 10

func (r *rollout) readTail(fsys fs.FS) {
	f, err := fsys.Open(r.path)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		r.updated = later(r.updated, info.ModTime())
		return
	}
	size := min(info.Size(), tailBytes)
	b := make([]byte, size)
	n, err := at.ReadAt(b, info.Size()-size)
	if err != nil && !errors.Is(err, io.EOF) {
		return
	}
	if !r.lastLines(b[:n]) && info.Size() > tailBytes {
		r.updated = later(r.updated, info.ModTime())
	}
}

// lastLines searches lines from last to first for the newest time, model and
// name. Most lines need no parsing for that.
func (r *rollout) lastLines(b []byte) bool {
	last := *r
	last.model, last.title = "", ""
	timed := false
	for len(b) > 0 {
		end := bytes.LastIndexByte(bytes.TrimRight(b, "\r\n"), '\n') + 1
		line := b[end:]
		b = b[:end]
		head := line[:min(len(line), 256)]
		names := last.title == "" && bytes.Contains(head, []byte("thread_name_updated"))
		models := last.model == "" && bytes.Contains(head, []byte("turn_context"))
		if timed && !names && !models {
			continue
		}
		if rec, err := parseRecord(line); err == nil && rec.Type != "session_meta" && !rec.at().IsZero() {
			r.updated = later(r.updated, rec.at())
			last.note(rec)
			timed = true
		}
	}
	r.model, r.title = cmp.Or(last.model, r.model), cmp.Or(last.title, r.title)
	return timed
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b.UTC().Truncate(time.Microsecond)
	}
	return a
}

// nameID returns the id by which other files refer to this one: the last one in
// its name, rollout-<time>-<thread>[_<segment>].jsonl.
func nameID(base string) (string, bool) {
	base = strings.TrimSuffix(base, ".jsonl")
	if len(base) < 36 {
		return "", false
	}
	id, err := tidemark.ParseSessionID(base[len(base)-36:])
	return string(id), err == nil
}

// indexFile has the names of threads.
const indexFile = "session_index.jsonl"

// titles reads names from the session_index.jsonl beside or above a folder; the
// last one for an id wins. Only known threads are kept.
func titles(fsys fs.FS, dir string, known map[string]*thread) {
	for {
		name := path.Join(dir, indexFile)
		if info, err := fs.Stat(fsys, name); err == nil && info.Mode().IsRegular() {
			readTitles(fsys, name, known)
			return
		}
		if dir == "." || dir == "/" {
			return
		}
		dir = path.Dir(dir)
	}
}

func readTitles(fsys fs.FS, name string, known map[string]*thread) {
	for l, err := range convert.Lines(fsys, name) {
		if err != nil && !convert.IsSkip(err) {
			return
		}
		var row struct {
			ID   string `json:"id"`
			Name string `json:"thread_name"`
		}
		if err != nil || json.Unmarshal(l.Text, &row) != nil {
			continue
		}
		if t := known[strings.ToLower(row.ID)]; t != nil && row.Name != "" {
			t.title = row.Name
		}
	}
}

// find reads the heads of all rollouts of a Source and groups the files of each
// thread. What cannot be read is passed to skip.
func find(ctx context.Context, p convert.Source, skip func(error) bool) (map[string]*thread, []*thread, bool) {
	threads, files := map[string]*thread{}, map[string]*rollout{}
	var order []*thread
	for f, err := range rollouts(ctx, p.FS, p.Path) {
		if err != nil {
			if !skip(err) {
				return nil, nil, false
			}
			continue
		}
		r, err := headOf(p, f.Path)
		if err == nil && files[r.id] != nil {
			err = tidemark.Invalidf("is a second file of %s, which is already in %s", r.id, files[r.id].path)
		}
		if err != nil {
			if !skip(asSkip(f.Path, err)) {
				return nil, nil, false
			}
			continue
		}
		files[r.id] = r
		t := threads[r.thread]
		if t == nil {
			t = &thread{id: r.thread}
			threads[r.thread] = t
			order = append(order, t)
		}
		t.files = append(t.files, r)
	}
	for _, t := range order {
		t.arrange(files)
	}
	straighten(threads, order)
	titles(p.FS, home(p.FS, p.Path), threads)
	slices.SortFunc(order, func(a, b *thread) int {
		return cmp.Or(a.files[0].created.Compare(b.files[0].created), strings.Compare(a.id, b.id))
	})
	return threads, order, true
}

// asSkip turns an error about one file into a Skip, so that the import
// continues.
func asSkip(name string, err error) error {
	if convert.IsSkip(err) {
		return err
	}
	return &convert.Skip{What: name, Why: err}
}
