package opencode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/opencode"
)

// killed is the exit code of a run that was ended from outside.
const killed = 124

const samples = "../../../shared/fixtures/clients/opencode"

// tools are opencode's names of the neutral ones; it has none to wait.
func tools() map[string][]string {
	return map[string][]string{"read": {"read"}, "edit": {"edit"}, "write": {"write"}, "bash": {"bash"}, "todo": {"todowrite"}, "task": {"task"}}
}

func TestTheSamplesOfOpencodeComeIn(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS(samples)) {
		t.Run(s.Name, func(t *testing.T) {
			s.Place = place(t, filepath.Join(samples, s.Name), ".")
			if s.Name == "1.1.34" {
				// Five first runs failed and are not in the list of what was done.
				failed := map[string]bool{}
				for _, one := range converttest.Read(t, opencode.Tool(), s.Place).Sessions {
					if len(converttest.Texts(one.Entries, tidemark.Assistant)) == 0 {
						failed[one.ForeignID] = true
					}
				}
				if len(failed) != 5 {
					t.Errorf("%d sessions without an answer, want 5", len(failed))
				}
				for id := range failed {
					s.Want = append(s.Want, want(t, id, s))
				}
			}
			for _, w := range s.Want {
				for i, turn := range w.Turns {
					if w.Label == "kill-tool" && turn.Exit == killed {
						w.Turns[i].Tools = nil // it died before it wrote down the call
					}
				}
			}
			got := s.Check(t, opencode.Tool(), tools())
			t.Logf("%d sessions", len(got.Sessions))
			for _, one := range got.Sessions {
				for _, w := range one.Workers {
					if w.Call == "" {
						t.Errorf("%s: helper %s has no call", one.ForeignID, w.Name)
					}
				}
			}
		})
	}
}

// want describes a session by itself, so that Check looks at its form alone.
func want(t *testing.T, id string, s converttest.Sample) converttest.Want {
	one := converttest.Read(t, opencode.Tool(), s.Place).Find(id)
	return converttest.Want{Session: id, Label: "failed", Live: converttest.Texts(one.Entries, tidemark.User)}
}

func TestAnExportedFileIsTheSameAsTheDatabase(t *testing.T) {
	names, _ := filepath.Glob(samples + "/1.18.33/export/*.json")
	if len(names) == 0 {
		t.Skip("the samples of other tools do not lie beside this repository")
	}
	all := converttest.Read(t, opencode.Tool(), place(t, samples+"/1.18.33", "."))
	for _, name := range names {
		p := place(t, filepath.Dir(name), filepath.Base(name))
		if !opencode.Tool().Detect(t.Context(), p) {
			t.Errorf("%s is not detected", name)
		}
		got := converttest.Read(t, opencode.Tool(), p)
		if len(got.Sessions) != 1 || len(got.Skips) != 0 {
			t.Fatalf("%s: %d sessions, skips %q", name, len(got.Sessions), got.Skips)
		}
		a, b := got.Sessions[0], all.Find(got.Sessions[0].ForeignID)
		if x, y := strings.Join(outline(a.Entries), "\n"), strings.Join(outline(b.Entries), "\n"); x != y {
			t.Errorf("%s:\n%s\nand in the database\n%s", name, x, y)
		}
	}
}
