package server

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/web"
)

const (
	// atOnce is how much is read whole at the same time, of all tenants: counting
	// and verifying are never urgent. Of one tenant it is one of each kind, so
	// that a long verifying holds up neither its counting nor anybody else.
	atOnce = 8
	// maxTasks bounds what is remembered of what was done.
	maxTasks = 256
	// taskPatience bounds one reading of a whole store.
	taskPatience = time.Hour
	// glance is how long a page waits for something that is most often quick.
	glance = 1500 * time.Millisecond
)

// tasks are what pages began and do not wait for, by whose it is and what it
// does. The last result is kept in memory until something newer takes its place.
type tasks struct {
	mu    sync.Mutex
	of    map[string]*task
	slots chan struct{}            // for all
	turns map[string]chan struct{} // for one kind of one tenant
}

// task is one of them. What run returns is there when done is closed.
type task struct {
	name  string
	done  chan struct{}
	begun time.Time

	mu       sync.Mutex
	progress int64
	ended    time.Time
	result   any
	err      error
}

// taskName is under which name a task of a principal is found.
func taskName(p tidemark.Principal, what string) string {
	return p.Tenant + "/" + p.User + "/" + what
}

// task returns the newest task of a name, nil when there is none.
func (s *Server) task(name string) *task {
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	return s.tasks.of[name]
}

// begin starts a task, unless one of that name is under way, and returns it.
// It goes on when the request is over, and ends with the server.
func (s *Server) begin(ctx context.Context, name string, run func(ctx context.Context, progress func(int64)) (any, error)) *task {
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	if s.tasks.of == nil {
		s.tasks.of, s.tasks.slots, s.tasks.turns = make(map[string]*task), make(chan struct{}, atOnce), make(map[string]chan struct{})
	}
	if t := s.tasks.of[name]; t != nil && !t.over() {
		return t
	}
	t := &task{name: name, done: make(chan struct{}), begun: s.o.Now()}
	s.tasks.forget()
	s.tasks.of[name] = t
	turn := s.tasks.turn(name)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), taskPatience)
	go func() {
		defer stop()
		select {
		case <-s.shutdown.Begun():
			stop()
		case <-t.done:
		}
	}()
	go func() {
		defer close(t.done)
		for _, slots := range []chan struct{}{turn, s.tasks.slots} {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
			}
		}
		result, err := run(ctx, t.tell)
		t.mu.Lock()
		t.result, t.err, t.ended = result, err, s.o.Now()
		t.mu.Unlock()
	}()
	return t
}

// turn is where tasks of one kind and one tenant wait for each other.
func (ts *tasks) turn(name string) chan struct{} {
	tenant, rest, _ := strings.Cut(name, "/")
	_, what, _ := strings.Cut(rest, "/")
	kind, _, _ := strings.Cut(what, "/")
	key := tenant + "/" + kind
	if ts.turns[key] == nil {
		ts.turns[key] = make(chan struct{}, 1)
	}
	return ts.turns[key]
}

// forget makes room for one more: the one that ended first goes.
func (ts *tasks) forget() {
	if len(ts.of) < maxTasks {
		return
	}
	oldest := ""
	for name, t := range ts.of {
		if t.over() && (oldest == "" || t.endedAt().Before(ts.of[oldest].endedAt())) {
			oldest = name
		}
	}
	delete(ts.of, oldest)
}

func (t *task) tell(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress = n
}

func (t *task) over() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

func (t *task) endedAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// wait gives a task a moment, and reports whether it is over.
func (t *task) wait(ctx context.Context, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-t.done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return t.over()
}

// fresh reports whether the result of a task may still be shown: what took
// long is shown for longer.
func (t *task) fresh(now time.Time) bool {
	if !t.over() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	life := min(max(20*time.Second, 30*t.ended.Sub(t.begun)), 15*time.Minute)
	return t.err == nil && now.Sub(t.ended) < life
}

// taskResult is what a task that is over came to.
func taskResult[T any](t *task) (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, _ := t.result.(T)
	return v, t.err
}

// taskView is a task as a page shows it, nil for none.
func taskView(t *task) *web.Task {
	if t == nil {
		return nil
	}
	v := &web.Task{Running: !t.over(), BegunAt: t.begun}
	t.mu.Lock()
	defer t.mu.Unlock()
	v.Done, v.EndedAt = t.progress, t.ended
	if t.err != nil {
		v.Trouble = request.Problem(t.err).Detail
	}
	return v
}
