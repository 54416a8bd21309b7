package chat_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model"
)

// worker reads a worker's log.
func (r *rig) worker(id tidemark.SessionID, name string) []tidemark.Entry {
	r.t.Helper()
	v, err := r.store.View(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	if v, err = v.Worker(context.Background(), name); err != nil {
		r.t.Fatal(err)
	}
	var all []tidemark.Entry
	for e, err := range v.Path(context.Background(), 0) {
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func await(t *testing.T, c *chat.Chat, name string) chat.Turn {
	t.Helper()
	turn, err := c.Await(t.Context(), name)
	if err != nil {
		t.Fatalf("Await(%s): %v", name, err)
	}
	return turn
}

func TestAWorkerWorksBesideTheConversation(t *testing.T) {
	eachBackend(t, func(t *testing.T, b tidemark.Backend) {
		r := newRig(t, b, map[string][]reply{
			"delegate": {
				calls(use("c1", "spawn_worker", `{"name":"scout","prompt":"look around"}`)),
				calls(use("c2", "await_worker", `{"name":"scout"}`)),
				calls(use("c3", "tell_worker", `{"name":"scout","text":"look again"}`), use("c4", "await_worker", `{"name":"scout"}`), use("c5", "tell_worker", `{"name":"nobody","text":"x"}`), use("c6", "await_worker", `{"name":"nobody"}`)),
				says("thanks"),
			},
			"look around": {calls(use("w1", "bash", `{"command":"echo x >> ran"}`)), says("I looked.")},
			"look again":  {says("I looked again.")},
		})
		c := r.new()
		if err := c.Spawn("early", "x"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("Spawn before the first message: %v, want ErrNotFound", err)
		}
		r.send(c, "delegate")
		all := results(r.path(c.ID()))
		same(t, []string{all["c1"].Text, all["c2"].Text, all["c3"].Text, all["c4"].Text, all["c5"].Text, all["c6"].Text},
			[]string{"Started.", "I looked.", "Told.", "I looked again.", `worker "nobody": not found`, `worker "nobody" does not run`})
		same(t, shape(r.worker(c.ID(), "scout")), []string{"tools", "system", "user", "assistant", "call", "tool", "assistant", "user", "assistant"})
		same(t, ran(t, r), 1)
		for _, q := range r.model.all() {
			valid(t, q)
			isWorker := strings.Contains(q.System, `You are the worker "scout"`)
			for _, o := range q.Tools {
				if isWorker && o.Name == "spawn_worker" {
					t.Error("a worker may start workers")
				}
			}
		}
		if len(r.asks) != 1 || r.asks[0].Worker != "scout" {
			t.Errorf("asks %+v", r.asks)
		}
		states, err := c.Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, states, []chat.WorkerState{{Name: "scout", Said: "I looked again."}})

		// After a resume the worker goes on with what it knows.
		r.close(c)
		was := model.Request{}
		for _, q := range r.model.all() {
			if strings.Contains(q.System, "worker") {
				was = q
			}
		}
		c = r.resume(c.ID())
		states, err = c.Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, states, []chat.WorkerState{{Name: "scout"}})
		if err := c.Tell(t.Context(), "scout", "and once more"); err != nil {
			t.Fatal(err)
		}
		await(t, c, "scout")
		for name, m := range providers(r.model) {
			t.Run(name, func(t *testing.T) { beginsWith(t, m, r.model.last(t), was) })
		}
		if len(r.notices()) > 0 {
			t.Errorf("notices %q", r.notices())
		}
	})
}

func TestWhatAWorkerIsToldMeanwhileComesNext(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	gate := make(chan struct{})
	usual := r.model.answer
	r.model.answer = func(q model.Request) reply {
		if strings.Contains(q.System, "worker") {
			<-gate
		}
		return usual(q)
	}
	r.o.Workers = 2
	c := r.new()
	r.send(c, "hello")
	for _, text := range []string{"one", "two", "three"} {
		if err := c.Spawn("a", text); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Spawn("b", "x"); err != nil {
		t.Fatal(err)
	}
	if err := c.Spawn("c", "x"); !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), "2 workers are at work") {
		t.Errorf("Spawn over the limit: %v", err)
	}
	if err := c.Spawn("../up", "x"); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Spawn(../up): %v, want ErrInvalid", err)
	}
	close(gate)
	same(t, await(t, c, "a").Text, "done: three")
	await(t, c, "b")
	var said []string
	for _, e := range r.worker(c.ID(), "a") {
		if e.Role == tidemark.User {
			said = append(said, e.Text())
		}
	}
	same(t, said, []string{"one", "two", "three"})
}

func TestAWorkerThatFailedGoesOnWithWhatItWasTold(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	gate := make(chan struct{})
	usual := r.model.answer
	r.model.answer = func(q model.Request) reply {
		if q.Entries[len(q.Entries)-1].Text() == "one" {
			<-gate
			return reply{err: errors.New("not today")}
		}
		return usual(q)
	}
	c := r.new()
	r.send(c, "hello")
	for _, text := range []string{"one", "two"} {
		if err := c.Spawn("a", text); err != nil {
			t.Fatal(err)
		}
	}
	close(gate)
	if _, err := c.Await(t.Context(), "a"); err == nil || err.Error() != "not today" {
		t.Errorf("Await: %v", err)
	}
	states, err := c.Workers(t.Context())
	if err != nil || len(states) != 1 || states[0].Failed == nil || states[0].Running {
		t.Errorf("Workers = %+v, %v", states, err)
	}
	if err := c.Spawn("a", "three"); err != nil {
		t.Fatal(err)
	}
	await(t, c, "a")
	same(t, shape(r.worker(c.ID(), "a")), []string{"tools", "system", "user", "error", "user", "assistant", "user", "assistant"})
}

func TestAStoppedWorkerStopsAndForgetsItsQueue(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"hang": {{text: []string{"so far"}, hang: true}}})
	c := r.new()
	r.send(c, "hello")
	r.model.asked = make(chan struct{}, 1)
	if err := c.Spawn("a", "hang"); err != nil {
		t.Fatal(err)
	}
	<-r.model.asked
	r.model.asked = nil
	if err := c.Spawn("a", "never"); err != nil {
		t.Fatal(err)
	}
	if err := c.StopWorker("a"); err != nil {
		t.Fatal(err)
	}
	if err := c.StopWorker("a"); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("StopWorker again: %v, want ErrNotFound", err)
	}
	same(t, await(t, c, "a").Stop, chat.StopCancelled)
	if err := c.Spawn("a", "go on"); err != nil {
		t.Fatal(err)
	}
	same(t, await(t, c, "a").Text, "done: go on")
	for _, e := range r.worker(c.ID(), "a") {
		if e.Text() == "never" {
			t.Error("what it was told before it was stopped was done")
		}
	}
}

func TestOneQuestionAtATimeAndAWaitingWorkerCanBeStopped(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	r.model.answer = func(q model.Request) reply {
		if n := len(q.Entries); strings.Contains(q.System, "worker") && q.Entries[n-1].Role == tidemark.User {
			return calls(use("c", "write", `{"path":"w.txt","content":"x"}`))
		}
		return says("ok")
	}
	var now, most atomic.Int32
	first, answer := make(chan string, 9), make(chan struct{})
	r.decide = func(_ context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
		most.Store(max(most.Load(), now.Add(1)))
		first <- a.Worker
		<-answer
		now.Add(-1)
		return chat.Once, nil
	}
	c := r.new()
	r.send(c, "hello")
	answered := make(chan struct{}, 9)
	r.onEvent(func(e chat.Event) {
		if e.Kept != nil && e.Kept.Role == tidemark.Assistant && len(e.Kept.Blocks) > 0 && e.Kept.Blocks[0].ID == "c" {
			answered <- struct{}{}
		}
	})
	for _, name := range []string{"a", "b", "c"} {
		if err := c.Spawn(name, "write"); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		<-answered
	}
	asked := <-first
	waiting := map[string]string{"a": "b", "b": "c", "c": "a"}[asked]
	if err := c.StopWorker(waiting); err != nil { // while another question is open
		t.Fatal(err)
	}
	close(answer)
	for _, name := range []string{"a", "b", "c"} {
		await(t, c, name)
	}
	same(t, most.Load(), int32(1))
	same(t, results(r.worker(c.ID(), waiting))["c"].Text, "not run: the user cancelled the turn.")
}

func TestCloseStopsAllAndLeavesNoGoroutine(t *testing.T) {
	// The bubble fails when something is left in it.
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, memory.New(), map[string][]reply{"hang": {{text: []string{"so far"}, hang: true}}})
		c := r.new()
		r.send(c, "hello")
		for i := range 5 {
			if err := c.Spawn(fmt.Sprint("w", i), "hang"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		r.close(c)
		if err := c.Spawn("late", "x"); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("Spawn after Close: %v, want ErrConflict", err)
		}
		c = r.resume(c.ID())
		states, err := c.Workers(t.Context())
		if err != nil || len(states) != 5 {
			t.Errorf("Workers = %v, %v", states, err)
		}
		r.close(c)
	})
}

func TestADeadWorkersCallsAreMended(t *testing.T) {
	script := map[string][]reply{"hello": {says("hi")}, "write": {calls(use("c1", "bash", `{"command":"echo x >> ran"}`)), says("written")}}
	everyDeath(t, func(t *testing.T, inner tidemark.Backend, m *mortal) bool {
		r := newRig(t, m, script)
		c := r.new()
		_, err := c.Send(t.Context(), tidemark.Text("hello"))
		if err == nil {
			if err = c.Spawn("a", "write"); err == nil {
				_, err = c.Await(t.Context(), "a")
			}
		}
		if closeErr := c.Close(t.Context()); err == nil {
			err = closeErr
		}
		next := newRig(t, inner, nil)
		next.dir, next.o.Box = r.dir, r.o.Box
		if _, lookErr := next.store.Session(t.Context(), c.ID()); lookErr != nil {
			return err != nil
		}
		c = next.resume(c.ID())
		next.send(c, "hello again")
		if e := c.Spawn("a", "go on"); e != nil {
			t.Fatal(e)
		}
		await(t, c, "a")
		valid(t, next.model.last(t))
		if n := ran(t, r); n > 1 {
			t.Errorf("the tool ran %d times", n)
		}
		return err != nil
	})
}

func TestManyThingsAtOnce(t *testing.T) {
	r := newRig(t, memory.New(), work)
	c := r.new()
	r.send(c, "hello")
	r.onEvent(func(chat.Event) { // whoever shows things looks, too
		c.State()
		c.Session()
		c.Tools()
		c.ModelName()
		if _, err := c.Workers(t.Context()); err != nil {
			t.Error(err)
		}
	})
	var wg sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprint("w", i)
		wg.Go(func() {
			for range 3 {
				if err := c.Spawn(name, "work"); err != nil {
					t.Error(err)
				}
				c.Await(t.Context(), name)
			}
			c.StopWorker(name)
		})
		wg.Go(func() {
			for range 5 {
				if _, err := c.AddTask(t.Context(), name); err != nil {
					t.Error(err)
				}
				c.Workers(t.Context())
				c.State()
				c.Tools()
			}
		})
	}
	r.send(c, "work")
	wg.Wait()
	same(t, len(c.State().Tasks), 20)
	r.close(c)
	kept, err := r.store.Checkpoint(t.Context(), c.ID(), "")
	if err != nil {
		t.Fatal(err)
	}
	same(t, len(kept.Tasks), 20)
}
