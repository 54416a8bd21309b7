package transfer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

// ToolExport writes sessions, and the fleet, in the format of another tool,
// into a folder.
type ToolExport struct {
	Store  *store.Store
	Tool   convert.Tool
	Folder *Folder
	// Redact masks secrets.
	Redact bool
	// HandOver says that the Folder is a home of the tool, see IsHome: what it is
	// given is noted in the Store, and none of its files is replaced. Holder is who
	// does that.
	HandOver bool
	Holder   tidemark.Holder
	// Progress receives how many sessions of how many were exported; it may be
	// nil.
	Progress func(n, of int)

	// Sessions are those that were exported, Handed what those became that were
	// handed over, and Lost is what the tool has no place for.
	Sessions []tidemark.SessionID
	Handed   []Handed
	Lost     []string
}

// All exports every session and the fleet, as far as the tool supports them.
func (e *ToolExport) All(ctx context.Context) error {
	if e.Tool.Export != nil {
		points, err := e.everySession(ctx)
		if err != nil {
			return err
		}
		for n, p := range points {
			if err := e.Session(ctx, p); err != nil {
				return err
			}
			if e.Progress != nil {
				e.Progress(n+1, len(points))
			}
		}
	}
	if e.Tool.ExportFleet != nil {
		return e.fleet(ctx)
	}
	return nil
}

// everySession lists what to export, oldest first: a fork comes after its
// source.
func (e *ToolExport) everySession(ctx context.Context) ([]store.Point, error) {
	var all []store.Point
	for i, err := range e.Store.Sessions(ctx, store.Filter{}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			e.Lost = append(e.Lost, fmt.Sprintf("session %.8s, which is damaged", i.ID))
			continue
		}
		if err != nil {
			return nil, err
		}
		v, err := e.Store.View(ctx, i.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, store.Point{View: v})
	}
	slices.SortStableFunc(all, func(a, b store.Point) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all, nil
}

// Session writes one session; for a point in it, only the path to it.
func (e *ToolExport) Session(ctx context.Context, p store.Point) error {
	var lost []string
	var err error
	if e.HandOver {
		h := handover{s: e.Store, tool: e.Tool, home: e.Folder, who: e.Holder}
		var handed Handed
		if handed, lost, err = h.export(ctx, p, func(f *convert.Session) ([]string, error) { e.maskSession(f); return nil, nil }); err == nil {
			e.Handed = append(e.Handed, handed)
		}
	} else {
		lost, err = e.copy(ctx, p)
	}
	e.Lost = append(e.Lost, lost...)
	e.Sessions = append(e.Sessions, p.ID)
	return err
}

// copy writes a session that nobody goes on with where it is written.
func (e *ToolExport) copy(ctx context.Context, p store.Point) ([]string, error) {
	f, err := Outgoing(ctx, e.Store, p, e.Tool)
	if err != nil {
		return nil, err
	}
	e.maskSession(f)
	lost, err := e.Tool.Export(ctx, e.Folder, f)
	return append(lost, f.Lost...), err
}

// maskSession masks the secrets of a session if requested.
func (e *ToolExport) maskSession(f *convert.Session) {
	if !e.Redact {
		return
	}
	f.Session, f.Entries = e.Store.MaskSession(f.Session), maskedForeign(e.Store, f.Entries)
	for i := range f.Workers {
		f.Workers[i].Entries = maskedForeign(e.Store, f.Workers[i].Entries)
	}
	for id, label := range f.Labels {
		f.Labels[id] = e.Store.MaskText(label)
	}
	for name, content := range f.Files {
		f.Files[name] = []byte(e.Store.MaskText(string(content)))
	}
	f.Checkpoint = maskedJSON(e.Store, f.Checkpoint)
}

// fleet writes the agents, schedules and jobs.
func (e *ToolExport) fleet(ctx context.Context) error {
	f, from := &convert.Fleet{}, fleet.Over(e.Store)
	var err error
	if f.Fleet, err = from.Fleet(ctx); err == nil {
		err = e.mask(&f.Fleet)
	}
	if err != nil {
		return err
	}
	for agent, err := range from.Agents(ctx) {
		if err == nil {
			err = e.mask(&agent)
		}
		if err != nil {
			return err
		}
		f.Agents = append(f.Agents, convert.Agent{Agent: agent, Log: e.events(from.AgentLog(ctx, agent.Name))})
	}
	for schedule, err := range from.Schedules(ctx, "") {
		if err == nil {
			err = e.mask(&schedule)
		}
		if err != nil {
			return err
		}
		f.Schedules = append(f.Schedules, schedule)
	}
	var jobs []tidemark.Job
	for job, err := range from.Jobs(ctx, fleet.JobFilter{}) {
		if err != nil {
			return err
		}
		jobs = append(jobs, job)
	}
	slices.SortStableFunc(jobs, func(a, b tidemark.Job) int { return a.StartedAt.Compare(b.StartedAt) })
	f.Jobs = func(yield func(convert.Job, error) bool) {
		for _, job := range jobs {
			id := job.ID
			err := e.mask(&job)
			if !yield(convert.Job{Job: job, Output: e.events(from.Output(ctx, id))}, err) || err != nil {
				return
			}
		}
	}
	lost, err := e.Tool.ExportFleet(ctx, e.Folder, f)
	e.Lost = append(e.Lost, lost...)
	return err
}

// mask masks every text of a record if requested.
func (e *ToolExport) mask(record any) error {
	if !e.Redact {
		return nil
	}
	b, err := json.Marshal(record)
	if err != nil {
		return err
	}
	masked := maskedJSON(e.Store, b)
	if masked == nil {
		return tidemark.Invalidf("a record that cannot be masked")
	}
	into := reflect.ValueOf(record).Elem()
	into.SetZero()
	return json.Unmarshal(masked, record)
}

// events masks output if requested; damaged events are left out and reported.
func (e *ToolExport) events(all iter.Seq2[tidemark.Event, error]) iter.Seq2[tidemark.Event, error] {
	return func(yield func(tidemark.Event, error) bool) {
		for event, err := range all {
			if errors.Is(err, tidemark.ErrCorrupt) {
				e.Lost = append(e.Lost, err.Error())
				continue
			}
			if err == nil && e.Redact {
				event.Content, event.Message = e.Store.MaskText(event.Content), e.Store.MaskText(event.Message)
				event.Input, event.Result = maskedJSON(e.Store, event.Input), maskedJSON(e.Store, event.Result)
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

// maskedJSON masks texts in JSON; if the result is not JSON, it is left out.
func maskedJSON(s *store.Store, raw json.RawMessage) json.RawMessage {
	masked := json.RawMessage(s.MaskText(string(raw)))
	if !json.Valid(masked) {
		return nil
	}
	return masked
}

func maskedForeign(s *store.Store, entries iter.Seq2[convert.Entry, error]) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		for e, err := range entries {
			e.Entry = s.Mask(e.Entry)
			if !yield(e, err) {
				return
			}
		}
	}
}

// Outgoing is a session in the form for converters. For a point in it, only the
// path to it.
func Outgoing(ctx context.Context, s *store.Store, p store.Point, tool convert.Tool) (*convert.Session, error) {
	p, err := withDraft(ctx, p)
	if err != nil {
		return nil, err
	}
	f := &convert.Session{Session: p.Session, UpdatedAt: p.UpdatedAt}
	from := originOf(p.Session)
	if from.Tool == tool.Name {
		f.Extra, f.Copied = from.Extra, from.Copied
	} else {
		f.ForeignID = ""
	}
	f.Base = nil
	all := p.Log(ctx)
	if p.Seq != 0 {
		all = p.Path(ctx, p.Seq)
	}
	names := &outgoingNames{prefix: tool.Name + ":", ids: make(map[int64]string), spoken: len(tool.Homes) > 0}
	f.Entries = names.entries(all)
	workers, err := p.Workers(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range workers {
		w, err := p.Worker(ctx, name)
		if err == nil {
			w, err = w.WithDraft(ctx)
		}
		if err != nil {
			return nil, err
		}
		own := &outgoingNames{prefix: names.prefix, ids: make(map[int64]string), spoken: names.spoken}
		from, err := workerOriginOf(ctx, w, name)
		if err != nil {
			return nil, err
		}
		f.Workers = append(f.Workers, convert.Worker{Name: from.Name, Call: from.Call, Entries: own.entries(w.Log(ctx))})
	}
	if err := names.points(ctx, p, f); err != nil {
		return nil, err
	}
	f.Checkpoint, f.Files, err = stateOfSession(ctx, s, p.ID)
	return f, err
}

// stateOfSession reads the state of a session besides its conversation; nil if
// there is none.
func stateOfSession(ctx context.Context, s *store.Store, id tidemark.SessionID) (checkpoint json.RawMessage, files map[string][]byte, err error) {
	c, err := s.Checkpoint(ctx, id, "")
	if err == nil {
		checkpoint, err = json.Marshal(c)
	}
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return nil, nil, err
	}
	all, err := s.Files(ctx, id)
	if err != nil || len(all) == 0 {
		return checkpoint, nil, err
	}
	files = make(map[string][]byte, len(all))
	for _, f := range all {
		if files[f.Name], err = s.ReadFile(ctx, id, f.Name); err != nil {
			return nil, nil, err
		}
	}
	return checkpoint, files, nil
}

// outgoingNames gives entries their tool's ids, or their numbers.
type outgoingNames struct {
	prefix string
	ids    map[int64]string // by seq; for a marker, the id of the entry it points at
	spoken bool             // what other tools told the model is left out: this one tells it what it needs
}

// idOf is the id of an entry in the export.
func (n *outgoingNames) idOf(e tidemark.Entry) string {
	if id, ok := strings.CutPrefix(e.Key, n.prefix); ok {
		return id
	}
	return strconv.FormatInt(e.Seq, 10)
}

// points finds the entries that have a label, and the head of the session if
// it is not the newest entry.
func (n *outgoingNames) points(ctx context.Context, p store.Point, f *convert.Session) error {
	labels, err := p.Labels(ctx)
	if err != nil {
		return err
	}
	head := p.Seq
	if head == 0 {
		if head, err = p.Head(ctx); err != nil {
			return err
		}
	}
	f.Labels = make(map[string]string)
	if head == 0 && p.Entries > 0 {
		f.Head = convert.Root
	}
	if len(labels) == 0 && head == p.Entries {
		return nil
	}
	there := make(map[int64]string) // by seq; for what is left out, the entry before it
	for e, err := range p.Log(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if there[e.Seq] = n.idOf(e); n.leavesOut(e) {
			there[e.Seq] = there[e.Parent]
			continue
		}
		if label, ok := labels[e.Seq]; ok {
			f.Labels[n.idOf(e)] = label
		}
	}
	if head != p.Entries {
		f.Head = cmp.Or(there[head], convert.Root)
	}
	return nil
}

// leavesOut reports whether an entry has no content for the tool: it shapes the
// session here, or is what another tool told the model.
func (n *outgoingNames) leavesOut(e tidemark.Entry) bool {
	return e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap || e.Kind == kindWorker || e.Kind == KindImported || n.fromElsewhere(e) && e.Context()
}

// fromElsewhere reports whether an entry is not from a tool that tells the model
// itself what it needs.
func (n *outgoingNames) fromElsewhere(e tidemark.Entry) bool {
	return n.spoken && !strings.HasPrefix(e.Key, n.prefix)
}

func (n *outgoingNames) entries(all iter.Seq2[tidemark.Entry, error]) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		for e, err := range all {
			if errors.Is(err, tidemark.ErrCorrupt) {
				if !yield(convert.Entry{}, &convert.Skip{What: fmt.Sprintf("entry %d", e.Seq), Why: err}) {
					return
				}
				continue
			}
			if err != nil {
				yield(convert.Entry{}, err)
				return
			}
			parent, known := n.ids[e.Parent]
			if !known || e.Parent == 0 {
				parent = convert.Root
			}
			if n.leavesOut(e) {
				n.ids[e.Seq] = parent
				continue
			}
			if n.fromElsewhere(e) {
				e.Blocks = spokenBlocks(e)
			}
			id := n.idOf(e)
			n.ids[e.Seq] = id
			if !yield(convert.Entry{Entry: e, ID: id, Parent: parent}, nil) {
				return
			}
		}
	}
}

// spokenBlocks returns the blocks of an entry without what a tool put around the
// words of a person.
func spokenBlocks(e tidemark.Entry) []tidemark.Block {
	if e.Role != tidemark.User {
		return e.Blocks
	}
	var blocks []tidemark.Block
	for _, b := range e.Blocks {
		if b.Type == tidemark.BlockText && b.Raw == "" {
			said, context := tidemark.Spoken(b.Text)
			if len(context) > 0 && said == "" {
				continue
			}
			if len(context) > 0 {
				b.Text = said
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}
