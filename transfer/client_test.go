package transfer

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// client is the tool of a home that works in a folder.
func (h *toolHome) client(t *testing.T, dir string) Client {
	t.Helper()
	variable := map[string]string{"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}[h.tool]
	c, err := NewClient(h.tool, dir, []string{variable + "=" + h.dir}, store.Self("test"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// resumed hands a session over to a client.
func resumed(t *testing.T, s *store.Store, c Client, id tidemark.SessionID) Handed {
	t.Helper()
	v, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	given, _, err := c.HandOver(t.Context(), store.Point{View: v})
	if err != nil {
		t.Fatal(err)
	}
	return given
}

// taken takes in what a client added to a session.
func taken(t *testing.T, s *store.Store, c Client, foreign string) *Importer {
	t.Helper()
	i, err := c.TakeIn(t.Context(), s, foreign, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestASessionGoesOnInAToolAndInItsSessionThereUntilItWentOnElsewhere(t *testing.T) {
	for _, tool := range []string{"claude-code", "codex"} {
		t.Run(tool, func(t *testing.T) {
			s := store.New(memory.New(), nil)
			id := newTalk(t, s, "which tea?", "green")
			want := branchOf(t, s, id)
			home := newToolHome(t, tool)
			c := home.client(t, t.TempDir())
			given := resumed(t, s, c, id)
			if text, err := os.ReadFile(home.file(t, given.ForeignID)); err != nil || strings.Count(string(text), "was said in Tidemark, and goes on in "+c.Tool.Title) != 1 {
				t.Errorf("%v, or no line tells of the change of tool:\n%s", err, text)
			}
			for range 2 { // each time in the same session of the tool
				want = append(want, home.goOn(t, given.ForeignID)...)
				if i := taken(t, s, c, given.ForeignID); len(i.Results) != 1 || i.Results[0].Session != id || i.Results[0].Entries+i.Results[0].Drafts != 2 {
					t.Errorf("taken in: %+v", i.Results)
				}
				if diff := cmp.Diff(want, branchOf(t, s, id)); diff != "" {
					t.Error(diff)
				}
				again := resumed(t, s, c, id)
				if !again.Before || again.ForeignID != given.ForeignID {
					t.Errorf("handed over again as %+v, want the same session", again)
				}
			}

			// From an earlier entry, and after something was said here, it is another
			// session of the tool.
			v, err := s.View(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			earlier, _, err := c.HandOver(t.Context(), store.Point{View: v, Seq: 2})
			if err != nil || earlier.Before || earlier.ForeignID == given.ForeignID {
				t.Errorf("handed over from entry 2 as %+v, %v", earlier, err)
			}
			w, err := s.Attach(t.Context(), id, store.Self("test"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "said here")); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if after := resumed(t, s, c, id); after.Before || after.ForeignID == given.ForeignID || after.ForeignID == earlier.ForeignID {
				t.Errorf("handed over as %+v after something was said here", after)
			}
			if all := sessionsOf(t, s); len(all) != 1 {
				t.Errorf("sessions %v, want one", all)
			}
		})
	}
}

func TestOnlyTheSessionThatWentOnIsTakenIn(t *testing.T) {
	for _, tool := range []string{"claude-code", "codex"} {
		t.Run(tool, func(t *testing.T) {
			home := newToolHome(t, tool)
			other := store.New(memory.New(), nil)
			private := resumed(t, other, home.client(t, t.TempDir()), newTalk(t, other, "a private matter", "yes"))
			s := store.New(memory.New(), nil)
			id := newTalk(t, s, "which tea?", "green")
			c := home.client(t, t.TempDir())
			given := resumed(t, s, c, id)
			home.goOn(t, given.ForeignID)
			home.goOn(t, private.ForeignID)
			taken(t, s, c, given.ForeignID)
			i, err := c.TakeIn(t.Context(), s, given.ForeignID, time.Now().Add(-time.Hour)) // all files changed since
			if err != nil || i.Ignored != 1 {
				t.Errorf("TakeIn = %d ignored, %v, want the other one to be", i.Ignored, err)
			}
			if all := sessionsOf(t, s); len(all) != 1 || all[0] != id {
				t.Errorf("sessions %v, want only %s", all, id)
			}
			if i := taken(t, s, c, "11111111-1111-4111-8111-111111111111"); len(i.Results) != 0 {
				t.Errorf("of a session that the tool does not have: %+v", i.Results)
			}
		})
	}
}

func TestClaudeCodeGetsASessionWhereItLooksInAFolder(t *testing.T) {
	s := store.New(memory.New(), nil)
	id := newTalk(t, s, "which tea?", "green")
	home := newToolHome(t, "claude-code")
	one, two := home.client(t, t.TempDir()), home.client(t, t.TempDir())
	first, second := resumed(t, s, one, id), resumed(t, s, two, id)
	if second.Before || second.ForeignID == first.ForeignID {
		t.Errorf("in another folder it is %+v, want a session of its own: it is not offered there", second)
	}
	if again := resumed(t, s, two, id); !again.Before {
		t.Errorf("%+v, want the one that is there", again)
	}
}
