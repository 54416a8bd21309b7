package goose

import (
	"context"
	"encoding/json"

	"github.com/tidemark-sessions/tidemark/convert"
)

// Of a session that goes on only the rows are read behind a point: the newest one of
// the last import, up to which nothing was changed since. That is told by the numbers
// and lengths of the rows, without what was said.

// point is where a later reading of a session goes on. Goose orders by time, and then
// by number.
type point struct {
	Row     int64  `json:"row"`
	Created int64  `json:"created"`
	Stamp   string `json:"stamp"` // of the rows up to it

	bytes int64 // of those rows
}

// pointOf finds the newest row of a session; it is false if there is none.
func (d *source) pointOf(ctx context.Context, session string) (p point, ok bool) {
	for row, err := range d.Query(ctx, "SELECT id, created_timestamp FROM messages WHERE session_id = ? ORDER BY created_timestamp DESC, id DESC LIMIT 1", session) {
		if err != nil {
			return p, false
		}
		var timed bool
		p.Row, ok = row[0].(int64)
		p.Created, timed = row[1].(int64)
		ok = ok && timed
	}
	if ok {
		p.Stamp, p.bytes = d.stampOf(ctx, session, p)
	}
	return p, p.Stamp != ""
}

// stampOf tells whether rows up to a point were changed, and how many bytes they have;
// "" if they cannot be read.
func (d *source) stampOf(ctx context.Context, session string, p point) (stamp string, bytes int64) {
	for row, err := range d.Query(ctx, `SELECT count(*), max(id), sum(octet_length(content_json)), sum(octet_length(metadata_json))
		FROM messages WHERE session_id = ? AND (created_timestamp, id) <= (?, ?)`, session, p.Created, p.Row) {
		if err != nil {
			return "", 0
		}
		bytes, _ = row[2].(int64)
		stamp = convert.Stamp(row)
	}
	return stamp, bytes
}

// repeats reports whether the name of an entry behind a point may depend on one before
// it: a message has the id of another one, or one that may be made from it.
func (d *source) repeats(ctx context.Context, session string, p point) bool {
	for row, err := range d.Query(ctx, `SELECT count(*) FROM messages n WHERE n.session_id = ? AND (n.created_timestamp, n.id) > (?, ?) AND (n.message_id LIKE '%.%' OR n.message_id <> '' AND
		EXISTS (SELECT 1 FROM messages o WHERE o.session_id = n.session_id AND o.message_id = n.message_id AND (o.created_timestamp, o.id) <= (?, ?)))`, session, p.Created, p.Row, p.Created, p.Row) {
		if n, ok := row[0].(int64); err != nil || !ok || n > 0 {
			return true
		}
	}
	return false
}

// read gives a session its entries: those that were added, where it goes on.
func (d *source) read(ctx context.Context, s *convert.Session, stamp string) *convert.Session {
	var p point
	g, ok := d.Source.Grown(convert.SessionUnit+s.ForeignID, &p)
	if ok {
		is, _ := d.stampOf(ctx, s.ForeignID, p)
		ok = is == p.Stamp && !d.repeats(ctx, s.ForeignID, p)
	}
	if !ok {
		return d.readFrom(ctx, s, stamp, nil, "")
	}
	whole := *s
	out := d.readFrom(ctx, s, stamp, &p, g.After)
	out.From, out.Whole = &g.Bookmark, func() (*convert.Session, error) { return d.readFrom(ctx, &whole, stamp, nil, ""), nil }
	return out
}

// readFrom gives a session the entries behind a point, nil: all of them, and a
// bookmark at its newest row. After is the last entry before the point.
func (d *source) readFrom(ctx context.Context, s *convert.Session, stamp string, from *point, after string) *convert.Session {
	next, marked := d.pointOf(ctx, s.ForeignID)
	last := ""
	if from != nil && *from == (point{next.Row, next.Created, next.Stamp, 0}) {
		last = after // nothing was added
	}
	s.Entries = d.entries(ctx, s.ForeignID, from, after, func(row int64, id string) {
		if row == next.Row {
			last = id
		}
	})
	if s.Units = convert.RowUnits(s.ForeignID, stamp, nil); marked && len(s.Units) > 0 {
		s.Units[0].Bookmark = func() (convert.Bookmark, bool) {
			state, err := json.Marshal(next)
			return convert.Bookmark{Mark: convert.Mark{Offset: next.bytes}, After: last, State: state}, err == nil && last != ""
		}
	}
	return s
}
