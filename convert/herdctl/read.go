package herdctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// The keys of an agent's Extra: what herdctl stores with an agent and Tidemark
// has no field for.
const (
	keyState    = "state"    // of its entry in state.yaml
	keyUnlisted = "unlisted" // it has no entry there
	keyMetadata = "metadata" // session-metadata/<agent>.json
	keyAdopted  = "adopted"  // adopted-sessions/<session>.yaml, by session
	keyChannels = "channels" // <platform>-sessions/<agent>.yaml, by platform
	keyFleet    = "fleet"    // of the fleet's entry in state.yaml
)

// reader gathers a fleet.
type reader struct {
	ctx    context.Context
	fs     fs.FS
	dir    string
	fleet  *convert.Fleet
	agents map[string]*agent
	due    map[[2]string]bool // agent and name of a schedule
	output map[string]bool    // output files in the folder of jobs
}

// agent is an agent while its files are read.
type agent struct {
	convert.Agent
	extra             object
	adopted, channels object
}

// fleet returns the fleet of a Source. Only an unreadable state folder is an
// error.
func fleet(ctx context.Context, p convert.Source) (*convert.Fleet, error) {
	r := &reader{ctx: ctx, fs: p.FS, dir: root(p), fleet: &convert.Fleet{}, agents: map[string]*agent{}, due: map[[2]string]bool{}, output: map[string]bool{}}
	if !convert.IsDir(r.fs, r.dir) {
		return nil, tidemark.NotFoundf("%s: is no folder of herdctl", r.dir)
	}
	r.readState()
	r.eachDoc(sessionsDir, jsonEnd, func(name string, o object) error {
		s, err := readSession(name, o)
		if err != nil {
			return err
		}
		r.agent(name).Session = s
		return nil
	})
	r.eachDoc(metadataDir, jsonEnd, func(name string, o object) error {
		r.agent(name).extra[keyMetadata] = form(nil).marshal(o)
		return nil
	})
	r.readClaims()
	r.readLogs()
	jobs := r.indexJobs()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.fleet.Jobs = r.jobs(jobs)
	for _, name := range slices.Sorted(maps.Keys(r.agents)) {
		a := r.agents[name]
		for key, docs := range map[string]object{keyAdopted: a.adopted, keyChannels: a.channels} {
			if len(docs) > 0 {
				a.extra[key] = form(nil).marshal(docs)
			}
		}
		a.Extra = extra(a.extra)
		r.fleet.Agents = append(r.fleet.Agents, a.Agent)
	}
	return r.fleet, nil
}

// agent returns the agent of a name, which may occur in any file.
func (r *reader) agent(name string) *agent {
	a := r.agents[name]
	if a == nil {
		a = &agent{extra: object{keyUnlisted: []byte("true")}, adopted: object{}, channels: object{}}
		a.Agent.Agent = agentOf(name, nil)
		r.agents[name] = a
	}
	return a
}

func (r *reader) skip(what string, why error) {
	var s *convert.Skip
	if !errors.As(why, &s) {
		s = &convert.Skip{What: what, Why: why}
	}
	r.fleet.Skipped = append(r.fleet.Skipped, s)
}

// list returns the names in a folder of the state, without hidden files: those
// are left by a writer that died.
func (r *reader) list(dir string) []string {
	name := path.Join(r.dir, dir)
	if _, err := fs.Stat(r.fs, name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	list, err := fs.ReadDir(r.fs, name)
	if err != nil {
		r.skip(name, err)
	}
	var names []string
	for _, f := range list {
		if !strings.HasPrefix(f.Name(), ".") {
			names = append(names, f.Name())
		}
	}
	return names
}

// eachDoc reads the files of a folder that have an extension, and are named
// after an agent or a session.
func (r *reader) eachDoc(dir, end string, take func(name string, o object) error) {
	for _, file := range r.list(dir) {
		name, ok := strings.CutSuffix(file, end)
		if !ok || r.ctx.Err() != nil {
			continue
		}
		what := path.Join(r.dir, dir, file)
		err := tidemark.CheckID(name)
		var o object
		if err == nil {
			o, err = readDoc(r.fs, what)
		}
		if err == nil {
			err = take(name, o)
		}
		if err != nil {
			r.skip(what, err)
		}
	}
}

func (r *reader) readState() {
	what := path.Join(r.dir, stateFile)
	o, err := readDoc(r.fs, what)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.skip(what, err)
		return
	}
	of := sub(o["fleet"])
	r.fleet.StartedAt = when(of["started_at"])
	rest := object{}
	if k := kept(of, fleetObject(r.fleet.StartedAt)); k != nil {
		rest[keyFleet] = form(nil).marshal(k)
	}
	if k := kept(o, object{"fleet": o["fleet"], "agents": o["agents"], "session_wakes": o["session_wakes"]}); k != nil {
		rest[keyState] = form(nil).marshal(k)
	}
	r.fleet.Extra = extra(rest)
	for _, part := range []string{"fleet", "agents", "session_wakes"} {
		if !isNull(o[part]) && !isObject(o[part]) {
			r.skip(what, tidemark.Invalidf("%s: is no mapping", part))
		}
	}
	agents := sub(o["agents"])
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if err := r.readAgent(name, agents[name]); err != nil {
			r.skip(what+": agent "+fmt.Sprintf("%.60q", name), err)
		}
	}
	wakes := sub(o["session_wakes"])
	for _, id := range slices.Sorted(maps.Keys(wakes)) {
		s, err := readWake(id, sub(wakes[id]))
		if err == nil {
			err = r.addSchedule(s)
		}
		if err != nil {
			r.skip(what+": wake "+fmt.Sprintf("%.60q", id), err)
		}
	}
}

func (r *reader) readAgent(name string, raw []byte) error {
	o := sub(raw)
	if err := tidemark.CheckID(name); err != nil {
		return err
	}
	if o == nil && !isNull(raw) {
		return tidemark.Invalidf("is no mapping")
	}
	a := r.agent(name)
	a.Agent.Agent = agentOf(name, o)
	delete(a.extra, keyUnlisted)
	schedules := sub(o["schedules"])
	again := agentObject(a.Agent.Agent)
	if schedules != nil {
		again["schedules"] = o["schedules"]
	}
	if k := kept(o, again); k != nil {
		a.extra[keyState] = form(nil).marshal(k)
	}
	for _, s := range slices.Sorted(maps.Keys(schedules)) {
		of := sub(schedules[s])
		err := tidemark.Invalidf("is no mapping")
		if of != nil || isNull(schedules[s]) {
			err = r.addSchedule(readSchedule(name, s, of))
		}
		if err != nil {
			r.skip(fmt.Sprintf("%s: agent %q: schedule %.60q", path.Join(r.dir, stateFile), name, s), err)
		}
	}
	return nil
}

// addSchedule adds a schedule or a wake; herdctl does not restrict its name.
func (r *reader) addSchedule(s tidemark.Schedule) error {
	if err := tidemark.CheckID(s.Agent); err != nil {
		return err
	}
	if s.Name == "" || len(s.Name) > tidemark.MaxIDBytes || strings.ContainsFunc(s.Name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return tidemark.Invalidf("name %.60q: is empty, too long, or has control characters", s.Name)
	}
	if r.due[[2]string{s.Agent, s.Name}] {
		return tidemark.Invalidf("has the name of a schedule of %s", s.Agent)
	}
	r.due[[2]string{s.Agent, s.Name}] = true
	r.agent(s.Agent)
	r.fleet.Schedules = append(r.fleet.Schedules, s)
	return nil
}

// readClaims reads which agent has adopted a session from elsewhere, and which
// sessions its channels have; and finds the transcripts of containers.
func (r *reader) readClaims() {
	r.eachDoc(adoptedDir, yamlEnd, func(session string, o object) error {
		name := text(o["agentName"])
		if err := tidemark.CheckID(name); err != nil {
			return tidemark.Invalidf("agentName: %w", err)
		}
		r.agent(name).adopted[session] = form(nil).marshal(o)
		return nil
	})
	for _, dir := range r.list(".") {
		platform, ok := strings.CutSuffix(dir, channelDirEnd)
		if !ok || dir == adoptedDir || dir == dockerDir || tidemark.CheckID(platform) != nil || !convert.IsDir(r.fs, path.Join(r.dir, dir)) {
			continue
		}
		r.eachDoc(dir, yamlEnd, func(name string, o object) error {
			r.agent(name).channels[platform] = form(nil).marshal(o)
			return nil
		})
	}
	for _, file := range r.list(dockerDir) {
		if name := path.Join(r.dir, dockerDir, file); strings.HasSuffix(file, outputEnd) && convert.IsFile(r.fs, name) {
			r.fleet.Transcripts = append(r.fleet.Transcripts, convert.Transcript{Tool: "claude-code", Path: name})
		}
	}
}

func (r *reader) readLogs() {
	for _, file := range r.list(logsDir) {
		name, ok := strings.CutSuffix(file, logEnd)
		if !ok {
			continue
		}
		what := path.Join(r.dir, logsDir, file)
		info, err := fs.Stat(r.fs, what)
		switch {
		case tidemark.CheckID(name) != nil:
			err = tidemark.CheckID(name)
		case err == nil && !info.Mode().IsRegular():
			err = tidemark.Invalidf("is no file")
		}
		if err != nil {
			r.skip(what, err)
			continue
		}
		r.agent(name).Log = readLog(r.fs, what, info.ModTime().UTC().Truncate(time.Microsecond))
	}
}
