package herdctl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// writer writes a fleet.
type writer struct {
	ctx  context.Context
	out  convert.Out
	lost losses
}

// losses counts what is lost, so that five thousand jobs make one line.
type losses struct {
	order []string
	first map[string]string
	more  map[string]int
}

func (l *losses) add(what, why string) {
	if l.first == nil {
		l.first, l.more = map[string]string{}, map[string]int{}
	}
	if _, there := l.first[why]; there {
		l.more[why]++
		return
	}
	l.first[why] = what
	l.order = append(l.order, why)
}

func (l *losses) lines() []string {
	var all []string
	for _, why := range l.order {
		line := l.first[why]
		if n := l.more[why]; n > 0 {
			line += fmt.Sprintf(" and %d more", n)
		}
		all = append(all, line+": "+why)
	}
	return all
}

// export writes the state folder: the files of jobs and agents first, state.yaml
// last, so that a folder with it is complete.
func export(ctx context.Context, out convert.Out, f *convert.Fleet) ([]string, error) {
	w := &writer{ctx: ctx, out: out}
	if f.Jobs != nil {
		if err := w.writeJobs(f.Jobs); err != nil {
			return w.lost.lines(), err
		}
	}
	agents := map[string]object{}
	for _, a := range f.Agents {
		o, err := w.writeAgent(a)
		if err != nil {
			return w.lost.lines(), err
		}
		if o != nil {
			agents[a.Name] = o
		}
	}
	wakes := w.schedules(agents, f.Schedules)
	for _, t := range f.Transcripts {
		w.lost.add(path.Base(t.Path), "a transcript of "+t.Tool+", to be exported on its own")
	}
	err := w.writeState(f, agents, wakes)
	return w.lost.lines(), err
}

// create writes a file that may be long, completely or not at all.
func (w *writer) create(name string, fill func(b *bufio.Writer) error) error {
	f, err := w.out.Create(path.Join(folder, name))
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<16)
	if err = fill(b); err == nil {
		err = b.Flush()
	}
	if err != nil {
		return f.CloseWithError(err)
	}
	return f.Close()
}

func (w *writer) writeYAML(name string, raw json.RawMessage) error {
	return convert.WriteFile(w.out, path.Join(folder, name), appendYAML(nil, raw, 0))
}

func (w *writer) writeJSON(name string, raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	return convert.WriteFile(w.out, path.Join(folder, name), b.Bytes())
}

// restored puts back what was kept, and reports what cannot be.
func (w *writer) restored(what string, f form, o, rest object, read func(object) object) object {
	o, refused := f.restore(o, rest, read)
	for _, key := range refused {
		switch key {
		case "status", "exit_reason", "forked_from": // reported by the caller
		default:
			if !isNull(rest[key]) {
				w.lost.add(what, key+" as it was: herdctl does not take it")
			}
		}
	}
	return o
}

// own returns herdctl's part of an Extra.
func (w *writer) own(what string, raw json.RawMessage) object {
	o, others := extraOf(raw)
	if others {
		w.lost.add(what, "what other tools keep with it")
	}
	return o
}

// isFileName reports whether herdctl accepts a name for a file.
func isFileName(s string) bool {
	return tidemark.CheckID(s) == nil && strings.Trim(s[:1]+s[len(s)-1:], "-_.") == s[:1]+s[len(s)-1:]
}

// isJobID requires the form job-2026-11-15-3y0e8d.
func isJobID(s string) bool {
	const like = "job-0000-00-00-xxxxxx"
	if len(s) != len(like) {
		return false
	}
	for i := range len(s) {
		digit, letter := '0' <= s[i] && s[i] <= '9', 'a' <= s[i] && s[i] <= 'z'
		switch like[i] {
		case '0':
			if !digit {
				return false
			}
		case 'x':
			if !digit && !letter {
				return false
			}
		default:
			if s[i] != like[i] {
				return false
			}
		}
	}
	return true
}

func (w *writer) writeJobs(jobs iter.Seq2[convert.Job, error]) error {
	seen := map[string]bool{}
	for j, err := range jobs {
		if cancelled := w.ctx.Err(); cancelled != nil {
			return cancelled
		}
		if convert.IsSkip(err) {
			w.lost.add(err.Error(), "could not be read")
			continue
		}
		if err != nil {
			return err
		}
		what := fmt.Sprintf("job %.60s", j.ID)
		switch {
		case !isJobID(j.ID):
			w.lost.add(fmt.Sprintf("job %.60q", j.ID), "left out: herdctl wants an id like job-2026-11-15-3y0e8d")
		case seen[j.ID]:
			w.lost.add(what, "left out: its id is there twice")
		case j.Agent == "" || known(j.Status, append(statuses(), tidemark.JobAbandoned)) == "" || j.StartedAt.IsZero():
			w.lost.add(what, "left out: it has no agent, no start, or a status that is none")
		default:
			seen[j.ID] = true
			err = w.writeJob(what, j)
		}
		if err != nil {
			return fmt.Errorf("job %s: %w", j.ID, err)
		}
	}
	return nil
}

func (w *writer) writeJob(what string, j convert.Job) error {
	output, err := w.writeOutput(what, j)
	if err != nil {
		return err
	}
	if j.OutputFile == "" || output != "" {
		j.OutputFile = output
	}
	if known(j.Trigger, triggers()) == "" {
		w.lost.add(what, fmt.Sprintf("trigger %.40q is written as manual", j.Trigger))
		j.Trigger = tidemark.TriggerManual
	}
	if j.ForkedFrom != "" && !isJobID(j.ForkedFrom) {
		w.lost.add(what, "what it was forked from: herdctl wants the id of a job")
		j.ForkedFrom = ""
	}
	o, lost := jobObject(j.Job)
	for _, why := range lost {
		w.lost.add(what, why)
	}
	f := jobForm()
	o = w.restored(what, f, o, w.own(what, j.Extra), func(try object) object {
		again, _ := jobObject(jobOf(try, output))
		return again
	})
	return w.writeYAML(path.Join(jobsDir, j.ID+yamlEnd), f.marshal(o))
}

// writeOutput writes the output of a job, and returns the name of the file; ""
// when there is none.
func (w *writer) writeOutput(what string, j convert.Job) (string, error) {
	if j.Output == nil {
		return "", nil
	}
	next, stop := iter.Pull2(j.Output)
	defer stop()
	f, before := eventForm(), j.StartedAt
	line := func(e tidemark.Event) []byte {
		if e.Timestamp.IsZero() {
			e.Timestamp = before
		}
		if !isEventType(e.Type) {
			w.lost.add(what, fmt.Sprintf("an event of type %.40q is written as the system's", e.Type))
			e.Type = tidemark.EventSystem
		}
		o := eventObject(e)
		if len(e.Extra) > 0 {
			o = w.restored(what, f, o, w.own(what, e.Extra), func(try object) object { return eventObject(eventOf(try, before)) })
		}
		before = e.Timestamp
		return append(f.marshal(o), '\n')
	}
	e, err, more := w.readOn(what, next)
	if err != nil || !more {
		return "", err
	}
	name := j.ID + outputEnd
	return name, w.create(path.Join(jobsDir, name), func(b *bufio.Writer) error {
		for ; more; e, err, more = w.readOn(what, next) {
			if err != nil {
				return err
			}
			if _, err := b.Write(line(e)); err != nil {
				return err
			}
		}
		return nil
	})
}

// readOn returns the next readable event.
func (w *writer) readOn(what string, next func() (tidemark.Event, error, bool)) (tidemark.Event, error, bool) {
	for {
		e, err, more := next()
		if !more || !convert.IsSkip(err) {
			return e, err, more
		}
		w.lost.add(what, "lines of its output that could not be read")
	}
}

// writeAgent writes the files of an agent, and returns its entry in
// state.yaml; nil when it has none.
func (w *writer) writeAgent(a convert.Agent) (object, error) {
	what := fmt.Sprintf("agent %.60q", a.Name)
	if !isFileName(a.Name) {
		w.lost.add(what, "left out: herdctl has no file of that name")
		return nil, nil
	}
	rest := w.own(what, a.Extra)
	if err := w.writeAgentFiles(what, a, rest); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if known(a.Status, agentStates()) == "" {
		w.lost.add(what, fmt.Sprintf("status %.40s is written as idle", a.Status))
	}
	o := agentObject(a.Agent)
	if !isNull(rest[keyUnlisted]) && len(kept(o, agentObject(agentOf(a.Name, nil)))) == 0 {
		return nil, nil
	}
	return w.restored(what, agentForm(), o, sub(rest[keyState]), func(try object) object { return agentObject(agentOf(a.Name, try)) }), nil
}

func (w *writer) writeAgentFiles(what string, a convert.Agent, rest object) error {
	if a.Session != nil {
		if err := w.writeSession(what, a); err != nil {
			return err
		}
	}
	if a.Log != nil {
		if err := w.writeLog(what, a); err != nil {
			return err
		}
	}
	if isObject(rest[keyMetadata]) {
		if err := w.writeJSON(path.Join(metadataDir, a.Name+jsonEnd), rest[keyMetadata]); err != nil {
			return err
		}
	}
	adopted, channels := sub(rest[keyAdopted]), sub(rest[keyChannels])
	for _, session := range slices.Sorted(maps.Keys(adopted)) {
		if err := w.writeKept(what, path.Join(adoptedDir, session+yamlEnd), session, adopted[session]); err != nil {
			return err
		}
	}
	for _, platform := range slices.Sorted(maps.Keys(channels)) {
		if err := w.writeKept(what, path.Join(platform+channelDirEnd, a.Name+yamlEnd), platform, channels[platform]); err != nil {
			return err
		}
	}
	return nil
}

// writeKept writes a file of herdctl's own verbatim.
func (w *writer) writeKept(what, name, part string, raw json.RawMessage) error {
	if !isFileName(part) || !isObject(raw) {
		w.lost.add(what, fmt.Sprintf("%.60q: is no name of a file, or no file of herdctl", part))
		return nil
	}
	return w.writeYAML(name, raw)
}

func (w *writer) writeSession(what string, a convert.Agent) error {
	s := *a.Session
	if s.ID == "" || s.CreatedAt.IsZero() && s.LastUsedAt.IsZero() {
		w.lost.add(what, "its session, which has no id or no time")
		return nil
	}
	if s.CreatedAt.IsZero() {
		s.CreatedAt = s.LastUsedAt
	}
	if s.LastUsedAt.IsZero() {
		s.LastUsedAt = s.CreatedAt
	}
	if known(s.RunMode, runModes()) == "" {
		w.lost.add(what, fmt.Sprintf("run mode %.40q is written as autonomous", s.RunMode))
	}
	f := sessionForm()
	o := w.restored(what, f, sessionObject(a.Name, s), w.own(what, s.Extra), func(try object) object { return sessionObject(a.Name, sessionOf(try)) })
	return w.writeJSON(path.Join(sessionsDir, a.Name+jsonEnd), f.marshal(o))
}

func (w *writer) writeLog(what string, a convert.Agent) error {
	return w.create(path.Join(logsDir, a.Name+logEnd), func(b *bufio.Writer) error {
		for e, err := range a.Log {
			if convert.IsSkip(err) {
				w.lost.add(what, "lines of its log that could not be read")
				continue
			}
			if err != nil {
				return err
			}
			b.WriteString(logLine(e))
			if err := b.WriteByte('\n'); err != nil {
				return err
			}
		}
		return nil
	})
}

// schedules assigns schedules to their agents, and returns the wakes.
func (w *writer) schedules(agents map[string]object, all []tidemark.Schedule) object {
	wakes := object{}
	byAgent := map[string]object{}
	for _, s := range all {
		what := fmt.Sprintf("schedule %.60q of %.60q", s.Name, s.Agent)
		rest := w.own(what, s.Extra)
		switch {
		case !isFileName(s.Agent) || s.Name == "":
			w.lost.add(what, "left out: herdctl has no agent of that name")
		case s.Type == "cron" && s.Session != "" && checkWake(s) == nil && wakes[s.Name] == nil:
			w.untold(what, s, tidemark.Schedule{Status: s.Status, Type: s.Type, Cron: s.Cron, Prompt: s.Prompt})
			f := wakeForm()
			wakes[s.Name] = f.marshal(w.restored(what, f, wakeObject(s), sub(rest[keyWake]), func(try object) object { return wakeObject(wakeOf(s.Name, try)) }))
		default:
			w.untold(what, s, tidemark.Schedule{Status: s.Status})
			f := scheduleForm()
			o := w.restored(what, f, scheduleObject(s), rest, func(try object) object { return scheduleObject(scheduleOf(s.Agent, s.Name, try)) })
			if byAgent[s.Agent] == nil {
				byAgent[s.Agent] = object{}
			}
			byAgent[s.Agent][s.Name] = f.marshal(o)
		}
	}
	for name, schedules := range byAgent {
		if agents[name] == nil {
			agents[name] = agentObject(agentOf(name, nil))
		}
		agents[name]["schedules"] = form(nil).marshal(schedules)
	}
	return wakes
}

// untold reports the fields of a schedule that are not in told: herdctl has them
// in its configuration, or not at all.
func (w *writer) untold(what string, s, told tidemark.Schedule) {
	if s.Type != told.Type || s.Every != told.Every || s.Cron != told.Cron || s.Zone != "" || s.Prompt != told.Prompt {
		w.lost.add(what, "when it is due and what it says: herdctl reads that from its configuration")
	}
}

func (w *writer) writeState(f *convert.Fleet, agents map[string]object, wakes object) error {
	rest := w.own("fleet", f.Extra)
	of := w.restored("fleet", fleetForm(), fleetObject(f.StartedAt), sub(rest[keyFleet]), func(try object) object { return fleetObject(when(try["started_at"])) })
	entries := object{}
	for name, o := range agents {
		entries[name] = agentForm().marshal(o)
	}
	state := object{"fleet": form(nil).marshal(of), "agents": form(nil).marshal(entries)}
	if len(wakes) > 0 {
		state["session_wakes"] = form(nil).marshal(wakes)
	}
	for key, value := range sub(rest[keyState]) {
		if _, there := state[key]; !there {
			state[key] = value
		}
	}
	order := form{{name: "fleet"}, {name: "agents"}, {name: "session_wakes"}}
	return w.writeYAML(stateFile, order.marshal(state))
}
