package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/herdctl"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// A mirror is a folder in the format of herdctl, for scripts that read that. It is
// written from the store and never read back. What herdctl has no words for is written
// as in an export. Only changes are written, so an idle fleet writes nothing.

const (
	// mirrorMark is the file that marks a folder as a mirror. The process that
	// keeps the mirror holds a lock on it.
	mirrorMark = ".tidemark-mirror"
	mirrorText = "This folder mirrors the fleet of a Tidemark store, for programs that read herdctl's.\nIt is made from the store: what is changed here is lost.\n"
	// mirrorSlack is how many jobs in a row have to be unchanged before an update,
	// which goes from the newest job back, stops: the clocks of machines that share
	// a store differ, so jobs may be a little out of order.
	mirrorSlack = 64
	// mirrorRest is how many times longer than an update the pause after it is, so
	// that the mirror of a large fleet does not keep the machine busy.
	mirrorRest = 20
)

// keepMirror keeps the mirror of the file up to date in the background until ctx
// ends. The function that it returns waits for the end and updates the mirror one last
// time.
func (d *Daemon) keepMirror(ctx context.Context) (last func()) {
	m, ended := new(mirrored), make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			began := time.Now()
			d.mirror(ctx, m)
			select {
			case <-ctx.Done():
			case <-time.After(max(lookEvery, mirrorRest*time.Since(began))):
			}
		}
	}()
	return func() {
		<-ended
		d.mirror(context.WithoutCancel(ctx), m)
		m.close()
	}
}

// mirror updates the mirror. It reports an error only if it differs from the last one.
func (d *Daemon) mirror(ctx context.Context, m *mirrored) {
	d.mu.Lock()
	dir := d.file.Mirror.Dir
	d.mu.Unlock()
	if dir != m.path {
		m.close()
	}
	problem := ""
	if dir != "" {
		if err := m.update(ctx, d.o.Store, dir); err != nil && !errors.Is(err, context.Canceled) {
			problem = "mirror " + dir + ": " + err.Error()
		}
	}
	if problem != "" && problem != m.lastError {
		d.o.Tell("", problem)
	}
	m.lastError = problem
}

// mirrored is the state of a mirror.
type mirrored struct {
	path      string
	dir       *durable.Dir // nil: not open
	fs        durable.FS
	mark      durable.File
	whole     bool // every job was compared since it was opened
	jobs      map[string]mirroredJob
	open      map[string]bool              // jobs that have not ended
	tails     map[string]tail              // of logs, by the name of the file
	files     map[string][sha256.Size]byte // sums of the other files, by name
	length    map[string]int64             // lines of the logs that are about to be written, by the name of the file
	wrote     map[string]bool              // names of the files that this update wrote
	lastError string
}

type mirroredJob struct {
	sum   [sha256.Size]byte
	lines int64
	done  bool
}

// tail is how much of a log is in its file.
type tail struct{ lines, bytes int64 }

// update makes the mirror in dir match the store.
func (m *mirrored) update(ctx context.Context, s *fleet.Store, dir string) error {
	if m.dir == nil {
		if err := m.begin(dir); err != nil {
			m.close()
			return err
		}
	}
	err := m.write(ctx, s)
	if errors.Is(err, fs.ErrNotExist) {
		m.close() // somebody removed the folder: the next update creates it again
	}
	return err
}

// begin opens the folder, which may be missing, empty or a mirror.
func (m *mirrored) begin(dir string) error {
	d, err := durable.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.MakeDir(dir); err != nil {
			return tidemark.Storagef("%w", err)
		}
		d, err = durable.OpenDir(dir)
	}
	if err != nil {
		return tidemark.Storagef("%w", err)
	}
	*m = mirrored{path: dir, dir: d, fs: durable.Retrying(d), lastError: m.lastError, jobs: map[string]mirroredJob{}, open: map[string]bool{},
		tails: map[string]tail{}, files: map[string][sha256.Size]byte{}, length: map[string]int64{}}
	if err := m.claim(); err != nil {
		return err
	}
	if err := durable.MakeDir(dir); err != nil { // it is ours now: make it private
		return tidemark.Storagef("%w", err)
	}
	for _, sub := range []string{"jobs", "sessions", "logs"} {
		if err := durable.MkdirAll(m.fs, sub); err != nil {
			return tidemark.Storagef("%w", err)
		}
	}
	return nil
}

// claim locks the mark of the folder, which it creates in an empty one.
func (m *mirrored) claim() error {
	names, err := m.fs.Names(".")
	if err != nil {
		return tidemark.Storagef("%w", err)
	}
	if _, err := m.fs.Stat(mirrorMark); err != nil {
		if len(names) > 0 {
			return tidemark.Existsf("there are files in the folder, and it is no mirror: name another one, or empty it")
		}
		if err := durable.Create(m.fs, mirrorMark, []byte(mirrorText)); err != nil && !errors.Is(err, fs.ErrExist) {
			return tidemark.Storagef("%w", err)
		}
	}
	if m.mark, err = m.fs.OpenFile(mirrorMark, os.O_RDWR); err != nil {
		return tidemark.Storagef("%w", err)
	}
	mine, err := m.mark.TryLock()
	if err != nil {
		return tidemark.Storagef("%w", err)
	}
	if !mine {
		return tidemark.Existsf("another process keeps it")
	}
	return nil
}

func (m *mirrored) close() {
	if m.mark != nil {
		m.mark.Close() // releases the lock
	}
	if m.dir != nil {
		m.dir.Close()
	}
	*m = mirrored{lastError: m.lastError}
}

// write writes what changed since the last update.
func (m *mirrored) write(ctx context.Context, s *fleet.Store) error {
	f, err := m.fleet(ctx, s)
	if err != nil {
		return err
	}
	m.wrote = map[string]bool{}
	f.Jobs = m.changed(ctx, s)
	if _, err := herdctl.Tool().ExportFleet(ctx, mirrorOut{m}, f); err != nil {
		return err
	}
	if err := m.sweep(); err != nil {
		return tidemark.Storagef("%w", err)
	}
	m.whole = true
	return nil
}

// fleet reads the fleet from the store, without its jobs.
func (m *mirrored) fleet(ctx context.Context, s *fleet.Store) (*convert.Fleet, error) {
	f := new(convert.Fleet)
	var err error
	if f.Fleet, err = s.Fleet(ctx); err != nil {
		return nil, err
	}
	agents, err := s.AgentStates(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		log, err := m.log(ctx, s, a.Name)
		if err != nil {
			return nil, err
		}
		f.Agents = append(f.Agents, convert.Agent{Agent: a, Log: log})
	}
	running, err := s.Running(ctx, "")
	if err != nil {
		return nil, err
	}
	runs := make(map[string]bool)
	for _, id := range running {
		runs[id] = true
	}
	for d, err := range s.Schedules(ctx, "") {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return nil, err
		}
		if runs[d.Job] && d.Status != tidemark.Disabled {
			d.Status = tidemark.Running
		}
		f.Schedules = append(f.Schedules, d)
	}
	return f, nil
}

// log returns what an agent has logged since the last update; nil: nothing.
func (m *mirrored) log(ctx context.Context, s *fleet.Store, agent string) (iter.Seq2[tidemark.Event, error], error) {
	length, err := s.AgentLogLength(ctx, agent)
	if err != nil {
		return nil, err
	}
	name := path.Join("logs", agent+".log")
	from := m.from(name)
	if from >= length {
		return nil, nil
	}
	m.length[name] = length
	return readable(s.AgentLog(ctx, agent, tidemark.Span{From: from + 1, To: length})), nil
}

// changed yields the jobs that differ from the mirror.
func (m *mirrored) changed(ctx context.Context, s *fleet.Store) iter.Seq2[convert.Job, error] {
	return func(yield func(convert.Job, error) bool) {
		same, seen := 0, make(map[string]bool)
		one := func(j tidemark.Job) bool {
			job, sum, err := m.compare(ctx, s, j)
			if err != nil {
				yield(job, err)
				return false
			}
			if sum == nil {
				same++
				return true
			}
			same = 0
			if !yield(job, nil) {
				return false
			}
			m.remember(j.ID, *sum) // after yield has written it
			return true
		}
		for j, err := range s.Jobs(ctx, fleet.JobFilter{}) {
			if errors.Is(err, tidemark.ErrCorrupt) {
				continue
			}
			if err != nil {
				yield(convert.Job{}, err)
				return
			}
			seen[j.ID] = true
			if !one(j) {
				return
			}
			if m.whole && same >= mirrorSlack {
				break
			}
		}
		for id := range m.open {
			if seen[id] {
				continue
			}
			j, err := s.Job(ctx, id)
			switch {
			case errors.Is(err, tidemark.ErrNotFound), errors.Is(err, tidemark.ErrCorrupt):
				delete(m.open, id)
			case err != nil:
				yield(convert.Job{}, err)
				return
			case !one(j):
				return
			}
		}
	}
}

// compare returns what has to be written of a job, and its state after that; nil when
// nothing has to be written.
func (m *mirrored) compare(ctx context.Context, s *fleet.Store, j tidemark.Job) (job convert.Job, now *mirroredJob, err error) {
	raw, err := json.Marshal(j)
	if err != nil {
		return job, nil, err
	}
	now = &mirroredJob{sum: sha256.Sum256(raw), done: j.Status != tidemark.JobPending && j.Status != tidemark.JobRunning}
	have, known := m.jobs[j.ID]
	if known && have.sum == now.sum && have.done {
		return job, nil, nil
	}
	if now.lines, err = s.OutputLength(ctx, j.ID); err != nil {
		return job, nil, err
	}
	if known && have == *now {
		return job, nil, nil
	}
	job.Job = j
	if job.OutputFile = j.ID + ".jsonl"; now.lines == 0 {
		job.OutputFile = ""
		return job, now, nil
	}
	name := path.Join("jobs", job.OutputFile)
	from := m.from(name)
	if !known && now.done && m.ended(j.ID) {
		from = now.lines
	}
	if from < now.lines {
		m.length[name] = now.lines
		job.Output = readable(s.Output(ctx, j.ID, tidemark.Span{From: from + 1, To: now.lines}))
	}
	return job, now, nil
}

func (m *mirrored) remember(id string, j mirroredJob) {
	m.jobs[id] = j
	if !j.done {
		m.open[id] = true
		return
	}
	delete(m.open, id)
	delete(m.tails, path.Join("jobs", id+".jsonl"))
}

// from returns how many lines of a log are in its file; 0 when somebody changed the
// file.
func (m *mirrored) from(name string) int64 {
	t := m.tails[name]
	if info, err := m.fs.Stat(name); err != nil || info.Size != t.bytes {
		delete(m.tails, name)
		return 0
	}
	return t.lines
}

// ended reports whether an earlier process wrote the end of a job, and therefore, before
// that, all of its output.
func (m *mirrored) ended(id string) bool {
	b, err := durable.ReadFile(m.fs, path.Join("jobs", id+".yaml"))
	if err != nil {
		return false
	}
	if _, err := m.fs.Stat(path.Join("jobs", id+".jsonl")); err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if status, ok := strings.CutPrefix(line, "status: "); ok {
			status = strings.TrimSpace(status)
			return status != tidemark.JobPending && status != tidemark.JobRunning
		}
	}
	return false
}

// sweep removes files of what the store no longer has, and incomplete files of an
// earlier process.
func (m *mirrored) sweep() error {
	for name := range m.files {
		if path.Dir(name) == "sessions" && !m.wrote[name] {
			delete(m.files, name)
			if err := m.remove(name); err != nil {
				return err
			}
		}
	}
	if m.whole {
		return nil
	}
	for dir, gone := range map[string]func(string) bool{
		"sessions": func(name string) bool { return !m.wrote[path.Join("sessions", name)] },
		"jobs": func(name string) bool {
			_, there := m.jobs[strings.TrimSuffix(name, path.Ext(name))]
			return !there || path.Ext(name) == ".tmp"
		},
		"logs": func(name string) bool { return path.Ext(name) == ".tmp" },
	} {
		names, err := m.fs.Names(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !gone(name) {
				continue
			}
			if err := m.remove(path.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *mirrored) remove(name string) error {
	if err := m.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readable leaves out damaged events, which verify reports.
func readable(all iter.Seq2[tidemark.Event, error]) iter.Seq2[tidemark.Event, error] {
	return func(yield func(tidemark.Event, error) bool) {
		for e, err := range all {
			if errors.Is(err, tidemark.ErrCorrupt) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
