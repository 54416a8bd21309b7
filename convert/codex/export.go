package codex

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// export writes a thread and its helper agents into a .codex folder. It reads
// Entries twice.
//
// A session that came from Codex is written in its original form, with the lines
// that were kept; any other in the older form, which every version can continue.
func export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	x := &exporter{out: out, session: s, id: threadID(s), lost: map[string]int{}}
	helpers, err := x.helpers()
	if err != nil {
		return nil, err
	}
	w, err := x.create(x.id, s.CreatedAt)
	if err != nil {
		return nil, err
	}
	m := x.meta()
	w.paginated = string(m["history_mode"]) == `"paginated"`
	w.spawned = helpers
	w.begin(s.CreatedAt, m)
	if s.Title != "" {
		w.event(s.CreatedAt, map[string]any{"type": "thread_name_updated", "thread_id": x.id, "thread_name": s.Title})
	}
	if err := x.write(ctx, w, s.Entries, s.Head, m); err != nil {
		return nil, err
	}
	for _, worker := range s.Workers {
		if err := x.worker(ctx, worker); err != nil {
			return nil, fmt.Errorf("worker %s: %w", worker.Name, err)
		}
	}
	return x.losses(), nil
}

// exporter is one export.
type exporter struct {
	out     convert.Out
	session *convert.Session
	id      string
	lost    map[string]int // counts by description
}

// threadID is the id that the session had in Codex, if it is valid, or else a
// new one, always the same.
func threadID(s *convert.Session) string {
	for _, id := range []string{s.ForeignID, string(s.ID)} {
		if id, err := tidemark.ParseSessionID(id); err == nil {
			return string(id)
		}
	}
	return derivedID(s.ForeignID + string(s.ID))
}

// derivedID makes a UUID from a text.
func derivedID(text string) string {
	b := sha256.Sum256([]byte(text))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80 // version 8: a custom scheme
	h := hex.EncodeToString(b[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// workerID is the id at the end of a worker's name, if it has one.
func (x *exporter) workerID(name string) string {
	if n := len(name); n >= 36 {
		if id, err := tidemark.ParseSessionID(name[n-36:]); err == nil {
			return string(id)
		}
	}
	return derivedID(x.id + "/" + name)
}

// helpers are the workers that came from another tool, by the call that started
// them: nothing in the thread links them, so a line has to.
func (x *exporter) helpers() (map[string][]string, error) {
	spawned := map[string][]string{}
	for _, w := range x.session.Workers {
		if w.Call == "" {
			x.lost["worker whose call is not known"]++
			continue
		}
		first, err := firstOf(w.Entries)
		if err != nil {
			return nil, fmt.Errorf("worker %s: %w", w.Name, err)
		}
		if m, _ := workerMeta(first); m == nil {
			spawned[w.Call] = append(spawned[w.Call], x.workerID(w.Name))
		}
	}
	return spawned, nil
}

func firstOf(entries iter.Seq2[convert.Entry, error]) (convert.Entry, error) {
	for e, err := range entries {
		if err == nil || !convert.IsSkip(err) {
			return e, err
		}
	}
	return convert.Entry{}, nil
}

// workerMeta is the session_meta that a helper from Codex kept with its first
// entry, and when it was written.
func workerMeta(e convert.Entry) (map[string]json.RawMessage, time.Time) {
	for _, line := range keptOf(e.Extra).Before {
		rec, err := parseRecord(line)
		if err != nil || rec.Type != "session_meta" {
			continue
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(rec.Payload, &m) == nil && m != nil {
			return m, rec.at()
		}
	}
	return nil, time.Time{}
}

// meta is the session_meta: the imported one, made complete for this file, or a
// new one.
func (x *exporter) meta() map[string]json.RawMessage {
	s := x.session
	var extra struct{ Codex sessionExtra }
	m := map[string]json.RawMessage{}
	if json.Unmarshal(s.Extra, &extra) != nil || json.Unmarshal(extra.Codex.Meta, &m) != nil || m == nil {
		m = newMeta(s.CreatedAt)
	}
	m["id"] = mustJSON(x.id)
	if m["session_id"] != nil {
		m["session_id"] = mustJSON(x.id)
	}
	if s.Project != "" {
		m["cwd"] = mustJSON(s.Project)
	}
	source := s.Copied
	if s.Fork != nil {
		source = s.Fork.Session
		x.lost["past that the session shares with "+source]++
	}
	if source != "" {
		m["forked_from_id"] = mustJSON(source)
	}
	if s.Model != "" && extra.Codex.Meta == nil {
		x.lost["name of the model"]++
	}
	for _, key := range []string{"history_base", "forked_from_ordinal_exclusive", "subagent_history_start_ordinal"} {
		delete(m, key)
	}
	return m
}

func newMeta(at time.Time) map[string]json.RawMessage {
	return map[string]json.RawMessage{
		"timestamp":   mustJSON(formatTime(at)),
		"cwd":         mustJSON("/"),
		"originator":  mustJSON("tidemark"),
		"cli_version": mustJSON("0.0.0"),
		"source":      mustJSON("cli"),
	}
}

// worker writes a helper agent as a thread of its own.
func (x *exporter) worker(ctx context.Context, worker convert.Worker) error {
	first, err := firstOf(worker.Entries)
	if err != nil {
		return err
	}
	id := x.workerID(worker.Name)
	m, at := workerMeta(first)
	for _, t := range []time.Time{first.At, x.session.CreatedAt} {
		if at.IsZero() {
			at = t
		}
	}
	if m == nil {
		m = newMeta(at)
		m["cwd"] = mustJSON(cmp.Or(x.session.Project, "/"))
		spawn := map[string]any{"parent_thread_id": x.id, "depth": 1, "agent_nickname": worker.Name}
		m["source"] = mustJSON(map[string]any{"subagent": map[string]any{"thread_spawn": spawn}})
		m["parent_thread_id"] = mustJSON(x.id)
	}
	m["id"] = mustJSON(id)
	w, err := x.create(id, at)
	if err != nil {
		return err
	}
	w.paginated = string(m["history_mode"]) == `"paginated"`
	w.begin(at, m)
	return x.write(ctx, w, worker.Entries, "", nil)
}

// create makes a file of a thread where Codex looks for it. The id is the
// thread's, or that followed by the id of a segment.
func (x *exporter) create(id string, at time.Time) (*writer, error) {
	at = at.UTC()
	name := "rollout-" + at.Format("2006-01-02T15-04-05") + "-" + id + ".jsonl"
	dir := "sessions/" + at.Format("2006/01/02") + "/"
	if slices.Contains(x.session.Tags, "archived") {
		dir = "archived_sessions/"
	}
	f, err := x.out.Create(dir + name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir+name, err)
	}
	return newWriter(f, id, x.lost), nil
}

// write writes entries and closes the file. A file that could not be written
// completely is not closed, and so never gets its name.
//
// The newer form can represent branches: each is a file of its own that names
// where it begins, and the thread is at the end of the last one. In the older
// form only the path to head is written.
func (x *exporter) write(ctx context.Context, w *writer, entries iter.Seq2[convert.Entry, error], head string, m map[string]json.RawMessage) error {
	t, err := treeOf(entries, head)
	if err != nil {
		return err
	}
	files := &segments{exporter: x, tree: t, meta: m, ends: map[int]end{}, used: map[string]bool{w.thread: true}}
	branched := w.paginated && m != nil && t.head == len(t.parents)-1
	i := -1
	for e, err := range entries {
		if err != nil {
			if convert.IsSkip(err) {
				x.lost["damaged entry"]++
				continue
			}
			return err
		}
		if i++; i >= len(t.parents) {
			break // appended after the tree was read
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		switch {
		case branched && t.parents[i] != i-1:
			if w, err = files.next(w, e, i); err != nil {
				return err
			}
		case !branched && !t.on[i]:
			x.lost["entry of another branch"]++
			continue
		}
		w.entry(e)
		if w.err != nil {
			return w.err
		}
		if t.forks[i] {
			files.ends[i] = end{w.id, w.ordinal, w.offset}
		}
	}
	return w.close()
}

// tree is the structure of the entries of a session, by their positions.
type tree struct {
	parents []int
	head    int          // -1: no entries
	on      []bool       // on the path to head
	forks   map[int]bool // has a child that does not directly follow it
}

// treeOf reads the tree of a session whose head is head ("": the last entry).
func treeOf(entries iter.Seq2[convert.Entry, error], head string) (tree, error) {
	t := tree{head: -1, forks: map[int]bool{}}
	index := map[string]int{}
	for e, err := range entries {
		if err != nil {
			if convert.IsSkip(err) {
				continue
			}
			return t, err
		}
		i := len(t.parents)
		parent := i - 1
		if e.Parent == convert.Root {
			parent = -1
		} else if p, ok := index[e.Parent]; ok && e.Parent != "" {
			parent = p
		}
		if parent >= 0 && parent != i-1 {
			t.forks[parent] = true
		}
		t.parents = append(t.parents, parent)
		index[e.ID] = i
		if head == "" || e.ID == head {
			t.head = i
		}
	}
	t.on = make([]bool, len(t.parents))
	for at := t.head; at >= 0; at = t.parents[at] {
		t.on[at] = true
	}
	return t, nil
}

// losses lists what was lost, and how often.
func (x *exporter) losses() []string {
	s := x.session
	for what, n := range map[string]int{
		"label": len(s.Labels), "file": len(s.Files), "checkpoint": min(1, len(s.Checkpoint)),
		"tag": len(slices.DeleteFunc(slices.Clone(s.Tags), func(t string) bool { return t == "archived" })),
	} {
		if n > 0 {
			x.lost[what] += n
		}
	}
	var all []string
	for _, what := range slices.Sorted(maps.Keys(x.lost)) {
		all = append(all, fmt.Sprintf("%s (%d)", what, x.lost[what]))
	}
	return all
}

// adrift finds compactions in whose place the model is told nothing. Codex sends the
// replacement_history of one instead of what was before; where it has none, as in older
// versions, the prompts and the message.
func adrift(entries []convert.Entry) (all []convert.Adrift) {
	for _, e := range entries {
		if e.Kind != convert.KindCompaction {
			continue
		}
		switch replacement := strings.TrimSpace(string(keptOf(e.Extra).Item["replacement_history"])); {
		case replacement == "[]":
			all = append(all, convert.Adrift{ID: e.ID, Why: "the session was compacted, and nothing stands in the place of what was said before"})
		case (replacement == "" || replacement == "null") && strings.TrimSpace(e.Text()) == "":
			all = append(all, convert.Adrift{ID: e.ID, Why: "the session was compacted, and the summary of what was said before is empty"})
		}
	}
	return all
}
