package chat_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestALoopIsDueAndKeepsItsNextInstantBeforeItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, memory.New(), nil)
		c := r.new()
		r.send(c, "hello")
		if _, ok := c.NextLoop(); ok {
			t.Error("there is a loop")
		}
		if _, err := c.AddLoop(t.Context(), "x", time.Millisecond); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("AddLoop every millisecond: %v, want ErrInvalid", err)
		}
		begin := time.Now().UTC().Truncate(time.Second)
		l, err := c.AddLoop(t.Context(), "check the build", 5*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		same(t, l, store.Loop{ID: "loop-1", Goal: "check the build", EverySeconds: 300, NextAt: begin})
		r.model.answer = func(q model.Request) reply {
			kept, err := r.store.Checkpoint(context.Background(), c.ID(), "")
			if err != nil || !kept.Loops[0].NextAt.Equal(begin.Add(5*time.Minute)) {
				t.Errorf("while it works, %v is kept, %v", kept.Loops, err)
			}
			return says("built")
		}
		if turn, err := c.RunLoop(t.Context(), l); err != nil || turn.Text != "built" {
			t.Errorf("RunLoop = %+v, %v", turn, err)
		}
		same(t, r.model.last(t).Entries[2].Text(), "check the build")
		r.close(c)

		// An hour later it goes on from then.
		time.Sleep(time.Hour)
		c = r.resume(c.ID())
		loops, err := c.Rearm(t.Context())
		if err != nil || len(loops) != 1 {
			t.Fatalf("Rearm = %v, %v", loops, err)
		}
		same(t, loops[0].NextAt, begin.Add(time.Hour+5*time.Minute))
		next, ok := c.NextLoop()
		same(t, []any{next.ID, ok}, []any{"loop-1", true})
		if err := c.CancelLoop(t.Context(), "loop-1"); err != nil {
			t.Fatal(err)
		}
		if err := c.CancelLoop(t.Context(), "loop-1"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("CancelLoop again: %v, want ErrNotFound", err)
		}
		n := len(r.model.all())
		if _, err := c.RunLoop(t.Context(), next); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("RunLoop of a cancelled one: %v, want ErrNotFound", err)
		}
		same(t, len(r.model.all()), n)
		r.close(c)
	})
}

func TestALoopWithoutAGoalWorksThroughTheTasks(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{
		"Work on task 1: sweep\nSay that it is done with the task tool when it is.": {calls(use("c1", "task", `{"action":"done","id":1}`))},
		"Work on task 2: mop\nSay that it is done with the task tool when it is.":   {calls(use("c2", "task", `{"action":"list"}`), use("c3", "task", `{"action":"done","id":2}`), use("c4", "task", `{"action":"done","id":9}`), use("c5", "task", `{"action":"dance"}`))},
	})
	c := r.new()
	for _, text := range []string{"sweep", " mop "} {
		if _, err := c.AddTask(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AddTask(t.Context(), " "); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a task without words: %v", err)
	}
	l, err := c.AddLoop(t.Context(), "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.RunLoop(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := c.NextLoop(); ok || !r.noticed("All tasks are done; loop-1 ends.") {
		t.Errorf("the loop goes on; notices %q", r.notices())
	}
	same(t, c.State().Tasks, []store.Task{{ID: 1, Text: "sweep", Done: true}, {ID: 2, Text: "mop", Done: true}})
	all := results(r.path(c.ID()))
	same(t, []string{all["c2"].Text, all["c4"].Text, all["c5"].Text},
		[]string{"[x] 1 sweep\n[ ] 2 mop\n", "task 9: not found", `action "dance": want add, done or list`})
	if got := c.Session().Title; got == "" {
		t.Error("a session that a loop began has no title")
	}
	same(t, len(c.Steered()), 0)
}

func TestWakeTimersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, memory.New(), map[string][]reply{
			"sleep": {calls(use("c1", "wake", `{"after":"30m"}`), use("c2", "wake", `{"after":"soon"}`), use("c3", "wake", `{"after":"-1h"}`))},
		})
		c := r.new()
		r.send(c, "sleep")
		at := time.Now().Add(30 * time.Minute).UTC().Truncate(time.Second)
		same(t, c.State().WakeTriggers, []store.WakeTrigger{{Kind: "timer", At: at}})
		time.Sleep(time.Hour)
		later := time.Now().Add(time.Hour).UTC()
		if err := c.WakeAt(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		same(t, c.State().WakeTriggers, []store.WakeTrigger{{Kind: "timer", At: later}})
		r.close(c)
	})
}

func TestCoreMemoryIsBounded(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	c := r.new()
	for _, key := range []string{"", "  ", strings.Repeat("k", 65), "two\nlines"} {
		if err := c.SetMemory(t.Context(), key, "x", false); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("key %q: %v, want ErrInvalid", key, err)
		}
	}
	if err := c.SetMemory(t.Context(), "a", strings.Repeat("x", 8<<10), false); err != nil {
		t.Error(err)
	}
	if err := c.SetMemory(t.Context(), "a", "y", true); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("too much: %v, want ErrInvalid", err)
	}
	if err := c.SetMemory(t.Context(), "a", "", false); err != nil {
		t.Error(err)
	}
	same(t, len(c.State().CoreMemory), 0)
}

func offered(q model.Request) []string {
	var names []string
	for _, o := range q.Tools {
		names = append(names, o.Name)
	}
	return names
}

func TestADefinedToolIsOfferedFromTheNextRoundOnAndAfterAResume(t *testing.T) {
	define := func(id, description string) tidemark.Block {
		return use(id, "define_tool", fmt.Sprintf(`{"name":"greet","description":%q,"schema":{"type":"object","properties":{"who":{"type":"string"}}},"command":"echo \"<hello> $TOOL_INPUT\""}`, description))
	}
	r := newRig(t, memory.New(), map[string][]reply{
		"define": {calls(define("c1", "Greets."), use("c2", "define_tool", `{"name":"task","command":"true"}`), use("c3", "define_tool", `{"name":"bash","command":"true"}`), use("c4", "define_tool", `{"name":"none"}`)),
			calls(use("c5", "greet", `{"who":"Ada"}`)), says("ok")},
		"redefine": {calls(define("c6", "Greets <warmly>.")), says("ok")},
		"use":      {calls(use("c7", "greet", `{"who":"Bo"}`))},
	})
	c := r.new()
	r.send(c, "define")
	all := r.model.all()
	if slices.Contains(offered(all[0]), "greet") || !slices.Contains(offered(all[1]), "greet") {
		t.Errorf("offered %v, then %v", offered(all[0]), offered(all[1]))
	}
	same(t, shape(r.path(c.ID()))[11:], []string{"tool", "tools", "assistant", "call", "tool", "assistant"})
	got := results(r.path(c.ID()))
	for _, id := range []string{"c2", "c3", "c4"} {
		if !got[id].IsError {
			t.Errorf("%s: %q", id, got[id].Text)
		}
	}
	if want := `<hello> {"who":"Ada"}`; !strings.Contains(got["c5"].Text, want) {
		t.Errorf("greet says %q", got["c5"].Text)
	}
	r.send(c, "redefine")
	q := r.model.last(t)
	same(t, q.Tools[len(q.Tools)-1].Description, "Greets <warmly>.")
	r.close(c)
	goesOn(t, r, c.ID(), 0)
	c = r.resume(c.ID())
	r.send(c, "use")
	if got := results(r.path(c.ID()))["c7"].Text; !strings.Contains(got, "Bo") {
		t.Errorf("after a resume greet says %q", got)
	}
	// A worker has it too, and is told once.
	if err := c.Spawn("w", "use"); err != nil {
		t.Fatal(err)
	}
	await(t, c, "w")
	same(t, shape(r.worker(c.ID(), "w")), []string{"tools", "system", "user", "assistant", "call", "tool", "assistant"})
}

func TestToolsInContextAreLimited(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"define": {calls(use("c", "define_tool", `{"name":"greet","command":"true"}`)), calls(use("d", "ls", `{}`))}})
	r.o.Limits.ToolsInContext = 3
	c := r.new()
	r.send(c, "define")
	same(t, len(r.model.last(t).Tools), 3)
	tools := 0
	for _, s := range shape(r.path(c.ID())) {
		if s == "tools" {
			tools++
		}
	}
	same(t, tools, 1) // what does not fit is not told again and again
}

func TestOutputIsBoundedByTheSessionsLimit(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"go": {calls(use("c", "bash", `{"command":"yes é | head -n 10000"}`))}})
	r.o.Limits.OutputBytes = 1000
	c := r.new()
	r.send(c, "go")
	if got := results(r.path(c.ID()))["c"].Text; len(got) > 6000 || !strings.Contains(got, "left out") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestNothingOfOneSessionReachesAnother(t *testing.T) {
	script := map[string][]reply{
		"set": {calls(use("c1", "bash", `{"command":"export COLOUR=blue; mkdir -p sub; cd sub"}`), use("c2", "python", `{"code":"secret = 42"}`),
			use("c3", "remember", `{"key":"human","text":"Ada"}`), use("c4", "define_tool", `{"name":"greet","command":"true"}`))},
		"get": {calls(use("c5", "bash", `{"command":"echo \"[$COLOUR] ${PWD##*/}\""}`), use("c6", "python", `{"code":"print('secret' in globals())"}`))},
	}
	r := newRig(t, memory.New(), script)
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Always, nil }
	a, b := r.new(), r.new()
	hasPython := has(a, "python")
	r.send(a, "set")
	if err := a.Change(t.Context(), func(s *store.Checkpoint) error { s.DocumentPaths = []string{"plan.md"}; return nil }); err != nil {
		t.Fatal(err)
	}
	r.asks = nil
	r.send(b, "get")
	if n := len(r.asks); n == 0 {
		t.Error("an approval of the other session counts")
	}
	got := results(r.path(b.ID()))
	if text := got["c5"].Text; !strings.HasPrefix(text, "[] ") || strings.HasSuffix(strings.TrimSpace(text), "sub") {
		t.Errorf("the shell says %q", text)
	}
	if text := got["c6"].Text; hasPython && !strings.HasPrefix(text, "False") {
		t.Errorf("python says %q", text)
	}
	s := b.State()
	if len(s.CoreMemory)+len(s.DocumentPaths)+len(s.DynamicTools) > 0 || has(b, "greet") || strings.Contains(r.model.last(t).System, "Ada") {
		t.Errorf("state %+v", s)
	}
	// Python's globals do not survive a restart.
	r.close(a)
	a = r.resume(a.ID())
	r.send(a, "get")
	got = results(r.path(a.ID()))
	if !strings.HasPrefix(got["c5"].Text, "[blue] sub") || hasPython && !strings.HasPrefix(got["c6"].Text, "False") {
		t.Errorf("after a resume: %q, %q", got["c5"].Text, got["c6"].Text)
	}
	same(t, a.State().DocumentPaths, []string{"plan.md"})
}

func has(c *chat.Chat, name string) bool {
	for _, o := range c.Tools() {
		if o.Name == name {
			return true
		}
	}
	return false
}

func TestAChangeThatIsNotKeptIsNotMade(t *testing.T) {
	f := &full{Backend: memory.New(), after: -1}
	r := newRig(t, f, nil)
	c := r.new()
	r.send(c, "hello")
	if err := c.Change(t.Context(), func(s *store.Checkpoint) error { s.DocumentPaths = []string{"a", "b"}; return nil }); err != nil {
		t.Fatal(err)
	}
	f.set(0)
	err := c.Change(t.Context(), func(s *store.Checkpoint) error {
		s.DocumentPaths = slices.Delete(s.DocumentPaths, 0, 1)
		s.CoreMemory["human"] = "Ada"
		return nil
	})
	if !errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("Change: %v, want ErrStorage", err)
	}
	same(t, c.State().DocumentPaths, []string{"a", "b"})
	same(t, len(c.State().CoreMemory), 0)
	f.set(-1)
}

func TestNamedCheckpointsAreKept(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	c := r.new()
	if err := c.Checkpoint(t.Context(), "x", ""); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("Checkpoint before the first message: %v, want ErrNotFound", err)
	}
	r.send(c, "hello")
	if err := c.Checkpoint(t.Context(), "before", "asked for"); err != nil {
		t.Fatal(err)
	}
	kept, err := r.store.Checkpoint(t.Context(), c.ID(), "before")
	if err != nil {
		t.Fatal(err)
	}
	same(t, []string{kept.Name, kept.Reason}, []string{"before", "asked for"})
}

func TestSessionFilesAreWrittenThroughTheSession(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"go": {
		calls(use("c1", "write", `{"path":"session:memory/a.md","content":"kept"}`)),
		calls(use("c2", "read", `{"path":"session:memory/a.md"}`), use("c3", "ls", `{"path":"session:memory"}`)),
	}})
	c := r.new()
	r.send(c, "go")
	data, err := r.store.ReadFile(t.Context(), c.ID(), "memory/a.md")
	if err != nil || string(data) != "kept" {
		t.Errorf("ReadFile = %q, %v; the tool said %q", data, err, results(r.path(c.ID()))["c1"].Text)
	}
	got := results(r.path(c.ID()))
	if !strings.Contains(got["c2"].Text, "kept") || !strings.Contains(got["c3"].Text, "a.md") {
		t.Errorf("read says %q, ls says %q", got["c2"].Text, got["c3"].Text)
	}
}

func TestAnAskForTheSessionIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, memory.New(), nil)
		c := r.new()
		r.send(c, "hello")
		time.Sleep(3 * time.Second)
		if err := r.store.RequestHandover(t.Context(), c.ID(), tidemark.Holder{Program: "other"}); err != nil {
			t.Fatal(err)
		}
		if a := <-c.Handed(); a.From.Program != "other" {
			t.Errorf("asked by %v", a.From)
		}
		// A lease that is taken away is said.
		if err := r.store.Release(t.Context(), c.ID(), true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !r.noticed("This session is no longer ours") {
			t.Errorf("notices %q", r.notices())
		}
		if _, err := c.Send(t.Context(), tidemark.Text("late")); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("Send without the lease: %v, want ErrConflict", err)
		}
		c.Close(t.Context())
	})
}

func TestALeaseOutlivesStorageThatFailsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &full{Backend: memory.New(), after: -1}
		r := newRig(t, f, nil)
		c := r.new()
		r.send(c, "hello")
		f.set(0)
		time.Sleep(20 * time.Second)
		f.set(-1)
		time.Sleep(time.Minute)
		l, err := r.store.Lease(t.Context(), c.ID())
		if err != nil || l.Expired {
			t.Errorf("Lease = %+v, %v", l, err)
		}
		r.send(c, "still here")
		r.close(c)
	})
}
