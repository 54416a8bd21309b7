package acp_test

import (
	"errors"
	"strings"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// brought makes a session of elsewhere, with two approvals of its own.
func brought(t *testing.T, r *rig) sdk.SessionId {
	t.Helper()
	w := r.store.Create(tidemark.Session{ID: tidemark.NewSessionID(), Project: r.dir}, tidemark.Holder{Program: "import", PID: 1, Host: "elsewhere"})
	_, err := w.Append(t.Context(), tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.User, Blocks: []tidemark.Block{tidemark.Text("hello")}})
	if err == nil {
		err = w.SaveCheckpoint(t.Context(), store.Checkpoint{Approvals: []store.Approval{{Tool: "bash", Scope: "vetted: echo"}, {Tool: "bash", Scope: "rm"}}})
	}
	if err := errors.Join(err, w.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return sdk.SessionId(w.ID())
}

func TestWhatASessionBringsIsAskedOnceInTheEditor(t *testing.T) {
	for name, c := range map[string]struct {
		list, one  sdk.PermissionOptionId
		questions  int // about what it brings
		echoAsks   bool
		asksAgain  bool
		wantsWords string
	}{
		"all":       {"grant-all", "", 1, false, false, "2 of 2 granted"},
		"none":      {"grant-none", "", 1, true, false, "0 of 2 granted"},
		"some":      {"grant-some", "grant-one", 3, false, false, "2 of 2 granted"},
		"no answer": {"allow-once", "", 1, true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			id := brought(t, r)
			answer := func(q sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
				switch {
				case q.ToolCall.ToolCallId == "grants":
					return sdk.NewRequestPermissionOutcomeSelected(c.list)
				case strings.HasPrefix(string(q.ToolCall.ToolCallId), "grants-"):
					return sdk.NewRequestPermissionOutcomeSelected(c.one)
				}
				return sdk.NewRequestPermissionOutcomeSelected("reject-once")
			}
			about := func(e *editor) (n int) {
				for _, q := range e.questions() {
					if strings.HasPrefix(string(q.ToolCall.ToolCallId), "grants") {
						n++
					}
				}
				return n
			}
			e := r.editor()
			e.answers(answer)
			e.load(id, r.dir)
			e.say(id, "run echo one")
			if got := about(e); got != c.questions {
				t.Errorf("%d questions, want %d", got, c.questions)
			}
			if asked := len(e.questions()) > about(e); asked != c.echoAsks {
				t.Errorf("echo was asked for: %v", asked)
			}
			if c.wantsWords != "" {
				e.until(id, c.wantsWords)
			}
			e.leave()
			e = r.editor()
			e.answers(answer)
			e.load(id, r.dir)
			e.say(id, "hello")
			if again := about(e) > 0; again != c.asksAgain {
				t.Errorf("asked again: %v", again)
			}
		})
	}
}
