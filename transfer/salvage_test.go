package transfer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// salvageHome is a home of Claude Code whose prompts name a session.
func salvageHome(t *testing.T) (h *toolHome, foreign, file string) {
	t.Helper()
	h = &toolHome{tool: "claude-code", dir: t.TempDir()}
	if err := os.CopyFS(h.dir, os.DirFS("../convert/testdata/claude-code/2.1.325")); err != nil {
		t.Fatal(err)
	}
	foreign = "3f49178b-9046-4c20-85ac-704277813017"
	return h, foreign, h.file(t, foreign)
}

// foreignOf lists the sessions that came in under an id, with their tags and branches.
func foreignOf(t *testing.T, s *store.Store, foreign string) (all []string) {
	t.Helper()
	found, err := s.Foreign(t.Context(), foreign)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range found {
		all = append(all, strings.Join(append(i.Tags, branchOf(t, s, i.ID)...), "|"))
	}
	return all
}

func TestPromptsOfADeletedSessionAreSalvagedUntilItTurnsUp(t *testing.T) {
	h, foreign, file := salvageHome(t)
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.Remove(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(memory.New(), nil)
	for range 2 {
		h.back(t, s)
		got := foreignOf(t, s, foreign+"/prompts")
		if len(got) != 1 || !strings.HasPrefix(got[0], "prompts only|user How should I brew green tea?|user And how many grams of leaf per cup?|") {
			t.Fatalf("salvaged: %q", got)
		}
		if got := foreignOf(t, s, foreign); len(got) != 0 {
			t.Errorf("under its own id: %q", got)
		}
	}
	all := sessionsOf(t, s)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	h.back(t, s)
	if got := foreignOf(t, s, foreign); len(got) != 1 || strings.HasPrefix(got[0], "prompts only") {
		t.Errorf("when it turned up: %q", got)
	}
	if got := foreignOf(t, s, foreign+"/prompts"); len(got) != 0 {
		t.Errorf("what was salvaged is still there: %q", got)
	}
	if len(sessionsOf(t, s)) != len(all) {
		t.Errorf("%d sessions, were %d", len(sessionsOf(t, s)), len(all))
	}
}

func TestPromptsOfASessionThatIsHereAreNotSalvaged(t *testing.T) {
	h, foreign, file := salvageHome(t)
	s := store.New(memory.New(), nil)
	h.back(t, s)
	all := sessionsOf(t, s)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	h.back(t, s)
	if d := cmp.Diff(all, sessionsOf(t, s)); d != "" {
		t.Error(d)
	}
	if got := foreignOf(t, s, foreign+"/prompts"); len(got) != 0 {
		t.Errorf("salvaged: %q", got)
	}
}

func TestPromptsAreSalvagedWhenAllTranscriptsAreGone(t *testing.T) {
	h, foreign, _ := salvageHome(t)
	if err := os.RemoveAll(filepath.Join(h.dir, ".claude", "projects")); err != nil {
		t.Fatal(err)
	}
	s := store.New(memory.New(), nil)
	h.tool = ""
	h.back(t, s)
	if got := foreignOf(t, s, foreign+"/prompts"); len(got) != 1 {
		t.Errorf("salvaged: %q", got)
	}
}

func TestACheckupTellsWhatAToolDeletesNext(t *testing.T) {
	home := t.TempDir()
	now := time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)
	project := filepath.Join(home, ".claude", "projects", "-w")
	if err := os.MkdirAll(project, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, days := range map[string]int{"11111111-1111-4111-8111-111111111111": 27, "21111111-1111-4111-8111-111111111111": 40, "31111111-1111-4111-8111-111111111111": 3} {
		file := filepath.Join(project, name+".jsonl")
		line := `{"type":"user","uuid":"u","sessionId":"` + name + `","message":{"role":"user","content":"hi"}}` + "\n"
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, now, now.AddDate(0, 0, -days)); err != nil {
			t.Fatal(err)
		}
	}
	for settings, want := range map[string]string{
		``:                           "2 of 3 will be deleted within a week (30 days after their last change), the next on 2026-05-31",
		`{"cleanupPeriodDays":45}`:   "1 of 3 will be deleted within a week (45 days after their last change), the next on 2026-06-05",
		`{"cleanupPeriodDays":3650}`: "each is deleted 3650 days after its last change, the next on ",
		`{"cleanupPeriodDays":`:      "none is deleted by itself",
	} {
		file := filepath.Join(home, ".claude", "settings.json")
		if settings == "" {
			os.Remove(file)
		} else if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		c := &open.Checkup{}
		CheckRetention(t.Context(), c, store.New(memory.New(), nil), home, now)
		if len(c.Found) != 1 || !strings.Contains(c.Found[0].Says, want) || strings.Contains(want, "none") == strings.Contains(c.Found[0].Fix, "cleanupPeriodDays") {
			t.Errorf("with %s: %+v, want %s", settings, c.Found, want)
		}
	}
	// What is here already is no reason to worry.
	os.Remove(filepath.Join(home, ".claude", "settings.json"))
	s, who := store.New(memory.New(), nil), store.Self("test")
	i := &Importer{Opened: open.Around(s), Holder: who}
	if _, err := i.Homes(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	c := &open.Checkup{Holder: who}
	CheckRetention(t.Context(), c, s, home, now)
	if len(c.Found) != 1 || c.Found[0].State != open.Healthy || !strings.Contains(c.Found[0].Says, "; 2 of them are kept here as they are") || strings.Contains(c.Found[0].Fix, "import") {
		t.Errorf("with all of it here: %+v", c.Found)
	}
}
