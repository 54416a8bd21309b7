package pages

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
)

const (
	// atOnce is how many full reads run at the same time, of all tenants:
	// counting and verifying are never urgent. Per tenant it is one of each kind,
	// so that a long verification delays neither its counts nor anybody else.
	atOnce = 8
	// maxTasks bounds the kept results.
	maxTasks = 256
	// taskTimeout bounds one full read of a store.
	taskTimeout = time.Hour
	// glance is how long a page waits for something that is usually fast.
	glance = 1500 * time.Millisecond
)

// tasks are the background tasks of pages, by owner and purpose. The last result
// is kept in memory until a newer one replaces it.
type tasks struct {
	mu    sync.Mutex
	of    map[string]*task
	slots chan struct{}            // for all
	turns map[string]chan struct{} // for one kind of one tenant
}

// task is one of them. The result of run is available when done is closed.
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

// TaskName is the name of a task of a principal.
func TaskName(p tidemark.Principal, what string) string {
	return p.Tenant + "/" + p.User + "/" + what
}

// task returns the newest task of a name, nil when there is none.
func (s *Site) task(name string) *task {
	s.tasks.mu.Lock()
	defer s.tasks.mu.Unlock()
	return s.tasks.of[name]
}

// Begin starts a task, unless one of that name is running, and returns it.
// It continues after the request is over, and ends with the server.
func (s *Site) Begin(ctx context.Context, name string, run func(ctx context.Context, progress func(int64)) (any, error)) *task {
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
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), taskTimeout)
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

// forget makes room for one more: the one that ended first is removed.
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

// wait waits a moment for a task, and reports whether it is over.
func (t *task) wait(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return t.over()
}

// fresh reports whether the result of a task may still be shown: a slower
// one is shown for longer.
func (t *task) fresh(now time.Time) bool {
	if !t.over() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	life := min(max(20*time.Second, 30*t.ended.Sub(t.begun)), 15*time.Minute)
	return t.err == nil && now.Sub(t.ended) < life
}

// taskResult is the result of a finished task.
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
