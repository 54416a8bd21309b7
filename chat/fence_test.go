package chat_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// fencedRig is a conversation with a sandbox that notes what was allowed, and
// holds nothing.
func fencedRig(t *testing.T, script map[string][]reply) (r *rig, started *[]sandbox.Policy) {
	t.Helper()
	r, started = newRig(t, memory.New(), script), new([]sandbox.Policy)
	r.o.Box = func(s tool.State, f tool.Files, _ store.Limits, out func(string, []byte)) (*tool.Box, error) {
		held := &tool.Sandbox{
			Policy: func() sandbox.Policy {
				p := sandbox.Policy{Root: r.dir, Home: "/home/ada", Read: []string{"/"}}
				for _, w := range r.o.Grants.Widenings() {
					p = p.Widen(w)
				}
				return p
			},
			Confine: func(p sandbox.Policy, _ *exec.Cmd) (*sandbox.Fence, error) {
				*started = append(*started, p)
				return nil, nil
			},
		}
		return tool.New(tool.Options{Root: r.dir, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir}, State: s, Files: f, Output: out, Sandbox: held})
	}
	return r, started
}

const wider = `{"command":"true # wider","sandbox":{"allow_hosts":["modules.example.org"]}}`

func TestWhatWidensTheSandboxIsAskedForOnceOrForTheProject(t *testing.T) {
	r, started := fencedRig(t, map[string][]reply{
		"plain": {calls(use("p", "bash", `{"command":"true # plain"}`))},
		"wider": {calls(use("w", "bash", wider))},
	})
	book := grant.Open(t.TempDir(), "ada")
	r.o.Grants = book.For(r.dir)
	answer := chat.Once
	r.decide = func(_ context.Context, a chat.ApprovalRequest) (chat.Decision, error) { return answer, nil }
	hosts := func() string { return strings.Join((*started)[len(*started)-1].Hosts, " ") }
	c := r.new()

	answer = chat.Deny
	if r.send(c, "wider"); len(*started) != 0 {
		t.Fatal("it ran although it was denied")
	}
	text := render.ApprovalText(r.asks[0].Lines)
	if !strings.Contains(text, "@ this widens the sandbox, to:\n  connect to \"modules.example.org\"\n") || !r.asks[0].Whole {
		t.Errorf("the person is shown\n%s", text)
	}

	// Whatever was approved, a widening is a question.
	answer = chat.Always
	r.send(c, "plain")
	answer = chat.Once
	if r.send(c, "wider"); hosts() != "modules.example.org" || len(r.asks) != 3 {
		t.Errorf("allowed once: %q after %d questions", hosts(), len(r.asks))
	}
	if r.send(c, "wider"); len(r.asks) != 4 {
		t.Error("what was allowed once is not asked for again")
	}
	c.Close(t.Context())
	if all, _ := book.All(); len(all) != 1 {
		t.Errorf("once left a grant: %v", all)
	}

	c = r.new()
	answer = chat.Always
	r.send(c, "wider")
	answer = chat.Deny
	asked := len(r.asks)
	if r.send(c, "wider"); len(r.asks) != asked+1 || !r.asks[asked].Widens.Empty() {
		t.Errorf("the command itself is not asked for: %+v", r.asks[asked:])
	}
	answer = chat.Once
	if r.send(c, "plain"); hosts() != "modules.example.org" {
		t.Errorf("the project does not have it: %q", hosts())
	}
	other := r.new()
	if r.send(other, "plain"); hosts() != "modules.example.org" {
		t.Errorf("another session of the project does not have it: %q", hosts())
	}
	gone, err := book.Revoke(t.Context(), func(g grant.Grant) bool { return g.Kind == grant.Sandbox })
	if err != nil || len(gone) != 1 || gone[0].Session != "" {
		t.Fatalf("%+v %v", gone, err)
	}
	if r.send(other, "plain"); hosts() != "" {
		t.Errorf("it is there after it was revoked: %q", hosts())
	}
}

func TestNobodyButAPersonAtThisMachineWidensTheSandboxForGood(t *testing.T) {
	script := map[string][]reply{"wider": {calls(use("w", "bash", wider))}}
	r, started := fencedRig(t, script)
	r.o.Grants = nil // the server's clients, a fleet's reviewers
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Always, nil }
	c := r.new()
	r.send(c, "wider")
	if r.send(c, "wider"); len(r.asks) != 2 || len(*started) != 2 {
		t.Errorf("%d questions, %d runs", len(r.asks), len(*started))
	}
	r, started = fencedRig(t, script)
	r.o.Unattended = true // -p --yes, a wake, a fleet's agent
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Always, nil }
	c = r.new()
	r.send(c, "wider")
	if len(r.asks) != 0 || len(*started) != 0 || !r.noticed(`Denied bash: it would widen the sandbox to connect to "modules.example.org", and nobody is there to ask.`) {
		t.Errorf("%d questions, %d runs, %q", len(r.asks), len(*started), r.notices())
	}
}

// Where programs cannot be held, and for files that run by themselves, no
// standing approval counts.
func TestWhatIsAskedForEachTimeIsCoveredByNoApproval(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{
		"run":   {calls(use("r", "bash", `{"command":"touch ran"}`))},
		"write": {calls(use("w", "write", `{"path":".git/hooks/pre-commit","content":"x"}`))},
		"plain": {calls(use("p", "write", `{"path":".git.txt","content":"x"}`))},
	})
	unfenced := "programs cannot be held here"
	r.o.Box = func(s tool.State, f tool.Files, _ store.Limits, out func(string, []byte)) (*tool.Box, error) {
		return tool.New(tool.Options{Root: r.dir, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir}, State: s, Files: f, Output: out, Unfenced: unfenced})
	}
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Always, nil }
	c := r.new()
	for _, prompt := range []string{"run", "run", "write", "write", "plain", "plain"} {
		r.send(c, prompt)
	}
	if len(r.asks) != 5 {
		t.Errorf("%d questions, want 5", len(r.asks))
	}
	for i, a := range r.asks[:4] {
		if a.Whole || !strings.Contains(render.ApprovalText(a.Lines), "@ asked each time: ") {
			t.Errorf("question %d: %+v", i, a)
		}
	}
	same(t, len(c.State().Approvals), 1)
	r.close(c)
	if err := os.Remove(filepath.Join(r.dir, "ran")); err != nil {
		t.Error(err)
	}
	r.o.Unattended = true
	c = r.new()
	r.send(c, "run")
	if _, err := os.Stat(filepath.Join(r.dir, "ran")); err == nil || !r.noticed("Denied bash: programs cannot be held here, and nobody is there to ask.") {
		t.Errorf("it ran, or nobody was told: %q", r.notices())
	}
}
