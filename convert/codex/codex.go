// Package codex imports the sessions of the Codex command line, and exports
// sessions that it can continue. A session there is a thread: one rollout file
// of JSON lines, or several after a rewind; a fork names a position in another
// file, and a helper agent has a file of its own.
//
// It reads rollouts and session_index.jsonl, and nothing else of the folder: no
// settings, no databases, no credentials.
//
//	for s, err := range codex.Tool().Import(ctx, place) { … }
package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Tool returns the converter.
func Tool() convert.Tool {
	return convert.Tool{
		Name:     "codex",
		Title:    "Codex",
		Homes:    []string{".codex"},
		Moved:    []convert.Moved{{Variable: "CODEX_HOME"}},
		Detect:   detect,
		Import:   importAll,
		Grows:    true,
		Handover: &convert.Handover{AsIs: true, Adrift: adrift},
		Files:    list,
		Kin:      kinOf,
		Export:   export,
	}
}

// detect looks for one rollout and checks how it begins.
func detect(ctx context.Context, p convert.Source) bool {
	info, err := fs.Stat(p.FS, p.Path)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return begins(p.FS, p.Path)
	}
	for f, err := range rollouts(ctx, p.FS, p.Path) {
		if err == nil && begins(p.FS, f.Path) {
			return true
		}
	}
	return false
}

// firstBytes is enough for the keys before the vendor's instructions.
const firstBytes = 512

// begins reports whether a file begins like a rollout: with a session_meta or,
// in the first versions, with a bare id, time and instructions.
func begins(fsys fs.FS, name string) bool {
	b, err := convert.Head(fsys, name, firstBytes)
	if err != nil {
		return false
	}
	wrapped := bytes.HasPrefix(b, []byte(`{"`)) && bytes.Contains(b, []byte(`"payload"`)) &&
		(bytes.Contains(b, []byte(`"type":"session_meta"`)) || bytes.Contains(b, []byte(`"type": "session_meta"`)))
	bare := isRollout(path.Base(name)) && bytes.HasPrefix(b, []byte(`{"id":"`)) && bytes.Contains(b, []byte(`"timestamp"`))
	return wrapped || bare
}

// isRollout decides by the name that Codex gives.
func isRollout(base string) bool {
	return strings.HasPrefix(base, "rollout-") && strings.HasSuffix(base, ".jsonl")
}

// rollout is one file of a thread: the content of its first lines, and where it
// is.
type rollout struct {
	path     string
	id       string // of the file: the thread's, or the segment's after a rewind
	thread   string
	meta     meta
	model    string
	title    string
	created  time.Time
	updated  time.Time
	archived bool
	was      *unitState // what is kept of it, and its file did not change since; nil: nothing, or it did
}

// meta is the part of a session_meta that is needed.
type meta struct {
	ID             string          `json:"id"`
	Timestamp      string          `json:"timestamp"`
	CWD            string          `json:"cwd"`
	Provider       string          `json:"model_provider"`
	Git            repository      `json:"git"`
	ForkedFrom     string          `json:"forked_from_id"`
	ParentThread   string          `json:"parent_thread_id"`
	AgentNickname  string          `json:"agent_nickname"`
	AgentPath      string          `json:"agent_path"`
	Source         json.RawMessage `json:"source,omitempty"`
	HistoryMode    string          `json:"history_mode"`
	HistoryBase    *historyBase    `json:"history_base"`
	HistoryStart   int64           `json:"subagent_history_start_ordinal"` // of a helper: where its own lines begin
	spawnNickname  string
	spawnAgentPath string
}

// repository is the git remote of the project.
type repository struct {
	URL string `json:"repository_url"`
}

// historyBase is what a file continues from: the lines before an ordinal of
// another file, which is identified by the id in its name.
type historyBase struct {
	File string `json:"thread_id"`
	End  int64  `json:"end_ordinal_exclusive"`
}

// parseMeta reads a session_meta. The parent of a helper agent is in source in
// versions without a field for it.
func parseMeta(raw json.RawMessage) (meta, error) {
	var m meta
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, tidemark.Invalidf("its session_meta is not one: %w", err)
	}
	id, err := tidemark.ParseSessionID(m.ID)
	if err != nil {
		return m, tidemark.Invalidf("its session_meta has no thread id: %w", err)
	}
	m.ID = string(id)
	var source struct {
		Subagent struct {
			Spawn struct {
				Parent   string `json:"parent_thread_id"`
				Path     string `json:"agent_path"`
				Nickname string `json:"agent_nickname"`
			} `json:"thread_spawn"`
		} `json:"subagent"`
	}
	var job struct {
		Subagent string `json:"subagent"`
	}
	// A source is often just a word, which tells nothing here.
	if json.Unmarshal(m.Source, &source) == nil {
		spawn := source.Subagent.Spawn
		if m.ParentThread == "" {
			m.ParentThread = spawn.Parent
		}
		m.spawnNickname, m.spawnAgentPath = spawn.Nickname, spawn.Path
	} else if json.Unmarshal(m.Source, &job) == nil {
		m.spawnNickname = job.Subagent
	}
	m.ParentThread = strings.ToLower(m.ParentThread)
	m.ForkedFrom = strings.ToLower(m.ForkedFrom)
	if m.HistoryBase != nil {
		m.HistoryBase.File = strings.ToLower(m.HistoryBase.File)
	}
	return m, nil
}

// workerName is the name for people, followed by the id that makes it unique.
func (m meta) workerName() string {
	for _, name := range []string{m.AgentNickname, m.spawnNickname, path.Base("/" + m.AgentPath), path.Base("/" + m.spawnAgentPath)} {
		if name != "" && name != "/" {
			return name + "-" + m.ID
		}
	}
	return m.ID
}
