package chat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// reply is what the scripted model does when it is asked.
type reply struct {
	text   []string // streamed, and the text of the answer
	blocks []tidemark.Block
	broken map[string]string
	err    error // after the text
	hang   bool  // after the text, until ctx ends
	wait   bool  // says that it waits for another attempt
	stop   string
}

func says(text ...string) reply { return reply{text: text} }

func calls(blocks ...tidemark.Block) reply { return reply{blocks: blocks} }

func use(id, name, input string) tidemark.Block {
	return tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: name, Input: json.RawMessage(input)}
}

// scripted is a model that answers by a script and remembers what it was sent.
type scripted struct {
	answer func(model.Request) reply

	mu       sync.Mutex
	requests []model.Request
	asked    chan struct{} // has an element for each request, when it is not nil
}

func (m *scripted) Parts(r model.Request) ([][]byte, error) {
	tools, err := model.JSON(r.Tools)
	if err != nil {
		return nil, err
	}
	parts := [][]byte{tools, []byte(r.System)}
	for _, e := range r.Entries {
		part, err := model.JSON(struct {
			Role   tidemark.Role
			Blocks []tidemark.Block
		}{e.Role, e.Blocks})
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func (m *scripted) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		m.mu.Lock()
		m.requests = append(m.requests, r)
		m.mu.Unlock()
		if m.asked != nil {
			m.asked <- struct{}{}
		}
		a := m.answer(r)
		if ctx.Err() != nil {
			yield(model.Event{}, ctx.Err())
			return
		}
		for _, s := range a.text {
			if !yield(model.Event{Text: s}, nil) {
				return
			}
		}
		if a.wait && !yield(model.Event{Wait: &model.Wait{Attempt: 1, Why: errors.New("busy")}}, nil) {
			return
		}
		if a.hang || a.wait {
			<-ctx.Done()
			yield(model.Event{}, ctx.Err())
			return
		}
		if a.err != nil {
			yield(model.Event{}, a.err)
			return
		}
		e := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, Usage: &tidemark.Usage{OutputTokens: 1}}
		if len(a.text) > 0 {
			e.Blocks = append(e.Blocks, tidemark.Text(strings.Join(a.text, "")))
		}
		e.Blocks = append(e.Blocks, a.blocks...)
		stop := a.stop
		if stop == "" {
			stop = model.StopEnd
		}
		yield(model.Event{Done: &model.Answer{Entry: e, Stop: stop, Broken: a.broken}}, nil)
	}
}

func (m *scripted) all() []model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

func (m *scripted) last(t testing.TB) model.Request {
	t.Helper()
	all := m.all()
	if len(all) == 0 {
		t.Fatal("the model was never asked")
	}
	return all[len(all)-1]
}

// byPrompt answers by what the user said last, and by how often the model has
// answered since: a script without state, so that it goes on after a crash.
func byPrompt(script map[string][]reply) func(model.Request) reply {
	return func(r model.Request) reply {
		prompt, n := "", 0
		for _, e := range r.Entries {
			switch e.Role {
			case tidemark.User:
				prompt, n = e.Text(), 0
			case tidemark.Assistant:
				n++
			}
		}
		steps := script[prompt]
		if n >= len(steps) {
			return says("done: " + clipped(prompt))
		}
		return steps[n]
	}
}

func clipped(s string) string { return s[:min(len(s), 40)] }

// rig is what a conversation needs in a test.
type rig struct {
	t       testing.TB
	backend tidemark.Backend
	store   *store.Store
	model   *scripted
	dir     string
	o       chat.Options

	mu     sync.Mutex
	events []chat.Event
	asks   []chat.ApprovalRequest
	hear   func(chat.Event)
	decide func(context.Context, chat.ApprovalRequest) (chat.Decision, error)
}

// allDead lets every earlier holder be replaced at once.
func allDead(tidemark.Holder) bool { return true }

func newRig(t testing.TB, b tidemark.Backend, script map[string][]reply) *rig {
	t.Helper()
	r := &rig{t: t, backend: b, model: &scripted{answer: byPrompt(script)}, dir: t.TempDir()}
	r.store = store.New(b, &store.Options{Dead: allDead})
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Once, nil }
	r.o = chat.Options{
		Store: r.store, Holder: tidemark.Holder{Program: "test", PID: 1, Host: "here"},
		Model: r.model, Name: "m1", Provider: "scripted", System: "Be brief.",
		Compact: compact.Options{MaxMessages: 50, MaxBytes: 32_000},
		Title:   func(first string) string { return clipped(first) },
		Root:    r.dir, Grants: grant.Open(t.TempDir(), "ada").For(r.dir),
		Box: func(s tool.State, f tool.Files, _ store.Limits, out func(string, []byte)) (*tool.Box, error) {
			return tool.New(tool.Options{Root: r.dir, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir}, State: s, Files: f, Output: out})
		},
		Show: func(e chat.Event) {
			r.mu.Lock()
			r.events = append(r.events, e)
			hear := r.hear
			r.mu.Unlock()
			if hear != nil {
				hear(e)
			}
		},
		Approve: func(ctx context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
			r.mu.Lock()
			r.asks = append(r.asks, a)
			decide := r.decide
			r.mu.Unlock()
			return decide(ctx, a)
		},
	}
	return r
}

func (r *rig) new() *chat.Chat {
	r.t.Helper()
	c, err := chat.New(r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func (r *rig) resume(id tidemark.SessionID) *chat.Chat {
	r.t.Helper()
	c, err := chat.Resume(context.Background(), r.o, id)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func (r *rig) send(c *chat.Chat, text string) chat.Turn {
	r.t.Helper()
	turn, err := c.Send(context.Background(), tidemark.Text(text))
	if err != nil {
		r.t.Fatalf("Send(%.40q): %v", text, err)
	}
	return turn
}

func (r *rig) close(c *chat.Chat) {
	r.t.Helper()
	if err := c.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) told() []chat.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *rig) onEvent(hear func(chat.Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hear = hear
}

func (r *rig) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
}

func (r *rig) notices() []string {
	var all []string
	for _, e := range r.told() {
		if e.Notice != "" {
			all = append(all, e.Notice)
		}
	}
	return all
}

func (r *rig) noticed(part string) bool {
	return slices.ContainsFunc(r.notices(), func(n string) bool { return strings.Contains(n, part) })
}

// path returns the entries of the branch that the session is on.
func (r *rig) path(id tidemark.SessionID) []tidemark.Entry {
	r.t.Helper()
	v, err := r.store.View(context.Background(), id)
	if err != nil {
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

// shape is what entries are, one word each.
func shape(entries []tidemark.Entry) []string {
	var all []string
	for _, e := range entries {
		word := e.Kind
		if e.Role != "" {
			word = string(e.Role)
		}
		all = append(all, word)
	}
	return all
}

// results returns what tools answered, by the id of the call.
func results(entries []tidemark.Entry) map[string]tidemark.Block {
	all := make(map[string]tidemark.Block)
	for _, e := range entries {
		for _, b := range e.Blocks {
			if b.Type == tidemark.BlockToolResult {
				all[b.ToolUseID] = b
			}
		}
	}
	return all
}

func same(t testing.TB, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// beginsWith reports a request that does not begin with the bytes of an
// earlier one.
func beginsWith(t testing.TB, m chat.Model, later, earlier model.Request) {
	t.Helper()
	was, err := m.Parts(earlier)
	if err != nil {
		t.Fatal(err)
	}
	now, err := m.Parts(later)
	if err != nil {
		t.Fatal(err)
	}
	if len(now) < len(was) {
		t.Fatalf("%d parts, %d were sent before", len(now), len(was))
	}
	for i := range was {
		if !bytes.Equal(was[i], now[i]) {
			t.Fatalf("part %d differs:\nwas %.300s\nnow %.300s", i, was[i], now[i])
		}
	}
}

// valid reports what no provider would take: calls that are not answered
// exactly once by the next message, results without a call, a beginning that
// is not the user's.
func valid(t testing.TB, r model.Request) {
	t.Helper()
	var open []string
	for i, e := range r.Entries {
		if i == 0 && e.Role != tidemark.User {
			t.Errorf("begins with %s", e.Role)
		}
		var answered []string
		for _, b := range e.Blocks {
			if b.Type == tidemark.BlockToolResult {
				answered = append(answered, b.ToolUseID)
			}
		}
		if !slices.Equal(open, answered) {
			t.Errorf("message %d: calls %v are answered by %v", i, open, answered)
		}
		open = nil
		for _, b := range e.Blocks {
			if b.Type == tidemark.BlockToolUse {
				open = append(open, b.ID)
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("calls %v are not answered", open)
	}
}

// eachBackend runs a test on every backend that a chat has on one machine.
func eachBackend(t *testing.T, test func(t *testing.T, b tidemark.Backend)) {
	t.Run("memory", func(t *testing.T) { test(t, memory.New()) })
	t.Run("sqlite", func(t *testing.T) {
		b, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), &sqlite.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		test(t, b)
	})
}

// many says something n times, numbered.
func (r *rig) many(c *chat.Chat, n int) {
	r.t.Helper()
	for i := range n {
		r.send(c, fmt.Sprintf("message %d %s", i, strings.Repeat("and so on ", 30)))
	}
}

// noAnswer is a model whose streams end without an end.
type noAnswer struct{ *scripted }

func (noAnswer) Stream(context.Context, model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) { yield(model.Event{Text: "well"}, nil) }
}

// renamed is a model that writes its requests in another way.
type renamed struct{ *scripted }

func (m renamed) Parts(r model.Request) ([][]byte, error) {
	parts, err := m.scripted.Parts(r)
	for i := range parts {
		parts[i] = append([]byte("v2:"), parts[i]...)
	}
	return parts, err
}

// ran is how often the bash of the script work ran.
func ran(t testing.TB, r *rig) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, "ran"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "x")
}

func newMemory() tidemark.Backend { return memory.New() }

// callID is the call that an entry of kind call says is about to run.
func callID(e tidemark.Entry) string {
	var all struct {
		Chat struct {
			ID string `json:"id"`
		} `json:"chat"`
	}
	if json.Unmarshal(e.Extra, &all) != nil {
		return ""
	}
	return all.Chat.ID
}
