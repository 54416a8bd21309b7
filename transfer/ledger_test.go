package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// homes are samples of tools whose ledger knows which session changed.
var homes = map[string]string{"claude-code": "../convert/testdata/claude-code/2.1.197", "codex": "../convert/testdata/codex/0.98.0",
	"pi": "../convert/testdata/pi/0.73.1", "qwen-code": "../convert/testdata/qwen-code/0.24.4", "copilot-cli": "../convert/testdata/copilot-cli/1.0.102",
	"kimi-code": "../convert/testdata/kimi-code/2.1.0", "factory-droid": "../convert/testdata/factory-droid/0.225.2", "cline": "../convert/testdata/cline/3.0.65"}

// others are samples of tools whose ledger knows only whether anything changed.
var others = map[string]string{"gemini-cli": "gemini-cli/0.61.0", "continue": "continue-cli/1.5.47"}

// home is a home folder of a tool that a test changes.
type home struct {
	tool    string
	dir     string
	s       *store.Store
	machine string
	files   []string // transcripts
	all     []string // files
	clock   time.Time
	family  *Family // nil: parts have no new sessions
}

// homeOf copies the sample of a tool, with several transcripts.
func homeOf(t *testing.T, tool string) *home {
	t.Helper()
	h := homeAt(t, tool, homes[tool])
	if len(h.files) < 3 {
		t.Fatalf("%d transcripts", len(h.files))
	}
	return h
}

// homeAt copies a folder. Its files were written long ago.
func homeAt(t *testing.T, tool, sample string) *home {
	t.Helper()
	h := &home{tool: tool, dir: t.TempDir(), s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}
	if err := os.CopyFS(h.dir, os.DirFS(sample)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(h.dir, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			h.touch(t, file)
			h.all = append(h.all, file)
			base := d.Name()
			if (filepath.Ext(base) == ".jsonl" || strings.HasSuffix(base, ".messages.json")) && !strings.HasPrefix(base, "agent-") && base != "history.jsonl" && base != "session_index.jsonl" {
				h.files = append(h.files, file)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// touch sets the time of a file to the next second of a clock that is behind.
func (h *home) touch(t *testing.T, file string) {
	t.Helper()
	h.clock = h.clock.Add(time.Second)
	if err := os.Chtimes(file, h.clock, h.clock); err != nil {
		t.Fatal(err)
	}
}

// write replaces a file.
func (h *home) write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	h.touch(t, file)
}

// read imports the home; again ignores the ledger.
func (h *home) read(t *testing.T, again bool) *Importer {
	t.Helper()
	i := &Importer{Opened: open.Around(h.s), Holder: store.Self("import"), Tool: h.tool, Again: again}
	i.Holder.Machine, i.Family = h.machine, h.family
	if err := i.Paths(t.Context(), h.dir); err != nil {
		t.Fatal(err)
	}
	return i
}

// want checks how many sessions were read and how many were not.
func (h *home) want(t *testing.T, when string, i *Importer, read, unchanged int) {
	t.Helper()
	if len(i.Results) != read || i.Unchanged != unchanged {
		t.Errorf("%s: %d sessions were read and %d were not, want %d and %d", when, len(i.Results), i.Unchanged, read, unchanged)
	}
}

func TestWhatDidNotChangeIsNotReadAgain(t *testing.T) {
	for tool := range homes {
		t.Run(tool, func(t *testing.T) {
			h := homeOf(t, tool)
			all := len(h.read(t, false).Results)
			h.want(t, "unchanged", h.read(t, false), 0, all)
			again := h.read(t, true)
			h.want(t, "with again", again, all, 0)
			for _, r := range again.Results {
				if r.State != "known" || r.Entries != 0 {
					t.Errorf("%s is %s, with %d new entries", r.ForeignID, r.State, r.Entries)
				}
			}
			h.machine = "another"
			h.want(t, "on another machine", h.read(t, false), all, 0)
			h.machine = "one"
			h.want(t, "on the first one", h.read(t, false), 0, all)
			h.s = store.New(memory.New(), nil)
			h.want(t, "into another store", h.read(t, false), all, 0)
		})
	}
}

func TestAHomeInWhichNothingChangedIsNotReadAgain(t *testing.T) {
	for tool, sample := range others {
		t.Run(tool, func(t *testing.T) {
			h := homeAt(t, tool, "../convert/testdata/"+sample)
			first := h.read(t, false)
			if len(first.Results) == 0 {
				t.Fatal("there is nothing in the sample")
			}
			all := len(first.Results)
			h.want(t, "unchanged", h.read(t, false), 0, all)
			for _, file := range h.all {
				if h.touch(t, file); h.read(t, false).Unchanged == 0 {
					return // a file of a session
				}
			}
			t.Error("no file of it is looked at")
		})
	}
}

// Of a home in which one file changed, one session is read, or with a fork two.
func TestWhereOneFileChangedTheOtherSessionsAreNotReadAgain(t *testing.T) {
	for tool := range homes {
		t.Run(tool, func(t *testing.T) {
			h := homeOf(t, tool)
			all, read := len(h.read(t, false).Results), 0
			for _, file := range h.files {
				h.touch(t, file)
				i := h.read(t, false)
				if h.want(t, file, i, len(i.Results), all-len(i.Results)); len(i.Results) > 2 {
					t.Errorf("%s: %d sessions were read", file, len(i.Results))
				}
				read += len(i.Results)
			}
			if read < len(h.files)/2 {
				t.Errorf("%d transcripts were touched, and %d sessions read", len(h.files), read)
			}
		})
	}
}

func TestOnlyTheSessionThatChangedIsReadAgain(t *testing.T) {
	h := homeOf(t, "claude-code")
	all := len(h.read(t, false).Results)
	file := h.files[0] // of which there is no fork
	id := strings.TrimSuffix(filepath.Base(file), ".jsonl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	only := func(when, state string) {
		t.Helper()
		i := h.read(t, false)
		if h.want(t, when, i, 1, all-1); len(i.Results) == 1 && (i.Results[0].ForeignID != id || i.Results[0].State != state) {
			t.Errorf("%s: %+v, want session %s %s", when, i.Results[0], id, state)
		}
		h.want(t, when+", then not", h.read(t, false), 0, all)
	}
	grown := fmt.Sprintf(`{"type":"user","uuid":"grown","parentUuid":null,"sessionId":%q,"timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"one more"}}`+"\n", id)
	h.write(t, file, append(slices.Clone(data), grown...))
	only("a transcript that grew", "grown")
	h.write(t, filepath.Join(strings.TrimSuffix(file, ".jsonl"), "tool-results", "long.txt"), []byte("a long result"))
	only("a file beside it", "changed")
	h.write(t, filepath.Join(strings.TrimSuffix(file, ".jsonl"), "tool-results", "long.txt"), []byte("another text!"))
	only("the same size at another time", "changed")
	h.touch(t, file)
	only("another time alone", "known")

	if err := h.s.Purge(t.Context(), h.session(t, id), store.Self("test")); err != nil {
		t.Fatal(err)
	}
	for _, purged := range []int{1, 0} { // its files are not read a second time
		if i := h.read(t, false); len(i.Results) > 0 || i.Purged != purged {
			t.Errorf("a session that was purged: %d passed over, %+v read, want %d and none", i.Purged, i.Results, purged)
		}
	}
}

// A fork is found by comparing it with what it may be a copy of, which is imported again
// only if it has another place then.
func TestASessionThatBeginsLikeAnotherIsReadAgainAlone(t *testing.T) {
	h := homeOf(t, "claude-code")
	all := len(h.read(t, false).Results)
	h.touch(t, h.files[slices.IndexFunc(h.files, func(file string) bool { return strings.Contains(file, "0f2293df-4c46-4bdc-afcc-4d77e694d995") })])
	h.want(t, "one of two that begin alike", h.read(t, false), 1, all-1)
}

// session is the id here of a session.
func (h *home) session(t *testing.T, foreign string) tidemark.SessionID {
	t.Helper()
	found, err := h.s.Foreign(t.Context(), foreign)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d sessions %s: %v", len(found), foreign, err)
	}
	return found[0].ID
}

func TestWhatCouldNotBeReadIsToldOfEachTime(t *testing.T) {
	h := homeOf(t, "claude-code")
	all := len(h.read(t, false).Results)
	data, err := os.ReadFile(h.files[0])
	if err != nil {
		t.Fatal(err)
	}
	h.write(t, h.files[0], append(slices.Clone(data), "{no JSON}\n"...))
	for range 2 {
		i := h.read(t, false)
		if h.want(t, "a damaged line", i, 1, all-1); i.Skipped != 1 {
			t.Errorf("%d were told of, want 1", i.Skipped)
		}
	}
}

func TestAFileThatMayChangeWithoutShowingIsReadAgain(t *testing.T) {
	h := homeOf(t, "claude-code")
	ahead := time.Now().Add(time.Hour)
	if err := os.Chtimes(h.files[0], ahead, ahead); err != nil {
		t.Fatal(err)
	}
	all := len(h.read(t, false).Results)
	h.want(t, "a time in the future", h.read(t, false), 1, all-1)
}

func TestAnImportThatIsStoppedGoesOnWhereItWas(t *testing.T) {
	for _, tool := range []string{"kimi-code", "factory-droid"} { // of which more sessions are there than are written at once
		t.Run(tool, func(t *testing.T) {
			whole := homeOf(t, tool)
			all := len(whole.read(t, false).Results)
			h := homeOf(t, tool)
			ctx, stop := context.WithCancel(t.Context())
			i := &Importer{Opened: open.Around(h.s), Holder: store.Self("import"), Tool: h.tool, Kept: func(Result) { stop() }}
			i.Holder.Machine = h.machine
			if err := i.Paths(ctx, h.dir); !errors.Is(err, context.Canceled) {
				t.Fatalf("stopped after %d of %d sessions: %v", len(i.Results), all, err)
			}
			if len(i.Results) == 0 || len(i.Results) >= all {
				t.Errorf("%d of %d sessions were told of", len(i.Results), all)
			}
			for _, r := range h.read(t, false).Results {
				if r.State == "grown" || r.State == "changed" {
					t.Errorf("%s was not imported whole: %+v", r.ForeignID, r)
				}
			}
			if diff := cmp.Diff(whole.kept(t), h.kept(t)); diff != "" {
				t.Errorf("at once - and stopped +\n%.4000s", diff)
			}
		})
	}
}

func TestADryRunKeepsNothingInTheLedger(t *testing.T) {
	h := homeOf(t, "codex")
	all := len(h.read(t, false).Results)
	h.s = store.New(memory.New(), nil)
	for range 2 {
		i := &Importer{Opened: open.Around(h.s), Holder: store.Self("import"), Tool: h.tool, DryRun: true}
		if err := i.Paths(t.Context(), h.dir); err != nil {
			t.Fatal(err)
		}
		h.want(t, "a dry run", i, all, 0)
	}
}

// A home that grows at random, read with the ledger, has everything that a
// reading of all of it finds.
func TestNothingIsMissedWithTheLedger(t *testing.T) {
	for tool := range homes {
		t.Run(tool, func(t *testing.T) {
			h := homeOf(t, tool)
			whole := map[string][]byte{}
			for _, file := range h.files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				whole[file] = data
				h.write(t, file, nil)
			}
			random := rand.New(rand.NewPCG(17, 4))
			for len(whole) > 0 {
				files := slices.Sorted(maps.Keys(whole))
				for _, file := range files[:1+random.IntN(min(3, len(files)))] {
					now, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					left := whole[file][len(now):]
					n := len(left)
					if n > 2000 && random.IntN(3) > 0 {
						n = random.IntN(n)
					}
					if h.write(t, file, append(now, left[:n]...)); n == len(left) {
						delete(whole, file)
					}
				}
				h.read(t, false)
			}
			for _, r := range h.read(t, true).Results {
				if r.Entries != 0 || r.State != "known" && r.State != "empty" {
					t.Errorf("%s is %s: %d entries were missed", r.ForeignID, r.State, r.Entries)
				}
			}
		})
	}
}

func BenchmarkImportOfWhatDidNotChange(b *testing.B) {
	const sessions = 2000
	dir := b.TempDir()
	for n := range sessions {
		project := filepath.Join(dir, "projects", fmt.Sprintf("-home-ada-%d", n%20))
		if err := os.MkdirAll(project, 0o700); err != nil {
			b.Fatal(err)
		}
		id := fmt.Sprintf("6f1c2b52-7d3e-4b35-9f1b-%012d", n)
		line := fmt.Sprintf(`{"type":"user","uuid":"u%d","sessionId":%q,"timestamp":"2026-01-02T03:04:05Z","cwd":"/w","message":{"role":"user","content":"prompt %d"}}`+"\n", n, id, n)
		if err := os.WriteFile(filepath.Join(project, id+".jsonl"), []byte(line), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	s := store.New(memory.New(), nil)
	read := func() *Importer {
		i := &Importer{Opened: open.Around(s), Holder: store.Self("import")}
		if err := i.Paths(b.Context(), dir); err != nil {
			b.Fatal(err)
		}
		return i
	}
	read()
	b.Run("import", func(b *testing.B) {
		for b.Loop() {
			if i := read(); i.Unchanged != sessions {
				b.Fatalf("%d sessions were not read", i.Unchanged)
			}
		}
	})
	b.Run("readdir and stat", func(b *testing.B) {
		for b.Loop() {
			n := 0
			err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					n++
					_, err = os.Stat(file)
				}
				return err
			})
			if err != nil || n != sessions {
				b.Fatal(n, err)
			}
		}
	})
}

func TestASessionThatItsToolDoesNotHaveAnyMoreIsMarkedUntilItIsBack(t *testing.T) {
	for tool := range homes {
		t.Run(tool, func(t *testing.T) {
			h := homeOf(t, tool)
			h.read(t, false)
			gone := func() (ids []tidemark.SessionID) {
				for i, err := range h.s.Sessions(t.Context(), store.Filter{Gone: true, Limit: 100}) {
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, i.ID)
				}
				return ids
			}
			var all []store.Info
			for i, err := range h.s.Sessions(t.Context(), store.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, i)
			}
			file := h.files[0]
			data, err := os.ReadFile(file)
			if err == nil {
				err = os.Remove(file)
			}
			if err != nil {
				t.Fatal(err)
			}
			h.read(t, false)
			marked := gone()
			if len(marked) == 0 || len(marked) == len(all) {
				t.Fatalf("%d of %d sessions are marked", len(marked), len(all))
			}
			i, err := h.s.Session(t.Context(), marked[0])
			was := all[slices.IndexFunc(all, func(i store.Info) bool { return i.ID == marked[0] })]
			if err != nil || !i.UpdatedAt.Equal(was.UpdatedAt) {
				t.Errorf("it was changed at %v, and now at %v; %v", was.UpdatedAt, i.UpdatedAt, err)
			}
			h.read(t, true)
			if again := gone(); !slices.Equal(again, marked) {
				t.Errorf("%v are marked, and after another import %v", marked, again)
			}
			h.write(t, file, data)
			h.read(t, false)
			if left := gone(); len(left) > 0 {
				t.Errorf("%v are marked, and are back", left)
			}
			// A home in which there is nothing may be one that cannot be reached.
			if err := os.RemoveAll(h.dir); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(h.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			empty := &Importer{Opened: open.Around(h.s), Holder: store.Self("import"), Tool: h.tool}
			empty.Holder.Machine = h.machine
			if err := empty.Paths(t.Context(), h.dir); err != nil && !ConcernsInput(err) {
				t.Fatal(err)
			}
			if left := gone(); len(left) > 0 {
				t.Errorf("%v are marked, and their home is empty", left)
			}
		})
	}
}
