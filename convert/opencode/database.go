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

// maxCell bounds a value of a session's row.
const maxCell = 1 << 20

// database is a store in SQLite. Tables beside session, message, part and todo
// are not named here: some hold secrets.
type database struct {
	place   convert.Place
	name    string
	db      convert.Database // nil: closed
	columns []string         // of session
	todos   bool
	later   bool // it has a table for messages in a later form
}

func (d *database) open(ctx context.Context) error {
	if d.place.SQL == nil {
		return &convert.Skip{What: d.name, Why: tidemark.Unsupportedf("databases cannot be read here")}
	}
	db, err := d.place.SQL(ctx, d.name)
	if err != nil {
		return &convert.Skip{What: d.name, Why: err}
	}
	d.db = db
	if err := d.look(ctx); err != nil {
		d.close()
		return &convert.Skip{What: d.name, Why: err}
	}
	return nil
}

func (d *database) close() {
	if d.db != nil {
		d.db.Close()
	}
	d.db = nil
}

// look finds out which columns there are: they differ between versions.
func (d *database) look(ctx context.Context) error {
	tables := map[string][]string{}
	for row, err := range d.db.Query(ctx, `SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name IN ('session', 'message', 'part', 'todo', 'session_message') ORDER BY t.name, c.cid`) {
		if err != nil {
			return err
		}
		tables[text(row[0])] = append(tables[text(row[0])], text(row[1]))
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
	d.later = slices.Contains(tables["session_message"], "session_id")
	return nil
}

// query asks the database, and opens it once more where entries are read after
// the import has ended.
func (d *database) query(ctx context.Context, statement string, args ...any) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		db := d.db
		if db == nil {
			var err error
			if db, err = d.place.SQL(ctx, d.name); err != nil {
				yield(nil, err)
				return
			}
			defer db.Close()
		}
		for row, err := range db.Query(ctx, statement, args...) {
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (d *database) sessions(ctx context.Context) iter.Seq2[*session, error] {
	return func(yield func(*session, error) bool) {
		var names, exprs []string
		for _, c := range d.columns {
			// A shared session is opened to whoever knows its address.
			if !strings.Contains(c, "share") && !strings.Contains(c, "secret") {
				quoted := `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
				names = append(names, c)
				exprs = append(exprs, fmt.Sprintf("CASE WHEN octet_length(%s) <= %d THEN %s END", quoted, maxCell, quoted))
			}
		}
		for row, err := range d.query(ctx, "SELECT "+strings.Join(exprs, ", ")+" FROM session") {
			if err != nil {
				yield(nil, &convert.Skip{What: d.name, Why: err})
				return
			}
			s := &session{rest: map[string]json.RawMessage{}}
			for i, n := range names {
				s.set(n, row[i])
			}
			var why error
			if err := tidemark.CheckID(s.id); err != nil {
				why = &convert.Skip{What: fmt.Sprintf("%s: a session", d.name), Why: err}
			}
			if !yield(s, why) {
				return
			}
		}
	}
}

// set takes over a column of a session's row.
func (s *session) set(column string, v any) {
	switch column {
	case "id":
		s.id = text(v)
	case "parent_id":
		s.parent = text(v)
	case "directory":
		s.directory = text(v)
	case "title":
		s.title = text(v)
	case "time_created":
		s.created = milli(number(v))
	case "time_updated":
		s.updated = milli(number(v))
	default:
		if raw := cell(v); raw != nil {
			s.rest[column] = raw
		}
	}
	switch column {
	case "time_archived":
		s.archived = number(v) > 0
	case "revert":
		s.revert = json.RawMessage(text(v))
	case "model":
		var m struct {
			ID string `json:"id"`
		}
		if json.Unmarshal([]byte(text(v)), &m) == nil {
			s.model = m.ID
		}
	}
}

// messages are in the order in which opencode reads them.
func (d *database) messages(ctx context.Context, session string) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		empty := true
		for m, err := range d.items(ctx, "session "+session+": message", `SELECT id, CASE WHEN octet_length(data) <= ? THEN data END
			FROM message WHERE session_id = ? ORDER BY time_created, id`, session) {
			empty = false
			if !yield(m, err) {
				return
			}
		}
		if !empty || !d.later {
			return
		}
		for _, err := range d.query(ctx, "SELECT 1 FROM session_message WHERE session_id = ? LIMIT 1", session) {
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

func (d *database) items(ctx context.Context, what, statement, id string) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for row, err := range d.query(ctx, statement, convert.MaxLine, id) {
			if err != nil {
				yield(item{}, &convert.Skip{What: what, Why: err})
				return
			}
			var why error
			if row[1] == nil {
				why = convert.Skipf(fmt.Sprintf("%s %s", what, text(row[0])), "is longer than %d bytes", convert.MaxLine)
			}
			if !yield(item{text(row[0]), json.RawMessage(text(row[1]))}, why) {
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
	for row, err := range d.query(ctx, "SELECT content, status, priority FROM todo WHERE session_id = ? ORDER BY position LIMIT 1000", session) {
		if err != nil {
			return nil
		}
		all = append(all, todo{text(row[0]), text(row[1]), text(row[2])})
	}
	return marshal(all)
}

func (d *database) outputs() fs.FS {
	return folder(d.place.FS, path.Join(path.Dir(d.name), outputFolder))
}

// text returns a value as text, whatever type somebody stored it with.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int64, float64:
		return fmt.Sprint(v)
	}
	return ""
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

// cell returns a value as JSON: objects and arrays are kept as text.
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
