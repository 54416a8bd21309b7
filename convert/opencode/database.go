package opencode

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// database is a store in SQLite. Tables other than session, message, part and
// todo are not read, and of events only how many there were: some hold secrets.
type database struct {
	convert.SourceDatabase
	columns []string // of session
	todos   bool
	timed   bool // messages and parts say when they were changed
	events  bool // it counts changes of sessions
	later   bool // it also has a table for messages in a later form

	after *point // only messages behind it are read; nil: all
}

func (d *database) open(ctx context.Context) error {
	err := d.Open(ctx)
	if err == nil {
		err = d.look(ctx)
	}
	if err != nil {
		d.Close()
		return &convert.Skip{What: d.Name, Why: err}
	}
	return nil
}

func (d *database) close() { d.Close() }

// look reads which columns there are: they differ between versions.
func (d *database) look(ctx context.Context) error {
	tables, err := d.Columns(ctx, "session", "message", "part", "todo", "session_message", "event_sequence")
	if err != nil {
		return err
	}
	for table, columns := range map[string][]string{
		"session": {"id", "directory", "title", "time_created", "time_updated"},
		"message": {"id", "session_id", "time_created", "data"},
		"part":    {"id", "message_id", "data"},
	} {
		for _, c := range columns {
			if !slices.Contains(tables[table], c) {
				return tidemark.Invalidf("its table %s has no column %s: not a store of opencode", table, c)
			}
		}
	}
	d.columns = tables["session"]
	d.todos = slices.Contains(tables["todo"], "position")
	d.timed = slices.Contains(tables["message"], "time_updated") && slices.Contains(tables["part"], "time_updated") && slices.Contains(tables["part"], "session_id")
	d.events = slices.Contains(tables["event_sequence"], "aggregate_id") && slices.Contains(tables["event_sequence"], "seq")
	d.later = slices.Contains(tables["session_message"], "session_id")
	return nil
}

// set sets a field from a column of a session's row.
func (s *session) set(column string, v any) {
	switch column {
	case "id":
		s.id = convert.CellText(v)
	case "parent_id":
		s.parent = convert.CellText(v)
	case "directory":
		s.directory = convert.CellText(v)
	case "title":
		s.title = convert.CellText(v)
	case "time_created":
		s.created = convert.Milli(number(v))
	case "time_updated":
		s.updated = convert.Milli(number(v))
	default:
		if raw := cell(v); raw != nil {
			s.rest[column] = raw
		}
	}
	switch column {
	case "time_archived":
		s.archived = number(v) > 0
	case "revert":
		s.revert = json.RawMessage(convert.CellText(v))
	case "model":
		var m struct {
			ID string `json:"id"`
		}
		if json.Unmarshal([]byte(convert.CellText(v)), &m) == nil {
			s.model = m.ID
		}
	}
}

// messages are in the order in which opencode reads them.
func (d *database) messages(ctx context.Context, session string) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		empty := true
		behind, args := d.behind(session)
		for m, err := range d.items(ctx, "session "+session+": message", `SELECT m.id, CASE WHEN octet_length(m.data) <= ? THEN m.data END
			FROM message m WHERE m.session_id = ?`+behind+` ORDER BY m.time_created, m.id`, args...) {
			empty = false
			if !yield(m, err) {
				return
			}
		}
		if !empty || !d.later || d.after != nil {
			return
		}
		for _, err := range d.Query(ctx, "SELECT 1 FROM session_message WHERE session_id = ? LIMIT 1", session) {
			if err == nil {
				yield(item{}, convert.Skipf("session "+session, "its messages are in the form of a later version, which is not known"))
			}
			return
		}
	}
}

func (d *database) parts(ctx context.Context, session, message string) iter.Seq2[item, error] {
	return d.items(ctx, "session "+session+": part", `SELECT id, CASE WHEN octet_length(data) <= ? THEN data END
		FROM part WHERE message_id = ? ORDER BY id`, message)
}

// partsOf are the parts of all messages of a session.
func (d *database) partsOf(ctx context.Context, session string) iter.Seq2[item, error] {
	behind, args := d.behind(session)
	return d.items(ctx, "session "+session+": part", `SELECT p.id, CASE WHEN octet_length(p.data) <= ? THEN p.data END, p.message_id
		FROM message m JOIN part p ON p.message_id = m.id WHERE m.session_id = ?`+behind+` ORDER BY m.time_created, m.id, p.id`, args...)
}

// behind restricts messages m of a session to those that are read.
func (d *database) behind(session string) (sql string, args []any) {
	if d.after == nil {
		return "", []any{session}
	}
	return " AND (m.time_created, m.id) > (?, ?)", []any{session, d.after.Created, d.after.Message}
}

func (d *database) items(ctx context.Context, what, statement string, args ...any) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for row, err := range d.Query(ctx, statement, append([]any{convert.MaxLine}, args...)...) {
			if err != nil {
				yield(item{}, &convert.Skip{What: what, Why: err})
				return
			}
			one := item{id: convert.CellText(row[0]), data: json.RawMessage(convert.CellText(row[1]))}
			if len(row) > 2 {
				one.of = convert.CellText(row[2])
			}
			var why error
			if row[1] == nil {
				why = convert.Skipf(fmt.Sprintf("%s %s", what, one.id), "is longer than %d bytes", convert.MaxLine)
			}
			if !yield(one, why) {
				return
			}
		}
	}
}

func (d *database) todo(ctx context.Context, session string) json.RawMessage {
	if !d.todos {
		return nil
	}
	type todo struct {
		Content  string `json:"content"`
		Status   string `json:"status"`
		Priority string `json:"priority"`
	}
	all := []todo{}
	for row, err := range d.Query(ctx, "SELECT content, status, priority FROM todo WHERE session_id = ? ORDER BY position LIMIT 1000", session) {
		if err != nil {
			return nil
		}
		all = append(all, todo{convert.CellText(row[0]), convert.CellText(row[1]), convert.CellText(row[2])})
	}
	return marshal(all)
}

func (d *database) outputs() fs.FS {
	return folder(d.Source.FS, path.Join(path.Dir(d.Name), outputFolder))
}

func number(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// cell returns a value as JSON: objects and arrays are stored as text.
func cell(v any) json.RawMessage {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		if t := strings.TrimSpace(v); (strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[")) && json.Valid([]byte(t)) {
			return json.RawMessage(t)
		}
	case []byte:
		return marshal(string(v))
	}
	return marshal(v)
}
