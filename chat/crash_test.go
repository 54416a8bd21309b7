package chat_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// mortal is the storage of a process that dies: after so many commits nothing
// reaches it any more. With late the last commit takes effect, and nobody
// hears of it.
type mortal struct {
	tidemark.Backend
	late bool

	mu      sync.Mutex
	left    int
	commits int
	dead    bool
}

var errDead = tidemark.Storagef("the process is dead")

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *mortal) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	m.mu.Lock()
	m.commits++
	last := m.left == 0 && !m.dead
	m.dead = m.dead || m.left == 0
	m.left--
	m.mu.Unlock()
	if m.isDead() {
		if last && m.late {
			if _, err := m.Backend.Commit(ctx, b); err != nil {
				return tidemark.Receipt{}, err
			}
		}
		return tidemark.Receipt{}, errDead
	}
	return m.Backend.Commit(ctx, b)
}

func (m *mortal) Get(ctx context.Context, k tidemark.Key) (tidemark.Record, error) {
	if m.isDead() {
		return tidemark.Record{}, errDead
	}
	return m.Backend.Get(ctx, k)
}

func (m *mortal) Lines(ctx context.Context, k tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if m.isDead() {
		return func(yield func(tidemark.Line, error) bool) { yield(tidemark.Line{}, errDead) }
	}
	return m.Backend.Lines(ctx, k, spans...)
}

// everyDeath runs a conversation that dies at each of its commits in turn.
func everyDeath(t *testing.T, test func(t *testing.T, inner tidemark.Backend, m *mortal) (died bool)) {
	for _, late := range []bool{false, true} {
		for k, died := 0, true; died; k++ {
			eachBackend(t, func(t *testing.T, b tidemark.Backend) {
				died = test(t, b, &mortal{Backend: b, left: k, late: late})
			})
			if k > 100 {
				t.Fatal("it never lives to the end")
			}
		}
	}
}

func TestWhoeverDiesAnywhereGoesOn(t *testing.T) {
	script := map[string][]reply{
		"work": work["work"],
		"more": {calls(use("d1", "bash", `{"command":"echo y >> also"}`), use("d2", "task", `{"action":"add","text":"rest"}`), use("d3", "remember", `{"key":"human","text":"Ada"}`)), says("ok")},
	}
	everyDeath(t, func(t *testing.T, inner tidemark.Backend, m *mortal) bool {
		r := newRig(t, m, script)
		r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Always, nil }
		c := r.new()
		var err error
		for _, text := range []string{"work", "more"} {
			if _, err = c.Send(t.Context(), tidemark.Text(text)); err != nil {
				break
			}
		}
		if err != nil && !errors.Is(err, tidemark.ErrStorage) {
			t.Fatalf("Send: %v, want ErrStorage", err)
		}
		if closeErr := c.Close(t.Context()); err == nil {
			err = closeErr
		}
		acknowledged := make(map[int64]tidemark.Entry)
		for _, e := range r.told() {
			if e.Kept != nil {
				acknowledged[e.Kept.Seq] = *e.Kept
			}
		}
		outlives(t, r, inner, c, acknowledged)
		return err != nil
	})
}

// outlives resumes what a dead conversation left in the storage.
func outlives(t *testing.T, dead *rig, inner tidemark.Backend, was *chat.Chat, acknowledged map[int64]tidemark.Entry) {
	t.Helper()
	r := newRig(t, inner, nil)
	r.dir, r.o.Box = dead.dir, dead.o.Box
	if _, err := r.store.Session(t.Context(), was.ID()); errors.Is(err, tidemark.ErrNotFound) {
		if len(acknowledged) > 0 {
			t.Errorf("%d entries were acknowledged, and there is no session", len(acknowledged))
		}
		return
	}
	began := make(map[string]bool)
	for _, e := range r.path(was.ID()) {
		if e.Kind == "call" {
			began[callID(e)] = true
		}
	}
	before := ran(t, dead)
	c := r.resume(was.ID())
	r.send(c, "go on")
	found := make(map[int64]tidemark.Entry)
	path := r.path(c.ID())
	for _, e := range path {
		found[e.Seq] = e
	}
	for seq, e := range acknowledged {
		if d := cmp.Diff(e, found[seq], cmpopts.IgnoreFields(tidemark.Entry{}, "Position", "At", "Seq")); d != "" {
			t.Errorf("entry %d (-acknowledged +found)\n%s", seq, d)
		}
	}
	for id, b := range results(path) {
		if !strings.HasPrefix(b.Text, "interrupted") {
			continue
		}
		if says := strings.Contains(b.Text, "may have had effects"); says != began[id] {
			t.Errorf("%s: began %t, and the model is told %q", id, began[id], b.Text)
		}
	}
	if len(r.model.all()) != 1 {
		t.Errorf("asked %d times", len(r.model.all()))
	}
	valid(t, r.model.last(t))
	if again := ran(t, r); again != before || again > 1 {
		t.Errorf("the tool ran %d times, then %d", before, again)
	}
	r.close(c)
}

func TestADeadHoldersApprovalsAndShellAreThere(t *testing.T) {
	eachBackend(t, func(t *testing.T, b tidemark.Backend) {
		m := &mortal{Backend: b, left: 1 << 20}
		r := newRig(t, m, map[string][]reply{
			"move": {calls(use("c1", "bash", `{"command":"mkdir -p sub && cd sub && export COLOUR=blue"}`))},
			"look": {calls(use("c2", "bash", `{"command":"echo $COLOUR in ${PWD##*/}"}`))},
		})
		r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Always, nil }
		c := r.new()
		r.send(c, "move")
		m.mu.Lock()
		m.dead = true
		m.mu.Unlock()
		c.Close(t.Context())

		next := newRig(t, b, nil)
		next.dir, next.o.Box, next.model.answer = r.dir, r.o.Box, r.model.answer
		next.o.Root, next.o.Grants = r.o.Root, r.o.Grants
		next.decide = func(_ context.Context, a chat.ApprovalRequest) (chat.Decision, error) { return chat.Once, nil }
		c = next.resume(c.ID())
		next.send(c, "look")
		if got := results(next.path(c.ID()))["c2"].Text; !strings.HasPrefix(got, "blue in sub") {
			t.Errorf("the shell says %q", got)
		}
		next.close(c)
		// A fresh interpreter begins anew, and the log says why.
		next.o.FreshInterpreter = "asked for"
		c = next.resume(c.ID())
		next.send(c, "look")
		path := next.path(c.ID())
		if got := results(path)["c2"].Text; strings.HasPrefix(got, "blue in sub") {
			t.Errorf("the fresh shell says %q", got)
		}
		why := ""
		for _, e := range path {
			if e.Kind == "interpreter" {
				why = e.Text()
			}
		}
		same(t, why, "asked for")
	})
}

func TestAToolThatCannotBeMadeAgainIsSaid(t *testing.T) {
	r := newRig(t, newMemory(), nil)
	c := r.new()
	r.send(c, "hello")
	err := c.Change(t.Context(), func(s *store.Checkpoint) error {
		s.DynamicTools = append(s.DynamicTools, store.DynamicTool{Name: "bash", Command: "true"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.close(c)
	r.close(r.resume(c.ID()))
	if !r.noticed("A tool of this session cannot be used") {
		t.Errorf("notices %q", r.notices())
	}
}

func TestAResumeThatFailsLetsGoOfTheSession(t *testing.T) {
	r := newRig(t, newMemory(), nil)
	r.store = store.New(r.backend, &store.Options{Dead: func(tidemark.Holder) bool { return false }})
	r.o.Store = r.store
	c := r.new()
	r.send(c, "hello")
	r.close(c)
	good := r.o.Box
	r.o.Box = func(tool.State, tool.Files, store.Limits, func(string, []byte)) (*tool.Box, error) {
		return nil, errors.New("no tools today")
	}
	if _, err := chat.Resume(t.Context(), r.o, c.ID()); err == nil || !strings.Contains(err.Error(), "no tools today") {
		t.Errorf("Resume: %v", err)
	}
	r.o.Box = good
	r.close(r.resume(c.ID()))
}
