package chat_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/store"
)

// endowed is a session with every kind of authority, made by the person here.
func endowed(t *testing.T, r *rig) tidemark.SessionID {
	t.Helper()
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Always, nil }
	c := r.new()
	r.send(c, "work")
	if _, err := c.AddLoop(t.Context(), "ship it", time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := c.WakeAt(t.Context(), time.Now().Add(time.Hour).UTC().Truncate(time.Second)); err != nil {
		t.Fatal(err)
	}
	err := c.Change(t.Context(), func(s *store.Checkpoint) error {
		s.DocumentPaths = append(s.DocumentPaths, "/outside/doc.md", "inside.md")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.close(c)
	return c.ID()
}

func endowedRig(t *testing.T) *rig {
	return newRig(t, memory.New(), map[string][]reply{
		"work": {calls(use("c1", "bash", `{"command":"export COLOUR=blue"}`), use("c2", "define_tool", `{"name":"greet","command":"echo hi"}`))},
		"look": {calls(use("c3", "bash", `{"command":"export COLOUR=blue"}`), use("c4", "greet", `{}`))},
	})
}

func kinds(all []chat.Proposal) map[grant.Kind]int {
	n := make(map[grant.Kind]int)
	for _, p := range all {
		n[p.Kind]++
	}
	return n
}

func TestAResumeAsksNothingOfWhatWasGrantedHere(t *testing.T) {
	r := endowedRig(t)
	c := r.resume(endowed(t, r))
	if open := c.Proposals(); len(open) > 0 {
		t.Errorf("proposed: %+v", open)
	}
	s := c.State()
	if len(s.Approvals) != 2 || len(s.Loops) != 1 || len(s.WakeTriggers) != 1 || len(s.DynamicTools) != 1 || len(s.DocumentPaths) != 2 {
		t.Errorf("in force: %+v", s)
	}
}

func TestAnotherMachineProjectOrCopyAsksOnceAndKeepsTheAnswer(t *testing.T) {
	r := endowedRig(t)
	id := endowed(t, r)
	r.o.Grants = grant.Open(t.TempDir(), "ada").For(r.dir) // a new laptop
	c := r.resume(id)
	open := c.Proposals()
	want := map[grant.Kind]int{grant.Approval: 2, grant.Loop: 1, grant.Wake: 1, grant.Tool: 1, grant.Path: 1, grant.Variable: 1}
	same(t, kinds(open), want)
	if s := c.State(); len(s.Approvals)+len(s.Loops)+len(s.WakeTriggers)+len(s.DynamicTools) > 0 || len(s.DocumentPaths) != 1 {
		t.Errorf("in force: %+v", s)
	}
	// Closing without an answer loses nothing.
	r.close(c)
	c = r.resume(id)
	same(t, kinds(c.Proposals()), want)
	var yes []chat.Proposal
	for _, p := range c.Proposals() {
		if p.Kind == grant.Approval || p.Kind == grant.Variable || p.Kind == grant.Tool {
			yes = append(yes, p)
		}
	}
	if err := c.Accept(t.Context(), yes); err != nil {
		t.Fatal(err)
	}
	asked := len(r.asks)
	r.send(c, "look")
	if got := results(r.path(id))["c4"].Text; !strings.HasPrefix(got, "hi") || len(r.asks) != asked+1 {
		t.Errorf("the tool says %q, asked %d times", got, len(r.asks)-asked)
	}
	r.close(c)
	c = r.resume(id)
	for _, p := range c.Proposals() {
		if !p.Declined {
			t.Errorf("asked again: %+v", p)
		}
	}
	if s := c.State(); len(s.Loops) > 0 || len(s.Approvals) != 3 {
		t.Errorf("in force: %+v", s)
	}
}

func TestAnOlderCheckpointBringsNothingBack(t *testing.T) {
	r := endowedRig(t)
	id := endowed(t, r)
	old, err := r.store.Checkpoint(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	c := r.resume(id)
	err = c.Change(t.Context(), func(s *store.Checkpoint) error { s.Approvals = nil; return nil })
	if err == nil {
		err = c.CancelLoop(t.Context(), "loop-1")
	}
	if err != nil {
		t.Fatal(err)
	}
	r.close(c)
	w, err := r.store.Attach(t.Context(), id, r.o.Holder)
	if err == nil {
		err = errors.Join(w.SaveCheckpoint(t.Context(), old), w.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := r.resume(id).State()
	if len(s.Approvals)+len(s.Loops) > 0 || len(s.DynamicTools) != 1 {
		t.Errorf("in force: %+v", s)
	}
}

func TestWhatIsRevokedElsewhereStopsInAnOpenChat(t *testing.T) {
	r := endowedRig(t)
	dir := t.TempDir()
	r.o.Grants = grant.Open(dir, "ada").For(r.dir)
	c := r.resume(endowed(t, r))
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Deny, nil }
	if _, err := grant.Open(dir, "ada").Revoke(t.Context(), func(grant.Grant) bool { return true }); err != nil {
		t.Fatal(err)
	}
	r.send(c, "look")
	got := results(r.path(c.ID()))
	if !got["c3"].IsError || !got["c4"].IsError || !strings.Contains(got["c4"].Text, "there is no tool") {
		t.Errorf("c3 %q, c4 %q", got["c3"].Text, got["c4"].Text)
	}
	if s := c.State(); len(s.Approvals)+len(s.Loops)+len(s.DynamicTools) > 0 {
		t.Errorf("in force: %+v", s)
	}
}

func TestWithoutABookNothingOutlivesTheConversation(t *testing.T) {
	r := endowedRig(t)
	r.o.Grants = nil
	id := endowed(t, r)
	s := r.resume(id).State()
	if len(s.Approvals)+len(s.Loops)+len(s.WakeTriggers)+len(s.DynamicTools) > 0 {
		t.Errorf("in force: %+v", s)
	}
}

func TestAnApprovalForTheWholeSessionHoldsOnceItIsGranted(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"look": {calls(use("c1", "bash", `{"command":"echo one; echo two"}`), use("c2", "python", `{"code":"1"}`))}})
	c := r.new()
	r.send(c, "hello")
	r.close(c)
	w, err := r.store.Attach(t.Context(), c.ID(), r.o.Holder)
	if err == nil {
		err = errors.Join(w.SaveCheckpoint(t.Context(), store.Checkpoint{Approvals: []store.Approval{{Tool: "bash", Scope: "session"}}}), w.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Deny, nil }
	c = r.resume(c.ID())
	r.send(c, "look")
	if got := results(r.path(c.ID())); !got["c1"].IsError || !got["c2"].IsError {
		t.Errorf("before it is granted: %q, %q", got["c1"].Text, got["c2"].Text)
	}
	if err := c.Accept(t.Context(), c.Proposals()); err != nil {
		t.Fatal(err)
	}
	asked := len(r.asks)
	r.send(c, "look")
	if len(r.asks) != asked+1 || r.asks[asked].Tool != "python" {
		t.Errorf("asked: %+v", r.asks[asked:])
	}
}

// Such an approval was given without a call being seen: what runs whatever it
// is told, and what is written outside of the project, is asked for.
func TestAnApprovalForTheWholeSessionCoversWhatOnlyLooksAndWhatStaysInTheProject(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "x")
	calls := calls(
		use("vetted", "bash", `{"command":"echo one | head -n 1"}`), use("inside", "write", `{"path":"a/b.txt","content":"x"}`), use("stored", "write", `{"path":"session:memory/x","content":"x"}`),
		use("any", "bash", `{"command":"touch x"}`), use("hidden", "bash", `{"command":"echo $(touch x)"}`), use("option", "bash", `{"command":"sort -o x a"}`), use("far", "bash", `{"command":"cat /etc/passwd"}`),
		use("hook", "write", `{"path":".git/hooks/pre-commit","content":"x"}`), use("outside", "write", `{"path":"`+outside+`","content":"x"}`), use("define", "define_tool", `{"name":"t","description":"d","command":"touch x"}`))
	r := newRig(t, memory.New(), map[string][]reply{"look": {calls}})
	c := r.new()
	r.send(c, "hello")
	r.close(c)
	var all []store.Approval
	for _, tool := range []string{"bash", "write", "define_tool"} {
		all = append(all, store.Approval{Tool: tool, Scope: "session"})
	}
	w, err := r.store.Attach(t.Context(), c.ID(), r.o.Holder)
	if err == nil {
		err = errors.Join(w.SaveCheckpoint(t.Context(), store.Checkpoint{Approvals: all}), w.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Deny, nil }
	c = r.resume(c.ID())
	if err := c.Accept(t.Context(), c.Proposals()); err != nil {
		t.Fatal(err)
	}
	r.send(c, "look")
	got := results(r.path(c.ID()))
	for id, runs := range map[string]bool{"vetted": true, "inside": true, "stored": true, "any": false, "hidden": false, "option": false, "far": false, "hook": false, "outside": false, "define": false} {
		if got[id].IsError == runs {
			t.Errorf("%s: %q", id, got[id].Text)
		}
	}
}

func TestLimitsThatComeInMayOnlyLower(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	r.o.Limits = store.Limits{ToolRounds: 20}
	c := r.new()
	r.send(c, "hello")
	r.close(c)
	w, err := r.store.Attach(t.Context(), c.ID(), r.o.Holder)
	if err == nil {
		err = errors.Join(w.SaveCheckpoint(t.Context(), store.Checkpoint{Limits: store.Limits{ToolRounds: 40, OutputBytes: 10, ToolsInContext: 1 << 20}}), w.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	c = r.resume(c.ID())
	same(t, c.State().Limits, store.Limits{ToolRounds: 20, OutputBytes: 10, ToolsInContext: chat.DefaultTools})
	if err := c.Accept(t.Context(), c.Proposals()); err != nil {
		t.Fatal(err)
	}
	same(t, c.State().Limits, store.Limits{ToolRounds: 40, OutputBytes: 10, ToolsInContext: 1 << 20})
}
