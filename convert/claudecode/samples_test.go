package claudecode_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/claudecode"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// tools are the names that the neutral ones have here. The list of things to
// do is another tool in each version, so it is not counted.
var tools = map[string][]string{
	"read": {"Read"}, "edit": {"Edit"}, "write": {"Write"}, "bash": {"Bash"}, "task": {"Agent", "Task"}, "todo": nil, "wait": nil,
}

// unnoted are sessions of the samples that expected.json does not tell of.
var unnoted = map[string]map[string]string{
	"2.1.197": {"f1fbe9a4-2393-489a-a0bc-1f3c9cddfd01": "a session of beta whose run was not noted"},
	"2.1.325": {"85fc119a-8d05-447e-9699-b83a8c018b3f": "a session of beta whose run was not noted"},
}

func TestWhatWasDoneInClaudeCodeComesIn(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/claude-code")) {
		t.Run(s.Name, func(t *testing.T) {
			s.Unnoted = unnoted[s.Name]
			got := s.Check(t, claudecode.Tool(), tools)
			t.Logf("%d sessions", len(got.Sessions))
			for _, w := range s.Want {
				if one := got.Find(w.Session); one != nil && w.Live != nil {
					live := converttest.Texts(converttest.Path(one.Entries, one.Head), tidemark.User)
					live = slices.DeleteFunc(live, func(p string) bool { return strings.HasPrefix(p, "/") })
					if d := cmp.Diff(w.Live, live); d != "" {
						t.Errorf("%s: the branch that the session is on:\n%s", w.Label, d)
					}
				}
			}
		})
	}
}

func TestWhatIsExportedComesInAsItWas(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/claude-code")) {
		t.Run(s.Name, func(t *testing.T) {
			got := converttest.Read(t, claudecode.Tool(), s.Source)
			out := converttest.NewOut()
			for _, one := range got.Sessions {
				if lost, err := claudecode.Tool().Export(t.Context(), out, one.Session); err != nil || len(lost) > 0 {
					t.Errorf("export of %s: %v, lost %q", one.ForeignID, err, lost)
				}
				one.Lost = nil // request logs are left behind once
			}
			again := converttest.Read(t, claudecode.Tool(), out.Source())
			if d := cmp.Diff(strings.Split(got.Dump(t), "\n"), strings.Split(again.Dump(t), "\n")); d != "" {
				t.Errorf("export and import changed it:\n%.4000s", d)
			}
			sameLines(t, s.Source.FS, out.Files)
		})
	}
}

// sameLines compares the records themselves: all but the request logs are
// written as they were.
func sameLines(t *testing.T, was, is fs.FS) {
	t.Helper()
	files := 0
	_ = fs.WalkDir(was, ".claude/projects", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".jsonl" {
			return err
		}
		files++
		a, b := records(t, was, name), records(t, is, strings.TrimPrefix(name, ".claude/"))
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s:\n%.3000s", name, d)
		}
		return nil
	})
	t.Logf("%d transcripts", files)
}

func records(t *testing.T, fsys fs.FS, name string) (all []any) {
	t.Helper()
	for line, err := range convert.Lines(fsys, name) {
		var v map[string]any
		if err == nil {
			err = json.Unmarshal(line.Text, &v)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.HasPrefix(v["type"].(string), "api-request") {
			all = append(all, v)
		}
	}
	return all
}

func TestAGrowingTranscriptKeepsWhatIsFinal(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/claude-code")) {
		t.Run(s.Name, func(t *testing.T) {
			drafts, entries := converttest.CheckGrowth(t, claudecode.Tool(), s.Source, func(file string) (bool, []string) {
				var beside []string
				if dir := path.Dir(file); path.Base(dir) == "subagents" {
					beside = []string{path.Dir(dir) + ".jsonl"}
				}
				return path.Ext(file) == ".jsonl" && strings.Contains(file, "projects/"), beside
			})
			t.Logf("%d drafts of %d entries", drafts, entries)
		})
	}
}
