package agsh

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// writer writes the entries of one session. agsh 0.1 has one sequence of
// messages: rows of other branches are removed again at the end. meka has
// events, so that a change of branch is one more row.
type writer struct {
	*exporter
	session string
	nodes   map[string]node
	tip     string   // the entry that was written last
	view    []string // what meka's model sees, as entries
	first   time.Time
	last    time.Time
	joined  string // text that belongs before the next prompt
}

// node is an entry that was written.
type node struct {
	parent     string // "": none
	row        int64  // 0: it has no row
	seen       bool   // the model sees it
	compaction bool
	kept       []string // messages that a compaction repeats
}

// entries writes the entries of a session or helper.
func (x *exporter) entries(id string, entries iter.Seq2[convert.Entry, error], head string) (*writer, error) {
	w := &writer{exporter: x, session: id, nodes: map[string]node{}}
	for e, err := range entries {
		if convert.IsSkip(err) {
			x.lost["unreadable entry"]++
			continue
		}
		if err == nil {
			err = w.entry(e)
		}
		if err != nil {
			return w, err
		}
	}
	if _, ok := w.nodes[head]; !ok {
		head = w.tip
	}
	if x.meka {
		return w, w.move(head)
	}
	return w, w.prune(head)
}

// entry writes one entry after its parent.
func (w *writer) entry(e convert.Entry) error {
	parent := e.Parent
	switch _, ok := w.nodes[parent]; {
	case parent == convert.Root:
		parent = ""
	case !ok:
		parent = w.tip
	}
	if w.meka {
		if err := w.move(parent); err != nil {
			return err
		}
	}
	if w.first.IsZero() {
		w.first = e.At
	}
	if e.At.After(w.last) {
		w.last = e.At
	}
	n := noteOf(e)
	one := node{parent: parent}
	if n.Joined {
		w.joined = e.Text()
		w.put(e.ID, one)
		return nil
	}
	if w.joined != "" && e.Role == tidemark.User && len(e.Blocks) > 0 {
		e.Blocks = slices.Clone(e.Blocks)
		e.Blocks[0].Text = w.joined + e.Blocks[0].Text
	}
	w.joined = ""
	if w.meka && e.Kind == convert.KindCompaction && (n.Boundary != nil || !strings.HasPrefix(e.Text(), summaryMark)) {
		return w.compaction(e, n, one)
	}
	role, content := w.content(e, n)
	if role == "" {
		w.put(e.ID, one)
		return nil
	}
	var err error
	if one.row, err = w.insert(role, content, stamp(e.At, n.CreatedAt)); err != nil {
		return err
	}
	one.seen = isMessage(role)
	w.put(e.ID, one)
	if one.seen {
		w.view = append(w.view, e.ID)
	}
	return nil
}

func (w *writer) put(id string, n node) { w.nodes[id], w.tip = n, id }

// content returns the row of an entry, and counts what is lost by it.
func (w *writer) content(e convert.Entry, n note) (role, content string) {
	if e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap {
		return "", "" // their content is represented otherwise
	}
	if e.Usage != nil {
		w.lost["usage of an answer"]++
	}
	if e.Model != "" {
		w.lost["model of an answer"]++
	}
	if !w.meka && n.Role == "" {
		e = w.plainBlocks(e)
		n.Boundary = nil
		if e.Kind == convert.KindCompaction && !strings.HasPrefix(e.Text(), summaryMark) {
			e.Blocks = []tidemark.Block{tidemark.Text(summaryMark + "\n\n" + e.Text())}
		}
		if len(e.Blocks) == 0 && e.Role != "" {
			w.lost["message of which nothing is left"]++
			return "", ""
		}
	} else {
		for _, b := range e.Blocks {
			if encodeBlock(b) == nil {
				w.lost[b.Type+" block"]++
			}
		}
	}
	if role, content = encode(e, n); role == "" {
		what := "entry of kind " + e.Kind
		if e.Role != "" {
			what = string(e.Role) + " message"
		}
		w.lost[what]++
	}
	return role, content
}

func (w *writer) insert(role, content, at string) (id int64, err error) {
	for row, err := range w.db.Query(w.ctx, "INSERT INTO messages (session_id, role, content, created_at) VALUES (?, ?, ?, ?) RETURNING id",
		w.session, role, content, at) {
		if err != nil {
			return 0, err
		}
		id, _ = row[0].(int64)
	}
	return id, nil
}

// compaction writes the event of a compaction, and repeats what it keeps.
func (w *writer) compaction(e convert.Entry, n note, one node) error {
	n.Boundary = boundaryNote(n.Boundary, len(w.view))
	role, content := encode(e, n)
	at := stamp(e.At, n.CreatedAt)
	var err error
	if one.row, err = w.insert(role, content, at); err != nil {
		return err
	}
	one.seen, one.compaction = true, true
	one.kept = slices.Clone(w.view[len(w.view)-min(n.Kept, len(w.view)):])
	w.put(e.ID, one)
	w.view = append([]string{e.ID}, one.kept...)
	for _, id := range one.kept {
		r, err := w.read(id)
		if r.role == roleBoundary {
			r = messageOf(r).row(r.id, r.at)
		}
		if err == nil {
			_, err = w.insert(r.role, r.content, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read returns the row of an entry.
func (w *writer) read(id string) (r row, err error) {
	for v, err := range w.db.Query(w.ctx, "SELECT role, content, created_at FROM messages WHERE id = ?", w.nodes[id].row) {
		if err != nil {
			return r, err
		}
		r = row{id: id, role: convert.CellText(v[0]), content: convert.CellText(v[1]), at: convert.CellText(v[2])}
	}
	return r, nil
}

// move makes the model see the path to an entry, with an event when it sees
// another path.
func (w *writer) move(to string) error {
	if to == w.tip {
		return nil
	}
	want := w.seenAt(to)
	same := 0
	for same < len(want) && same < len(w.view) && want[same] == w.view[same] {
		same++
	}
	p := repair{ReplacedCount: len(w.view) - same, Messages: []message{}}
	at := w.last
	for _, id := range want[same:] {
		r, err := w.read(id)
		if err != nil {
			return err
		}
		p.Messages = append(p.Messages, messageOf(r))
	}
	if p.ReplacedCount > 0 || len(p.Messages) > 0 {
		if _, err := w.insert(roleRepair, string(marshal(map[string]any{"Repair": p})), formatTime(at)); err != nil {
			return err
		}
	}
	w.view, w.tip = want, to
	return nil
}

// seenAt returns what the model sees when the session is at an entry: the
// messages of its path, back to a compaction and what that kept.
func (w *writer) seenAt(id string) []string {
	var back []string
	for ; id != ""; id = w.nodes[id].parent {
		n := w.nodes[id]
		if n.compaction {
			slices.Reverse(back)
			return slices.Concat([]string{id}, n.kept, back)
		}
		if n.seen {
			back = append(back, id)
		}
	}
	slices.Reverse(back)
	return back
}

// prune removes what is not on the path to head.
func (w *writer) prune(head string) error {
	path := map[string]bool{}
	for id := head; id != "" && !path[id]; id = w.nodes[id].parent {
		path[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		if n := w.nodes[id]; !path[id] && n.row != 0 {
			w.lost["message of another branch"]++
			if err := w.exec("DELETE FROM messages WHERE id = ?", n.row); err != nil {
				return err
			}
		}
	}
	return nil
}
