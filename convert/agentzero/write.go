package agentzero

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// export writes all four files of a session. The plain one comes last: programs
// that list sessions look for it.
func export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	id := s.ForeignID
	if tidemark.CheckID(id) != nil {
		id = string(s.ID)
	}
	if err := tidemark.CheckID(id); err != nil {
		return nil, err
	}
	lost := convert.Losses{}
	files, err := filesOf(ctx, s, id, lost)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		b, err := pretty(f.fields)
		if err == nil && f.end == sealedEnd {
			b, err = seal(newPassphrases(out.Getenv).first(), b)
		}
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", id, f.end, err)
		}
		if err := convert.WriteFile(out, id+f.end, b); err != nil {
			return nil, err
		}
	}
	return lost.List(), nil
}

// file is one of the four, before it is encoded.
type file struct {
	end    string
	fields object
}

// filesOf returns the files of a session in the order in which they are written.
// The encrypted one has the content of the plain one.
func filesOf(ctx context.Context, s *convert.Session, id string, lost convert.Losses) ([]file, error) {
	listLost(s, lost)
	w, err := collect(ctx, s, lost)
	if err != nil {
		return nil, err
	}
	said := w.path(w.head)
	extra, _ := kept(s.Extra)
	plain := sessionFile(s, id, said, extra)
	check := writeCheckpoint(s.Checkpoint, firstTime(s.UpdatedAt, s.CreatedAt, w.last), lost)
	check.Set("session_id", id)
	check.Set("model", s.Model)
	check.Set("messages", said)
	return []file{{sealedEnd, plain}, {treeEnd, w.tree(s, id, extra, lost)}, {checkpointEnd, check}, {plainEnd, plain}}, nil
}

func firstTime(all ...time.Time) time.Time {
	for _, t := range all {
		if !t.IsZero() {
			return t
		}
	}
	return time.Unix(0, 0)
}

func listLost(s *convert.Session, lost convert.Losses) {
	for _, l := range []struct {
		what  string
		there bool
	}{
		{"workers", len(s.Workers) > 0},
		{"files", len(s.Files) > 0},
		{"tags", len(s.Tags) > 0},
		{"agent " + s.Agent, s.Agent != "" && s.Agent != toolName},
		{"the project, which is the folder that the files lie in", s.Project != ""},
		{"where it was forked", s.Fork != nil || s.Copied != ""},
	} {
		if l.there {
			lost.Add(l.what)
		}
	}
	if _, own := kept(s.Extra); !own && saysSomething(s.Extra) {
		lost.Add("what other tools keep with the session")
	}
}

// sessionFile returns the session file: the conversation up to the head.
func sessionFile(s *convert.Session, id string, said []object, extra object) object {
	fields := inside(extra, "session")
	fields.Set("session_id", id)
	fields.Set("model", s.Model)
	fields.Set("message_count", len(said))
	fields.Set("messages", said)
	switch {
	case s.Mode == tidemark.ModeRemote:
		fields.Set("mode", "default")
	case extra["mode"] != nil:
		fields["mode"] = extra["mode"]
	default:
		fields.Set("mode", "local-only")
	}
	return fields
}

// writing is a session as messages, in the order of its entries.
type writing struct {
	all    []written
	at     map[string]int // the message that an entry ends with, by the entry's ID
	head   int
	last   time.Time
	spoken bool // somebody other than the system has spoken
}

type written struct {
	msg    object
	parent int // nowhere: none
	depth  int
	node   int
	at     time.Time
	model  string
}

func collect(ctx context.Context, s *convert.Session, lost convert.Losses) (*writing, error) {
	w := &writing{at: map[string]int{}, head: nowhere}
	before := nowhere
	for e, err := range s.Entries {
		if err == nil {
			err = ctx.Err()
		}
		if convert.IsSkip(err) {
			lost.Add("damaged entries")
			continue
		}
		if err != nil {
			return nil, err
		}
		parent := before
		if e.Parent == convert.Root {
			parent = nowhere
		} else if p, known := w.at[e.Parent]; known && e.Parent != "" {
			parent = p
		}
		if e.Kind != tidemark.KindBranch && e.Kind != tidemark.KindGap {
			for _, msg := range messagesOf(e.Entry, lost) {
				parent = w.add(parent, written{msg: msg, at: e.At, model: e.Model})
			}
			w.last = e.At
		}
		w.at[e.ID], before = parent, parent
	}
	w.head = before
	if at, known := w.at[s.Head]; known && s.Head != "" {
		w.head = at
	}
	return w, nil
}

// add adds a message after parent and finds its node: a node begins with a
// user's message, and wherever a message does not follow the newest one. System
// messages before the first turn belong to that turn.
func (w *writing) add(parent int, m written) int {
	n := len(w.all)
	m.parent, m.depth = parent, w.depth(parent)+1
	if n > 0 {
		m.node = w.all[n-1].node
		if parent != n-1 || m.msg.Text("role") == "user" && w.spoken {
			m.node++
		}
	}
	w.spoken = w.spoken || m.msg.Text("role") != "system"
	w.all = append(w.all, m)
	return n
}

func (w *writing) depth(at int) int {
	if at == nowhere {
		return 0
	}
	return w.all[at].depth
}

// path returns the messages up to at.
func (w *writing) path(at int) []object {
	said := make([]object, w.depth(at))
	for ; at != nowhere; at = w.all[at].parent {
		said[w.all[at].depth-1] = w.all[at].msg
	}
	return said
}

// treeNode is a node as Tidemark writes it. Messages are those beyond the first
// Keeps messages of its parent.
type treeNode struct {
	ID       string   `json:"id"`
	Parent   *string  `json:"parent"`
	Label    string   `json:"label,omitempty"`
	Keeps    int      `json:"keeps"`
	Count    int      `json:"message_count"`
	Messages []object `json:"messages"`
}

// tree returns the tree file, which has the messages of all branches.
func (w *writing) tree(s *convert.Session, id string, extra object, lost convert.Losses) object {
	nodes := []treeNode{}
	for _, m := range w.all {
		if m.node == len(nodes) {
			n := treeNode{ID: "n" + strconv.Itoa(m.node), Keeps: w.depth(m.parent)}
			if m.parent != nowhere {
				parent := nodes[w.all[m.parent].node].ID
				n.Parent = &parent
			}
			nodes = append(nodes, n)
		}
		n := &nodes[m.node]
		n.Count = m.depth
		n.Messages = append(n.Messages, m.withMeta())
	}
	for _, entry := range slices.Sorted(maps.Keys(s.Labels)) {
		switch at, known := w.at[entry]; {
		case !known || at == nowhere:
			lost.Add("labels of what was not written")
		case nodes[w.all[at].node].Label != "":
			lost.Add("labels that share a turn")
		default:
			nodes[w.all[at].node].Label = s.Labels[entry]
		}
	}
	fields := inside(extra, "tree")
	fields.Set("version", 1)
	fields.Set("session_id", id)
	fields.Set("nodes", nodes)
	if w.head != nowhere {
		fields.Set("current", nodes[w.all[w.head].node].ID)
	}
	if s.Title != "" {
		fields.Set("title", s.Title)
	}
	if !s.CreatedAt.IsZero() {
		fields.Set("created_at", s.CreatedAt.UTC().Format(time.RFC3339Nano))
	}
	if !s.UpdatedAt.IsZero() {
		fields.Set("updated_at", s.UpdatedAt.UTC().Format(time.RFC3339Nano))
	}
	return fields
}

// withMeta returns the message with the fields that only the tree can hold.
func (m written) withMeta() object {
	meta := object{}
	if !m.at.IsZero() {
		meta.Set("at", m.at.UTC().Format(time.RFC3339Nano))
	}
	if m.model != "" {
		meta.Set("model", m.model)
	}
	o := m.msg.Without()
	if len(meta) > 0 {
		o.Set(ours, meta)
	}
	return o
}
