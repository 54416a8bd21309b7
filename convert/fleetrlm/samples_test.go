package fleetrlm_test

import (
	"io/fs"
	"os"
	"path"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/fleetrlm"
)

const samples = "../testdata/fleet-rlm"

// sample is a place among the samples, or its copy in another folder.
func sample(t *testing.T, name, file string) convert.Source {
	t.Helper()
	if _, err := os.Stat(path.Join(samples, name)); err != nil {
		t.Fatal(err)
	}
	return place(t, path.Join(samples, name), file)
}

func TestSamplesComeInAndOutAsTheyWere(t *testing.T) {
	for _, test := range []struct {
		folder, file string
		prompts      []string
		replies      []string
	}{
		{"volume", ".", []string{"Please audit this.", "continue"}, []string{"Done: 2 findings.", "All fixed. ✅"}},
		{"volume-docs-shape", ".", []string{"Please audit this.", "continue"}, []string{"Done: 2 findings.", "All fixed. ✅"}},
		{"volume-legacy", ".", nil, nil},
		{"volume-v051-history", ".", []string{"Please audit this."}, []string{"Done: 2 findings."}},
		{".", "export_session_v051.json", []string{"Please audit this."}, []string{"Done: 2 findings."}},
	} {
		t.Run(test.folder+test.file, func(t *testing.T) {
			p := sample(t, test.folder, test.file)
			if !fleetrlm.Tool().Detect(t.Context(), p) {
				t.Error("is not detected")
			}
			s := only(t, p)
			if s.ForeignID != "session-123" {
				t.Errorf("id %s", s.ForeignID)
			}
			if d := cmp.Diff(test.prompts, converttest.Texts(s.Entries, "user")) + cmp.Diff(test.replies, converttest.Texts(s.Entries, "assistant")); d != "" {
				t.Error(d)
			}
			first := read(t, p).Dump(t)
			if second := read(t, p).Dump(t); second != first {
				t.Error("a second import is not equal to the first")
			}
			out, lost := export(t, again(t, s))
			if len(lost) > 0 {
				t.Errorf("lost %q", lost)
			}
			if d := sameJSON(manifestAt(t, p), manifestAt(t, out)); d != "" {
				t.Errorf("the manifest is not what it was:\n%s", d)
			}
			back := only(t, out)
			a, said := plain(s)
			b, saidAgain := plain(back)
			if d := cmp.Diff(a, b) + cmp.Diff(said, saidAgain) + sameJSON(s.Checkpoint, back.Checkpoint); d != "" {
				t.Errorf("import, export, import is not equal:\n%s", d)
			}
		})
	}
}

// manifestAt is the only file at a place.
func manifestAt(t *testing.T, p convert.Source) (b []byte) {
	t.Helper()
	err := fs.WalkDir(p.FS, p.Path, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, err = fs.ReadFile(p.FS, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSampleSidecarHasThreeSessions(t *testing.T) {
	got := read(t, sample(t, ".", ".data/local.db"))
	if len(got.Sessions) != 3 || len(got.Skips) > 0 {
		t.Fatalf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
	}
	if d := cmp.Diff([]string{"Please audit this.", "continue"}, converttest.Texts(got.Find("session-123").Entries, "user")); d != "" {
		t.Error(d)
	}
	// The manifest and the database tell of the same entries.
	volume := only(t, sample(t, "volume", "."))
	for i, e := range got.Find("session-123").Entries {
		if want := volume.Entries[i]; e.ID != want.ID || !cmp.Equal(e.Blocks, want.Blocks) || string(e.Extra) != string(want.Extra) {
			t.Errorf("entry %d: %+v, in the volume %+v", i, e, want)
		}
	}
	for _, s := range got.Sessions {
		out, lost := export(t, again(t, &s))
		back := only(t, out)
		a, said := plain(&s)
		b, saidAgain := plain(back)
		if d := cmp.Diff(a, b) + cmp.Diff(said, saidAgain); d != "" || len(lost) > 0 {
			t.Errorf("%s: lost %q, %s", s.ForeignID, lost, d)
		}
	}
}

func TestAnswersOfTheServerAreNoManifests(t *testing.T) {
	p := sample(t, "api", ".")
	names, err := fs.Glob(p.FS, "*.json")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, p.Path = range names {
		if fleetrlm.Tool().Detect(t.Context(), p) {
			t.Errorf("%s is taken for a manifest", p.Path)
		}
		if got := read(t, p); len(got.Sessions) > 0 || len(got.Skips) != 1 {
			t.Errorf("%s: %d sessions, skipped %q", p.Path, len(got.Sessions), got.Skips)
		}
	}
}
