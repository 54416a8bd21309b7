package transfer

import (
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
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// listed lists the files of the home.
func (h *home) listed(t *testing.T) (at Place, all Listed) {
	t.Helper()
	tool, err := ToolNamed(h.tool)
	if err != nil {
		t.Fatal(err)
	}
	at = Place{Tool: tool, Path: h.dir}
	for f, err := range new(Importer).Files(t.Context(), at) {
		if err != nil {
			t.Fatal(err)
		}
		all.Add(f)
	}
	return at, all
}

// readPart imports the sessions of units, and reports whether that was possible.
func (h *home) readPart(t *testing.T, at Place, all Listed, units ...string) (*Importer, bool) {
	t.Helper()
	i := &Importer{Opened: open.Around(h.s), Holder: store.Self("import"), Tool: h.tool}
	i.Holder.Machine, i.Family = h.machine, h.family
	ok, _, err := i.Part(t.Context(), at, all, units...)
	if err != nil {
		t.Fatal(err)
	}
	return i, ok
}

// Units that grew are imported as a system tells of them: some not at all, others
// twice, and in any order. From time to time all of the home is imported.
func TestPartsOfAHomeThatGrowsEndAsIfImportedAtOnce(t *testing.T) {
	steps := growthSteps
	if testing.Short() {
		steps = fewSteps
	}
	for tool, samples := range growing {
		t.Run(tool, func(t *testing.T) {
			grows := readGrowing(t, "../convert/testdata/"+samples[len(samples)-1])
			newHome := func() *home {
				return &home{tool: tool, dir: t.TempDir(), s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}
			}
			whole := newHome()
			grows.writeAt(t, whole, 1<<62, nil)
			whole.read(t, false)
			random := rand.New(rand.NewPCG(uint64(len(tool)), 5))
			h, alone, begun := newHome(), 0, 0
			h.family = new(Family)
			for step := range steps + 1 {
				at := grows.times[min(step*len(grows.times)/steps, len(grows.times)-1)]
				if step == steps {
					at = 1 << 62
				}
				if grows.writeAt(t, h, at, random); step%3 == 0 {
					h.read(t, false)
					continue
				}
				place, all := h.listed(t)
				units := slices.Sorted(maps.Keys(all.Units))
				units = append(units, units[:random.IntN(len(units))]...)
				random.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
				for _, unit := range units[:random.IntN(len(units)+1)] {
					i, ok := h.readPart(t, place, all, unit)
					if ok {
						alone++
					}
					if len(i.Results) == 1 && i.Results[0].State == "new" {
						begun++
					}
				}
			}
			h.read(t, false)
			if diff := cmp.Diff(whole.kept(t), h.kept(t)); diff != "" {
				t.Errorf("at once - and in parts +\n%.4000s", diff)
			}
			if alone == 0 {
				t.Error("no session was imported without the others")
			}
			if begun == 0 && len(grows.files) > 1 {
				t.Error("no new session was imported without the others")
			}
		})
	}
}

func TestAPartIsReadWithoutALookAtTheRest(t *testing.T) {
	for tool := range homes {
		t.Run(tool, func(t *testing.T) {
			h := homeOf(t, tool)
			h.read(t, false)
			at, all := h.listed(t)
			alone := 0
			for unit, files := range all.Units {
				i, ok := h.readPart(t, at, all, unit)
				if !ok {
					continue
				}
				alone++
				for _, r := range i.Results {
					if len(i.Results) != 1 || r.State != "known" || r.Entries+i.Skipped+i.Unchanged != 0 {
						t.Errorf("%s, of %d files: %+v, %d skipped", unit, len(files), r, i.Skipped)
					}
				}
			}
			if alone < 2 {
				t.Errorf("%d of %d units were read alone", alone, len(all.Units))
			}
			// What nobody knows of, and what is not listed, takes a look at all.
			if _, ok := h.readPart(t, at, all, "no such unit"); ok {
				t.Error("a unit that is not known was read alone")
			}
			for unit := range all.Units {
				if _, ok := h.readPart(t, at, Listed{}, unit); ok {
					t.Errorf("%s was read, and its files are not listed", unit)
				}
			}
		})
	}
}

func TestAForkIsNotReadWithoutItsSource(t *testing.T) {
	h := homeOf(t, "claude-code")
	h.read(t, false)
	at, all := h.listed(t)
	copies := 0
	for unit := range all.Units {
		found, err := h.s.Foreign(t.Context(), strings.TrimSuffix(filepath.Base(unit), ".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range found {
			if originOf(i.Session).Copied == "" {
				continue
			}
			copies++
			if _, ok := h.readPart(t, at, all, unit); ok {
				t.Errorf("%s was read alone", unit)
			}
		}
	}
	if copies == 0 {
		t.Error("there is no fork in the sample")
	}
}

// begin writes the transcript of a session that begins like another one, and returns
// its name.
func (h *home) begin(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(h.dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	h.touch(t, file)
	return name
}

func TestANewSessionIsImportedAloneUnlessItHasToDoWithAnother(t *testing.T) {
	line := func(session, id, parent string) string {
		return fmt.Sprintf(`{"type":"user","uuid":%q,"parentUuid":%s,"sessionId":%q,"cwd":"/w","timestamp":"2026-11-01T10:00:00.000Z","version":"2.1.325","message":{"role":"user","content":"say %s"}}`+"\n", id, parent, session, id)
	}
	id := func(n int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", n) }
	name := func(n int) string { return "projects/-w/" + id(n) + ".jsonl" }
	newHome := func() *home {
		h := &home{tool: "claude-code", dir: t.TempDir(), s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour), family: new(Family)}
		h.begin(t, name(1), line(id(1), "first", "null"))
		h.read(t, false)
		return h
	}
	part := func(h *home, unit string) (*Importer, bool, bool) {
		at, all := h.listed(t)
		i := &Importer{Opened: open.Around(h.s), Holder: store.Self("import"), Tool: h.tool, Family: h.family}
		i.Holder.Machine = h.machine
		ok, kept, err := i.Part(t.Context(), at, all, unit)
		if err != nil {
			t.Fatal(err)
		}
		return i, ok, kept
	}
	h := newHome()
	i, ok, kept := part(h, h.begin(t, name(2), line(id(2), "other", "null")))
	if !ok || !kept || len(i.Results) != 1 || i.Results[0].State != "new" {
		t.Errorf("a session of its own: ok %v, kept %v, %+v", ok, kept, i.Results)
	}
	if i, ok, kept := part(h, name(2)); !ok || !kept || i.Unchanged != 1 {
		t.Errorf("told twice: ok %v, kept %v, %d unchanged", ok, kept, i.Unchanged)
	}
	h.want(t, "the next import of all", h.read(t, false), 0, 2)
	// A copy begins with the same record.
	fork := line(id(3), "first", "null") + line(id(3), "third", `"first"`)
	if i, ok, _ := part(h, h.begin(t, name(3), fork)); ok || len(i.Results) > 0 {
		t.Errorf("a fork was read alone: %+v", i.Results)
	}
	h.read(t, false)
	if _, ok, kept := part(h, h.begin(t, name(1), line(id(1), "first", "null")+line(id(1), "second", `"first"`))); kept {
		t.Errorf("a session with a fork: ok %v, and kept", ok)
	}
	h.read(t, false)
	// The same, read at once.
	whole := newHome()
	for _, n := range []int{1, 2, 3} {
		raw, err := os.ReadFile(filepath.Join(h.dir, filepath.FromSlash(name(n))))
		if err != nil {
			t.Fatal(err)
		}
		whole.begin(t, name(n), string(raw))
	}
	whole.read(t, false)
	if diff := cmp.Diff(whole.kept(t), h.kept(t)); diff != "" {
		t.Errorf("at once - and in parts +\n%s", diff)
	}
	// Without a Family nobody knows what it has to do with.
	h.family = nil
	if _, ok, _ := part(h, h.begin(t, name(4), line(id(4), "fourth", "null"))); ok {
		t.Error("a new session was read alone, and nobody knows the others")
	}
	// What is gone takes a look at all.
	at, all := h.listed(t)
	if err := os.Remove(filepath.Join(h.dir, filepath.FromSlash(name(2)))); err != nil {
		t.Fatal(err)
	}
	if _, ok := h.readPart(t, at, all, name(2)); ok {
		t.Error("a session that is gone was read alone")
	}
}

func TestAFileThatIsAUnitAloneIsKnownByItsName(t *testing.T) {
	for tool := range homes {
		t.Run(tool, func(t *testing.T) {
			h := homeOf(t, tool)
			at, all := h.listed(t)
			alone := 0
			for unit, files := range all.Units {
				for _, f := range files {
					got, ok := new(Importer).UnitOf(t.Context(), at, f.Path)
					if ok && (got.Unit != unit || got.Path != f.Path) {
						t.Errorf("%s is %+v, listed as %+v", f.Path, got, f)
					}
					if ok && !got.Apart {
						alone++
					}
				}
				if _, ok := new(Importer).UnitOf(t.Context(), at, unit+".tmp"); ok {
					t.Errorf("%s.tmp is a unit", unit)
				}
			}
			if alone == 0 {
				t.Error("none is known by its name")
			}
		})
	}
}

func TestSomeFilesAreAFileSystem(t *testing.T) {
	all := fstest.MapFS{"a/b/one": {Data: []byte("1")}, "a/b/two": {Data: []byte("2")}, "a/three": {}, "c/four": {}, "five": {Data: []byte("5")}}
	some := newSomeFiles(all, []string{"a/b/one", "a/b/one", "five", "a/three"})
	var found []string
	err := fs.WalkDir(some, ".", func(name string, d fs.DirEntry, err error) error {
		found = append(found, name)
		return err
	})
	if diff := cmp.Diff([]string{".", "a", "a/b", "a/b/one", "a/three", "five"}, found); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if b, err := fs.ReadFile(some, "five"); string(b) != "5" || err != nil {
		t.Errorf("five has %q, %v", b, err)
	}
	for _, hidden := range []string{"a/b/two", "c", "c/four"} {
		if _, err := some.Open(hidden); !os.IsNotExist(err) {
			t.Errorf("%s: %v", hidden, err)
		}
		if _, err := fs.Stat(some, hidden); !os.IsNotExist(err) {
			t.Errorf("%s: %v", hidden, err)
		}
	}
}
