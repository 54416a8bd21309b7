package codex

import (
	"encoding/json"
	"iter"
	"maps"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// A later reading of a rollout that grew goes on at a line that makes an entry,
// when nothing waits for that entry. What a line says about the entry before it does
// not matter there: that one is complete.

// point is what a reader knows there.
type point struct {
	LastAt   time.Time                `json:"last_at,omitzero"`
	Model    string                   `json:"model,omitempty"`
	Items    int                      `json:"items"`
	Events   int                      `json:"events,omitempty"`
	Last     string                   `json:"last"`
	Turns    []string                 `json:"turns,omitempty"`
	Announce bool                     `json:"announce,omitempty"` // the file says which messages are the user's
	Settings map[string][sumSize]byte `json:"settings,omitempty"`
	Total    tokens                   `json:"total"`
}

// marker looks for the last such line. A nil one does not.
type marker struct {
	from *point // where the reading goes on; nil: at the beginning
	at   convert.Mark

	found *point
	mark  convert.Mark
}

// begin has a reader go on where it should.
func (m *marker) begin(r *reader) convert.Mark {
	if p := m.from; p != nil {
		r.lastAt, r.model, r.items, r.events, r.last, r.turns, r.hasEvents, r.total = p.LastAt, p.Model, p.Items, p.Events, p.Last, p.Turns, p.Announce, p.Total
		r.settings, r.parent = maps.Clone(p.Settings), ""
		if r.settings == nil {
			r.settings = make(map[string][sumSize]byte)
		}
	}
	return m.at
}

// before is what a reader knows before a line; nil if a reading cannot go on there.
func (m *marker) before(r *reader) *point {
	if m == nil || r.held == nil || len(r.before) > 0 || r.pending != nil || r.announced != "" || r.saying != "" {
		return nil
	}
	return &point{LastAt: r.lastAt, Model: r.model, Items: r.items, Events: r.events, Announce: r.hasEvents, Settings: r.settings, Total: r.total, Last: r.last}
}

// after notes a line that made an entry, and so completed the one before it.
func (m *marker) after(r *reader, at convert.Mark, p *point) {
	if p == nil || r.last == p.Last || r.held == nil {
		return
	}
	p.Last, p.Turns, p.Settings = r.last, r.path, maps.Clone(p.Settings)
	m.found, m.mark = p, at
}

// Bookmark is that of the unit of the rollout.
func (m *marker) Bookmark() (at convert.Bookmark, ok bool) {
	if m.found == nil {
		return at, false
	}
	state, err := json.Marshal(m.found)
	return convert.Bookmark{Mark: m.mark, After: m.found.Last, State: state}, err == nil
}

// alone reports whether a session is all in one file.
func (t *thread) alone() bool { return len(t.files) == 1 && len(t.bases) == 0 && len(t.children) == 0 }

// marked yields the entries of a session that is all in one file.
func (im *importer) marked(t *thread, m *marker) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		r := t.files[0]
		rd := &reader{file: r, worker: im.root[t.id] != nil, grows: true, end: -1, prefix: ownPrefix(r), emit: yield, marker: m}
		rd.read(im.fsys)
	}
}

// grown is the session of a thread that is all in one file, from where the last
// import left it, or from the beginning.
func (im *importer) grown(t *thread, g *convert.Growth) *convert.Session {
	m := &marker{}
	s := t.session(im.fsys)
	s.Copied = t.copiedFrom()
	var p point
	if g != nil && json.Unmarshal(g.State, &p) == nil && p.Last != "" {
		m.from, m.at = &p, g.Mark
		s.From, s.Whole = &g.Bookmark, func() (*convert.Session, error) { return im.grown(t, nil), nil }
	}
	s.Entries, s.Units = im.marked(t, m), t.units()
	s.Units[0].Bookmark = m.Bookmark
	return s
}

// growthOf returns how the only file of a thread grew, nil if it did not.
func (im *importer) growthOf(t *thread) *convert.Growth {
	if g, ok := im.source.Grown(t.files[0].path, new(json.RawMessage)); ok {
		return &g
	}
	return nil
}
