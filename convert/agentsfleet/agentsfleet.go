// Package agentsfleet takes sessions of agents-fleet in and gives them back:
// the JSON file of a session in every schema version, its transcript inside
// that file or beside it, and the transcripts of its workers. It follows no
// path that a session file names out of the folder that the path belongs to.
// See docs/formats/agents-fleet.md.
//
//	for s, err := range agentsfleet.Tool().Import(ctx, place) { … }
package agentsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/convert"
)

const (
	toolName   = "agents-fleet"
	version    = 3 // the schema that is written
	jsonEnd    = ".json"
	siblingEnd = ".transcript.ndjson"
	workersEnd = ".workers"
	workerEnd  = ".ndjson"
)

// Tool returns agents-fleet.
func Tool() convert.Tool {
	return convert.Tool{
		Name:   toolName,
		Title:  "agents-fleet",
		Homes:  []string{".fleet/sessions"},
		Detect: detect,
		Import: importAll,
		Export: export,
	}
}

// A folder of sessions is told by a few of its files: other tools keep other
// things under the same name.
const (
	sniffFiles = 16
	sniffBytes = 64 << 10
)

func detect(ctx context.Context, p convert.Place) bool {
	info, err := fs.Stat(p.FS, p.Path)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return info.Mode().IsRegular() && isSession(p.FS, p.Path)
	}
	ids, err := sessionIDs(p.FS, sessionsFolder(p))
	if err != nil {
		return false
	}
	dir := sessionsFolder(p)
	for i, id := range ids {
		if i == sniffFiles || ctx.Err() != nil {
			return false
		}
		if isSession(p.FS, path.Join(dir, id+jsonEnd)) {
			return true
		}
	}
	return false
}

// sessionsFolder returns where the sessions of a folder lie: in a home folder,
// in what is called .fleet there, or in the folder itself.
func sessionsFolder(p convert.Place) string {
	for _, below := range []string{".fleet/sessions", "sessions"} {
		dir := path.Join(p.Path, below)
		if info, err := fs.Stat(p.FS, dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return p.Path
}

// sessionIDs lists the sessions of a folder: those with a file of their own,
// and those of which only the transcript is left.
func sessionIDs(fsys fs.FS, dir string) ([]string, error) {
	list, err := fs.ReadDir(fsys, dir)
	var ids []string
	for _, f := range list {
		if id, ok := idOf(f.Name()); ok && !f.IsDir() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

func idOf(name string) (id string, ok bool) {
	id, ok = strings.CutSuffix(name, siblingEnd)
	if !ok {
		id, ok = strings.CutSuffix(name, jsonEnd)
	}
	return id, ok && id != "" && !strings.HasPrefix(id, ".")
}

// isSession reports whether a file begins as a session does. Only the inline
// transcript is in every version; a file whose transcript is further down than
// it looks is told by what lies beside it.
func isSession(fsys fs.FS, name string) bool {
	if base, ok := strings.CutSuffix(name, siblingEnd); ok {
		return exists(fsys, base+jsonEnd) || beginsAsTranscript(fsys, name)
	}
	base, ok := strings.CutSuffix(name, jsonEnd)
	if !ok || !exists(fsys, name) {
		return false
	}
	f, err := fsys.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, sniffBytes))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		k, _ := key.(string)
		if seen[k] = true; k == "transcript" {
			t, err := dec.Token()
			return err == nil && (t == json.Delim('[') || t == nil && seen["schemaVersion"])
		}
		var skipped json.RawMessage
		if dec.Decode(&skipped) != nil {
			break
		}
	}
	return seen["schemaVersion"] && (seen["transcriptPath"] || seen["workers"]) ||
		exists(fsys, base+siblingEnd) && (seen["schemaVersion"] || seen["sessionId"])
}

func beginsAsTranscript(fsys fs.FS, name string) bool {
	if !exists(fsys, name) {
		return false
	}
	for l, err := range convert.Lines(fsys, name) {
		var fields struct{ Role string }
		return err == nil && json.Unmarshal(l.Text, &fields) == nil && fields.Role != ""
	}
	return false
}

// exists reports whether there is a regular file: a pipe would be waited for.
func exists(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

func importAll(ctx context.Context, p convert.Place) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		dir, ids, err := find(p)
		if err != nil && !yield(nil, &convert.Skip{What: dir, Why: err}) {
			return
		}
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			s, skips := read(p.FS, dir, id)
			for _, skip := range skips {
				if !yield(nil, skip) {
					return
				}
			}
			if s != nil && !yield(s, nil) {
				return
			}
		}
	}
}

// find returns the folder of the sessions at a Place, and their ids.
func find(p convert.Place) (dir string, ids []string, err error) {
	info, err := fs.Stat(p.FS, p.Path)
	if err != nil {
		return p.Path, nil, err
	}
	if info.IsDir() {
		dir = sessionsFolder(p)
		ids, err = sessionIDs(p.FS, dir)
		return dir, ids, err
	}
	id, ok := idOf(path.Base(p.Path))
	if !ok {
		return p.Path, nil, errors.New("is no session of agents-fleet")
	}
	return path.Dir(p.Path), []string{id}, nil
}
