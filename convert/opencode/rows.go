package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// A database is read at each commit of its tool. Which sessions changed is told by
// indexes, numbers of rows and of events, and times, without what was said; only
// those that changed are read.

// stampColumns are what tells whether the rows of a session s were changed. An event
// is counted for each change; where there are no events, the times of all rows are
// added up. The last message may be changed many times, so its times count anyway.
func (d *database) stampColumns() (sql string, ok bool) {
	if !d.timed {
		return "", false
	}
	const rows = "(SELECT count(*) || ' ' || ifnull(max(rowid), 0) FROM %[1]s WHERE session_id = s.id)"
	const times = "(SELECT sum(time_updated) FROM %[1]s WHERE session_id = s.id)"
	sql = fmt.Sprintf(rows, "message") + ", " + fmt.Sprintf(rows, "part") + `,
		(SELECT m.time_updated || ' ' || (SELECT ifnull(sum(p.time_updated), 0) FROM part p WHERE p.message_id = m.id)
			FROM message m WHERE m.session_id = s.id ORDER BY m.time_created DESC, m.id DESC LIMIT 1)`
	all := fmt.Sprintf(times, "message") + " || ' ' || " + fmt.Sprintf(times, "part")
	if d.events {
		const seq = "(SELECT seq FROM event_sequence WHERE aggregate_id = s.id)"
		sql += ", " + seq + ", CASE WHEN " + seq + " IS NULL THEN " + all + " END"
	} else {
		sql += ", " + all
	}
	if d.todos {
		sql += ", (SELECT group_concat(status || ' ' || octet_length(content)) FROM todo WHERE session_id = s.id)"
	}
	return sql, true
}

// sessions yields what is needed to group sessions, and their stamps.
func (d *database) sessions(ctx context.Context) iter.Seq2[*session, error] {
	return func(yield func(*session, error) bool) {
		parent := "NULL"
		if slices.Contains(d.columns, "parent_id") {
			parent = "s.parent_id"
		}
		columns := "s.id, s.time_created, s.title, " + parent
		stamps, stamped := d.stampColumns()
		if stamped {
			columns += ", " + stamps + ", " + convert.ShortColumns(d.kept())
		}
		for row, err := range d.EachRow(ctx, "session", columns) {
			if err != nil {
				yield(nil, &convert.Skip{What: d.Name, Why: err})
				return
			}
			s := &session{id: convert.CellText(row[0]), created: convert.Milli(number(row[1])), title: convert.CellText(row[2]), parent: convert.CellText(row[3])}
			if stamped {
				s.stamp = convert.Stamp(row)
			}
			var why error
			if err := tidemark.CheckID(s.id); err != nil {
				why = &convert.Skip{What: fmt.Sprintf("%s: a session", d.Name), Why: err}
			}
			if !yield(s, why) {
				return
			}
		}
	}
}

// kept are the columns of a session that are read. Anybody who knows the URL of a
// shared session can open it, so the URL is left out.
func (d *database) kept() []string {
	return slices.DeleteFunc(slices.Clone(d.columns), func(c string) bool {
		return strings.Contains(c, "share") || strings.Contains(c, "secret")
	})
}

// fill reads all that is stored about a session.
func (d *database) fill(ctx context.Context, s *session) error {
	names := d.kept()
	for row, err := range d.Query(ctx, "SELECT "+convert.BoundedColumns(names)+" FROM session WHERE id = ?", s.id) {
		if err != nil {
			return err
		}
		s.rest = map[string]json.RawMessage{}
		for i, n := range names {
			s.set(n, row[i])
		}
		return nil
	}
	return tidemark.Conflictf("session %s was deleted meanwhile", s.id)
}

// keptSession is what a session leaves in the ledger, because others are compared
// with it.
type keptSession struct {
	First time.Time `json:"first,omitzero"`
}

// same reports whether a session and its helpers are as they were when they were
// imported, and stamps it.
func (d *database) same(s *session, helpers []*session) bool {
	all := [][]any{{s.stamp}}
	for _, h := range helpers {
		all = append(all, []any{h.stamp})
	}
	if s.stamp != "" {
		s.stamp = convert.Stamp(all...)
	}
	state, same := d.SameRows(s.id, s.stamp)
	var kept keptSession
	known := json.Unmarshal(state, &kept) == nil
	s.first = kept.First // that stays
	return same && known
}

// maxHeld bounds the rows of a session that are held to be of one moment. A larger
// one is read as it is converted.
const maxHeld = 48 << 20

// held is a session with its helpers as they were at one moment.
type held struct {
	*database
	said map[string][]heldItem // the messages of each session
	made map[string][]heldItem // the parts of each message
}

// heldItem is a message or a part, or why there is none.
type heldItem struct {
	item
	err error
}

// hold reads a session and its helpers.
func (d *database) hold(ctx context.Context, s *session, helpers []*session) (store, error) {
	h := &held{database: d}
	fits := true
	err := d.Steady(ctx, func() (err error) {
		h.said, h.made = make(map[string][]heldItem), make(map[string][]heldItem)
		room := maxHeld
		for _, one := range append([]*session{s}, helpers...) {
			if err = d.fill(ctx, one); err == nil && fits {
				fits, err = h.take(ctx, one.id, &room)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !fits {
		return d, err
	}
	return h, nil
}

// take reads the messages of a session, if there is room for them. It takes two
// statements, however many messages there are. The error is ErrConflict.
func (h *held) take(ctx context.Context, session string, room *int) (fits bool, err error) {
	h.said[session] = []heldItem{}
	for m, err := range h.database.messages(ctx, session) {
		if *room -= len(m.data); *room < 0 || errors.Is(err, tidemark.ErrConflict) {
			return *room >= 0, err
		}
		h.said[session] = append(h.said[session], heldItem{m, err})
	}
	for p, err := range h.partsOf(ctx, session) {
		if *room -= len(p.data); *room < 0 || errors.Is(err, tidemark.ErrConflict) {
			return *room >= 0, err
		}
		h.made[p.of] = append(h.made[p.of], heldItem{p, err})
	}
	return true, nil
}

// yieldAll yields what is held.
func yieldAll(all []heldItem) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for _, one := range all {
			if !yield(one.item, one.err) {
				return
			}
		}
	}
}

func (h *held) messages(ctx context.Context, session string) iter.Seq2[item, error] {
	if all, ok := h.said[session]; ok {
		return yieldAll(all)
	}
	return h.database.messages(ctx, session)
}

func (h *held) parts(ctx context.Context, session, message string) iter.Seq2[item, error] {
	if _, ok := h.said[session]; ok {
		return yieldAll(h.made[message])
	}
	return h.database.parts(ctx, session, message)
}
