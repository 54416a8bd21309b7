package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/store"
)

// work is a turn with two tools, one after the other.
var work = map[string][]reply{
	"work": {
		{text: []string{"I look ", "first."}, blocks: []tidemark.Block{use("c1", "write", `{"path":"a.txt","content":"one"}`)}},
		calls(use("c2", "bash", `{"command":"cat a.txt; echo x >> ran"}`), use("c3", "read", `{"path":"a.txt"}`)),
		says("All done."),
	},
}

func TestATurnKeepsEachStepInItsOrder(t *testing.T) {
	eachBackend(t, func(t *testing.T, b tidemark.Backend) {
		r := newRig(t, b, work)
		c := r.new()
		if _, err := r.store.Session(t.Context(), c.ID()); !errors.Is(err, tidemark.ErrNotFound) || c.Exists() {
			t.Fatalf("before the first message: %v, want ErrNotFound", err)
		}
		turn := r.send(c, "work")
		same(t, turn, chat.Turn{Text: "All done.", Stop: model.StopEnd, Rounds: 3, Usage: tidemark.Usage{OutputTokens: 3}})
		path := r.path(c.ID())
		same(t, shape(path), []string{"tools", "system", "user", "assistant", "call", "snapshot", "tool", "assistant", "call", "tool", "call", "tool", "assistant"})
		i, err := r.store.Session(t.Context(), c.ID())
		if err != nil {
			t.Fatal(err)
		}
		same(t, []string{i.Title, i.Model, i.Mode}, []string{"work", "m1", tidemark.ModeLocal})
		created, kept, answered := 0, []string{}, []int{}
		for _, e := range r.told() {
			if e.Answered {
				answered = append(answered, len(kept))
			}
			if e.Created != "" {
				created++
				if len(kept) > 0 {
					t.Error("something was told as kept before the session was told as created")
				}
			}
			if e.Kept != nil {
				kept = append(kept, shape([]tidemark.Entry{*e.Kept})...)
			}
		}
		if created != 1 {
			t.Errorf("Created was told %d times", created)
		}
		same(t, kept, shape(path))
		same(t, answered, []int{len(path) - 1}) // once, and before it takes time to keep that
		for _, q := range r.model.all() {
			valid(t, q)
		}
		last := r.model.last(t)
		got := last.Entries[len(last.Entries)-1].Blocks
		if len(got) != 2 || !strings.HasPrefix(got[0].Text, "<data ") || !strings.Contains(got[0].Text, "one") {
			t.Errorf("the results as they are sent: %+v", got)
		}
	})
}

func TestAConversationInWhichNothingWasSaidLeavesNothingBehind(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	c := r.new()
	if err := c.SetMemory(t.Context(), "human", "Ada", false); err != nil {
		t.Fatal(err)
	}
	r.close(c)
	r.close(c)
	for i, err := range r.store.Sessions(t.Context(), store.Filter{}) {
		t.Errorf("left behind: %v %v", i.ID, err)
	}
}

func TestWhatWasSettledBeforeTheFirstMessageIsKeptWithIt(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"hello": {{hang: true}}})
	c := r.new()
	if _, err := c.AddTask(t.Context(), "tidy up"); err != nil {
		t.Fatal(err)
	}
	r.model.asked = make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := c.Send(ctx, tidemark.Text("hello")); done <- err }()
	<-r.model.asked // the message is kept, its answer is not there yet
	kept, err := r.store.Checkpoint(t.Context(), c.ID(), "")
	if err != nil || len(kept.Tasks) != 1 {
		t.Errorf("Checkpoint = %+v, %v", kept.Tasks, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestToolsThatCannotRunAreAnsweredSo(t *testing.T) {
	for name, c := range map[string]struct {
		reply reply
		want  string
	}{
		"broken arguments": {reply{blocks: []tidemark.Block{use("c", "read", `{}`)}, broken: map[string]string{"c": `{"path": "a`}}, "not run: the arguments are not a JSON object: {\"path\": \"a"},
		"unknown tool":     {calls(use("c", "fly", `{}`)), `there is no tool "fly"; there are: `},
		"no arguments":     {calls(use("c", "remember", `[]`)), "the arguments do not fit"},
		"empty name":       {calls(use("c", "", `{}`)), `there is no tool ""`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, memory.New(), map[string][]reply{"go": {c.reply, says("ok")}})
			chat := r.new()
			if turn := r.send(chat, "go"); turn.Text != "ok" {
				t.Errorf("turn %+v", turn)
			}
			b := results(r.path(chat.ID()))["c"]
			if !b.IsError || !strings.Contains(b.Text, c.want) {
				t.Errorf("result %+v, want %q", b, c.want)
			}
			valid(t, r.model.last(t))
		})
	}
}

func TestEndlessRoundsEndAtTheLimit(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	n := 0
	r.model.answer = func(model.Request) reply {
		n++
		return calls(use(fmt.Sprint("c", n), "ls", `{}`))
	}
	r.o.Limits.ToolRounds = 4
	c := r.new()
	turn := r.send(c, "go")
	same(t, []any{turn.Stop, turn.Rounds}, []any{chat.StopRounds, 4})
	if !r.noticed("Stopped after 4 rounds") {
		t.Errorf("notices %q", r.notices())
	}
	r.close(c)
	r.o.Limits.ToolRounds = 9 // of new sessions: this one has its own
	c = r.resume(c.ID())
	same(t, r.send(c, "on").Rounds, 4)
	valid(t, r.model.last(t))
}

func TestAModelErrorIsKeptAndTheNextMessageWorks(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"go": {{text: []string{"I am"}, err: &model.Error{Provider: "p", Status: 500, Message: "broken"}}}})
	c := r.new()
	turn, err := c.Send(t.Context(), tidemark.Text("go"))
	var e *model.Error
	if !errors.As(err, &e) || turn.Stop != chat.StopError {
		t.Fatalf("Send = %+v, %v", turn, err)
	}
	r.send(c, "again")
	path := r.path(c.ID())
	same(t, shape(path), []string{"tools", "system", "user", "error", "user", "assistant"})
	if got := path[3].Text(); got != "p answered 500: broken" {
		t.Errorf("error entry %q", got)
	}
	same(t, len(r.model.last(t).Entries), 2)
}

func TestAnAnswerThatEndsWithoutAnEndIsAnError(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	r.o.Model = noAnswer{r.model}
	c := r.new()
	if _, err := c.Send(t.Context(), tidemark.Text("go")); err == nil || !strings.Contains(err.Error(), "before its end") {
		t.Errorf("Send: %v", err)
	}
}

func TestAnEmptyAnswerIsKeptAndNotSentBack(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"go": {{}}})
	c := r.new()
	if turn := r.send(c, "go"); turn.Text != "" || turn.Stop != model.StopEnd {
		t.Errorf("turn %+v", turn)
	}
	r.send(c, "again")
	same(t, shape(r.path(c.ID())), []string{"tools", "system", "user", "assistant", "user", "assistant"})
	same(t, shape(r.model.last(t).Entries), []string{"user", "user"})
	if len(r.notices()) > 0 {
		t.Errorf("notices %q", r.notices())
	}
}

func TestInvalidTextAndEndlessPromptsAreKept(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	c := r.new()
	r.send(c, "bad \xff\xfe bytes")
	long := strings.Repeat("a long prompt ", 10<<20/14)
	r.send(c, long)
	r.close(c)
	path := r.path(c.ID())
	if got := path[len(path)-2].Text(); got != long {
		t.Errorf("%d bytes were kept of %d", len(got), len(long))
	}
	was := r.model.last(t)
	c = r.resume(c.ID())
	r.send(c, "short")
	// The long one is the newest of few: it stays whole.
	valid(t, r.model.last(t))
	if r.noticed("differs") {
		now := r.model.last(t)
		t.Errorf("what was sent differs: %q, then %q", was.Entries[0].Text(), now.Entries[0].Text())
	}
}

func TestApprovalsAreByToolAndScopeAndCarryOver(t *testing.T) {
	cat := func(id string) tidemark.Block { return use(id, "bash", `{"command":"cat a.txt"}`) }
	r := newRig(t, memory.New(), map[string][]reply{
		"deny":   {calls(cat("c1"))},
		"once":   {calls(cat("c2"))},
		"always": {calls(cat("c3"), cat("c4"), use("c5", "bash", `{"command":"ls"}`))},
		"more":   {calls(cat("c6"))},
	})
	said := chat.Deny
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return said, nil }
	c := r.new()
	r.send(c, "deny")
	said = chat.Once
	r.send(c, "once")
	same(t, len(r.asks), 2)
	r.decide = func(_ context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
		if a.Scope == "vetted: ls" {
			// The approval before it was kept before its tool ran.
			kept, err := r.store.Checkpoint(t.Context(), c.ID(), "")
			if err != nil || len(kept.Approvals) != 1 {
				t.Errorf("kept approvals %v, %v", kept.Approvals, err)
			}
			return "perhaps", nil // what is not a yes is a no
		}
		return chat.Always, nil
	}
	r.send(c, "always")
	same(t, len(r.asks), 4) // c3 and c5
	same(t, r.asks[2].Call, chat.Call{ID: "c3", Tool: "bash", Scope: "vetted: cat", Input: json.RawMessage(`{"command":"cat a.txt"}`)})
	r.close(c)
	c = r.resume(c.ID())
	r.send(c, "more")
	same(t, len(r.asks), 4)
	all := results(r.path(c.ID()))
	for id, want := range map[string]bool{"c1": true, "c2": false, "c3": false, "c4": false, "c5": true, "c6": false} {
		if denied := all[id].Text == "not run: the user denied it."; denied != want {
			t.Errorf("%s: %q, denied is to be %t", id, all[id].Text, want)
		}
	}
	same(t, c.State().Approvals, []store.Approval{{Tool: "bash", Scope: "vetted: cat"}})
}

func TestNobodyToAskMeansNo(t *testing.T) {
	r := newRig(t, memory.New(), work)
	r.o.Approve = nil
	c := r.new()
	r.send(c, "work")
	if _, err := os.Stat(filepath.Join(r.dir, "a.txt")); err == nil {
		t.Error("a tool ran that nobody approved")
	}
}

func TestLocalOnlyRefusesWhatIsElsewhere(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"go": {calls(use("c", "fetch", `{"url":"http://example.invalid/"}`))}})
	c := r.new()
	r.send(c, "go")
	if b := results(r.path(c.ID()))["c"]; !strings.Contains(b.Text, "local-only") {
		t.Errorf("result %q", b.Text)
	}
	if err := c.SetModel(r.model, "far", "m2", true); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("SetModel: %v, want ErrInvalid", err)
	}
	r.close(c)
	r.o.Remote = true
	if _, err := chat.Resume(t.Context(), r.o, c.ID()); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Resume with a remote model: %v, want ErrInvalid", err)
	}
	local := r.o
	local.Session.Mode = tidemark.ModeLocal
	if _, err := chat.New(local); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("New, local-only with a remote model: %v, want ErrInvalid", err)
	}
	r.o.Allow = true
	c = r.resume(c.ID())
	r.send(c, "hello")
	if len(r.asks) > 0 {
		t.Errorf("asked for what is refused: %v", r.asks)
	}
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Deny, nil }
	r.send(c, "go")
	same(t, len(r.asks), 1) // allowed now, and asked for
}

// full is storage that fails when it is told to.
type full struct {
	tidemark.Backend
	mu    sync.Mutex
	after int // commits that still work, negative: all
}

func (f *full) set(after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = after
}

func (f *full) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.after == 0 {
		return tidemark.Receipt{}, tidemark.Storagef("no space left")
	}
	f.after--
	return f.Backend.Commit(ctx, b)
}

func TestFullStorageIsAnErrorAndNothingIsShownAsKept(t *testing.T) {
	for n := range 9 {
		f := &full{Backend: memory.New(), after: n}
		r := newRig(t, f, work)
		c := r.new()
		turn, err := c.Send(t.Context(), tidemark.Text("work"))
		if !errors.Is(err, tidemark.ErrStorage) {
			t.Fatalf("after %d commits: %+v, %v", n, turn, err)
		}
		kept := 0
		for _, e := range r.told() {
			if e.Kept != nil {
				kept++
			}
		}
		f.set(-1)
		if !c.Exists() {
			same(t, []int{n, kept}, []int{0, 0})
		} else {
			same(t, kept, len(r.path(c.ID())))
		}
		// There is room again: the same conversation goes on.
		r.send(c, "on")
		valid(t, r.model.last(t))
		// What has no outcome has one in the log now, which says what is known.
		path := r.path(c.ID())
		all, began := results(path), make(map[string]bool)
		for _, e := range path {
			began[callID(e)] = true
			for _, b := range e.Blocks {
				if _, ok := all[b.ID]; b.Type == tidemark.BlockToolUse && !ok {
					t.Errorf("after %d commits: %s has no outcome", n, b.ID)
				}
			}
		}
		for id, b := range all {
			if says := strings.Contains(b.Text, "may have had effects"); strings.HasPrefix(b.Text, "interrupted") && says != began[id] {
				t.Errorf("after %d commits: %s: began %t, and the model is told %q", n, id, began[id], b.Text)
			}
		}
		r.close(c)
	}
}

func TestACallIsNotTakenForAnEarlierOneOfTheSameID(t *testing.T) {
	f := &full{Backend: memory.New(), after: -1}
	r := newRig(t, f, map[string][]reply{
		"first":  {calls(use("call_0", "bash", `{"command":"true"}`))},
		"second": {calls(use("call_0", "bash", `{"command":"false"}`))},
	})
	c := r.new()
	r.send(c, "first")
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) {
		f.set(0) // what says that it begins cannot be kept
		return chat.Once, nil
	}
	if _, err := c.Send(t.Context(), tidemark.Text("second")); !errors.Is(err, tidemark.ErrStorage) {
		t.Fatalf("Send: %v, want ErrStorage", err)
	}
	f.set(-1)
	r.send(c, "on")
	same(t, results(r.path(c.ID()))["call_0"].Text, "interrupted before this began: it was not run.")
}

// An answer that is not all that the model had to say is told as that, and kept
// as that.
func TestAnAnswerThatWasCutOffSaysSo(t *testing.T) {
	for _, stop := range []string{model.StopMaxTokens, model.StopRefusal, model.StopPause, model.StopUnknown} {
		t.Run(stop, func(t *testing.T) {
			r := newRig(t, memory.New(), map[string][]reply{"count": {{text: []string{"one, two"}, stop: stop}}})
			c := r.new()
			turn := r.send(c, "count")
			same(t, turn.Stop, stop)
			same(t, r.notices(), []string{model.StopText(stop)})
			path := r.path(c.ID())
			if extra := string(path[len(path)-1].Extra); !strings.Contains(extra, `"stop_reason":"`+stop+`"`) {
				t.Errorf("the entry says %s", extra)
			}
		})
	}
}
