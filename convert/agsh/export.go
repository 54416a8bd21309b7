package agsh

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// The tables of 0.1, which every version reads, and those of meka for sessions
// that came from it. Tables that are not for sessions are left to agsh to make.
const (
	agshSessions = `CREATE TABLE IF NOT EXISTS sessions (
	id TEXT PRIMARY KEY,
	created_at TEXT NOT NULL,
	updated_at TEXT NOT NULL,
	locked_by TEXT,
	metadata TEXT
)`
	agshMessages = `CREATE TABLE IF NOT EXISTS messages (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	session_id TEXT NOT NULL,
	role TEXT NOT NULL,
	content TEXT NOT NULL,
	created_at TEXT NOT NULL,
	FOREIGN KEY (session_id) REFERENCES sessions(id)
)`
	messagesIndex = `CREATE INDEX IF NOT EXISTS idx_messages_session_id ON messages(session_id)`

	mekaSessions = `CREATE TABLE IF NOT EXISTS sessions (
	id TEXT PRIMARY KEY,
	created_at TEXT NOT NULL,
	updated_at TEXT NOT NULL,
	parent_session_id TEXT REFERENCES sessions(id) ON DELETE CASCADE,
	cwd TEXT,
	permission TEXT,
	capabilities_json TEXT,
	token_id TEXT,
	additional_roots_json TEXT,
	subagent_spec_json TEXT,
	stat_turns INTEGER NOT NULL DEFAULT 0,
	stat_input_tokens INTEGER NOT NULL DEFAULT 0,
	stat_output_tokens INTEGER NOT NULL DEFAULT 0,
	stat_cache_creation_input_tokens INTEGER NOT NULL DEFAULT 0,
	stat_cache_read_input_tokens INTEGER NOT NULL DEFAULT 0,
	stat_redactions INTEGER NOT NULL DEFAULT 0,
	stat_redacted_images INTEGER NOT NULL DEFAULT 0,
	stat_redacted_bytes INTEGER NOT NULL DEFAULT 0
)`
	mekaMessages = `CREATE TABLE IF NOT EXISTS messages (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
	role TEXT NOT NULL,
	content TEXT NOT NULL,
	created_at TEXT NOT NULL
)`
	mekaOutputs = `CREATE TABLE IF NOT EXISTS tool_outputs (
	session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
	name TEXT NOT NULL,
	content TEXT NOT NULL,
	created_at TEXT NOT NULL,
	PRIMARY KEY (session_id, name)
)`
	updatedIndex = `CREATE INDEX IF NOT EXISTS idx_sessions_updated_at ON sessions(updated_at)`
	parentIndex  = `CREATE INDEX IF NOT EXISTS idx_sessions_parent ON sessions(parent_session_id)`
)

// mekaColumns are the columns of mekaSessions that are kept in a note; the
// others have fields of their own.
var mekaColumns = []string{"permission", "capabilities_json", "additional_roots_json", "subagent_spec_json",
	"stat_turns", "stat_input_tokens", "stat_output_tokens", "stat_cache_creation_input_tokens",
	"stat_cache_read_input_tokens", "stat_redactions", "stat_redacted_images", "stat_redacted_bytes"}

// export writes a session into sessions.db with the tables of agsh 0.1, or into
// meka.db when it came from a version with an event log. An existing session is
// replaced. It is never written as locked. The database stays open for further
// sessions: the Out closes it.
func export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	n := sessionNoteOf(s.Extra)
	name := agshDB
	if n.Meka {
		name = mekaDB
	}
	db, err := out.SQL(ctx, name)
	if err != nil {
		return nil, err
	}
	x := &exporter{ctx: ctx, db: db, meka: n.Meka, lost: map[string]int{}}
	if err := x.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	if err := x.session(s, n); err != nil {
		return nil, errors.Join(fmt.Errorf("session %s: %w", sessionID(s), err), x.exec("ROLLBACK"))
	}
	if err := x.exec("COMMIT"); err != nil {
		return nil, err
	}
	return x.losses(), nil
}

// exporter writes one session.
type exporter struct {
	ctx  context.Context
	db   convert.Database
	meka bool
	lost map[string]int
}

func (x *exporter) exec(statement string, args ...any) error {
	return x.db.Exec(x.ctx, statement, args...)
}

func (x *exporter) session(s *convert.Session, n sessionNote) error {
	statements := []string{agshSessions, agshMessages, messagesIndex}
	if x.meka {
		statements = []string{mekaSessions, mekaMessages, mekaOutputs, messagesIndex, updatedIndex, parentIndex}
	}
	for _, st := range statements {
		if err := x.exec(st); err != nil {
			return err
		}
	}
	id := sessionID(s)
	if err := x.remove(id); err != nil {
		return err
	}
	if s.Project != "" && x.meka {
		n.Columns = maps.Clone(n.Columns)
		if n.Columns == nil {
			n.Columns = map[string]any{}
		}
		n.Columns["cwd"] = s.Project
	}
	written, err := x.entries(id, s.Entries, s.Head)
	if err != nil {
		return err
	}
	updated := s.UpdatedAt
	if updated.IsZero() {
		updated = written.last
	}
	if updated.IsZero() {
		updated = s.CreatedAt
	}
	if err := x.row(id, s.CreatedAt, updated, n); err != nil {
		return err
	}
	if err := x.workers(id, s, n.Helpers); err != nil {
		return err
	}
	x.count(s, n)
	return x.files(id, s)
}

// remove deletes a session that was exported before, with its helpers.
func (x *exporter) remove(id string) error {
	ids := []string{id}
	for i := 0; i < len(ids) && x.meka; i++ {
		for row, err := range x.db.Query(x.ctx, "SELECT id FROM sessions WHERE parent_session_id = ?", ids[i]) {
			if err != nil {
				return err
			}
			if child := convert.CellText(row[0]); !slices.Contains(ids, child) {
				ids = append(ids, child)
			}
		}
	}
	for _, id := range slices.Backward(ids) {
		if err := x.exec("DELETE FROM messages WHERE session_id = ?", id); err != nil {
			return err
		}
		if x.meka {
			if err := x.exec("DELETE FROM tool_outputs WHERE session_id = ?", id); err != nil {
				return err
			}
		}
		if err := x.exec("DELETE FROM sessions WHERE id = ?", id); err != nil {
			return err
		}
	}
	return nil
}

// row inserts the row of a session. agsh 0.1 has a column for data of other
// programs, which it leaves alone.
func (x *exporter) row(id string, created, updated time.Time, n sessionNote) error {
	begun, changed := stamp(created, n.CreatedAt), stamp(updated, n.UpdatedAt)
	if !x.meka {
		return x.exec("INSERT INTO sessions (id, created_at, updated_at, metadata) VALUES (?, ?, ?, ?)", id, begun, changed, n.Columns["metadata"])
	}
	names, args := []string{"id", "created_at", "updated_at"}, []any{id, begun, changed}
	for name, v := range n.Columns {
		if name != "cwd" && name != "parent_session_id" && !slices.Contains(mekaColumns, name) {
			x.lost["column "+name]++
			continue
		}
		if f, ok := v.(float64); ok && f == float64(int64(f)) {
			v = int64(f) // JSON has only one kind of number
		}
		names, args = append(names, name), append(args, v)
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(names)), ", ")
	return x.exec("INSERT INTO sessions ("+strings.Join(names, ", ")+") VALUES ("+marks+")", args...)
}

// workers writes helpers as sessions below the one that started them; agsh 0.1
// has none.
func (x *exporter) workers(id string, s *convert.Session, helpers map[string]sessionNote) error {
	if !x.meka {
		x.lost["helper agent"] += len(s.Workers)
		return nil
	}
	for i, w := range s.Workers {
		child := w.Name
		if _, err := tidemark.ParseSessionID(child); err != nil {
			child = derived(fmt.Sprintf("%s/%d/%s", id, i, w.Name))
		}
		written, err := x.entries(child, w.Entries, "")
		if err != nil {
			return err
		}
		n := helpers[w.Name]
		n.Columns = maps.Clone(n.Columns)
		if n.Columns == nil {
			n.Columns = map[string]any{}
		}
		if n.Columns["parent_session_id"] == nil {
			n.Columns["parent_session_id"] = id
		}
		if err := x.row(child, known(n.CreatedAt, written.first), known(n.UpdatedAt, written.last), n); err != nil {
			return err
		}
	}
	return nil
}

// known returns the time in a text, or the other one when there is none.
func known(s string, or time.Time) time.Time {
	if at, _ := parseTime(s); !at.IsZero() {
		return at
	}
	return or
}

// files writes back the large tool outputs.
func (x *exporter) files(id string, s *convert.Session) error {
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		below, ok := strings.CutPrefix(name, outputsFolder)
		if !x.meka || !ok {
			x.lost["file"]++
			continue
		}
		owner, output, nested := strings.Cut(below, "/")
		if !nested {
			owner, output = id, below
		}
		at := formatTime(s.CreatedAt)
		if err := x.exec("INSERT OR REPLACE INTO tool_outputs (session_id, name, content, created_at) VALUES (?, ?, ?, ?)",
			owner, output, string(s.Files[name]), at); err != nil {
			return err
		}
	}
	return nil
}

// count notes what agsh cannot represent. agsh has no mode: a session that came
// from there was given one on import.
func (x *exporter) count(s *convert.Session, n sessionNote) {
	for what, there := range map[string]bool{
		"title": s.Title != "", "model": s.Model != "", "agent": s.Agent != "", "mode": s.Mode != "" && !n.Agsh,
		"project": s.Project != "" && !x.meka, "checkpoint": len(s.Checkpoint) > 0,
	} {
		if there {
			x.lost[what]++
		}
	}
	x.lost["tag"] += len(s.Tags)
	x.lost["label"] += len(s.Labels)
}

// losses lists what was lost, for people.
func (x *exporter) losses() []string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(x.lost)) {
		switch n := x.lost[what]; {
		case n == 1:
			all = append(all, "1 "+what)
		case n > 1:
			all = append(all, fmt.Sprintf("%d × %s", n, what))
		}
	}
	return all
}

// sessionID is a UUID, because agsh accepts nothing else: the one that the
// session had there, else its own, else one derived from its foreign id.
func sessionID(s *convert.Session) string {
	for _, id := range []string{s.ForeignID, string(s.ID)} {
		if parsed, err := tidemark.ParseSessionID(id); err == nil {
			return string(parsed)
		}
	}
	return derived(s.ForeignID)
}

// derived makes the same UUID from the same text.
func derived(text string) string {
	b := sha256.Sum256([]byte("agsh\x00" + text))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// plainBlocks keeps the blocks of an entry that agsh 0.1 can read: it would show
// an answer with any other block as JSON.
func (x *exporter) plainBlocks(e convert.Entry) convert.Entry {
	kept := make([]tidemark.Block, 0, len(e.Blocks))
	for _, b := range e.Blocks {
		switch {
		case b.Type == tidemark.BlockText, b.Type == tidemark.BlockToolUse && e.Role == tidemark.Assistant:
			kept = append(kept, b)
		case b.Type == tidemark.BlockToolResult && e.Role != tidemark.Assistant:
			if b.Blocks != nil {
				b.Text = x.flatten(b.Blocks)
				b.Blocks, b.Raw = nil, ""
			}
			kept = append(kept, b)
		default:
			x.lost[b.Type+" block"]++
		}
	}
	e.Blocks = kept
	return e
}

func (x *exporter) flatten(blocks []tidemark.Block) string {
	var texts []string
	for _, b := range blocks {
		if b.Type == tidemark.BlockText {
			texts = append(texts, b.Text)
		} else {
			x.lost[b.Type+" block"]++
		}
	}
	return strings.Join(texts, "\n")
}

// boundaryNote is the rest of a compaction: what is known of it, or the fields
// that meka needs. It replaces everything that the model sees.
func boundaryNote(known json.RawMessage, replaced int) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(known, &fields) != nil || fields == nil {
		fields = map[string]json.RawMessage{"loaded_tools_snapshot": json.RawMessage("[]")}
	}
	fields["replaced_count"] = json.RawMessage(strconv.Itoa(replaced))
	return marshal(fields)
}
