package agsh

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// source is a database of agsh.
type source struct {
	convert.SourceDatabase
	columns []string // of sessions
	meka    bool
	events  bool // rows are append-only
	outputs bool // it stores large tool outputs
}

// open opens a database and reads its columns. One that is not agsh's is
// ErrInvalid.
func open(ctx context.Context, p convert.Source, name string) (*source, error) {
	src := &source{SourceDatabase: convert.SourceDatabase{Source: p, Name: name}}
	if err := src.Open(ctx); err != nil {
		return nil, err
	}
	if err := src.look(ctx); err != nil {
		src.Close()
		return nil, err
	}
	return src, nil
}

// look tells agsh from other programs, and its versions from each other. A
// Tidemark store has views of the same names, which do not count.
func (s *source) look(ctx context.Context) error {
	tables, err := s.Columns(ctx, "sessions", "messages", "tool_outputs")
	if err != nil {
		return err
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
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(columns, name) })
}

// session is the row of a session.
type session struct {
	id, parent, createdAt, updatedAt, lockedBy string
	columns                                    map[string]any
}

// secret reports whether a column may hold a credential.
func secret(column string) bool {
	for _, word := range []string{"token_id", "secret", "credential", "password", "api_key"} {
		if strings.Contains(column, word) {
			return true
		}
	}
	return false
}

// sessions reads all rows, in the order of creation of the sessions.
func (s *source) sessions(ctx context.Context) ([]*session, error) {
	names := slices.DeleteFunc(slices.Clone(s.columns), secret)
	var all []*session
	for row, err := range s.Query(ctx, "SELECT "+convert.BoundedColumns(names)+" FROM sessions ORDER BY created_at, id") {
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
		s.id = convert.CellText(v)
	case "parent_session_id":
		s.parent = convert.CellText(v)
	case "created_at":
		s.createdAt = convert.CellText(v)
	case "updated_at":
		s.updatedAt = convert.CellText(v)
	case "locked_by":
		s.lockedBy = convert.CellText(v)
	default:
		if v != nil && v != int64(0) {
			s.columns[column] = v
		}
	}
}

// note is what Tidemark has no field for in the row.
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

// rows yields the rows of a session. Where rows are append-only they are
// numbered by counting, so that a session has the same ids in its database and
// in an exported file. For versions that delete rows only the row ids of the
// table are stable.
func (s *source) rows(ctx context.Context, id string) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		n := 0
		for r, err := range s.Query(ctx, `SELECT id, role, CASE WHEN octet_length(content) <= ? THEN content END, created_at
			FROM messages WHERE session_id = ? ORDER BY id`, convert.MaxLine, id) {
			n++
			if err != nil {
				yield(row{}, &convert.Skip{What: "session " + id, Why: err})
				return
			}
			w := row{id: convert.CellText(r[0]), role: convert.CellText(r[1]), content: convert.CellText(r[2]), at: convert.CellText(r[3])}
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

// eventful reports whether a session has rows that are not messages.
func (s *source) eventful(ctx context.Context, id string) bool {
	for row, err := range s.Query(ctx, "SELECT 1 FROM messages WHERE session_id = ? AND role IN (?, ?) LIMIT 1", id, roleBoundary, roleRepair) {
		return err == nil && row != nil
	}
	return false
}

// readOutputs returns the large tool outputs of a session as files in folder.
func (s *source) readOutputs(ctx context.Context, id, folder string, files map[string][]byte) (lost []string) {
	if !s.outputs {
		return nil
	}
	room := convert.MaxFiles
	for _, f := range files {
		room -= len(f)
	}
	for row, err := range s.Query(ctx, "SELECT name, CASE WHEN octet_length(content) <= ? THEN content END FROM tool_outputs WHERE session_id = ? ORDER BY name", room, id) {
		if err != nil {
			return append(lost, fmt.Sprintf("large tool outputs: %v", err))
		}
		name, content := convert.CellText(row[0]), convert.CellText(row[1])
		room -= len(content)
		switch {
		case !fs.ValidPath(folder+name) || strings.ContainsAny(name, `/\`) || name == "" || name[0] == '.':
			lost = append(lost, fmt.Sprintf("the large tool output %.60q: not a name of a file", name))
		case row[1] == nil || room < 0:
			lost = append(lost, fmt.Sprintf("the large tool output %.60q: more than %d bytes in one session", name, convert.MaxFiles))
		default:
			files[folder+name] = []byte(content)
		}
	}
	return lost
}
