package transfer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
)

// asFile writes a session, and returns its file and the text of that.
func asFile(t *testing.T, tool convert.Tool, s *convert.Session) (file, text string) {
	t.Helper()
	s.ID = tidemark.NewSessionID()
	s.ForeignID = newID(tool)
	out, err := OpenFolder(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := tool.Export(t.Context(), out, s); err != nil {
		t.Fatal(err)
	}
	file = out.full(out.Created()[0])
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, string(b)
}

func TestWhatAToolRefusesIsFoundAndMendedInACopy(t *testing.T) {
	for _, name := range []string{"claude-code", "codex", "opencode"} {
		tool, err := ToolNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		base, text := asFile(t, tool, converttest.Sound(name))
		shorter, compacted := asFile(t, tool, converttest.Compacted(name))
		for _, file := range []string{base, shorter} {
			if r := repaired(t, tool, file, false); len(r.Found) > 0 || r.ForeignID != "" {
				t.Errorf("%s: a sound session has %v", name, r.Found)
			}
		}
		all := converttest.BrokenSessions(name, text, compacted)
		for _, b := range all {
			t.Run(name+"/"+b.Name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), filepath.Base(base))
				if b.Text == text || b.Text == compacted {
					t.Fatal("the test breaks nothing")
				}
				if err := os.WriteFile(file, []byte(b.Text), 0o600); err != nil {
					t.Fatal(err)
				}
				checkRepair(t, tool, file, b)
				if after, err := os.ReadFile(file); err != nil || string(after) != b.Text {
					t.Errorf("the original was changed: %v", err)
				}
			})
		}
		if len(all) < 30 {
			t.Errorf("%s: only %d broken sessions", name, len(all))
		}
	}
}

func repaired(t *testing.T, tool convert.Tool, file string, dropThinking bool) *Repair {
	t.Helper()
	r, err := OpenRepair(tool.Name, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.DropThinking = dropThinking
	defer r.Close()
	if err := r.File(context.Background(), file); err != nil {
		t.Fatal(err)
	}
	return r
}

// checkRepair mends a file: the fault is named, the copy has none, and everything
// that was said is in it.
func checkRepair(t *testing.T, tool convert.Tool, file string, b converttest.Broken) {
	t.Helper()
	if b.Signed {
		if r := repaired(t, tool, file, false); len(r.Found) > 0 {
			t.Errorf("nobody can tell, and found is %v", r.Found)
		}
	}
	r := repaired(t, tool, file, b.Signed)
	found := false
	for _, f := range r.Found {
		found = found || f.Kind == b.Kind
	}
	if !found || r.ForeignID == "" {
		t.Fatalf("found %v, written %q; want a %s", r.Found, r.ForeignID, b.Kind)
	}
	copied := r.Folder.full(r.Folder.Created()[0])
	if again := repaired(t, tool, copied, b.Signed); len(again.Found) > 0 {
		t.Errorf("the copy has %v", again.Found)
	}
	p, done, err := openSource(copied, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	got := converttest.ReadWhole(t, tool, p)
	said := strings.Join(converttest.Texts(got.Sessions[0].Entries, tidemark.User), "\n") + strings.Join(converttest.Texts(got.Sessions[0].Entries, tidemark.Assistant), "\n")
	lost := 0
	for n := range converttest.Rounds {
		for _, text := range []string{fmt.Sprintf("prompt %d", n), fmt.Sprintf("answer %d", n)} {
			if !strings.Contains(said, text) {
				lost++
			}
		}
	}
	if b.Kind == dialogue.FaultDamaged && lost > 1 || b.Kind != dialogue.FaultDamaged && lost > 0 {
		t.Errorf("%d texts are not in the copy:\n%s", lost, said)
	}
}

func TestSessionsThatTheirToolKeptThemselvesAreNotAdrift(t *testing.T) {
	for _, name := range []string{"claude-code", "codex"} {
		tool, err := ToolNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		homes, err := filepath.Glob(filepath.Join("..", "convert", "testdata", name, "*", ".*"))
		if err != nil || len(homes) == 0 {
			t.Fatal(homes, err)
		}
		compactions := 0
		for _, home := range homes {
			p, done, err := openSource(home, nil)
			if err != nil {
				t.Fatal(err)
			}
			for s, err := range tool.Import(t.Context(), p) {
				if convert.IsSkip(err) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				var all []convert.Entry
				for e, err := range s.Entries {
					if err == nil {
						all = append(all, e)
						if e.Kind == convert.KindCompaction {
							compactions++
						}
					}
				}
				if found := tool.Handover.Adrift(all); len(found) > 0 {
					t.Errorf("%s: session %s: %v", home, s.ForeignID, found)
				}
			}
			done()
		}
		if compactions < 2 {
			t.Errorf("%s: only %d sessions were compacted", name, compactions)
		}
	}
}
