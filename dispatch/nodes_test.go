package dispatch_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/dispatch"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
)

// What a node, which is this program again, is told by its environment.
const (
	nodeStore = "TIDEMARK_TEST_NODE_STORE" // where the store and River are
	nodeName  = "TIDEMARK_TEST_NODE_NAME"  // its host, "": this one
	nodeTrace = "TIDEMARK_TEST_NODE_TRACE" // the file that its agents' programs write to
)

// nodeJobs says how many jobs the nodes are given; the default is for every
// day.
const nodeJobs = "TIDEMARK_NODE_JOBS"

// nodeLease is short, so that a node of another host which was killed is found
// out soon, and outlasts what a machine with much to do makes a node wait.
const nodeLease = 6 * time.Second

// The fleet of the nodes: how many jobs of each agent, and of all, may run.
var (
	nodeAgents  = map[string]int{"ant": 2, "bee": 3, "cat": 4, "dog": 1} // dog has what its schedule makes, and nothing else
	nodesAtOnce = 6
)

func nodeFile(trace string) *file.File {
	f := &file.File{Limits: file.FleetLimits{MaxConcurrent: nodesAtOnce}}
	for name, most := range nodeAgents {
		a := agent(name, most)
		// The order of the lines is what counts: a program that ended has
		// written its last before its slot is free.
		a.Command = []string{"/bin/sh", "-c", `echo "s $TIDEMARK_JOB" >>"$0"; sleep 0.03; echo "e $TIDEMARK_JOB" >>"$0"`, trace}
		a.Schedules = []file.Schedule{{Name: "tick", Type: fleet.TypeInterval, Every: time.Second, Missed: fleet.MissedAll,
			Overlap: fleet.OverlapQueue, From: fleet.FromStart}}
		f.Agents = append(f.Agents, a)
	}
	return f
}

// openNodes opens the store of the nodes.
func openNodes(ctx context.Context, where string) (*store.Store, error) {
	b, err := postgres.Open(ctx, where, nil)
	if err != nil {
		return nil, err
	}
	return store.New(b, &store.Options{Lease: nodeLease}), nil
}

func nodesPrincipal() tidemark.Principal { return tidemark.TenantOf("nodes", "") }

// beNode runs the fleet until it is killed, or until nobody holds its standard
// input any more.
func beNode() {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := runNode(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runNode(ctx context.Context) error {
	s, err := openNodes(ctx, os.Getenv(nodeStore))
	if err != nil {
		return err
	}
	d, err := dispatch.New(ctx, os.Getenv(nodeStore), nodesPrincipal(), fleet.Over(s), nil)
	if err != nil {
		return err
	}
	who := process.Self("node")
	if name := os.Getenv(nodeName); name != "" {
		who.Host = name
	}
	daemon := daemon.New(daemon.Options{Store: fleet.Over(s), Holder: who, File: nodeFile(os.Getenv(nodeTrace)), Dispatch: d,
		Runner:  func(a file.Agent) (runner.Runner, error) { return runner.Command(a.Command), nil },
		Environ: func(file.Agent) []string { return []string{"PATH=/usr/local/bin:/usr/bin:/bin"} },
		Tell: func(agent, text string) {
			if agent == "" {
				fmt.Fprintln(os.Stderr, text)
			}
		}})
	return errors.Join(daemon.Run(ctx), d.Close(), s.Close())
}

// herd is the nodes, as processes.
type herd struct {
	t     *testing.T
	env   []string
	nodes map[string]*exec.Cmd // by host
	lives map[string]io.Closer
	store *store.Store
	trace string
	kills int
	last  map[string]tidemark.Schedule // as they were when they were disabled
}

func newHerd(t *testing.T, where string) *herd {
	t.Helper()
	s, err := openNodes(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	h := &herd{t: t, store: s, nodes: map[string]*exec.Cmd{}, lives: map[string]io.Closer{}, last: map[string]tidemark.Schedule{}, trace: filepath.Join(t.TempDir(), "trace")}
	h.env = append(os.Environ(), nodeStore+"="+where, nodeTrace+"="+h.trace)
	t.Cleanup(func() {
		for name := range h.nodes {
			h.kill(name)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	// A node of this host is proven dead; of another host, only its silence
	// tells.
	for _, name := range []string{"", "elsewhere", "far-away"} {
		h.launch(name)
	}
	return h
}

func (h *herd) launch(name string) {
	h.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(h.env, nodeName+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.nodes[name], h.lives[name] = cmd, in
}

func (h *herd) kill(name string) {
	h.nodes[name].Process.Kill()
	h.nodes[name].Wait()
}

// stop lets all nodes end by themselves.
func (h *herd) stop() {
	h.t.Helper()
	for name, cmd := range h.nodes {
		h.lives[name].Close()
		if err := cmd.Wait(); err != nil {
			h.t.Errorf("node %q: %v", name, err)
		}
		delete(h.nodes, name)
	}
}

// chase kills nodes at random, each time that so many more jobs have begun, and
// starts them again.
func (h *herd) chase(kills, every int) {
	h.t.Helper()
	names := []string{"", "elsewhere", "far-away"}
	for i := range kills {
		until(h.t, fmt.Sprintf("%d jobs began", i*every), func() bool { return len(h.read()) >= i*every })
		name := names[rand.N(len(names))]
		h.kill(name)
		h.kills++
		h.launch(name)
	}
}

// line is a line of the trace.
type line struct {
	ends bool
	job  string
}

func (h *herd) read() (lines []line) {
	h.t.Helper()
	f, err := os.Open(h.trace)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		text, err := r.ReadString('\n')
		if err != nil {
			return lines // what has no end is still being written
		}
		what, job, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
		lines = append(lines, line{what == "e", job})
	}
}

// jobs returns all jobs by id.
func (h *herd) jobs() map[string]tidemark.Job {
	h.t.Helper()
	all := make(map[string]tidemark.Job)
	for j, err := range fleet.Over(h.store).Jobs(h.t.Context(), fleet.JobFilter{}) {
		if err != nil {
			h.t.Fatal(err)
		}
		all[j.ID] = j
	}
	return all
}

// settle stops the schedules and waits until nothing waits or runs.
func (h *herd) settle() {
	h.t.Helper()
	for name := range nodeAgents {
		err := fleet.Over(h.store).ChangeSchedule(h.t.Context(), name, "tick", func(s *tidemark.Schedule) error {
			h.last[name] = *s // who reads it later sees none that is next
			s.Status = tidemark.Disabled
			return nil
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	open := func(state string) (n int) {
		for _, err := range fleet.Over(h.store).Jobs(h.t.Context(), fleet.JobFilter{Status: state}) {
			if err != nil {
				h.t.Fatal(err)
			}
			n++
		}
		return n
	}
	// As long as it gets on, it may take its time.
	for left, end := -1, time.Now(); ; time.Sleep(100 * time.Millisecond) {
		n := open(tidemark.JobPending) + open(tidemark.JobRunning)
		switch {
		case n == 0:
			return
		case n != left:
			left, end = n, time.Now().Add(patience)
		case time.Now().After(end):
			h.t.Fatalf("%d jobs never end", n)
		}
	}
}

func TestNodesKilledAtRandomLoseNothingAndRunNothingTwice(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the agents' programs are shell scripts")
	}
	db := river(t)
	n := 150
	if s := os.Getenv(nodeJobs); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	kills := max(10, n/200)
	if err := postgres.Migrate(t.Context(), db.Owner, db.Role); err != nil {
		t.Fatal(err)
	}
	h := newHerd(t, db.Server+"&tenant=nodes")
	began := time.Now()
	names := []string{"ant", "bee", "cat"}
	for i := range n {
		if _, err := fleet.Over(h.store).AddJob(t.Context(), tidemark.Job{Agent: names[i%len(names)], Trigger: tidemark.TriggerManual}); err != nil {
			t.Fatal(err)
		}
	}
	h.chase(kills, n*2/(kills+1))
	h.settle()
	took := time.Since(began)
	h.stop()
	jobs := h.jobs()
	t.Logf("%d jobs, %d kills, %.1f s: %.0f jobs a second; %v", len(jobs), h.kills, took.Seconds(), float64(len(jobs))/took.Seconds(), states(jobs))
	if len(jobs) < n {
		t.Errorf("%d jobs are left of %d", len(jobs), n)
	}
	h.ranOnce(jobs)
	h.keptLimits(jobs)
	h.everyInstant(jobs)
	if running, err := fleet.Over(h.store).Running(t.Context(), ""); err != nil || len(running) > 0 {
		t.Errorf("slots are taken by %v, %v", running, err)
	}
}

func states(jobs map[string]tidemark.Job) map[string]int {
	n := make(map[string]int)
	for _, j := range jobs {
		n[j.Status]++
	}
	return n
}

// ranOnce checks that each job ended in one of two ways, and that its program
// began once at most.
func (h *herd) ranOnce(jobs map[string]tidemark.Job) {
	h.t.Helper()
	begun, ended := make(map[string]int), make(map[string]int)
	for _, l := range h.read() {
		if l.ends {
			ended[l.job]++
		} else {
			begun[l.job]++
		}
	}
	interrupted := 0
	for id, j := range jobs {
		switch {
		case begun[id] > 1:
			h.t.Errorf("%s began %d times", id, begun[id])
		case j.Node == "":
			h.t.Errorf("%s: nobody knows where it ran", id)
		case j.Status == tidemark.JobCompleted && begun[id] == 1 && ended[id] == 1:
		case j.Status == tidemark.JobInterrupted && j.ErrorMessage != "":
			interrupted++
		default:
			h.t.Errorf("%s is %s (%s), and began %d and ended %d times", id, j.Status, j.ErrorMessage, begun[id], ended[id])
		}
	}
	if most := h.kills * nodesAtOnce; interrupted > most {
		h.t.Errorf("%d jobs were interrupted by %d kills", interrupted, h.kills)
	}
	for id := range begun {
		if _, ok := jobs[id]; !ok {
			h.t.Errorf("%s ran and is not kept", id)
		}
	}
}

// keptLimits checks from the order in which programs began and ended that there
// never were too many. What is left of a node that was killed is not counted:
// its jobs do not run any more.
func (h *herd) keptLimits(jobs map[string]tidemark.Job) {
	h.t.Helper()
	now, most := make(map[string]int), make(map[string]int)
	for _, l := range h.read() {
		j := jobs[l.job]
		if j.Status != tidemark.JobCompleted {
			continue
		}
		for _, who := range []string{j.Agent, ""} {
			if now[who]++; l.ends {
				now[who] -= 2
			}
			most[who] = max(most[who], now[who])
		}
	}
	h.t.Logf("at most at a time: %v", most)
	for who, limit := range nodeAgents {
		if most[who] > limit {
			h.t.Errorf("%d jobs of %s at a time, allowed are %d", most[who], who, limit)
		}
	}
	if most[""] > nodesAtOnce {
		h.t.Errorf("%d jobs at a time, allowed are %d", most[""], nodesAtOnce)
	}
}

// everyInstant checks that each instant of each schedule is one job or one
// skip.
func (h *herd) everyInstant(jobs map[string]tidemark.Job) {
	h.t.Helper()
	for name := range nodeAgents {
		s := h.last[name]
		answers := make(map[int64]int)
		for _, j := range jobs {
			if j.Agent == name && j.Schedule != "" {
				answers[j.Occurrence.UnixMilli()]++
			}
		}
		ran := len(answers)
		skips, err := fleet.Over(h.store).Skips(h.t.Context(), name, "tick", 0)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, skip := range skips {
			for i := range skip.Count {
				answers[skip.Instant.Add(time.Duration(i)*time.Second).UnixMilli()]++
			}
		}
		// An instant that waits for its turn is the next, and those after it up
		// to SettledAt have their answers.
		instants := 0
		first := s.CreatedAt.Add(s.NextRunAt.Sub(s.CreatedAt) % time.Second) // wherever its splay puts it
		if !first.After(s.CreatedAt) {
			first = first.Add(time.Second)
		}
		for at := first; at.Before(s.NextRunAt) || !at.After(s.SettledAt); at = at.Add(time.Second) {
			if at.Equal(s.NextRunAt) {
				continue
			}
			instants++
			if n := answers[at.UnixMilli()]; n != 1 {
				h.t.Errorf("%s at %s has %d answers", name, at.Format(time.RFC3339Nano), n)
			}
		}
		h.t.Logf("%s: %d instants, %d ran, %d were skipped", name, instants, ran, len(answers)-ran)
		if len(answers) != instants {
			h.t.Errorf("%s: %d answers to %d instants", name, len(answers), instants)
		}
	}
}

func TestRestartedNodeEndsProgramsWhoseJobsOthersEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("programs are found by their mark on Linux alone")
	}
	s := store.New(memory.New(), nil)
	mark := runner.NewMark()
	left := exec.Command("/bin/sleep", "600")
	left.Env = []string{"TIDEMARK_RUN=" + mark}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		left.Wait()
		close(ended)
	}()
	t.Cleanup(func() { left.Process.Kill() })
	who := process.Self("node")
	p, err := json.Marshal(runner.Process{Holder: tidemark.Holder{Host: who.Host, BootID: who.BootID, Namespace: who.Namespace}, Mark: mark})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.Over(s).PutJob(t.Context(), tidemark.Job{ID: "job-2026-11-15-aaaaaa", Agent: "a", Status: tidemark.JobInterrupted, Node: who.Host, Process: p}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	up := make(chan error, 1)
	go func() {
		up <- daemon.New(daemon.Options{Store: fleet.Over(s), Holder: who, File: &file.File{}}).Run(ctx)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the program is still there")
	}
	stop()
	if err := <-up; err != nil {
		t.Error(err)
	}
}
