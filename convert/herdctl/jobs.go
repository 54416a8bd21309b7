package herdctl

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// listed is a job's file before it is read, with what jobs are ordered by.
type listed struct {
	file, id string
	start    time.Time
	why      error // not nil: why it is not imported
}

// indexJobs lists the jobs, the oldest first, and collects their agents. Only
// the first keys of a file are read; what is wrong with it is found later.
func (r *reader) indexJobs() []listed {
	var all []listed
	names := r.list(jobsDir)
	have := map[string]bool{}
	repeated := 0
	dir := path.Join(r.dir, jobsDir)
	for _, name := range names {
		if r.ctx.Err() != nil {
			return nil
		}
		id, ok := strings.CutSuffix(name, yamlEnd)
		if !ok {
			r.output[name] = strings.HasSuffix(name, outputEnd)
			if convert.IsFile(r.fs, path.Join(dir, name, "output.log")) {
				repeated++
			}
			continue
		}
		l := listed{file: path.Join(dir, name), id: id}
		if b, err := readBounded(r.fs, l.file); err == nil {
			g := glance(b)
			l.start = g.start
			l.id = cmp.Or(g.id, id)
			if tidemark.CheckID(g.agent) == nil && !g.start.IsZero() { // an incomplete job may have an incomplete name
				r.agent(g.agent)
			}
		}
		have[id], have[l.id] = true, true
		all = append(all, l)
	}
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, outputEnd); ok && !have[id] {
			all = append(all, listed{file: path.Join(dir, name), why: tidemark.Invalidf("is the output of a job whose %s is not there", id+yamlEnd)})
		}
	}
	if repeated > 0 {
		r.fleet.Lost = append(r.fleet.Lost, fmt.Sprintf("output.log of %d jobs: a copy of their output for people", repeated))
	}
	markDuplicates(all)
	slices.SortStableFunc(all, func(a, b listed) int { return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.id, b.id)) })
	return all
}

// markDuplicates marks jobs whose id another one has. The one in the file of
// that name takes precedence.
func markDuplicates(all []listed) {
	owner := map[string]int{}
	for i, l := range all {
		if _, taken := owner[l.id]; !taken || path.Base(l.file) == l.id+yamlEnd {
			owner[l.id] = i
		}
	}
	for i := range all {
		if l := &all[i]; l.why == nil && owner[l.id] != i {
			l.why = tidemark.Invalidf("has the id of %s", path.Base(all[owner[l.id]].file))
		}
	}
}

// glimpse is what jobs are ordered by.
type glimpse struct {
	id, agent string
	start     time.Time
}

// glance finds a few keys without parsing the file, which takes half a
// millisecond and happens again when the job is read. A file in which they are
// not in plain sight is parsed.
func glance(b []byte) (g glimpse) {
	for line := range bytes.Lines(b) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(key) > len("started_at") {
			continue
		}
		s := strings.Trim(string(bytes.TrimSpace(value)), `"'`)
		switch string(key) {
		case "id":
			g.id = s
		case "agent":
			g.agent = s
		case "started_at":
			g.start = when(quoted(s))
		}
		if g.id != "" && g.agent != "" && !g.start.IsZero() {
			break
		}
	}
	if tidemark.CheckID(g.id) == nil && tidemark.CheckID(g.agent) == nil && !g.start.IsZero() {
		return g
	}
	o, err := parseYAML(b)
	if err != nil {
		return glimpse{}
	}
	return glimpse{text(o["id"]), text(o["agent"]), when(o["started_at"])}
}

func (r *reader) jobs(all []listed) iter.Seq2[convert.Job, error] {
	return func(yield func(convert.Job, error) bool) {
		for _, l := range all {
			if err := r.ctx.Err(); err != nil {
				yield(convert.Job{}, err)
				return
			}
			j, err := r.job(l)
			if err != nil {
				err = &convert.Skip{What: l.file, Why: err}
			}
			if !yield(j, err) {
				return
			}
		}
	}
}

func (r *reader) job(l listed) (convert.Job, error) {
	if l.why != nil {
		return convert.Job{}, l.why
	}
	o, err := readDoc(r.fs, l.file)
	if err != nil {
		return convert.Job{}, err
	}
	if isNull(o["id"]) {
		o["id"] = quoted(l.id)
	}
	output := r.outputOf(o)
	j, err := readJob(o, output)
	if err != nil {
		return convert.Job{}, err
	}
	if output == "" {
		return convert.Job{Job: j, Output: func(func(tidemark.Event, error) bool) {}}, nil
	}
	return convert.Job{Job: j, Output: readOutput(r.ctx, r.fs, path.Join(r.dir, jobsDir, output), j.StartedAt)}, nil
}

// outputOf returns the name of a job's output file in the folder of jobs, ""
// when there is none. A job names it by a path on the machine that it ran on.
func (r *reader) outputOf(o object) string {
	for _, name := range []string{text(o["id"]) + outputEnd, baseName(text(o["output_file"]))} {
		if r.output[name] && convert.IsFile(r.fs, path.Join(r.dir, jobsDir, name)) {
			return name
		}
	}
	return ""
}
