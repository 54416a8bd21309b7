package transfer

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// equalsSource fails the test unless the sessions are at their heads what an import of
// their source at once makes of them, and an import once more changes nothing.
func (h *home) equalsSource(t *testing.T, when string) {
	t.Helper()
	whole := &home{tool: h.tool, dir: h.dir, s: store.New(memory.New(), nil), machine: "one"}
	whole.read(t, false)
	want := whole.heads(t)
	// What was final, and is the last one again, stays final.
	final := cmp.Comparer(func(a, b string) bool {
		return strings.Replace(a, `,"draft":true`, "", 1) == strings.Replace(b, `,"draft":true`, "", 1)
	})
	if diff := cmp.Diff(want, h.heads(t), final); diff != "" || len(want) == 0 {
		t.Errorf("%s: of %d sessions at once - and in steps +\n%.3000s", when, len(want), diff)
	}
	for _, r := range h.read(t, true).Results {
		if r.Entries != 0 || r.State != "known" {
			t.Errorf("%s: imported once more, %s is %s with %d entries", when, r.ForeignID, r.State, r.Entries)
		}
	}
}

func TestWhatAToolTakesBackLeavesTheBranchOfTheHead(t *testing.T) {
	for name, how := range rowTools {
		t.Run(name, func(t *testing.T) {
			h, by := rowHome(t, name, 2)
			step := func(when string, statements ...string) {
				t.Helper()
				by.does(statements...)
				h.read(t, false)
				h.equalsSource(t, when)
			}
			h.read(t, false)
			for n := 4; n < 8; n++ {
				step("said", how.say(1, n)...)
			}
			for n := 7; n > 3; n-- {
				step(fmt.Sprintf("message %d taken back", n), how.unsay(1, n)...)
			}
			step("said again", how.say(1, 4)...)
			by.does(how.say(1, 5)...)
			step("said again", how.say(1, 6)...)
			by.does(how.unsay(1, 6)...)
			step("two taken back", how.unsay(1, 5)...)
		})
	}
}

// clineHome is a home with a session of Cline with so many messages.
func clineHome(t *testing.T) (h *home, has func(messages ...int)) {
	h = &home{tool: "cline", dir: t.TempDir(), s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}
	return h, func(messages ...int) {
		t.Helper()
		var all []string
		for _, n := range messages {
			all = append(all, fmt.Sprintf(`{"id":"m%d","role":"user","ts":%d,"content":"line %d"}`, n, 1767323045000+n, n))
		}
		h.write(t, filepath.Join(h.dir, ".cline/data/sessions/1_a/1_a.messages.json"), []byte(`{"version":1,"sessionId":"1_a","messages":[`+strings.Join(all, ",")+`]}`))
		h.read(t, false)
	}
}

func TestWhatAToolTakesBackOfAFileLeavesTheBranchOfTheHead(t *testing.T) {
	h, has := clineHome(t)
	for i, messages := range [][]int{{1, 2, 3, 4, 5}, {1, 2, 3}, {1, 2, 3, 4, 5}, {1, 2}, {1, 2, 6, 7}, {1, 2, 6}, {1, 2, 3, 4, 5}, {1, 2, 6, 7}, {1}} {
		has(messages...)
		h.equalsSource(t, fmt.Sprintf("step %d, %v", i, messages))
	}
}

// vscodeHome is a home with a chat of VS Code with these requests, written anew each time.
func vscodeHome(t *testing.T) (h *home, has func(requests ...int)) {
	const id = "aaaaaaaa-0000-4000-8000-000000000001"
	h = &home{tool: "copilot-chat", dir: t.TempDir(), s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}
	return h, func(requests ...int) {
		t.Helper()
		var all []string
		for _, n := range requests {
			all = append(all, fmt.Sprintf(`{"requestId":"q%d","timestamp":%d,"message":{"text":"line %d","parts":[]},"modelId":"copilot/m","response":[{"value":"answer %d"}],"result":{"timings":{"totalElapsed":5}}}`, n, 1700000001000+n, n, n))
		}
		h.write(t, filepath.Join(h.dir, ".config/Code/User/workspaceStorage/0a1b/chatSessions/"+id+".jsonl"),
			[]byte(fmt.Sprintf(`{"kind":0,"v":{"version":3,"sessionId":%q,"creationDate":1700000000000,"customTitle":"tea","requests":[%s]}}`, id, strings.Join(all, ","))+"\n"))
		h.read(t, false)
	}
}

func TestWhatVSCodeTakesBackLeavesTheBranchOfTheHead(t *testing.T) {
	h, has := vscodeHome(t)
	for i, requests := range [][]int{{1, 2, 3}, {1, 2}, {1, 2, 3}, {1}, {1, 4, 5}, {1, 4}, {1, 2, 3}, {1}} {
		has(requests...)
		h.equalsSource(t, fmt.Sprintf("step %d, %v", i, requests))
	}
}

// nothingAtTheHead fails the test unless nothing is on the branch of the head, while all
// that was said is kept.
func (h *home) nothingAtTheHead(t *testing.T, session string, entries int) {
	t.Helper()
	if at := h.heads(t)[session]; len(at) != 1 {
		t.Errorf("all was taken back, and the branch of the head is\n%s", strings.Join(at, "\n"))
	}
	said := 0
	for _, line := range h.kept(t)[session] {
		if strings.Contains(line, `"role":"`) {
			said++
		}
	}
	if said != entries {
		t.Errorf("%d entries are kept, want %d", said, entries)
	}
	for _, r := range h.read(t, true).Results {
		if r.State != "known" || r.Entries != 0 {
			t.Errorf("imported once more, %s is %s with %d entries", r.ForeignID, r.State, r.Entries)
		}
	}
}

func TestAToolThatTakesBackAllLeavesNothingAtTheHead(t *testing.T) {
	for name, session := range map[string]string{"opencode": "ses_000", "kilo-cli": "ses_000", "goose": "20261101_0"} {
		t.Run(name, func(t *testing.T) {
			how := rowTools[name]
			h, by := rowHome(t, name, 1)
			h.read(t, false)
			for n := 3; n >= 0; n-- {
				by.does(how.unsay(0, n)...)
			}
			h.read(t, false)
			h.nothingAtTheHead(t, session, 4)
			by.does(how.say(0, 0)...)
			h.read(t, false)
			h.equalsSource(t, "said again")
		})
	}
	for name, chats := range map[string]func(*testing.T) (*home, func(...int)){"cline": clineHome, "copilot-chat": vscodeHome} {
		t.Run(name, func(t *testing.T) {
			h, has := chats(t)
			has(1, 2)
			said := 2
			if name == "copilot-chat" {
				said = 4
			}
			has()
			for session := range h.heads(t) {
				h.nothingAtTheHead(t, session, said)
			}
			has(1, 2)
			h.equalsSource(t, "back again")
			has()
			has(3)
			h.equalsSource(t, "and another")
		})
	}
}

func TestWhereAPersonIsInASessionIsNotChangedByAnImport(t *testing.T) {
	h, has := clineHome(t)
	has(1, 2, 3, 4, 5)
	var id tidemark.SessionID
	for i, err := range h.s.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		id = i.ID
	}
	w, err := h.s.Attach(t.Context(), id, store.Self("person"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Branch(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := func() int64 {
		t.Helper()
		v, err := h.s.View(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		head, err := v.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return head
	}
	h.read(t, true)
	if at() != 2 {
		t.Errorf("an import of the same moved the head to %d", at())
	}
	has(1, 2, 3, 4)
	if at() != 2 {
		t.Errorf("an import of what was taken back moved the head to %d", at())
	}
}
