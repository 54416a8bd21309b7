package opencode

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// Of a session that changed only the rows are read behind a point: an answer that is
// complete, up to which nothing was changed since the last import. That is told by the
// numbers and times of the rows, without what was said. A session with helpers, or with
// an undo, is read whole.

// point is where a later reading of a session goes on, with what is known there.
type point struct {
	Message string `json:"message"` // the answer
	Created int64  `json:"created"` // as its row has it
	Stamp   string `json:"stamp"`   // of the rows up to it

	First     time.Time `json:"first,omitzero"`
	Model     string    `json:"model,omitempty"`
	Mode      string    `json:"mode,omitempty"`
	Directory string    `json:"directory,omitempty"`
	Copied    string    `json:"copied,omitempty"`

	bytes int64 // of those rows
}

// lookedBack is among how many of the newest messages an answer is looked for that is
// complete.
const lookedBack = 16

// pointOf finds the last point of a session; it is false if there is none.
func (d *database) pointOf(ctx context.Context, session string) (p point, ok bool) {
	if !d.timed {
		return p, false
	}
	for row, err := range d.Query(ctx, fmt.Sprintf(`SELECT id, time_created, CASE WHEN octet_length(data) <= ? THEN data END
		FROM message WHERE session_id = ? ORDER BY time_created DESC, id DESC LIMIT %d`, lookedBack), convert.MaxLine, session) {
		if err != nil {
			return p, false
		}
		var w wireMessage
		created, whole := row[1].(int64)
		if whole && json.Unmarshal([]byte(convert.CellText(row[2])), &w) == nil && w.complete() {
			p.Message, p.Created = convert.CellText(row[0]), created
			p.Stamp, p.bytes = d.stampOf(ctx, session, p)
			return p, p.Message != "" && p.Stamp != ""
		}
	}
	return p, false
}

// complete reports whether a message is an answer to which nothing is added.
func (m wireMessage) complete() bool {
	return m.Role == "assistant" && (m.Time.Completed > 0 || m.Error != nil)
}

// stampOf tells whether rows up to a point were changed, and how many bytes they have;
// "" if they cannot be read.
func (d *database) stampOf(ctx context.Context, session string, p point) (stamp string, bytes int64) {
	const columns = "count(*), max(%[1]s.rowid), sum(%[1]s.time_updated), sum(octet_length(%[1]s.data))"
	var rows [][]any
	for _, statement := range []string{
		"SELECT " + fmt.Sprintf(columns, "m") + " FROM message m WHERE m.session_id = ? AND (m.time_created, m.id) <= (?, ?)",
		"SELECT " + fmt.Sprintf(columns, "p") + " FROM message m JOIN part p ON p.message_id = m.id WHERE m.session_id = ? AND (m.time_created, m.id) <= (?, ?)",
	} {
		for row, err := range d.Query(ctx, statement, session, p.Created, p.Message) {
			if err != nil {
				return "", 0
			}
			rows, bytes = append(rows, row), bytes+int64(number(row[3]))
		}
	}
	return convert.Stamp(rows...), bytes
}

// goOn returns what was added to a session behind its point; nil if that takes a
// reading of all of it.
func (d *database) goOn(ctx context.Context, s *session, f families) *convert.Session {
	var p point
	g, ok := d.Source.Grown(convert.SessionUnit+s.id, &p)
	if !ok || !d.timed || len(f.helpers(s.id)) > 0 {
		return nil
	}
	if stamp, _ := d.stampOf(ctx, s.id, p); stamp != p.Stamp {
		return nil
	}
	added := *d
	added.after = &p
	next, marked := d.pointOf(ctx, s.id)
	st, err := added.hold(ctx, s, nil)
	if _, held := st.(*held); err != nil || !held || len(s.revert) > 0 && string(s.revert) != "null" {
		return nil
	}
	s.first, s.mode = p.First, p.Mode
	if s.model == "" {
		s.model = p.Model
	}
	if s.directory == "" {
		s.directory = p.Directory
	}
	out := take(ctx, st, s, families{})
	if out.Files != nil {
		return nil
	}
	out.Copied = p.Copied
	d.bookmark(ctx, st, s, out, next, marked)
	out.From, out.Whole = &g.Bookmark, func() (*convert.Session, error) { return d.whole(ctx, s, f) }
	return out
}

// bookmark gives a session its units, with a bookmark at a point.
func (d *database) bookmark(ctx context.Context, st store, s *session, out *convert.Session, at point, marked bool) {
	out.Units = convert.RowUnits(s.id, s.stamp, marshal(keptSession{s.first}))
	if !marked || len(out.Units) == 0 || len(out.Workers) > 0 {
		return
	}
	at.First, at.Model, at.Mode, at.Directory, at.Copied = s.first, s.model, s.mode, s.directory, out.Copied
	after := ""
	out.Entries = entries(ctx, st, s.id, func(message, last string) {
		if message == at.Message {
			after = last
		}
	})
	out.Units[0].Bookmark = func() (convert.Bookmark, bool) {
		return convert.Bookmark{Mark: convert.Mark{Offset: at.bytes}, After: after, State: marshal(at)}, after != ""
	}
}

// whole reads a session with its helpers.
func (d *database) whole(ctx context.Context, s *session, f families) (*convert.Session, error) {
	at, marked := d.pointOf(ctx, s.id)
	st, err := d.hold(ctx, s, f.helpers(s.id))
	if err != nil {
		return nil, &convert.Skip{What: "session " + s.id, Why: err}
	}
	first(ctx, st, s)
	out := take(ctx, st, s, f)
	d.bookmark(ctx, st, s, out, at, marked)
	return out, nil
}
