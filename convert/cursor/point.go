package cursor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// Of a chat that goes on only the bubbles are read behind a point, up to which nothing
// was changed since the last import. That is told by the list of bubbles in the chat, and
// by the numbers and lengths of their rows, without what was said. A chat with helpers is
// read whole.

// point is where a later reading of a chat goes on.
type point struct {
	Bubbles int       `json:"bubbles"`     // how many were read
	At      time.Time `json:"at,omitzero"` // of the last one
	Stamp   string    `json:"stamp"`       // of their rows

	ids []string // of these bubbles
}

// rowsOf are the number and the length of the rows of bubbles, by the ids of the bubbles.
// A row that is replaced gets another number.
type rowsOf map[string][2]any

// rows finds the rows of the bubbles of a chat.
func (d *database) rows(ctx context.Context, chat string) (rowsOf, error) {
	begin := bubbleKey + chat + ":"
	all := rowsOf{}
	for row, err := range d.Query(ctx, "SELECT key, rowid, octet_length(value) FROM "+table+" WHERE key >= ? AND key < ?", begin, bubbleKey+chat+";") {
		if err != nil {
			return nil, err
		}
		all[strings.TrimPrefix(convert.CellText(row[0]), begin)] = [2]any{row[1], row[2]}
	}
	return all, nil
}

// stamp tells whether bubbles were changed, and how many bytes they have.
func (r rowsOf) stamp(bubbles []string) (stamp string, bytes int64) {
	var rows [][]any
	for _, id := range bubbles {
		row := r[id]
		rows = append(rows, []any{id, row[0], row[1]})
		n, _ := row[1].(int64)
		bytes += n
	}
	return convert.Stamp(rows...), bytes
}

// goOn gives a session the entries that were added to its chat behind its point; false if
// that takes a reading of all of it.
func (d *database) goOn(ctx context.Context, s *convert.Session, c *composer) bool {
	var p point
	g, ok := d.Source.Grown(convert.SessionUnit+c.id, &p)
	if !ok || len(c.bubbles) < p.Bubbles {
		return false
	}
	was := map[string]bool{}
	var added []string
	for i, id := range c.bubbles {
		if i < p.Bubbles {
			was[id] = true
			continue
		}
		if was[id] || strings.Contains(id, ".") { // its entry may be named by what is before
			return false
		}
		added = append(added, bubbleKey+c.id+":"+id)
	}
	values, rows, err := d.hold(ctx, []*composer{c}, append(added, composerKey+c.id)...)
	if err != nil || values == nil {
		return false
	}
	chat, err := values.value(ctx, d, composerKey+c.id)
	if err != nil || !slices.Equal(headersOf(chat), c.bubbles) { // it was changed since
		return false
	}
	p.ids = c.bubbles[:p.Bubbles]
	if is, _ := rows.stamp(p.ids); is != p.Stamp {
		return false
	}
	d.read(ctx, s, values, rows, p, g.After)
	s.From = &g.Bookmark
	return true
}

// read gives a session the entries of its chat behind a point, and a bookmark at the last
// bubble to which nothing is added any more. After is the last entry before the point.
func (d *database) read(ctx context.Context, s *convert.Session, values held, rows rowsOf, from point, after string) {
	next, last := from, after
	s.Entries = d.entries(ctx, s.ForeignID, values, from, func(p point, entry string) { next, last = p, entry })
	if len(s.Units) == 0 {
		return
	}
	s.Units[0].Bookmark = func() (at convert.Bookmark, ok bool) {
		if next.Bubbles == 0 || last == "" {
			return at, false
		}
		next.Stamp, at.Offset = rows.stamp(next.ids)
		if values == nil { // what was read later has to be what was there before
			now, err := d.rows(ctx, s.ForeignID)
			if is, _ := now.stamp(next.ids); err != nil || is != next.Stamp {
				return at, false
			}
		}
		at.After = last
		var err error
		at.State, err = json.Marshal(next)
		return at, err == nil
	}
}
