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
