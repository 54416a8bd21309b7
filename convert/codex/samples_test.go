package codex_test

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/convert/codex"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// samples are what Codex itself left; see ../testdata/README.md.
const samples = "../testdata/codex"

// tools maps what the script meant to what Codex has: it reads and writes in
// the shell or by patches. The newest version had no plan.
func tools(version string) map[string][]string {
	shell := []string{"shell", "exec_command", "apply_patch"}
	names := map[string][]string{"read": shell, "bash": shell, "write": shell, "edit": shell,
		"todo": {"update_plan"}, "task": {"spawn_agent"}, "wait": {"wait_agent"}}
	if version == "0.166.0" {
		names["todo"] = nil
	}
	return names
}

func TestEverySampleComesInAsItWasHeld(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS(samples)) {
		t.Run(s.Name, func(t *testing.T) {
			for i, w := range s.Want {
				if s.Name == "0.50.0" && w.Label == "compact" {
					// After its summary this version asked again, and got the
					// same answer a second time.
					s.Want[i].Turns[0].Reply = ""
				}
			}
			s.Check(t, codex.Tool(), tools(s.Name))
		})
	}
}

func TestEverySampleComesBackFromAnExport(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS(samples)) {
		t.Run(s.Name, func(t *testing.T) {
			got := converttest.Read(t, codex.Tool(), s.Source)
			for _, one := range got.Sessions {
				again := roundTrip(t, got, one)
				sameEntries(t, got, one, again)
				if one.Title != again.Title || one.Model != "" && one.Model != again.Model || one.Project != again.Project || !one.CreatedAt.Equal(again.CreatedAt) {
					t.Errorf("%s: came back as %q of %s in %s", one.ForeignID, again.Title, again.Model, again.Project)
				}
			}
		})
	}
}

func TestAGrowingRolloutKeepsWhatIsFinal(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS(samples)) {
		t.Run(s.Name, func(t *testing.T) {
			drafts, entries := converttest.CheckGrowth(t, codex.Tool(), s.Source, func(file string) (bool, []string) {
				return strings.HasPrefix(path.Base(file), "rollout-") && strings.HasSuffix(file, ".jsonl"), nil
			})
			t.Logf("%d drafts of %d entries", drafts, entries)
		})
	}
}
