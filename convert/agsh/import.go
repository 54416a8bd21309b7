package agsh

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// maxID bounds the id of a session: agsh writes UUIDs.
const maxID = 128

// outputsFolder is the folder of large tool outputs among the files of a
// session.
const outputsFolder = "tool_outputs/"

// log is where rows come from: a database, or an exported file.
type log interface {
	rows(ctx context.Context, id string) iter.Seq2[row, error]
	eventful(ctx context.Context, id string) bool
	readOutputs(ctx context.Context, id, folder string, files map[string][]byte) (lost []string)
}

// importDB yields the sessions of one database.
func importDB(ctx context.Context, p convert.Source, name string) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		src, err := open(ctx, p, name)
		if ctx.Err() != nil {
			yield(nil, ctx.Err())
			return
		}
		if err != nil {
			yield(nil, &convert.Skip{What: name, Why: err})
			return
		}
		defer src.Close()
		all, err := src.sessions(ctx)
		if ctx.Err() != nil {
			yield(nil, ctx.Err())
			return
		}
		if err != nil && !yield(nil, &convert.Skip{What: name, Why: err}) {
			return
		}
		locked := func(s *session) string { return src.holder(s) }
		family(all, func(s *session, helpers []*session, err error) bool {
			if err != nil {
				return yield(nil, err)
			}
			return yield(take(ctx, src, s, helpers, src.meka, locked), nil)
		})
	}
}

// family calls do for each top-level session, with all the helpers below it. A
// session whose parent is gone counts as top-level.
func family(all []*session, do func(s *session, helpers []*session, err error) bool) {
	byID := map[string]*session{}
	for _, s := range all {
		switch {
		case s.id == "" || len(s.id) > maxID:
			if !do(nil, nil, convert.Skipf(fmt.Sprintf("session %.60q", s.id), "its id is empty or longer than %d bytes", maxID)) {
				return
			}
		case byID[s.id] != nil:
			if !do(nil, nil, convert.Skipf("session "+s.id, "is there twice")) {
				return
			}
		default:
			byID[s.id] = s
		}
	}
	children := map[string][]*session{}
	for _, s := range all {
		if byID[s.id] == s && byID[s.parent] != nil {
			children[s.parent] = append(children[s.parent], s)
		}
	}
	for _, s := range all {
		if byID[s.id] != s || byID[s.parent] != nil {
			continue
		}
		helpers := children[s.id]
		for i := 0; i < len(helpers); i++ {
			helpers = append(helpers, children[helpers[i].id]...)
		}
		for _, h := range helpers {
			delete(byID, h.id)
		}
		if !do(s, helpers, nil) {
			return
		}
	}
	// What is left has itself as an ancestor.
	for _, s := range all {
		if byID[s.id] == s && byID[s.parent] != nil {
			if !do(nil, nil, convert.Skipf("session "+s.id, "it is a helper of itself")) {
				return
			}
		}
	}
}

// take returns a session with its helpers.
func take(ctx context.Context, l log, s *session, helpers []*session, meka bool, locked func(*session) string) *convert.Session {
	created, _ := parseTime(s.createdAt)
	updated, _ := parseTime(s.updatedAt)
	n := s.note(meka)
	out := &convert.Session{UpdatedAt: updated}
	out.Session = tidemark.Session{ForeignID: s.id, CreatedAt: created}
	out.Project = convert.CellText(s.columns["cwd"])
	delete(n.Columns, "cwd")
	if out.CreatedAt.IsZero() {
		out.CreatedAt = updated
	}

	kept, head, rewound := plan(ctx, l, s.id)
	out.Head, out.Entries = head, entries(ctx, l, s.id, kept)
	if rewound {
		out.Lost = append(out.Lost, "that it was taken back to before its first message")
	}
	if by := locked(s); by != "" {
		out.Lost = append(out.Lost, fmt.Sprintf("what comes next: %s has it open, it is not finished; import it again later", by))
	}
	files := map[string][]byte{}
	out.Lost = append(out.Lost, l.readOutputs(ctx, s.id, outputsFolder, files)...)
	if len(helpers) > 0 {
		n.Helpers = map[string]sessionNote{}
	}
	for _, h := range helpers {
		w, of := worker(ctx, l, s, h)
		out.Workers, n.Helpers[h.id] = append(out.Workers, w), of
		out.Lost = append(out.Lost, l.readOutputs(ctx, h.id, outputsFolder+h.id+"/", files)...)
	}
	if len(files) > 0 {
		out.Files = files
	}
	out.Extra = marshal(extra[sessionNote]{&n})
	return out
}

// plan reads a log with events before it is yielded: where the session is, and
// what its compactions repeat.
func plan(ctx context.Context, l log, id string) (kept map[string]int, head string, rewound bool) {
	if !l.eventful(ctx, id) {
		return nil, "", false
	}
	var s survey
	for w, err := range l.rows(ctx, id) {
		if err == nil {
			s.add(w)
		}
	}
	kept = s.kept()
	r := newReplay(kept)
	for w, err := range l.rows(ctx, id) {
		if err == nil {
			r.next(w) // errors are reported when the entries are yielded
		}
	}
	if r.tip == r.last {
		return kept, "", false
	}
	return kept, r.tip, r.tip == ""
}

// entries yields the entries of a session.
func entries(ctx context.Context, l log, id string, kept map[string]int) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		r := newReplay(kept)
		for w, err := range l.rows(ctx, id) {
			if ctx.Err() != nil {
				yield(convert.Entry{}, ctx.Err())
				return
			}
			var added []convert.Entry
			if err == nil {
				if added, err = r.next(w); err != nil {
					err = &convert.Skip{What: fmt.Sprintf("session %s: message %s", id, w.id), Why: err}
				}
			}
			for _, e := range added {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil && !yield(convert.Entry{}, err) {
				return
			}
		}
	}
}

// worker returns a helper, and the note of its row.
func worker(ctx context.Context, l log, root, h *session) (convert.Worker, sessionNote) {
	n := h.note(false)
	n.CreatedAt, n.UpdatedAt = h.createdAt, h.updatedAt
	if h.parent == root.id {
		delete(n.Columns, "parent_session_id")
	}
	n.Call = callOf(ctx, l, h)
	kept, _, _ := plan(ctx, l, h.id)
	return convert.Worker{Name: h.id, Call: n.Call, Entries: entries(ctx, l, h.id, kept)}, n
}

// callOf finds the call that started a helper: the one whose result, or whose
// arguments, name its session.
func callOf(ctx context.Context, l log, h *session) string {
	for w, err := range l.rows(ctx, h.parent) {
		if err != nil || w.role != roleAssistant && w.role != roleResults || !strings.Contains(w.content, h.id) {
			continue
		}
		var blocks []json.RawMessage
		if json.Unmarshal([]byte(w.content), &blocks) != nil {
			continue
		}
		for _, raw := range blocks {
			if !strings.Contains(string(raw), h.id) {
				continue
			}
			b, err := decodeBlock(raw, 0)
			if err == nil && b.ToolUseID+b.ID != "" {
				return b.ToolUseID + b.ID
			}
		}
	}
	return ""
}
