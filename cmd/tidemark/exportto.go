package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/store"
)

// exportTo writes a session, or with --all every one of them and the fleet, as
// another tool would have, into a folder.
func (a *app) exportTo(cmd *cobra.Command, ref string, tool convert.Tool, x exporting) error {
	switch {
	case tool.Export == nil && tool.ExportFleet == nil:
		return tidemark.Unsupportedf("format %q: sessions of %s only come in", tool.Name, tool.Title)
	case tool.Export == nil && !x.all:
		return withHint(tidemark.Unsupportedf("format %q: %s keeps no conversations", tool.Name, tool.Title), "its agents and jobs go out with: tidemark export --all --format %s -o DIR", tool.Name)
	case x.output == "-":
		return withHint(tidemark.Invalidf("%s keeps sessions in a folder", tool.Title), "name one: -o DIR")
	}
	e := &exportInto{app: a, tool: tool, redact: x.redact}
	var points []store.Point
	var err error
	if x.all {
		if e.s, err = a.open(cmd.Context(), reads); err == nil && tool.Export != nil {
			points, err = e.everySession(cmd.Context())
		}
	} else {
		points = make([]store.Point, 1)
		e.s, points[0], err = a.resolve(cmd.Context(), reads, ref)
	}
	if err != nil {
		return err
	}
	if e.out, err = openOut(x.output); err != nil {
		return err
	}
	for n, p := range points {
		if err = e.session(cmd.Context(), p); err != nil {
			break
		}
		a.progress("%d of %d sessions", n+1, len(points))
	}
	if err == nil && x.all && tool.ExportFleet != nil {
		err = e.fleet(cmd.Context())
	}
	if err = errors.Join(err, e.out.Close()); err != nil {
		return err
	}
	a.progressDone()
	for _, l := range e.lost {
		a.say("not in the %s format: %s", tool.Title, l)
	}
	result := map[string]any{"format": tool.Name, "folder": x.output, "sessions": e.sessions, "lost": e.lost}
	if !x.all {
		result["session"] = e.sessions[0]
	}
	return a.print(result, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, x.output)
		return err
	})
}

// exportInto is an export into the format of another tool.
type exportInto struct {
	*app
	s        *store.Store
	tool     convert.Tool
	redact   bool
	out      *outFolder
	sessions []tidemark.SessionID
	lost     []string
}

// everySession lists what is to go out, the oldest first: what was forked
// comes after what it was forked from.
func (e *exportInto) everySession(ctx context.Context) ([]store.Point, error) {
	var all []store.Point
	for i, err := range e.s.Sessions(ctx, store.Filter{}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			e.lost = append(e.lost, fmt.Sprintf("session %.8s, which is damaged", i.ID))
			continue
		}
		if err != nil {
			return nil, err
		}
		v, err := e.s.View(ctx, i.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, store.Point{View: v})
	}
	slices.SortStableFunc(all, func(a, b store.Point) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all, nil
}

func (e *exportInto) session(ctx context.Context, p store.Point) error {
	f, err := outgoing(ctx, e.s, p, e.tool)
	if err != nil {
		return err
	}
	if e.redact {
		f.Session, f.Entries = e.s.MaskSession(f.Session), maskedForeign(e.s, f.Entries)
		for i := range f.Workers {
			f.Workers[i].Entries = maskedForeign(e.s, f.Workers[i].Entries)
		}
		for id, label := range f.Labels {
			f.Labels[id] = e.s.MaskText(label)
		}
		for name, content := range f.Files {
			f.Files[name] = []byte(e.s.MaskText(string(content)))
		}
		f.Checkpoint = maskedJSON(e.s, f.Checkpoint)
	}
	lost, err := e.tool.Export(ctx, e.out, f)
	e.lost = append(e.lost, lost...)
	e.sessions = append(e.sessions, p.ID)
	return err
}

// fleet writes the agents, schedules and jobs.
func (e *exportInto) fleet(ctx context.Context) error {
	f := &convert.Fleet{}
	var err error
	if f.Fleet, err = e.s.Fleet(ctx); err == nil {
		err = e.mask(&f.Fleet)
	}
	if err != nil {
		return err
	}
	for agent, err := range e.s.Agents(ctx) {
		if err == nil {
			err = e.mask(&agent)
		}
		if err != nil {
			return err
		}
		f.Agents = append(f.Agents, convert.Agent{Agent: agent, Log: e.events(e.s.AgentLog(ctx, agent.Name))})
	}
	for schedule, err := range e.s.Schedules(ctx, "") {
		if err == nil {
			err = e.mask(&schedule)
		}
		if err != nil {
			return err
		}
		f.Schedules = append(f.Schedules, schedule)
	}
	var jobs []tidemark.Job
	for job, err := range e.s.Jobs(ctx, store.JobFilter{}) {
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
			if !yield(convert.Job{Job: job, Output: e.events(e.s.Output(ctx, id))}, err) || err != nil {
				return
			}
		}
	}
	lost, err := e.tool.ExportFleet(ctx, e.out, f)
	e.lost = append(e.lost, lost...)
	return err
}

// mask masks every text of a record when that is asked for.
func (e *exportInto) mask(record any) error {
	if !e.redact {
		return nil
	}
	b, err := json.Marshal(record)
	if err != nil {
		return err
	}
	masked := maskedJSON(e.s, b)
	if masked == nil {
		return tidemark.Invalidf("a record that cannot be masked")
	}
	into := reflect.ValueOf(record).Elem()
	into.SetZero()
	return json.Unmarshal(masked, record)
}

// events masks what is put out when that is asked for; what is damaged is left
// out and said.
func (e *exportInto) events(all iter.Seq2[tidemark.Event, error]) iter.Seq2[tidemark.Event, error] {
	return func(yield func(tidemark.Event, error) bool) {
		for event, err := range all {
			if errors.Is(err, tidemark.ErrCorrupt) {
				e.lost = append(e.lost, err.Error())
				continue
			}
			if err == nil && e.redact {
				event.Content, event.Message = e.s.MaskText(event.Content), e.s.MaskText(event.Message)
				event.Input, event.Result = maskedJSON(e.s, event.Input), maskedJSON(e.s, event.Result)
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

// maskedJSON masks what is in JSON; what is not JSON afterwards is left out.
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

// outgoing is a session as converters see it. A point in it means the path to
// it alone.
func outgoing(ctx context.Context, s *store.Store, p store.Point, tool convert.Tool) (*convert.Session, error) {
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
	names := &outgoingNames{prefix: tool.Name + ":", ids: make(map[int64]string)}
	f.Entries = names.entries(all)
	workers, err := p.Workers(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range workers {
		w, err := p.Worker(ctx, name)
		if err != nil {
			return nil, err
		}
		own := &outgoingNames{prefix: names.prefix, ids: make(map[int64]string)}
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

// stateOfSession reads what is kept beside a conversation; nil: nothing is.
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

// outgoingNames gives entries the ids that their tool knew them by, or their
// numbers.
type outgoingNames struct {
	prefix string
	ids    map[int64]string // by seq; of a marker, that of the entry it points at
}

// idOf is what an entry is called outside.
func (n *outgoingNames) idOf(e tidemark.Entry) string {
	if id, ok := strings.CutPrefix(e.Key, n.prefix); ok {
		return id
	}
	return strconv.FormatInt(e.Seq, 10)
}

// points finds the entries that have a label, and the one that the session is
// at when it is not the newest.
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
	for e, err := range p.Log(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if label, ok := labels[e.Seq]; ok {
			f.Labels[n.idOf(e)] = label
		}
		if e.Seq == head && head != p.Entries {
			f.Head = n.idOf(e)
		}
	}
	return nil
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
			if e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap || e.Kind == kindWorker || e.Kind == kindImported {
				n.ids[e.Seq] = parent
				continue
			}
			id := n.idOf(e)
			n.ids[e.Seq] = id
			if !yield(convert.Entry{Entry: e, ID: id, Parent: parent}, nil) {
				return
			}
		}
	}
}
