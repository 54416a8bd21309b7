package opencode_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/opencode"
)

const samples = "../testdata/opencode"

// tools are opencode's names of the neutral ones; it has none to wait.
func tools() map[string][]string {
	return map[string][]string{"read": {"read"}, "edit": {"edit"}, "write": {"write"}, "bash": {"bash"}, "todo": {"todowrite"}, "task": {"task"}, "wait": nil}
}

// unnoted are sessions of the samples that expected.json does not tell of.
func unnoted() map[string]map[string]string {
	const failed = "one of five first runs, which failed before they said anything"
	return map[string]map[string]string{"1.1.34": {
		"ses_e235eed6cffeSpa1jmGLkJow6p": failed, "ses_e235ed52affeFaslTk7ce302Rf": failed, "ses_e235ec8a1ffe1Wjkv0dmuDZHcv": failed,
		"ses_e235eb9ddffeOvhj1RYH2BFmuN": failed, "ses_e235eaa2dffeTD64jjidv3oC7t": failed,
	}}
}

func TestTheSamplesOfOpencodeComeIn(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS(samples)) {
		t.Run(s.Name, func(t *testing.T) {
			s.Source = place(t, filepath.Join(samples, s.Name), ".")
			s.Unnoted = unnoted()[s.Name]
			got := s.Check(t, opencode.Tool(), tools())
			drafts := 0
			for _, one := range got.Sessions {
				for _, e := range one.Entries {
					if e.Draft {
						drafts++
						t.Logf("%s: %s is a draft", one.ForeignID, e.ID)
					}
				}
				for _, w := range one.Workers {
					if w.Call == "" {
						t.Errorf("%s: helper %s has no call", one.ForeignID, w.Name)
					}
				}
			}
			if drafts > len(s.Unnoted)+1 {
				t.Errorf("%d drafts, want them only in sessions that failed or were killed", drafts)
			}
		})
	}
}

func TestAnExportedFileIsTheSameAsTheDatabase(t *testing.T) {
	names, err := filepath.Glob(samples + "/1.18.33/export/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("exports %q, %v", names, err)
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

func TestTheSamplesOfKiloComeIn(t *testing.T) {
	const samples = "../testdata/kilo-cli"
	for _, s := range converttest.Samples(t, os.DirFS(samples)) {
		t.Run(s.Name, func(t *testing.T) {
			s.Source = place(t, filepath.Join(samples, s.Name), ".")
			got := s.Check(t, opencode.Kilo(), tools())
			if opencode.Tool().Detect(t.Context(), s.Source) {
				t.Error("opencode takes it for its own")
			}
			file := place(t, filepath.Join(samples, s.Name, ".local/share/kilo"), "kilo.db")
			if !opencode.Kilo().Detect(t.Context(), file) || len(converttest.Read(t, opencode.Kilo(), file).Sessions) != len(got.Sessions) {
				t.Error("the database alone is not detected")
			}
			workers := 0
			for _, one := range got.Sessions {
				workers += len(one.Workers)
			}
			if workers != 1 {
				t.Errorf("%d workers, want 1", workers)
			}
		})
	}
}
