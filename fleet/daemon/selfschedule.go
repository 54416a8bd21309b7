package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/due"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/tool"
)

// AddSchedule keeps a schedule of a person or an agent, which is in no file, and
// sets when it is due first. It stays until somebody removes it, whatever the files
// say, and runs in fleets with this key. ErrExists when the agent has one of that
// name.
func AddSchedule(ctx context.Context, s *fleet.Store, key fleet.Key, agent string, add file.Schedule, by string, now time.Time) (tidemark.Schedule, error) {
	return putSchedule(ctx, s, key, new(due.Book), agent, add, by, now, func(_ tidemark.Schedule, isNew bool) error {
		if !isNew {
			return tidemark.Existsf("schedule %s/%s is there already", agent, add.Name)
		}
		return nil
	})
}

// RemoveSchedule removes a schedule with its history: ErrNotFound. ErrInvalid: it is
// in the file, and would come back.
func RemoveSchedule(ctx context.Context, s *fleet.Store, agent, name string) error {
	have, err := s.Schedule(ctx, agent, name)
	if err != nil {
		return err
	}
	if have.By == fleet.ByFile {
		return tidemark.Invalidf("schedule %s/%s is in the fleet file, and goes when it is taken out there", agent, name)
	}
	return s.RemoveSchedule(ctx, agent, name)
}

// The tools with which an agent manages its own schedules.
const (
	toolAdd    = "schedule_add"
	toolChange = "schedule_change"
	toolRemove = "schedule_remove"
	toolList   = "schedule_list"
)

// ScheduleTools are the tools with which an agent adds, changes and removes
// schedules of its own within the limits of self_schedule; there are none where that
// allows no schedules. Schedules of the file and of people are only listed. In
// review mode every change waits for a person's approval; in the other modes the
// limits are enough.
func (d *Daemon) ScheduleTools(a file.Agent) []tool.Tool {
	if a.SelfSchedule.Max <= 0 {
		return nil
	}
	effect := tool.Reads
	if a.RunMode == fleet.RunReview {
		effect = tool.Writes
	}
	const when = `"every":{"type":"string","description":"an interval such as 90s, 5m, 1h30m or 2d"},` +
		`"cron":{"type":"string","description":"instead of every: minute, hour, day, month and weekday, or a name such as @daily"},` +
		`"zone":{"type":"string","description":"that cron is read in, such as Europe/Berlin; default UTC"},` +
		`"prompt":{"type":"string","description":"what you are told each time"},` +
		`"missed":{"type":"string","enum":["skip","once","all"]},"overlap":{"type":"string","enum":["skip","queue","replace"]},` +
		`"resume":{"type":"boolean","description":"go on with the last session instead of a fresh one"}`
	const name = `{"type":"object","properties":{"name":{"type":"string"}`
	limits := fmt.Sprintf("You may have %d of them, and no two instants of one may be closer than %s.", a.SelfSchedule.Max, a.SelfSchedule.MinInterval)
	all := []tool.Tool{
		d.scheduleTool(toolAdd, effect, "Adds a schedule on which you are run. "+limits, name+","+when+`},"required":["name"]}`,
			func(ctx context.Context, in json.RawMessage) (string, error) { return d.selfAdd(ctx, a, in) }),
		d.scheduleTool(toolChange, effect, "Changes a schedule that you added. What is not given stays.", name+","+when+`},"required":["name"]}`,
			func(ctx context.Context, in json.RawMessage) (string, error) { return d.selfChange(ctx, a, in) }),
		d.scheduleTool(toolRemove, effect, "Removes a schedule that you added.", name+`},"required":["name"]}`,
			func(ctx context.Context, in json.RawMessage) (string, error) { return d.selfRemove(ctx, a, in) }),
		d.scheduleTool(toolList, tool.Reads, "Lists your schedules. Those with by: agent you may change and remove.", `{"type":"object","properties":{}}`,
			func(ctx context.Context, _ json.RawMessage) (string, error) { return d.selfList(ctx, a) }),
	}
	return slices.DeleteFunc(all, func(t tool.Tool) bool {
		return slices.ContainsFunc(a.Permissions.Deny, func(p file.Permission) bool { return p.Scope == "" && (p.Tool == t.Name || p.Tool == "*") })
	})
}

// scheduleTool returns a tool whose errors are results for the model to read, except
// for errors of the store itself.
func (d *Daemon) scheduleTool(name string, effect tool.Effect, description, schema string, run func(context.Context, json.RawMessage) (string, error)) tool.Tool {
	return tool.Tool{Name: name, Description: description, Schema: json.RawMessage(schema), Effect: effect,
		Scope: func(json.RawMessage) string { return "" },
		Run: func(ctx context.Context, in json.RawMessage) (tool.Result, error) {
			text, err := run(ctx, in)
			var problems *file.Problems
			switch {
			case err == nil:
				d.Wake()
				return tool.Result{Text: text}, nil
			case errors.As(err, &problems):
				return tool.Result{Text: problems.Plain(), IsError: true}, nil
			case errors.Is(err, tidemark.ErrInvalid), errors.Is(err, tidemark.ErrExists), errors.Is(err, tidemark.ErrNotFound), errors.Is(err, tidemark.ErrDenied):
				return tool.Result{Text: err.Error(), IsError: true}, nil
			}
			return tool.Result{}, err
		}}
}

// selfArgs are the arguments of a tool call: a schedule, with the keys of the file.
type selfArgs struct {
	Name    string `json:"name"`
	Every   string `json:"every,omitempty"`
	Cron    string `json:"cron,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Jitter  string `json:"jitter,omitempty"`
	From    string `json:"from,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	Missed  string `json:"missed,omitempty"`
	Overlap string `json:"overlap,omitempty"`
	Resume  *bool  `json:"resume,omitempty"`
}

func readSelfArgs(in json.RawMessage) (s selfArgs, err error) {
	dec := json.NewDecoder(bytes.NewReader(in))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, tidemark.Invalidf("arguments: %w", err)
	}
	if s.Name == "" {
		return s, tidemark.Invalidf("name is missing")
	}
	return s, nil
}

// parse checks a schedule of an agent by the rules of the file, and against the
// limits of self_schedule.
func (d *Daemon) parse(a file.Agent, s selfArgs, now time.Time) (file.Schedule, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return file.Schedule{}, err
	}
	d.mu.Lock()
	current := d.file
	d.mu.Unlock()
	parsed, err := current.ParseSchedule(a, raw)
	if err != nil {
		return parsed, err
	}
	t := parsed.Timing(now)
	t.Jitter = 0 // it delays runs, and does not add any
	gap, err := d.book.Shortest(t, now)
	if err != nil {
		return parsed, err
	}
	if least := a.SelfSchedule.MinInterval; gap < least {
		return parsed, tidemark.Invalidf("two instants would be %s apart: want at least %s", gap, least)
	}
	return parsed, nil
}

// countAdded counts the schedules that an agent added.
func (d *Daemon) countAdded(ctx context.Context, a file.Agent) (n int, err error) {
	for s, err := range d.o.Store.Schedules(ctx, a.Name) {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
		case err != nil:
			return n, err
		case s.By == fleet.ByAgent:
			n++
		}
	}
	return n, nil
}

func (d *Daemon) selfAdd(ctx context.Context, a file.Agent, in json.RawMessage) (string, error) {
	now := d.o.Now()
	args, err := readSelfArgs(in)
	if err != nil {
		return "", err
	}
	add, err := d.parse(a, args, now)
	if err != nil {
		return "", err
	}
	full := tidemark.Invalidf("you have as many schedules as you may: %d; change or remove one", a.SelfSchedule.Max)
	if n, err := d.countAdded(ctx, a); err != nil || n >= a.SelfSchedule.Max {
		return "", cmp.Or(err, full)
	}
	kept, err := AddSchedule(ctx, d.o.Store, d.o.Key, a.Name, add, fleet.ByAgent, now)
	if err != nil {
		return "", err
	}
	// Another run of the agent may have added one at the same time.
	if n, err := d.countAdded(ctx, a); err != nil || n > a.SelfSchedule.Max {
		return "", cmp.Or(errors.Join(err, d.o.Store.RemoveSchedule(ctx, a.Name, add.Name)), full)
	}
	return fmt.Sprintf("Added %s. It is first due at %s.", kept.Name, kept.NextRunAt.Format(time.RFC3339)), nil
}

// ownSchedule returns a schedule that the agent added itself: ErrInvalid when
// somebody else did.
func (d *Daemon) ownSchedule(ctx context.Context, a file.Agent, name string) (tidemark.Schedule, error) {
	have, err := d.o.Store.Schedule(ctx, a.Name, name)
	if err != nil {
		return have, err
	}
	return have, checkAddedByAgent(have)
}

func checkAddedByAgent(s tidemark.Schedule) error {
	if s.By != fleet.ByAgent {
		return tidemark.Invalidf("schedule %s is not one that you added: it is from a %s", s.Name, s.By)
	}
	return nil
}

func (d *Daemon) selfChange(ctx context.Context, a file.Agent, in json.RawMessage) (string, error) {
	now := d.o.Now()
	args, err := readSelfArgs(in)
	if err != nil {
		return "", err
	}
	have, err := d.ownSchedule(ctx, a, args.Name)
	if err != nil {
		return "", err
	}
	if !d.o.Key.SignedSchedule(have) { // or what somebody else wrote would be signed with the change
		return "", tidemark.Deniedf("schedule %s was not signed by this fleet: remove it and add it anew", args.Name)
	}
	change, err := d.parse(a, args.mergedWith(have), now)
	if err != nil {
		return "", err
	}
	if !have.NextRunAt.IsZero() && !have.NextRunAt.After(now) {
		if err := d.occur(ctx, have, now); err != nil { // first, what is due by the old timing
			return "", err
		}
	}
	kept, err := putSchedule(ctx, d.o.Store, d.o.Key, d.book, a.Name, change, fleet.ByAgent, now, func(have tidemark.Schedule, isNew bool) error {
		if isNew {
			return tidemark.NotFoundf("schedule %s: not found", args.Name)
		}
		return checkAddedByAgent(have)
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Changed %s. It is next due at %s.", kept.Name, kept.NextRunAt.Format(time.RFC3339)), nil
}

// mergedWith returns s with what it does not give taken from a schedule of the store.
func (s selfArgs) mergedWith(have tidemark.Schedule) selfArgs {
	old := timingOf(have)
	all := selfArgs{Name: have.Name, Cron: cmp.Or(s.Cron, have.Cron), Zone: cmp.Or(s.Zone, have.Zone), Prompt: cmp.Or(s.Prompt, have.Prompt),
		Missed: cmp.Or(s.Missed, have.Missed), Overlap: cmp.Or(s.Overlap, have.Overlap), From: cmp.Or(s.From, have.From), Resume: s.Resume}
	if all.Every = s.Every; s.Every == "" && old.Every > 0 {
		all.Every = fleet.SpanText(old.Every)
	}
	if all.Jitter = s.Jitter; s.Jitter == "" && old.Jitter > 0 {
		all.Jitter = fleet.SpanText(old.Jitter)
	}
	if all.Resume == nil {
		all.Resume = &have.Resume
	}
	// A change from cron to every, or back, drops what only the old kind has.
	switch {
	case s.Every != "" && s.Cron == "":
		all.Cron, all.Zone = "", s.Zone
	case s.Cron != "" && s.Every == "":
		all.Every, all.From = "", s.From
	}
	return all
}

func (d *Daemon) selfRemove(ctx context.Context, a file.Agent, in json.RawMessage) (string, error) {
	args, err := readSelfArgs(in)
	if err != nil {
		return "", err
	}
	if _, err := d.ownSchedule(ctx, a, args.Name); err != nil {
		return "", err
	}
	if err := d.o.Store.RemoveSchedule(ctx, a.Name, args.Name); err != nil {
		return "", err
	}
	return "Removed " + args.Name + ".", nil
}

func (d *Daemon) selfList(ctx context.Context, a file.Agent) (string, error) {
	var b strings.Builder
	for s, err := range d.o.Store.Schedules(ctx, a.Name) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return "", err
		}
		line, err := json.Marshal(struct {
			Name   string    `json:"name"`
			By     string    `json:"by"`
			Status string    `json:"status"`
			Every  string    `json:"every,omitempty"`
			Cron   string    `json:"cron,omitempty"`
			Zone   string    `json:"zone,omitempty"`
			Prompt string    `json:"prompt,omitempty"`
			Next   time.Time `json:"next_run_at,omitzero"`
		}{s.Name, s.By, s.Status, s.Every, s.Cron, s.Zone, s.Prompt, s.NextRunAt})
		if err != nil {
			return "", err
		}
		b.Write(append(line, '\n'))
	}
	return cmp.Or(b.String(), "(you have no schedules)"), nil
}
