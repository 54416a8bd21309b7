package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// worker is a helper agent inside the session.
type worker struct {
	thread *thread
	box    *tool.Box
	stop   context.CancelFunc
	done   chan struct{} // closed when it is idle
	last   Turn
	err    error
	queue  []string // messages that it has not started on yet
}

// WorkerState describes a worker for a status line.
type WorkerState struct {
	Name    string
	Running bool
	Failed  error
	Said    string // its last text
}

// Spawn starts a worker, up to the limit of concurrent workers. If the
// session already has a worker of this name, that one continues. If a file
// describes an agent of this name, a new worker is that one.
func (c *Chat) Spawn(name, prompt string) error { return c.SpawnAgent(name, "", prompt) }

// SpawnAgent is Spawn for a worker that a file describes. It may return
// ErrNotFound.
func (c *Chat) SpawnAgent(name, agent, prompt string) error {
	if err := store.CheckWorker(name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.created:
		return tidemark.NotFoundf("nothing was said yet")
	case c.closed:
		return tidemark.Conflictf("session %.8s is closed", c.id)
	}
	w := c.workers[name]
	if w != nil && w.running() {
		w.queue = append(w.queue, prompt)
		return nil
	}
	running := 0
	for _, other := range c.workers {
		if other.running() {
			running++
		}
	}
	if running >= c.o.Workers {
		return tidemark.Invalidf("%d workers are at work, which is the limit", running)
	}
	if w == nil {
		w = &worker{thread: &thread{c: c, worker: name,
			prompt: fmt.Sprintf("You are the worker %q of this session: do what you are told, and end with a short report of what you found or did.", name)}}
		if err := c.describe(w.thread, agent); err != nil {
			return err
		}
		c.workers[name] = w
	}
	if w.box == nil {
		box, err := c.o.Box(tool.State{}, &sessionFiles{c}, c.state.Limits, func(_ string, chunk []byte) {
			c.emit(Event{Worker: name, Output: strings.ToValidUTF8(string(chunk), "\uFFFD")})
		})
		if err != nil {
			return err
		}
		w.box = box
	}
	for _, d := range c.state.DynamicTools {
		// The conversation itself was already told of an unusable definition.
		_ = w.box.Define(tool.Definition(d))
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.done, w.err = stop, make(chan struct{}), nil
	// Earlier messages that it has not started on come first.
	w.queue = append(w.queue, prompt)
	go c.runWorker(ctx, w, w.done)
	return nil
}

// running reports whether the worker runs; the caller holds mu.
func (w *worker) running() bool {
	if w.done == nil {
		return false
	}
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// runWorker runs a worker until its queue is empty, or ctx ends.
func (c *Chat) runWorker(ctx context.Context, w *worker, done chan struct{}) {
	err := w.thread.load(ctx)
	if errors.Is(err, tidemark.ErrNotFound) {
		err = nil // a new worker
	}
	if w.thread.unheeded != "" {
		w.thread.notice("%s", w.thread.unheeded)
		w.thread.unheeded = ""
	}
	for {
		c.mu.Lock()
		if err != nil || ctx.Err() != nil || len(w.queue) == 0 {
			w.err = err
			if ctx.Err() != nil {
				w.err, w.queue = nil, nil // it was stopped, which also drops its queue
			}
			w.stop()
			close(done)
			c.mu.Unlock()
			return
		}
		prompt := w.queue[0]
		w.queue = w.queue[1:]
		c.mu.Unlock()
		var turn Turn
		turn, err = w.thread.turn(ctx, []tidemark.Block{tidemark.Text(prompt)})
		c.mu.Lock()
		w.last = turn
		c.mu.Unlock()
	}
}

// StopWorker stops a worker and drops its queue, or returns ErrNotFound.
func (c *Chat) StopWorker(name string) error {
	c.mu.Lock()
	w := c.workers[name]
	if w == nil || !w.running() {
		c.mu.Unlock()
		return tidemark.NotFoundf("worker %q does not run", name)
	}
	stop, done := w.stop, w.done
	c.mu.Unlock()
	stop()
	<-done
	return nil
}

// stopWorkers ends all workers and their tools. No worker can be started
// afterwards.
func (c *Chat) stopWorkers() error {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.workers))
	var ends []chan struct{}
	for _, w := range all {
		if w.running() {
			w.stop()
			ends = append(ends, w.done)
		}
	}
	c.mu.Unlock()
	for _, done := range ends {
		<-done
	}
	var err error
	for _, w := range all {
		if w.box != nil {
			err = errors.Join(err, w.box.Close())
		}
	}
	return err
}

// Workers lists the workers of the session, those of earlier runs included.
func (c *Chat) Workers(ctx context.Context) ([]WorkerState, error) {
	var kept []string
	if c.Exists() {
		v, err := c.View(ctx)
		if err != nil {
			return nil, err
		}
		if kept, err = v.Workers(ctx); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.workers {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	slices.Sort(kept)
	var all []WorkerState
	for _, name := range kept {
		s := WorkerState{Name: name}
		if w := c.workers[name]; w != nil {
			s.Running, s.Failed, s.Said = w.running(), w.err, w.last.Text
		}
		all = append(all, s)
	}
	return all, nil
}

// hasWorker reports whether the session has a worker of this name.
func (c *Chat) hasWorker(ctx context.Context, name string) (bool, error) {
	all, err := c.Workers(ctx)
	return slices.ContainsFunc(all, func(s WorkerState) bool { return s.Name == name }), err
}

// Tell sends a message to a worker of this session, also to one of an
// earlier run. It may return ErrNotFound.
func (c *Chat) Tell(ctx context.Context, name, text string) error {
	known, err := c.hasWorker(ctx, name)
	if err != nil {
		return err
	}
	if !known {
		return tidemark.NotFoundf("worker %q: not found", name)
	}
	return c.Spawn(name, text)
}

// Await waits until a worker is done, and returns its last turn.
func (c *Chat) Await(ctx context.Context, name string) (Turn, error) {
	c.mu.Lock()
	w := c.workers[name]
	if w == nil || w.done == nil {
		c.mu.Unlock()
		return Turn{}, tidemark.NotFoundf("worker %q does not run", name)
	}
	done := w.done
	c.mu.Unlock()
	select {
	case <-ctx.Done():
		return Turn{}, ctx.Err()
	case <-done:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.last, w.err
}

type workerArgs struct{ Name, Agent, Prompt, Text string }

func (c *Chat) spawnTool(_ context.Context, in json.RawMessage) (tool.Result, error) {
	a, bad := rawObject[workerArgs](in)
	if bad != nil {
		return *bad, nil
	}
	return asResult("Started.", c.SpawnAgent(a.Name, a.Agent, a.Prompt))
}

func (c *Chat) tellTool(ctx context.Context, in json.RawMessage) (tool.Result, error) {
	a, bad := rawObject[workerArgs](in)
	if bad != nil {
		return *bad, nil
	}
	return asResult("Told.", c.Tell(ctx, a.Name, a.Text))
}

func (c *Chat) awaitTool(ctx context.Context, in json.RawMessage) (tool.Result, error) {
	a, bad := rawObject[workerArgs](in)
	if bad != nil {
		return *bad, nil
	}
	turn, err := c.Await(ctx, a.Name)
	if ctx.Err() != nil {
		return tool.Result{}, ctx.Err()
	}
	if err == nil && turn.Stop == StopCancelled {
		turn.Text = strings.TrimSpace(turn.Text + "\n(It was stopped.)")
	}
	return asResult(turn.Text, err)
}
