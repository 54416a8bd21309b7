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

// soundSession writes a session that nothing is wrong with, and returns its file.
func soundSession(t *testing.T, tool convert.Tool, dir string) string {
	t.Helper()
	s := converttest.Sound(tool.Name)
	s.ID = tidemark.NewSessionID()
	s.ForeignID = newID(tool)
	out, err := OpenFolder(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := tool.Export(t.Context(), out, s); err != nil {
		t.Fatal(err)
	}
	return out.full(out.Created()[0])
}

func TestWhatAToolRefusesIsFoundAndMendedInACopy(t *testing.T) {
	for _, name := range []string{"claude-code", "codex", "opencode"} {
		tool, err := ToolNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		base := soundSession(t, tool, t.TempDir())
		text, err := os.ReadFile(base)
		if err != nil {
			t.Fatal(err)
		}
		if r := repaired(t, tool, base); len(r.Found) > 0 || r.ForeignID != "" {
			t.Errorf("%s: a sound session has %v", name, r.Found)
		}
		all := converttest.BrokenSessions(name, string(text))
		for _, b := range all {
			t.Run(name+"/"+b.Name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), filepath.Base(base))
				if b.Text == string(text) {
					t.Fatal("the test breaks nothing")
				}
				if err := os.WriteFile(file, []byte(b.Text), 0o600); err != nil {
					t.Fatal(err)
				}
				checkRepair(t, tool, file, b.Kind)
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

func repaired(t *testing.T, tool convert.Tool, file string) *Repair {
	t.Helper()
	r, err := OpenRepair(tool.Name, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.File(context.Background(), file); err != nil {
		t.Fatal(err)
	}
	return r
}

// checkRepair mends a file: the fault is named, the copy has none, and everything
// that was said is in it.
func checkRepair(t *testing.T, tool convert.Tool, file, kind string) {
	t.Helper()
	r := repaired(t, tool, file)
	found := false
	for _, f := range r.Found {
		found = found || f.Kind == kind
	}
	if !found || r.ForeignID == "" {
		t.Fatalf("found %v, written %q; want a %s", r.Found, r.ForeignID, kind)
	}
	copied := r.Folder.full(r.Folder.Created()[0])
	if again := repaired(t, tool, copied); len(again.Found) > 0 {
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
	if kind == dialogue.FaultDamaged && lost > 1 || kind != dialogue.FaultDamaged && lost > 0 {
		t.Errorf("%d texts are not in the copy:\n%s", lost, said)
	}
}
