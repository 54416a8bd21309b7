package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// outputFolder holds tool output that was too long for its part.
const outputFolder = "tool-output"

// store is one of the forms in which opencode stores sessions. What it cannot
// read it yields as a *convert.Skip.
type store interface {
	// open makes it ready for sessions.
	open(ctx context.Context) error
	close()
	sessions(ctx context.Context) iter.Seq2[*session, error]
	// messages yields the messages of a session in their order.
	messages(ctx context.Context, session string) iter.Seq2[item, error]
	parts(ctx context.Context, session, message string) iter.Seq2[item, error]
	todo(ctx context.Context, session string) json.RawMessage
	// outputs returns the folder with long outputs, nil when there is none.
	outputs() fs.FS
}

// item is a message or a part: its id and its object.
type item struct {
	id   string
	data json.RawMessage
	of   string // the message of a part, where they are read together
}

// session is what is stored about a session, except its messages.
type session struct {
	id, parent, directory, title, model, mode string
	created, updated                          time.Time
	archived                                  bool
	revert                                    json.RawMessage
	rest                                      map[string]json.RawMessage // what Tidemark has no field for
	first                                     time.Time                  // of its first message

	stamp string // of its rows, "": it has none
	same  bool   // they are as they were when it was imported
}

// wireSession is a session as an object.
type wireSession struct {
	ID        string          `json:"id"`
	ParentID  string          `json:"parentID"`
	Directory string          `json:"directory"`
	Title     string          `json:"title"`
	Revert    json.RawMessage `json:"revert"`
	Time      struct {
		Created float64 `json:"created"`
		Updated float64 `json:"updated"`

		Archived float64 `json:"archived"`
	} `json:"time"`
}

// parseSession reads the object of a session.
func parseSession(b []byte) (*session, error) {
	var w wireSession
	s := &session{}
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, tidemark.Invalidf("%w", err)
	}
	if err := tidemark.CheckID(w.ID); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &s.rest); err != nil {
		return nil, tidemark.Invalidf("%w", err)
	}
	for _, taken := range []string{"id", "parentID", "directory", "title", "share"} {
		delete(s.rest, taken)
	}
	s.id, s.parent, s.directory, s.title, s.revert = w.ID, w.ParentID, w.Directory, w.Title, w.Revert
	s.created, s.updated, s.archived = convert.Milli(w.Time.Created), convert.Milli(w.Time.Updated), w.Time.Archived > 0
	return s, nil
}

// importStore yields the sessions of one store, and reports whether to continue.
func importStore(ctx context.Context, st store, only string, seen map[string]bool, yield func(*convert.Session, error) bool) bool {
	if err := st.open(ctx); ctx.Err() != nil {
		yield(nil, ctx.Err())
		return false
	} else if err != nil {
		return yield(nil, err)
	}
	defer st.close()
	var all []*session
	here := map[string]bool{}
	for s, err := range st.sessions(ctx) {
		if err == nil && here[s.id] {
			err = convert.Skipf("session "+s.id, "is there twice")
		}
		switch {
		case convert.IsSkip(err):
			if !yield(nil, err) {
				return false
			}
		case err != nil:
			yield(nil, err)
			return false
		case seen[s.id]:
		default:
			seen[s.id], here[s.id] = true, true
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *session) int {
		return cmp.Or(a.created.Compare(b.created), strings.Compare(a.id, b.id))
	})
	f := group(all)
	for _, s := range f.lost {
		if !yield(nil, convert.Skipf("session "+s.id, "it is a helper of itself")) {
			return false
		}
	}
	d, rows := st.(*database)
	for _, s := range f.roots {
		if s.same = rows && d.same(s, f.helpers(s.id)); !s.same && s.first.IsZero() {
			first(ctx, st, s)
		}
	}
	for _, s := range f.roots {
		if ctx.Err() != nil {
			yield(nil, ctx.Err())
			return false
		}
		if only != "" && s.id != only {
			continue
		}
		if !importOne(ctx, st, s, f, yield) {
			return false
		}
	}
	return true
}

// importOne yields a session, and reports whether to continue.
func importOne(ctx context.Context, st store, s *session, f families, yield func(*convert.Session, error) bool) bool {
	d, rows := st.(*database)
	if s.same {
		return yield(convert.SameSession(s.id, s.stamp), nil)
	}
	if rows {
		out, err := d.goOn(ctx, s, f), error(nil)
		if out == nil {
			out, err = d.whole(ctx, s, f)
		}
		return yield(out, err) && ctx.Err() == nil
	}
	return yield(take(ctx, st, s, f), nil)
}

// families are sessions with the helpers that they started.
type families struct {
	roots    []*session
	children map[string][]*session // by the session that started them
	lost     []*session            // have themselves as an ancestor
}

// group finds the families. A helper whose parent is gone is a root.
func group(all []*session) families {
	f := families{children: map[string][]*session{}}
	byID := map[string]*session{}
	for _, s := range all {
		byID[s.id] = s
	}
	for _, s := range all {
		if byID[s.parent] != nil {
			f.children[s.parent] = append(f.children[s.parent], s)
		} else {
			f.roots = append(f.roots, s)
		}
	}
	for _, s := range f.roots {
		delete(byID, s.id)
		for _, h := range f.helpers(s.id) {
			delete(byID, h.id)
		}
	}
	for _, s := range all {
		if byID[s.id] != nil {
			f.lost = append(f.lost, s)
		}
	}
	return f
}

// helpers returns all helpers below a root, at any depth.
func (f families) helpers(id string) []*session {
	all := slices.Clone(f.children[id])
	for i := 0; i < len(all); i++ {
		all = append(all, f.children[all[i].id]...)
	}
	return all
}

// take returns a session with its helpers.
func take(ctx context.Context, st store, s *session, f families) *convert.Session {
	out := &convert.Session{UpdatedAt: s.updated}
	out.Session = tidemark.Session{ForeignID: s.id, Title: s.title, Model: s.model, Mode: s.mode, Project: s.directory, CreatedAt: s.created}
	if s.archived {
		out.Tags = []string{"archived"}
	}
	if todo := st.todo(ctx, s.id); json.Valid(todo) && string(todo) != "[]" {
		s.rest["todo"] = todo
	}
	out.Copied = source(ctx, st, s, f.roots)
	out.Entries = entries(ctx, st, s.id, nil)
	out.Head, out.Lost = at(ctx, st, s)

	helpers := f.helpers(s.id)
	files := map[string][]byte{}
	calls := map[string]string{}
	scan(ctx, st, s.id, helpers, calls, files)
	for _, h := range helpers {
		scan(ctx, st, h.id, helpers, calls, files)
	}
	known := map[string]map[string]json.RawMessage{}
	for _, h := range helpers {
		out.Workers = append(out.Workers, convert.Worker{Name: h.id, Call: calls[h.id], Entries: entries(ctx, st, h.id, nil)})
		known[h.id] = about(h, calls[h.id])
	}
	if len(known) > 0 {
		s.rest["helpers"] = marshal(known)
	}
	out.Extra = extra(s.rest)
	if len(files) > 0 {
		out.Files = files
	}
	if s.parent != "" {
		out.Lost = append(out.Lost, "the session that it was a helper of: "+s.parent)
	}
	return out
}

// about is what is kept about a helper. It is stored with the session, because
// it changes while the helper works, and entries never change.
func about(h *session, call string) map[string]json.RawMessage {
	rest := map[string]json.RawMessage{"title": marshal(h.title), "directory": marshal(h.directory), "parentID": marshal(h.parent)}
	for k, v := range h.rest {
		rest[k] = v
	}
	if call != "" {
		rest["call"] = marshal(call)
	}
	return rest
}

// scan finds, among the parts of a session, the calls that started helpers and
// the long outputs that are in files. It reads nothing if there are none.
func scan(ctx context.Context, st store, id string, helpers []*session, calls map[string]string, files map[string][]byte) {
	outputs := st.outputs()
	mine := slices.ContainsFunc(helpers, func(h *session) bool { return h.parent == id })
	if outputs == nil && !mine {
		return
	}
	room := convert.MaxFiles
	for _, b := range files {
		room -= len(b)
	}
	for m, err := range st.messages(ctx, id) {
		if err != nil {
			continue
		}
		for p, err := range st.parts(ctx, id, m.id) {
			var part wirePart
			if err != nil || json.Unmarshal(p.data, &part) != nil || part.Type != "tool" {
				continue
			}
			for _, h := range helpers {
				if h.parent == id && calls[h.id] == "" && part.names(h.id) {
					calls[h.id] = part.CallID
				}
			}
			name := path.Base(strings.ReplaceAll(part.State.Metadata.OutputPath, `\`, "/"))
			if b := readOutput(outputs, name, room); b != nil {
				files[outputFolder+"/"+name] = b
				room -= len(b)
			}
		}
	}
}

// readOutput reads a long output, nil when it is missing or too long.
func readOutput(folder fs.FS, name string, room int) []byte {
	if folder == nil || name == "." || !fs.ValidPath(name) {
		return nil
	}
	if info, err := fs.Stat(folder, name); err != nil || !info.Mode().IsRegular() || info.Size() > int64(room) {
		return nil
	}
	b, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil
	}
	return b
}

// folder returns a folder, nil when it is missing.
func folder(fsys fs.FS, name string) fs.FS {
	if !convert.IsDir(fsys, name) {
		return nil
	}
	sub, err := fs.Sub(fsys, name)
	if err != nil {
		return nil
	}
	return sub
}

// names reports whether a call refers to a session.
func (p wirePart) names(session string) bool {
	m := p.State.Metadata
	return m.SessionID == session || m.SessionID == "" && strings.Contains(p.State.Output, session)
}

// first finds the time of the first message, and the model that it used.
func first(ctx context.Context, st store, s *session) {
	for m, err := range st.messages(ctx, s.id) {
		if err != nil {
			continue
		}
		var w wireMessage
		if json.Unmarshal(m.data, &w) != nil {
			continue
		}
		s.first = convert.Milli(w.Time.Created)
		if s.model == "" {
			s.model = w.model()
		}
		s.mode = convert.ModeOf(cmp.Or(w.By, w.Model.By))
		if s.directory == "" {
			s.directory = w.Path.Cwd
		}
		return
	}
}

// source finds the session that a fork was copied from. opencode copies the
// messages with their times under new ids and stores no link, so a fork is a
// session with messages older than itself, and its source the one that begins
// with the most messages of the same times.
func source(ctx context.Context, st store, s *session, roots []*session) string {
	if s.first.IsZero() || !s.first.Before(s.created) {
		return ""
	}
	var before []*session
	for _, other := range roots {
		if other != s && other.first.Equal(s.first) && other.created.Before(s.created) {
			before = append(before, other)
		}
	}
	if len(before) == 0 {
		return ""
	}
	if len(before) > convert.MaxKin {
		slices.SortStableFunc(before, func(a, b *session) int { return a.created.Compare(b.created) })
		before = before[:convert.MaxKin]
	}
	own := times(ctx, st, s.id)
	best, most := "", 0
	for _, other := range before {
		n := 2 * common(own, times(ctx, st, other.id))
		if other.title == titleBefore(s.title) {
			n++ // of two that share as many, prefer the one whose title was counted up
		}
		if n >= most {
			best, most = other.id, n
		}
	}
	return best
}

func times(ctx context.Context, st store, id string) (all []time.Time) {
	for m, err := range st.messages(ctx, id) {
		var w wireMessage
		if err == nil && json.Unmarshal(m.data, &w) == nil {
			all = append(all, convert.Milli(w.Time.Created))
		}
	}
	return all
}

func common(a, b []time.Time) (n int) {
	for n < min(len(a), len(b)) && a[n].Equal(b[n]) {
		n++
	}
	return n
}

// titleBefore returns the title of a fork's source: opencode appends a number that
// counts up.
func titleBefore(title string) string {
	base, n, ok := strings.Cut(title, " (fork #")
	count, err := strconv.Atoi(strings.TrimSuffix(n, ")"))
	if !ok || err != nil || count < 1 {
		return ""
	}
	if count == 1 {
		return base
	}
	return fmt.Sprintf("%s (fork #%d)", base, count-1)
}

// extra wraps a tool's data under the name of the tool.
func extra(fields map[string]json.RawMessage) json.RawMessage {
	if len(fields) == 0 {
		return nil
	}
	return marshal(map[string]any{name: fields})
}
