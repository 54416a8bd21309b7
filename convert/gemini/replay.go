package gemini

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// A file is a log of operations: append a message, rewrite one, set the whole
// list, rewind. They are replayed twice. The first pass finds which messages
// there are, what each follows and where its last version is, and keeps only
// ids; the second pass reads the messages and yields them.

// op is one line, or a whole file of the old form.
type op struct {
	message
	SessionID   string            `json:"sessionId"`
	ProjectHash string            `json:"projectHash"`
	StartTime   string            `json:"startTime"`
	LastUpdated string            `json:"lastUpdated"`
	Kind        string            `json:"kind"`
	Directories []string          `json:"directories"`
	Summary     string            `json:"summary"`
	Messages    []json.RawMessage `json:"messages"`
	Set         json.RawMessage   `json:"$set"`
	RewindTo    string            `json:"$rewindTo"`
}

// where is the position of a message: a file, a line of it, and the index in the
// list that the line sets, -1 when the line is the message.
type where struct{ file, line, index int }

// item is a message that will be yielded.
type item struct {
	where
	id      string
	parent  int // the item it follows, root for none
	role    int
	kept    int      // compaction: the last message that the tool kept after it
	calls   []string // tool calls whose results are in the message
	more    bool     // there is more than results
	context bool     // the client added something to the user's text
	missing bool     // was gone at the second reading
	sum     sum      // of its content, to recognize a copy
}

const root = -1

// The roles of items.
const (
	aMessage = iota
	aContext
	aCompaction
)

// ref is a message in the list that the model sees.
type ref struct {
	id   string
	item int
}

type replay struct {
	fsys  fs.FS
	files []file

	items     []item
	known     map[string]int // by type and id, also of copies
	live      []ref
	at        map[string]int // where a message is in it, by id
	summaries []int          // positions of compactions in it
	past      []ref          // the last list that was not empty
	tip       int
	ids       map[string]bool
	pending   *item // a context message that waits for another to follow it
	waiting   sum   // of it
	contexts  map[sum]bool
	responses map[string]bool   // calls whose result is its own message
	agents    map[string]string // calls by the id of the helper they started
	bad       map[where][]error // damage by line; none for a line that is damaged as a whole
	harms     int
	more      int // further damage, only counted

	created, updated        time.Time
	model, title, workspace string
	fields                  map[string]json.RawMessage
}

type sum [16]byte

func read(fsys fs.FS, files []file) (*replay, error) {
	r := &replay{
		fsys: fsys, files: files, tip: root, at: map[string]int{},
		known: map[string]int{}, contexts: map[sum]bool{}, ids: map[string]bool{},
		responses: map[string]bool{}, agents: map[string]string{}, bad: map[where][]error{},
		fields: map[string]json.RawMessage{},
	}
	for i := range files {
		for line, o := range r.ops(i, nil) {
			if o.err != nil && !convert.IsSkip(o.err) {
				return nil, o.err
			}
			if o.err != nil {
				r.harm(where{i, line, 0}, nil)
				continue
			}
			r.apply(where{i, line, -1}, &o.op)
			if len(r.items) > maxItems {
				return nil, tidemark.Invalidf("has more than %d messages", maxItems)
			}
		}
	}
	return r, nil
}

// maxItems bounds the messages of a session, of which some 400 bytes each are
// held, and maxHarm the reported damage.
const (
	maxItems = 1 << 20
	maxHarm  = 1000
)

// harm records damage on a line.
func (r *replay) harm(line where, err error) {
	if r.harms++; r.harms > maxHarm {
		r.more++
		return
	}
	list := r.bad[line]
	if err != nil {
		list = append(list, err)
	} else if list == nil {
		list = []error{}
	}
	r.bad[line] = list
}

type result struct {
	op
	err error
}

// ops yields the operations of a file by their line number; if wanted is not
// nil, only those of the lines that it selects. Damaged ones are always yielded.
func (r *replay) ops(i int, wanted func(line int) bool) iter.Seq2[int, result] {
	name := r.files[i].name
	return func(yield func(int, result) bool) {
		if strings.HasSuffix(name, ".json") {
			b, err := convert.ReadFile(r.fsys, name)
			one := result{err: err}
			if err == nil {
				one.raw = b
				if err := convert.Loose(b, &one.op); err != nil {
					one.err = convert.Skipf(name, "not JSON: %w", err)
				}
			}
			yield(1, one)
			return
		}
		for l, err := range convert.Lines(r.fsys, name) {
			one := result{err: err}
			if err == nil && wanted != nil && !wanted(l.Number) {
				continue
			}
			if err == nil {
				one.raw = l.Text
				if err := convert.Loose(l.Text, &one.op); err != nil {
					one.err = convert.Skipf(name, "line %d is not JSON: %w", l.Number, err)
				}
			}
			if !yield(l.Number, one) {
				return
			}
		}
	}
}

// apply replays one operation in the first pass.
func (r *replay) apply(at where, o *op) {
	r.seen(o.StartTime, o.LastUpdated, o.Timestamp)
	switch {
	case o.Set != nil:
		fields := map[string]json.RawMessage{}
		if json.Unmarshal(o.Set, &fields) != nil {
			return
		}
		r.fieldsOf(fields)
		var list struct{ Messages []json.RawMessage }
		if fields["messages"] != nil && convert.Loose(o.Set, &list) == nil {
			r.set(at, list.Messages)
		}
	case o.RewindTo != "":
		r.rewind(o.RewindTo)
	case o.Type != "":
		r.append(at, &o.message)
	case o.SessionID != "":
		r.title = cmp.Or(o.Summary, r.title)
		if hash, err := json.Marshal(o.ProjectHash); err == nil && o.ProjectHash != "" {
			r.fields["projectHash"] = hash
		}
		if o.Messages != nil {
			r.set(at, o.Messages)
		}
	}
}

// fieldsOf reads fields of the session itself.
func (r *replay) fieldsOf(fields map[string]json.RawMessage) {
	for k, v := range fields {
		switch k {
		case "messages", "sessionId":
		case "lastUpdated":
			var s string
			if json.Unmarshal(v, &s) == nil {
				r.seen(s)
			}
		case "summary":
			var s string
			if json.Unmarshal(v, &s) == nil {
				r.title = cmp.Or(s, r.title)
			}
			r.fields[k] = v
		default:
			r.fields[k] = v
		}
	}
}

func (r *replay) seen(times ...string) {
	for _, s := range times {
		t := convert.ParseTime(s)
		if t.IsZero() {
			continue
		}
		if r.created.IsZero() || t.Before(r.created) {
			r.created = t
		}
		if t.After(r.updated) {
			r.updated = t
		}
	}
}

// append handles a message at the end of the list, or a new version of one.
func (r *replay) append(at where, m *message) {
	r.fill(at, m)
	if m.isContext() {
		r.hold(at, m)
		return
	}
	if i, ok := r.known[m.key()]; ok {
		r.version(i, at, m)
		return
	}
	if m.answered(r.responses) {
		return
	}
	r.join(m.ID, r.add(at, m, aMessage))
	r.past = r.live
}

// join adds a message to the end of the list.
func (r *replay) join(id string, i int) {
	r.at[id] = len(r.live)
	if r.items[i].role == aCompaction {
		r.summaries = append(r.summaries, len(r.live))
	}
	r.live = append(r.live, ref{id, i})
}

// fill gives a message without an id one that is the same at every import.
func (r *replay) fill(at where, m *message) {
	if m.ID == "" {
		m.ID = "line-" + strconv.Itoa(at.file) + "-" + strconv.Itoa(at.line) + "-" + strconv.Itoa(at.index+1)
	}
}

// hold keeps the client's own first message back until a person says something:
// it is rewritten at each start.
func (r *replay) hold(at where, m *message) {
	text := m.text()
	r.workspace = cmp.Or(r.workspace, workspace(text))
	s := sumOf(text)
	if r.contexts[s] {
		r.pending = nil
		return
	}
	r.pending, r.waiting = &item{where: at, id: m.ID, role: aContext}, s
}

// add makes an item after the tip, and makes it the tip.
func (r *replay) add(at where, m *message, role int) int {
	if c := r.pending; c != nil {
		r.pending, c.parent, c.id = nil, r.tip, r.unique(c.id, "context|"+hex(r.waiting))
		r.contexts[r.waiting] = true
		r.items = append(r.items, *c)
		r.tip = len(r.items) - 1
	}
	i := len(r.items)
	r.items = append(r.items, item{id: r.unique(m.ID, m.key()), parent: r.tip, role: role})
	r.known[m.key()] = i
	r.items[i].sum = m.sum()
	r.tip = i
	r.version(i, at, m)
	for _, id := range m.responses() {
		r.responses[id] = true
	}
	return i
}

// unique returns an id for an entry, a second one if the first is taken: the
// tool sometimes gives a result the id of its call's message. No id contains the
// separator before a suffix.
func (r *replay) unique(id, second string) string {
	id, second = strings.ReplaceAll(id, "#", "|"), strings.ReplaceAll(second, "#", "|")
	if r.ids[id] {
		id = second
	}
	for n := 2; r.ids[id]; n++ {
		id = second + "|" + strconv.Itoa(n)
	}
	r.ids[id] = true
	return id
}

// Suffixes of the id of a message for entries that follow it.
const (
	theResults = "#results"
	theText    = "#text"
	theContext = "#context"
)

// version records where the last version of a message is.
func (r *replay) version(i int, at where, m *message) {
	it := &r.items[i]
	it.where, it.calls, it.more, it.context = at, nil, m.saysMore(), m.hasContext()
	for n := range m.ToolCalls {
		c := &m.ToolCalls[n]
		id := m.callID(n)
		if len(c.Result) > 0 && string(c.Result) != "null" {
			it.calls = append(it.calls, id)
		}
		if c.AgentID != "" {
			r.agents[c.AgentID] = id
		}
	}
	r.model = cmp.Or(m.Model, r.model)
	r.seen(m.Timestamp)
}

// set replaces the list. The tool does so when it starts; when it resumes, with
// the messages as it sends them; and when it compacts, with a summary and copies
// of the last messages under new ids.
func (r *replay) set(at where, list []json.RawMessage) {
	copies := r.copies()
	had := len(r.live) > 0 || len(r.past) > 0
	before := r.tip
	r.live, r.summaries, r.at = nil, nil, map[string]int{}
	compaction := root
	for n, raw := range list {
		at.index = n
		m, err := parse(raw)
		if err != nil {
			r.harm(where{at.file, at.line, 0}, convert.Skipf(r.files[at.file].name, "line %d: message %d is not one", at.line, n+1))
			continue
		}
		r.fill(at, m)
		i, known := r.known[m.key()]
		switch {
		case m.isContext():
			r.hold(at, m)
			continue
		case known:
		case m.answered(r.responses):
			continue
		case copies.take(m.sum(), &i):
			r.known[m.key()] = i
		case had && compaction == root && len(r.live) == 0 && isSummary(m, list[n+1:]):
			r.tip = before
			i = r.add(at, m, aCompaction)
			compaction = i
		case compaction != root && len(r.live) == 1 && m.Type == "gemini":
			i = compaction // the reply that the client makes up for its summary
			r.known[m.key()] = i
		default:
			if r.tip = root; len(r.live) > 0 {
				r.tip = r.live[len(r.live)-1].item
			}
			i = r.add(at, m, aMessage)
		}
		r.join(m.ID, i)
	}
	if compaction != root {
		r.items[compaction].kept = r.live[len(r.live)-1].item
	}
	r.settle()
	if len(r.live) > 0 {
		r.past = r.live
	}
}

// rewind drops a message and all that follow it.
func (r *replay) rewind(id string) {
	n, ok := r.at[id]
	if !ok || n >= len(r.live) || r.live[n].id != id {
		return
	}
	r.live = r.live[:n]
	for len(r.summaries) > 0 && r.summaries[len(r.summaries)-1] >= n {
		r.summaries = r.summaries[:len(r.summaries)-1]
	}
	r.settle()
}

// settle finds the item that the next message follows. After a compaction from
// which nothing was removed it is the compaction, although the messages that the
// tool kept are older.
func (r *replay) settle() {
	r.tip = root
	if len(r.live) == 0 {
		return
	}
	r.tip = r.live[len(r.live)-1].item
	for _, n := range r.summaries {
		if i := r.live[n].item; r.items[i].kept == r.tip {
			r.tip = i
		}
	}
}

// copies finds messages of the last list by their content, in order.
type copies struct {
	at   map[sum][]int
	list []ref
	next int
}

func (r *replay) copies() *copies {
	c := &copies{at: map[sum][]int{}, list: r.live}
	if len(c.list) == 0 {
		c.list = r.past
	}
	for n, l := range c.list {
		s := r.items[l.item].sum
		c.at[s] = append(c.at[s], n)
	}
	return c
}

func (c *copies) take(s sum, item *int) bool {
	for at := c.at[s]; len(at) > 0; at = at[1:] {
		if at[0] >= c.next {
			*item, c.next, c.at[s] = c.list[at[0]].item, at[0]+1, at[1:]
			return true
		}
	}
	return false
}

// thanks is the reply to a summary that the client makes up for the model.
const thanks = "Got it. Thanks for the additional context!"

func isSummary(m *message, rest []json.RawMessage) bool {
	text := strings.TrimSpace(m.text())
	if m.Type != "user" {
		return false
	}
	if strings.HasPrefix(text, "<state_snapshot>") || strings.HasPrefix(text, "<summary>") {
		return true
	}
	if len(rest) == 0 {
		return false
	}
	next, err := parse(rest[0])
	return err == nil && next.Type == "gemini" && next.text() == thanks
}

// workspace finds the first folder in the client's own first message.
func workspace(text string) string {
	_, rest, ok := strings.Cut(text, "Workspace Directories:**\n")
	if !ok {
		return ""
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimPrefix(strings.TrimSpace(line), "- ")
}

// headID is the id of the entry that the session is at, "" for the last one.
func (r *replay) headID() string {
	if r.tip == root || r.tip == len(r.items)-1 {
		return ""
	}
	return r.last(r.tip)
}

// extra is what else the tool stores of a session.
func (r *replay) extra() json.RawMessage {
	if len(r.fields) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any{name: r.fields})
	if err != nil {
		return nil
	}
	return b
}

func sumOf(parts ...string) (s sum) {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	copy(s[:], h.Sum(nil))
	return s
}

func hex(s sum) string {
	return strconv.FormatUint(uint64(s[0])<<24|uint64(s[1])<<16|uint64(s[2])<<8|uint64(s[3]), 16)
}
