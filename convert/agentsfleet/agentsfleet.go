// Package agentsfleet imports and exports sessions of agents-fleet: the JSON
// file of a session in every schema version, its transcript inside that file or
// beside it, and the transcripts of its workers. It follows no path in a session
// file that leads out of the folder it belongs to. See
// docs/formats/agents-fleet.md.
//
//	for s, err := range agentsfleet.Tool().Import(ctx, place) { … }
package agentsfleet

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
	"path"
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
		Local:  ".fleet",
		Detect: detect,
		Import: importAll,
		Export: export,
	}
}

// sniffBytes is how much of a file Detect reads to tell whether it is a session.
const sniffBytes = 64 << 10

func detect(_ context.Context, p convert.Source) bool {
	if convert.IsFile(p.FS, p.Path) {
		return isSession(p.FS, p.Path)
	}
	dir, ids, err := find(p)
	return err == nil && convert.Sniff(ids, func(id string) bool { return isSession(p.FS, path.Join(dir, id+jsonEnd)) })
}

// find lists the sessions of a home folder, of its .fleet, or of a folder of
// sessions: those with a file of their own, and those of which only the
// transcript is left.
func find(p convert.Source) (dir string, ids []string, err error) {
	return p.IDs(idOf, ".fleet/sessions", "sessions")
}

func idOf(name string) (id string, ok bool) {
	id, ok = strings.CutSuffix(name, siblingEnd)
	if !ok {
		id, ok = strings.CutSuffix(name, jsonEnd)
	}
	return id, ok && id != "" && !strings.HasPrefix(id, ".")
}

// isSession reports whether a file begins like a session. Only the inline
// transcript is in every version; a file whose transcript is beyond the bytes
// read is recognized by the files beside it.
func isSession(fsys fs.FS, name string) bool {
	if base, ok := strings.CutSuffix(name, siblingEnd); ok {
		return convert.IsFile(fsys, base+jsonEnd) || beginsAsTranscript(fsys, name)
	}
	base, ok := strings.CutSuffix(name, jsonEnd)
	if !ok || !convert.IsFile(fsys, name) {
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
		convert.IsFile(fsys, base+siblingEnd) && (seen["schemaVersion"] || seen["sessionId"])
}

func beginsAsTranscript(fsys fs.FS, name string) bool {
	if !convert.IsFile(fsys, name) {
		return false
	}
	for l, err := range convert.Lines(fsys, name) {
		var fields struct{ Role string }
		return err == nil && json.Unmarshal(l.Text, &fields) == nil && fields.Role != ""
	}
	return false
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
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
