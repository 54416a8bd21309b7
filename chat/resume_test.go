package chat_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model/anthropic"
	"github.com/tidemark-sessions/tidemark/model/openai"
	"github.com/tidemark-sessions/tidemark/store"
)

// providers are those whose bytes have to be the same.
func providers(m *scripted) map[string]chat.Model {
	return map[string]chat.Model{"scripted": m, "anthropic": anthropic.New(anthropic.Options{Key: "k"}), "openai": openai.New(openai.Options{Key: "k"})}
}

// goesOn reports a resumed conversation whose first request does not begin with
// all of the last one before.
func goesOn(t *testing.T, r *rig, id tidemark.SessionID, from int64) {
	t.Helper()
	was := r.model.last(t)
	r.forget()
	c := r.resume(id)
	if from > 0 {
		if err := c.Branch(t.Context(), from); err != nil {
			t.Fatal(err)
		}
	}
	before := len(r.model.all())
	r.send(c, "and now?")
	now := r.model.all()[before]
	for name, m := range providers(r.model) {
		t.Run(name, func(t *testing.T) { beginsWith(t, m, now, was) })
	}
	valid(t, now)
	if r.noticed("differs") {
		t.Errorf("notices %q", r.notices())
	}
	r.close(c)
}

func TestResumeSendsWhatWasSentByteForByte(t *testing.T) {
	thinking := tidemark.Block{Type: tidemark.BlockThinking, Text: "hm <b>", Provider: "anthropic", Raw: `{"type":"thinking", "thinking":"hm <b>","signature":"QUJD=="}`}
	image := tidemark.Block{Type: tidemark.BlockImage, MediaType: "image/png", Data: []byte("\x89PNG\r\n")}
	script := map[string][]reply{
		"work":  work["work"],
		"think": {{blocks: []tidemark.Block{thinking, use("t1", "bash", `{ "command" : "echo '<&>' \u00e9" }`)}}, {blocks: []tidemark.Block{thinking, tidemark.Text("so")}}},
		"stop":  {{text: []string{"I was about"}, hang: true}},
	}
	for name, play := range map[string]func(*rig, *chat.Chat){
		"words":    func(r *rig, c *chat.Chat) { r.send(c, "hello") },
		"tools":    func(r *rig, c *chat.Chat) { r.send(c, "hello"); r.send(c, "work") },
		"thinking": func(r *rig, c *chat.Chat) { r.send(c, "think"); r.send(c, "more") },
		"images": func(r *rig, c *chat.Chat) {
			if _, err := c.Send(context.Background(), image, tidemark.Text("what is this?")); err != nil {
				r.t.Fatal(err)
			}
		},
		"a compaction": func(r *rig, c *chat.Chat) { r.many(c, 30); r.send(c, "work") },
		"memory": func(r *rig, c *chat.Chat) {
			r.send(c, "hello")
			if err := c.SetMemory(context.Background(), "human", "Ada", false); err != nil {
				r.t.Fatal(err)
			}
			r.send(c, "more")
		},
		"a cancelled answer": func(r *rig, c *chat.Chat) {
			r.send(c, "hello")
			ctx, cancel := context.WithCancel(context.Background())
			r.model.asked = make(chan struct{})
			go func() { <-r.model.asked; cancel() }()
			c.Send(ctx, tidemark.Text("stop"))
			r.model.asked = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachBackend(t, func(t *testing.T, b tidemark.Backend) {
				r := newRig(t, b, script)
				c := r.new()
				play(r, c)
				r.close(c)
				goesOn(t, r, c.ID(), 0)
				goesOn(t, r, c.ID(), 0)
			})
		})
	}
}

func TestABranchAndAForkSendTheirPastByteForByte(t *testing.T) {
	r := newRig(t, memory.New(), work)
	c := r.new()
	r.send(c, "hello")
	r.send(c, "work")
	end := r.path(c.ID())
	r.send(c, "elsewhere")
	// The last request on the branch is the one that led to its last answer.
	requests := r.model.all()
	r.model.requests = requests[:len(requests)-1]
	r.close(c)
	seq := end[len(end)-1].Seq
	f, err := r.store.Fork(t.Context(), c.ID(), seq, "")
	if err != nil {
		t.Fatal(err)
	}
	goesOn(t, r, c.ID(), seq)
	r.model.requests = requests[:len(requests)-1]
	goesOn(t, r, f.ID, 0)
	goesOn(t, r, f.ID, 0)
}

func TestABranchIntoTheMiddleOfACallIsValidAndRunsNothing(t *testing.T) {
	r := newRig(t, memory.New(), work)
	c := r.new()
	r.send(c, "work")
	for _, e := range r.path(c.ID()) {
		if err := c.Branch(t.Context(), e.Seq); err != nil {
			t.Fatal(err)
		}
		r.send(c, "go on")
		valid(t, r.model.last(t))
		path := r.path(c.ID())
		for _, call := range e.Blocks {
			if got := results(path)[call.ID].Text; call.Type == tidemark.BlockToolUse && !strings.Contains(got, "taken back to this point") {
				t.Errorf("%s: the model is told %q", call.ID, got)
			}
		}
	}
	same(t, ran(t, r), 1)
}

func TestWhatDiffersIsSaid(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	c := r.new()
	r.send(c, "hello")
	r.close(c)
	r.o.Model = renamed{r.model}
	r.forget()
	c = r.resume(c.ID())
	r.send(c, "more")
	if !r.noticed("What is sent differs from what was sent before") {
		t.Errorf("notices %q", r.notices())
	}
	r.forget()
	r.send(c, "and more")
	if len(r.notices()) > 0 {
		t.Errorf("said twice: %q", r.notices())
	}
	// Another model has no cache to lose.
	if err := c.SetModel(r.model, "other", "m2", false); err != nil {
		t.Fatal(err)
	}
	r.send(c, "and you?")
	if len(r.notices()) > 0 {
		t.Errorf("said of another model: %q", r.notices())
	}
	same(t, r.model.last(t).Model, "m2")
	r.close(c)
	kept, err := r.store.Checkpoint(t.Context(), c.ID(), "")
	if err != nil {
		t.Fatal(err)
	}
	provider, name := chat.ModelOf(kept)
	same(t, []string{provider, name}, []string{"other", "m2"})
}

func TestAVaultedSecretIsSentAgainAsItWas(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	find := func(e tidemark.Entry) []store.Secret {
		var all []store.Secret
		e.EachText(func(i int, text string, raw bool) string {
			if at := strings.Index(text, "hunter2"); at >= 0 && !raw {
				all = append(all, store.Secret{Text: i, From: at, To: at + 7, Rule: "password"})
			}
			return text
		})
		return all
	}
	r.store = store.New(r.backend, &store.Options{Dead: allDead, Secrets: find, Redact: store.RedactVault})
	r.o.Store = r.store
	c := r.new()
	r.send(c, "my password is hunter2")
	r.close(c)
	if strings.Contains(fmt.Sprint(r.path(c.ID())), "hunter2") {
		t.Error("the log has the secret")
	}
	goesOn(t, r, c.ID(), 0)
}

func TestResumeWithoutAWordWritesNothingNew(t *testing.T) {
	r := newRig(t, memory.New(), work)
	c := r.new()
	r.send(c, "work")
	if err := c.Checkpoint(t.Context(), "", "hibernated"); err != nil {
		t.Fatal(err)
	}
	r.close(c)
	was, err := r.store.Checkpoint(t.Context(), c.ID(), "")
	if err != nil || was.Reason != "hibernated" {
		t.Fatalf("%+v, %v", was, err)
	}
	path := r.path(c.ID())
	c = r.resume(c.ID())
	r.close(c)
	now, err := r.store.Checkpoint(t.Context(), c.ID(), "")
	if err != nil {
		t.Fatal(err)
	}
	same(t, now, was)
	same(t, len(r.path(c.ID())), len(path))
}

func TestASecondHolderIsRefused(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	r.store = store.New(r.backend, &store.Options{Dead: func(tidemark.Holder) bool { return false }})
	r.o.Store = r.store
	c := r.new()
	r.send(c, "hello")
	_, err := chat.Resume(t.Context(), r.o, c.ID())
	if err == nil || !strings.Contains(err.Error(), "is open in test (pid 1 on here)") {
		t.Errorf("Resume: %v", err)
	}
	r.close(c)
	r.close(r.resume(c.ID()))
}

func TestWhatAnotherProgramKeptInACheckpointStays(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	c := r.new()
	r.send(c, "hello")
	r.close(c)
	w, err := r.store.Attach(t.Context(), c.ID(), r.o.Holder)
	if err != nil {
		t.Fatal(err)
	}
	theirs := store.Checkpoint{Extra: []byte(`{"theirs":{"a":1}}`)}
	theirs.Interpreter = store.Interpreter{SandboxID: "sandbox-1", WorkspacePath: "/home/theirs/workspace"}
	if err := w.SaveCheckpoint(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = r.resume(c.ID())
	r.send(c, "more")
	r.close(c)
	kept, err := r.store.Checkpoint(t.Context(), c.ID(), "")
	if err != nil || !strings.Contains(string(kept.Extra), `"theirs":{"a":1}`) {
		t.Errorf("Extra %s, %v", kept.Extra, err)
	}
	if kept.Interpreter.SandboxID != "sandbox-1" || kept.Interpreter.WorkspacePath != "/home/theirs/workspace" {
		t.Errorf("the interpreter of another program became %+v", kept.Interpreter)
	}
}

func TestADamagedCheckpointGivesDefaultsAndANotice(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"go": {calls(use("c", "bash", `{"command":"true"}`))}})
	c := r.new()
	r.send(c, "hello")
	if _, err := c.AddTask(t.Context(), "tidy up"); err != nil {
		t.Fatal(err)
	}
	r.close(c)
	key := tidemark.Key{Kind: "checkpoint", ID: string(c.ID())}
	rec, err := r.backend.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	rec.Version++
	rec.Body = []byte(`{"tasks": 7}`)
	rec.Sum = rec.Checksum()
	if _, err := r.backend.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), Puts: []tidemark.Record{rec}}); err != nil {
		t.Fatal(err)
	}
	goesOn(t, r, c.ID(), 0)
	if !r.noticed("The checkpoint of this session is damaged") {
		t.Errorf("notices %q", r.notices())
	}
	fresh := slices.IndexFunc(r.path(c.ID()), func(e tidemark.Entry) bool {
		return e.Kind == "interpreter" && e.Text() == "the checkpoint of the session is damaged"
	})
	if fresh < 0 {
		t.Error("why the interpreter is a fresh one is not recorded")
	}
	c = r.resume(c.ID())
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Always, nil }
	r.send(c, "go")
	same(t, results(r.path(c.ID()))["c"].IsError, false)
}

func TestModelsMayBeChangedWhileATurnRuns(t *testing.T) {
	r := newRig(t, memory.New(), work)
	c := r.new()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := c.SetModel(r.model, "p", fmt.Sprint("m", i%3), false); err != nil {
				t.Error(err)
			}
			c.ModelName()
			c.Session()
			c.State()
			c.Tools()
			c.Messages(t.Context())
		}
	})
	for range 5 {
		r.send(c, "work")
	}
	close(stop)
	wg.Wait()
}
