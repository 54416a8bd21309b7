package agsh

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// maxCell bounds a value of a session's row, which is small unless somebody
// means harm.
const maxCell = 1 << 20

// maxOutputs bounds the large tool outputs that are held for one session.
const maxOutputs = 64 << 20

// source is a database of agsh.
type source struct {
	place   convert.Place
	name    string
	db      convert.Database // nil: closed
	columns []string         // of sessions
	meka    bool
	events  bool // rows are only ever added
	outputs bool // it keeps large tool outputs
}

// open opens a database and looks at its columns. One that is not agsh's is
// ErrInvalid.
func open(ctx context.Context, p convert.Place, name string) (*source, error) {
	if p.SQL == nil {
		return nil, tidemark.Unsupportedf("databases cannot be read here")
	}
	db, err := p.SQL(ctx, name)
	if err != nil {
		return nil, err
	}
	src := &source{place: p, name: name, db: db}
	if err := src.look(ctx); err != nil {
		src.close()
		return nil, err
	}
	return src, nil
}

func (s *source) close() {
	if s.db != nil {
		s.db.Close()
	}
	s.db = nil
}

// look tells agsh from others, and its versions from each other. Views do not
// count: a store of Tidemark has views of the same names.
func (s *source) look(ctx context.Context) error {
	tables := map[string][]string{}
	for row, err := range s.db.Query(ctx, `SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name IN ('sessions', 'messages', 'tool_outputs') ORDER BY t.name, c.cid`) {
		if err != nil {
			return err
		}
		tables[text(row[0])] = append(tables[text(row[0])], text(row[1]))
	}
	s.columns = tables["sessions"]
	if !hasAll(s.columns, "id", "created_at", "updated_at") ||
		!hasAll(tables["messages"], "id", "session_id", "role", "content", "created_at") {
		return tidemark.Invalidf("its tables are not those of agsh")
	}
	s.meka = !hasAll(s.columns, "locked_by")
	s.events = hasAll(s.columns, "parent_session_id")
	s.outputs = hasAll(tables["tool_outputs"], "session_id", "name", "content")
	if s.meka && !hasAll(s.columns, "parent_session_id") && !hasAll(s.columns, "metadata") {
		return tidemark.Invalidf("its tables are not those of agsh")
	}
	return nil
}

func hasAll(columns []string, names ...string) bool {
	for _, name := range names {
		found := false
		for _, c := range columns {
			found = found || c == name
		}
		if !found {
			return false
		}
	}
	return true
}

// query asks the database, and opens it once more where entries are read after
// the import has ended.
func (s *source) query(ctx context.Context, statement string, args ...any) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		db := s.db
		if db == nil {
			var err error
			if db, err = s.place.SQL(ctx, s.name); err != nil {
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

// session is the row of a session.
type session struct {
	id, parent, createdAt, updatedAt, lockedBy string
	columns                                    map[string]any
}

// secret reports whether a column may hold what identifies somebody.
func secret(column string) bool {
	for _, word := range []string{"token_id", "secret", "credential", "password", "api_key"} {
		if strings.Contains(column, word) {
			return true
		}
	}
	return false
}

// sessions reads all rows, in the order in which the sessions began.
func (s *source) sessions(ctx context.Context) ([]*session, error) {
	var names, exprs []string
	for _, c := range s.columns {
		if !secret(c) {
			quoted := `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
			names = append(names, c)
			exprs = append(exprs, fmt.Sprintf("CASE WHEN octet_length(%s) <= %d THEN %s END", quoted, maxCell, quoted))
		}
	}
	var all []*session
	for row, err := range s.query(ctx, "SELECT "+strings.Join(exprs, ", ")+" FROM sessions ORDER BY created_at, id") {
		if err != nil {
			return all, err
		}
		one := &session{columns: map[string]any{}}
		for i, name := range names {
			one.set(name, row[i])
		}
		all = append(all, one)
	}
	return all, nil
}

func (s *session) set(column string, v any) {
	switch column {
	case "id":
		s.id = text(v)
	case "parent_session_id":
		s.parent = text(v)
	case "created_at":
		s.createdAt = text(v)
	case "updated_at":
		s.updatedAt = text(v)
	case "locked_by":
		s.lockedBy = text(v)
	default:
		if v != nil && v != int64(0) {
			s.columns[column] = v
		}
	}
}

// note is what of the row Tidemark has no field for.
func (s *session) note(meka bool) sessionNote {
	_, created := parseTime(s.createdAt)
	_, updated := parseTime(s.updatedAt)
	n := sessionNote{Meka: meka, CreatedAt: created, UpdatedAt: updated, Columns: map[string]any{}}
	for name, v := range s.columns {
		if b, ok := v.([]byte); ok {
			v = string(b)
		}
		n.Columns[name] = v
	}
	if s.parent != "" {
		n.Columns["parent_session_id"] = s.parent
	}
	return n
}

// rows yields the rows of a session. Where rows are only ever added they are
// counted, so that a session has the same ids in its database and in an
// exported file. Versions that delete rows leave but the numbers of the table.
func (s *source) rows(ctx context.Context, id string) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		n := 0
		for r, err := range s.query(ctx, `SELECT id, role, CASE WHEN octet_length(content) <= ? THEN content END, created_at
			FROM messages WHERE session_id = ? ORDER BY id`, convert.MaxLine, id) {
			n++
			if err != nil {
				yield(row{}, &convert.Skip{What: "session " + id, Why: err})
				return
			}
			w := row{id: text(r[0]), role: text(r[1]), content: text(r[2]), at: text(r[3])}
			if s.events {
				w.id = strconv.Itoa(n)
			}
			var why error
			if r[2] == nil {
				why = convert.Skipf(fmt.Sprintf("session %s: message %s", id, w.id), "is longer than %d bytes", convert.MaxLine)
			}
			if !yield(w, why) {
				return
			}
		}
	}
}

// eventful reports whether a session has rows that are no messages.
func (s *source) eventful(ctx context.Context, id string) bool {
	for row, err := range s.query(ctx, "SELECT 1 FROM messages WHERE session_id = ? AND role IN (?, ?) LIMIT 1", id, roleBoundary, roleRepair) {
		return err == nil && row != nil
	}
	return false
}

// readOutputs returns the large tool outputs of a session as files in folder.
func (s *source) readOutputs(ctx context.Context, id, folder string, files map[string][]byte) (lost []string) {
	if !s.outputs {
		return nil
	}
	room := maxOutputs
	for _, f := range files {
		room -= len(f)
	}
	for row, err := range s.query(ctx, "SELECT name, CASE WHEN octet_length(content) <= ? THEN content END FROM tool_outputs WHERE session_id = ? ORDER BY name", room, id) {
		if err != nil {
			return append(lost, fmt.Sprintf("large tool outputs: %v", err))
		}
		name, content := text(row[0]), text(row[1])
		room -= len(content)
		switch {
		case !fs.ValidPath(folder+name) || strings.ContainsAny(name, `/\`) || name == "" || name[0] == '.':
			lost = append(lost, fmt.Sprintf("the large tool output %.60q: not a name of a file", name))
		case row[1] == nil || room < 0:
			lost = append(lost, fmt.Sprintf("the large tool output %.60q: more than %d bytes in one session", name, maxOutputs))
		default:
			files[folder+name] = []byte(content)
		}
	}
	return lost
}

// text returns a value as text, whatever type somebody stored it with.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}
