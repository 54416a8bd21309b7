package claudecode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Records of one reply are joined when no more than joinRecords others and
// joinBytes are between the first and the next: tools run while a reply is still
// arriving. What is in between waits in memory. A reply is complete when another
// one begins or its turn ends; a record of its id after that is a reply of its
// own, so that what was complete once stays as it is.
const (
	joinRecords = 64
	joinBytes   = 24 << 20
)

// outline is the result of a first reading of a transcript: what must be known
// of the session before its entries, and which records form one reply.
type outline struct {
	texts *convert.Interner // ids, for the second reading as well
	uuids []uint32          // of the records
	lead  []int32           // for each record, the first one of its entry
	until []int32           // for a leading record, the last one of its entry

	prompt   string // the last record of a prompt that may grow; it begins at the record asked
	asked    int
	askedAt  int64 // in bytes
	reply    reply // the one that may grow
	drafts   int   // the record from which on entries may still change
	title    [3]string
	model    string
	project  string
	version  string
	created  time.Time
	updated  time.Time
	own      time.Time // of the first record that is not marked as a copy
	leaf     string    // where the client says that the session is, after its last record
	head     string    // the record that begins the leaf's entry
	calls    map[string]string
	asides   []aside
	asideOf  map[string]int    // by uuid
	prompts  map[uint64]string // the call that gave a prompt, by its hash
	seed     maphash.Seed
	requests int
	dropped  int
	after    []json.RawMessage
	bill     *bill
	points   []candidate // at which a later reading may go on, in order
}

// aside is a helper agent whose records are in the session's transcript, as in
// older versions.
type aside struct {
	name, call string
	prompt     uint64
}

// read makes the outline of a transcript. A nil error does not mean that every
// line was readable: the second reading reports those.
func (t *transcript) read(ctx context.Context) (*outline, error) {
	o := &outline{calls: map[string]string{}, asideOf: map[string]int{}, prompts: map[uint64]string{}, seed: maphash.MakeSeed(), texts: new(convert.Interner)}
	o.bill = newBill(o.texts)
	if t.from != nil {
		t.from.restore(o)
	}
	o.bill.shared = t.helped
	mine := t.mine
	whole := transcript{fsys: t.fsys, file: t.file, bare: t.bare, careful: t.careful, from: t.from, texts: o.texts, mine: func(r record) bool {
		if !mine(r) {
			o.asidesOf(r)
			o.bill.shared = true
			return false
		}
		return true
	}}
	for it, err := range whole.records(ctx, o.note) {
		if convert.IsSkip(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		o.candidate(it, whole.requests, whole.dropped)
		o.leaf = ""
		o.uuids = append(o.uuids, o.texts.Intern(it.UUID))
		o.see(it.record)
		o.join(it)
		o.bill.see(it.record, o.lead[it.n])
	}
	o.drafts = o.unfinished()
	o.bill.charge(t.rates)
	if o.head = o.leads(); o.head == "" && o.leaf != "" && t.from != nil {
		o.head, _ = t.from.Memory.Get(ofRecord, o.leaf)
	}
	if t.from != nil && (t.from.Memory.Missed() || o.bill.missed || o.bill.seen.Missed() || len(o.asides) > 0) {
		return nil, convert.ErrWhole
	}
	for i, a := range o.asides {
		o.asides[i].call = cmp.Or(o.calls[a.name], o.prompts[a.prompt])
	}
	o.requests, o.dropped, o.after = whole.requests, whole.dropped, whole.after
	return o, nil
}

// leads returns the record that begins the entry of the leaf, "" when there is
// no such leaf.
func (o *outline) leads() string {
	leaf, ok := o.texts.Find(o.leaf)
	if !ok {
		return ""
	}
	n := slices.Index(o.uuids, leaf)
	if n < 0 {
		return ""
	}
	return o.uuid(o.lead[n])
}

// uuid is that of a record.
func (o *outline) uuid(n int32) string { return o.texts.Text(o.uuids[n]) }

// note takes titles and the leaf from records without a uuid.
func (o *outline) note(r record) {
	switch r.Type {
	case "custom-title":
		o.title[0] = r.CustomTitle
	case "ai-title":
		o.title[1] = cmp.Or(r.AITitle, r.Summary)
	case "summary":
		o.title[2] = r.Summary
	case "last-prompt":
		o.leaf = r.Leaf
	case "cost-state":
		o.endTurn()
		o.bill.settle(r.ModelUsage)
	}
	o.when(r)
}

func (o *outline) when(r record) {
	at := r.at()
	if at.IsZero() {
		return
	}
	if o.created.IsZero() || at.Before(o.created) {
		o.created = at
	}
	if at.After(o.updated) {
		o.updated = at
	}
}

func (o *outline) see(r record) {
	o.when(r)
	if o.own.IsZero() && r.ForkedFrom == nil {
		o.own = r.at()
	}
	o.project = cmp.Or(o.project, r.Cwd)
	o.version = cmp.Or(r.Version, o.version)
	if !r.spoken() {
		return
	}
	m := r.Message
	if m.Model != "" && m.Model != synthetic {
		o.model = m.Model
	}
	if agent := r.resultField("agentId"); agent != "" {
		o.calls[agent] = firstCall(m.Content)
	}
	if r.Type == "assistant" {
		o.tasks(r)
	}
}

// tasks remembers which call gave which prompt to a helper agent.
func (o *outline) tasks(r record) {
	if r.scanCalls(func(id, prompt string) { o.prompts[maphash.String(o.seed, prompt)] = id }) {
		return
	}
	var calls []struct {
		ID    string          `json:"id"`
		Input json.RawMessage `json:"input"`
	}
	if convert.Loose(r.Message.Content, &calls) != nil {
		return
	}
	for _, c := range calls {
		if prompt := convert.Field(c.Input, "prompt"); prompt != "" {
			o.prompts[maphash.String(o.seed, prompt)] = c.ID
		}
	}
}

// firstCall is the call that a record answers first.
func firstCall(content json.RawMessage) string {
	var results []struct {
		ID string `json:"tool_use_id"`
	}
	if convert.Loose(content, &results) != nil || len(results) == 0 {
		return ""
	}
	return results[0].ID
}

// asidesOf assigns a record of a helper agent to that agent.
func (o *outline) asidesOf(r record) {
	if r.UUID == "" {
		return
	}
	at, ok := o.asideOf[r.Parent]
	if r.Agent != "" {
		at = slices.IndexFunc(o.asides, func(a aside) bool { return a.name == r.Agent })
		ok = at >= 0
	}
	if !ok {
		at = len(o.asides)
		a := aside{name: cmp.Or(r.Agent, r.UUID)}
		blocks, _ := r.blocks(maxDepth)
		a.prompt = maphash.String(o.seed, tidemark.Entry{Blocks: blocks}.Text())
		o.asides = append(o.asides, a)
	}
	o.asideOf[r.UUID] = at
}

// reply is where the records of one message id were seen; an empty id: no reply
// may grow.
type reply struct {
	id         string
	lead, last int
	start      int64
}

// join decides whether a record continues a reply.
func (o *outline) join(it item) {
	o.lead, o.until = append(o.lead, int32(it.n)), append(o.until, int32(it.n))
	if it.Type != "assistant" {
		if it.endsTurn() {
			o.endTurn()
		}
		o.mention(it)
		return
	}
	o.prompt = "" // it is being answered
	m, r := it.Message, &o.reply
	switch {
	case m.ID == "" || m.Model == synthetic:
		r.id = ""
		return
	case r.id == m.ID && it.n-r.last <= joinRecords && it.start-r.start <= joinBytes:
		r.last = it.n
		o.lead[it.n], o.until[r.lead] = int32(r.lead), int32(it.n)
		o.dropPoints(r.lead)
	default:
		*r = reply{m.ID, it.n, it.n, it.start}
	}
	if it.complete() {
		r.id = ""
	}
}

// endTurn makes what was said so far final.
func (o *outline) endTurn() { o.prompt, o.reply.id = "", "" }

// unfinished is the first record that may still be joined by others, or the
// number of records.
func (o *outline) unfinished() int {
	first := len(o.lead)
	if o.prompt != "" {
		first = min(first, o.asked)
	}
	if o.reply.id != "" {
		first = min(first, o.reply.lead)
	}
	return first
}

// session reads a transcript's outline and returns the session.
func (src source) session(ctx context.Context, fsys fs.FS) (*convert.Session, error) {
	if src.growth != nil {
		s, err := src.goOn(ctx, fsys)
		if !errors.Is(err, convert.ErrWhole) {
			return s, err
		}
		src.growth = nil
	}
	return src.read(ctx, fsys, nil)
}

// read is session from a point on; nil: from the beginning.
func (src source) read(ctx context.Context, fsys fs.FS, from *point) (*convert.Session, error) {
	t := transcript{fsys: fsys, file: src.file, mine: notAside, helped: src.helped(fsys), from: from}
	o, err := t.read(ctx)
	if err != nil {
		return nil, err
	}
	var marker *convert.Marker
	if len(src.agents) == 0 {
		marker = o.marker()
	}
	o.bill.close()
	s := &convert.Session{
		Session: tidemark.Session{
			Title:     cmp.Or(o.title[:]...),
			Agent:     name,
			Model:     o.model,
			Project:   o.project,
			ForeignID: src.ID,
			CreatedAt: o.created,
		},
		Entries:   t.entries(ctx, o, marker),
		Copied:    src.copied,
		Head:      o.head,
		UpdatedAt: o.updated,
		Units:     src.units(),
	}
	if marker != nil {
		s.Units[0].Bookmark = marker.Bookmark
	}
	switch {
	case src.copied != "" && src.first > 0:
		s.CreatedAt = time.UnixMilli(src.first).UTC()
	case src.copied != "" && !o.own.IsZero():
		s.CreatedAt = o.own
	}
	if s.Extra, err = json.Marshal(map[string]any{name: sessionExtra{
		Dir: path.Base(path.Dir(src.file)), Version: o.version, After: o.after}}); err != nil {
		return nil, &convert.Skip{What: src.file, Why: err}
	}
	if from == nil {
		src.workers(ctx, fsys, s, o)
		src.files(fsys, s)
	} else if s.Costs = o.bill.late(); src.growth.Beside {
		src.files(fsys, s)
	}
	s.Lost = append(s.Lost, o.lost()...)
	return s, nil
}

// sessionExtra is what an export needs to write the session as it was.
type sessionExtra struct {
	Dir     string            `json:"dir,omitempty"`
	Version string            `json:"version,omitempty"`
	After   []json.RawMessage `json:"after,omitempty"`
}

func (o *outline) lost() (lost []string) {
	if o.requests > 0 {
		lost = append(lost, fmt.Sprintf("%d request logs, which repeat the conversation", o.requests))
	}
	if o.dropped > 0 {
		lost = append(lost, fmt.Sprintf("%d notes of the client, too large together", o.dropped))
	}
	return lost
}

// workers attaches the helper agents: those in the transcript itself, those in
// the session's folder, and those beside it that name it.
func (src source) workers(ctx context.Context, fsys fs.FS, s *convert.Session, o *outline) {
	rates := o.bill.rates()
	for i, a := range o.asides {
		t := transcript{fsys: fsys, file: src.file, bare: true, rates: rates, mine: func(r record) bool {
			at, ok := o.asideOf[r.UUID]
			return r.Sidechain && ok && at == i
		}}
		s.Workers = append(s.Workers, convert.Worker{Name: a.name, Call: a.call, Entries: t.late(ctx)})
	}
	files := src.subagents(fsys)
	for _, file := range src.agents {
		if _, session, err := peekAside(ctx, fsys, file); err == nil && session == src.ID {
			files = append(files, file)
		}
	}
	for _, file := range files {
		agent := strings.TrimPrefix(strings.TrimSuffix(path.Base(file), ".jsonl"), "agent-")
		if slices.ContainsFunc(s.Workers, func(w convert.Worker) bool { return w.Name == agent }) {
			continue
		}
		meta, err := convert.ReadFile(fsys, strings.TrimSuffix(file, ".jsonl")+".meta.json")
		call := ""
		if err == nil {
			call = convert.Field(meta, "toolUseId")
			keep(s, "subagents/"+path.Base(strings.TrimSuffix(file, ".jsonl"))+".meta.json", meta)
		}
		t := transcript{fsys: fsys, file: file, mine: all, rates: rates}
		s.Workers = append(s.Workers, convert.Worker{Name: agent, Call: cmp.Or(call, o.calls[agent]), Entries: t.late(ctx)})
	}
}

// subagents are the transcripts of helper agents in the folder of the session.
func (src source) subagents(fsys fs.FS) (files []string) {
	walk(fsys, path.Join(strings.TrimSuffix(src.file, ".jsonl"), "subagents"), func(file string, _ fs.DirEntry) {
		if path.Ext(file) == ".jsonl" {
			files = append(files, file)
		}
	})
	return files
}

// helped reports whether there may be helper agents with transcripts of their
// own.
func (src source) helped(fsys fs.FS) bool { return len(src.agents) > 0 || len(src.subagents(fsys)) > 0 }

func peekAside(ctx context.Context, fsys fs.FS, file string) (uuid, session string, err error) {
	t := transcript{fsys: fsys, file: file, mine: all, bare: true}
	for it, err := range t.records(ctx, nil) {
		if err == nil {
			return it.UUID, it.Session, nil
		}
		if !convert.IsSkip(err) {
			return "", "", err
		}
	}
	return "", "", convert.Skipf(file, "holds no message")
}

// Bounds of the files that come with a session, for one and for all.
const (
	maxFile  = 16 << 20
	maxFiles = 64 << 20
	maxWalk  = 4 // folders deep
)

// files imports what is outside the transcript: long results, task lists, and
// copies of files from before an edit.
func (src source) files(fsys fs.FS, s *convert.Session) {
	folders := map[string]string{"tool-results": path.Join(strings.TrimSuffix(src.file, ".jsonl"), "tool-results")}
	if src.home != "" {
		folders["tasks"] = path.Join(src.home, "tasks", src.ID)
		folders["file-history"] = path.Join(src.home, "file-history", src.ID)
	}
	total := 0
	for _, as := range []string{"tool-results", "tasks", "file-history"} {
		walk(fsys, folders[as], func(file string, _ fs.DirEntry) {
			info, err := fs.Stat(fsys, file)
			to := path.Join(as, strings.TrimPrefix(file, folders[as]+"/"))
			if err != nil || info.Size() > maxFile || total+int(info.Size()) > maxFiles {
				s.Lost = append(s.Lost, fmt.Sprintf("the file %s: it cannot be read or is too large", to))
				return
			}
			b, err := convert.ReadFile(fsys, file)
			if err != nil {
				s.Lost = append(s.Lost, fmt.Sprintf("the file %s: it cannot be read", to))
				return
			}
			total += len(b)
			keep(s, to, b)
		})
	}
}

func keep(s *convert.Session, file string, data []byte) {
	if s.Files == nil {
		s.Files = map[string][]byte{}
	}
	s.Files[file] = data
}

// walk visits the files below a folder, which need not exist.
func walk(fsys fs.FS, dir string, visit func(file string, d fs.DirEntry)) {
	root := strings.Count(dir, "/")
	_ = fs.WalkDir(fsys, dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && d == nil, err != nil && d.IsDir():
			return fs.SkipDir
		case d.IsDir() && strings.Count(file, "/")-root > maxWalk:
			return fs.SkipDir
		case d.Type().IsRegular():
			visit(file, d)
		}
		return nil
	})
}
