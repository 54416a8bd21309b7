package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// growing are samples of tools whose files are only appended to.
var growing = map[string][]string{
	"claude-code":   {"claude-code/2.1.197", "claude-code/2.1.325"},
	"codex":         {"codex/0.50.0", "codex/0.98.0", "codex/0.166.0"},
	"pi":            {"pi/0.73.1"},
	"kimi-code":     {"kimi-code/2.1.0"},
	"factory-droid": {"factory-droid/0.225.2"},
	"qwen-code":     {"qwen-code/0.24.4"},
	"copilot-cli":   {"copilot-cli/1.0.102"},
}

// Imports of each sample, with fewer in a short test.
const (
	growthTrials, fewTrials = 2, 1
	growthSteps, fewSteps   = 12, 6
)

// growingHome is a sample as it was while its tool wrote it.
type growingHome struct {
	files map[string][]grownLine // of files that grow, by path
	rest  map[string][]byte
	times []int64 // at which a line was written
}

// grownLine is a line with when it was written.
type grownLine struct {
	text []byte
	at   int64
}

var (
	isoTime   = regexp.MustCompile(`"20\d\d-\d\d-\d\dT[0-9:.]+Z"`)
	epochTime = regexp.MustCompile(`"(?:time|timestamp|created_at)":(\d{13})`)
)

// writtenAt is the first time in a line, 0 if it has none.
func writtenAt(line []byte) int64 {
	if m := isoTime.Find(line); m != nil {
		at, _ := time.Parse(`"2006-01-02T15:04:05.999999999Z"`, string(m))
		return at.UnixMilli()
	}
	if m := epochTime.FindSubmatch(line); m != nil {
		at, _ := strconv.ParseInt(string(m[1]), 10, 64)
		return at
	}
	return 0
}

// readGrowing reads a sample.
func readGrowing(t *testing.T, dir string) *growingHome {
	t.Helper()
	h := &growingHome{files: make(map[string][]grownLine), rest: make(map[string][]byte)}
	fsys := os.DirFS(dir)
	err := fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := fs.ReadFile(fsys, file)
		if filepath.Ext(file) != ".jsonl" {
			h.rest[file] = data
			return err
		}
		last := int64(0)
		for line := range bytes.Lines(data) {
			last = max(last, writtenAt(line))
			h.files[file] = append(h.files[file], grownLine{line, last})
			h.times = append(h.times, last)
		}
		return err
	})
	slices.Sort(h.times)
	h.times = slices.Compact(h.times)
	if err != nil || len(h.files) == 0 || len(h.times) < 5 {
		t.Fatalf("%s: %d files that grow, %d times: %v", dir, len(h.files), len(h.times), err)
	}
	return h
}

// writeAt writes the files as they were at a time; of the next line of some of
// them a part is there already.
func (h *growingHome) writeAt(t *testing.T, to *home, at int64, random *rand.Rand) {
	t.Helper()
	for file, data := range h.rest {
		to.write(t, filepath.Join(to.dir, file), data)
	}
	for file, lines := range h.files {
		var data []byte
		for _, l := range lines {
			if l.at > at {
				if len(data) > 0 && random != nil && random.IntN(3) == 0 {
					data = append(data, l.text[:random.IntN(len(l.text))]...)
				}
				break
			}
			data = append(data, l.text...)
		}
		if len(data) > 0 {
			to.write(t, filepath.Join(to.dir, file), data)
		}
	}
}

func TestEveryToolThatGrowsHasSamplesThatGrow(t *testing.T) {
	for _, tool := range Tools() {
		if _, tested := growing[tool.Name]; tool.Grows != tested {
			t.Errorf("%s: it grows is %v, samples of it that grow: %v", tool.Name, tool.Grows, tested)
		}
	}
}

func TestASessionThatIsImportedAsItGrowsEndsAsIfImportedAtOnce(t *testing.T) {
	trials, steps := growthTrials, growthSteps
	if testing.Short() {
		trials, steps = fewTrials, fewSteps
	}
	for tool, samples := range growing {
		for _, sample := range samples {
			t.Run(strings.ReplaceAll(sample, "/", " "), func(t *testing.T) {
				h := readGrowing(t, "../convert/testdata/"+sample)
				newHome := func() *home {
					return &home{tool: tool, dir: t.TempDir(), s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}
				}
				whole := newHome()
				h.writeAt(t, whole, 1<<62, nil)
				if i := whole.read(t, false); i.Skipped > 0 {
					t.Errorf("%d things were left out", i.Skipped)
				}
				want := whole.kept(t)
				if len(want) == 0 {
					t.Fatal("nothing was imported")
				}
				for trial := range trials {
					random := rand.New(rand.NewPCG(uint64(trial), uint64(len(h.times))))
					grown := newHome()
					var at []int64
					for range steps - 1 {
						at = append(at, h.times[random.IntN(len(h.times))])
					}
					slices.Sort(at)
					for _, at := range append(at, 1<<62) {
						h.writeAt(t, grown, at, random)
						grown.read(t, false)
					}
					if diff := cmp.Diff(want, grown.kept(t)); diff != "" {
						t.Fatalf("trial %d, at %v: at once - and as it grew +\n%.4000s", trial, at, diff)
					}
				}
			})
		}
	}
}

// kept is everything that people see of the sessions, by the tool's ids.
func (h *home) kept(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for i, err := range h.s.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		v, err := h.s.ViewOf(i)
		if err != nil {
			t.Fatal(err)
		}
		say := func(format string, args ...any) {
			all[i.ForeignID] = append(all[i.ForeignID], fmt.Sprintf(format, args...))
		}
		say("title %q, model %q, mode %s, project %s, agent %s, begun %s, %d messages, %d nodes", i.Title, i.Model, i.Mode, i.Project, i.Agent, i.CreatedAt, i.Messages, i.Nodes)
		say("from %s %s", i.Tool, i.Extra)
		workers, err := v.Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.keptLog(t, v, say)
		for _, name := range workers {
			say("worker %s", name)
			w, err := v.Worker(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			h.keptLog(t, w, say)
		}
		labels, err := v.Labels(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		say("labels %v", labels)
		files, err := h.s.Files(t.Context(), i.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			say("file %s %s", f.Name, f.SHA256)
		}
	}
	return all
}

// keptLog says what a log has, as cat prints it, and its draft.
func (h *home) keptLog(t *testing.T, v *store.View, say func(string, ...any)) {
	t.Helper()
	print := func(e tidemark.Entry, err error) {
		line, encodeErr := json.Marshal(e)
		if err != nil || encodeErr != nil {
			t.Fatal(err, encodeErr)
		}
		say("%s", line)
	}
	for e, err := range v.Log(t.Context()) {
		print(e, err)
	}
	with, err := v.WithDraft(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	head, err := with.Head(t.Context())
	say("head %d, %v", head, err)
	entries, err := v.Draft(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Kind == tidemark.KindBranch {
			e.At = time.Time{} // of the last import
		}
		print(e, nil)
	}
}
