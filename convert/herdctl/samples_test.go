package herdctl

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert"
)

const samples = "../testdata/herdctl"

// bare returns a value without its nulls: herdctl takes null and nothing for
// the same, and writes now one and now the other.
func bare(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
			} else {
				v[key] = bare(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = bare(v[i])
		}
	}
	return v
}

// sameTree compares what was exported with its source, file by file, as YAML,
// JSON or text. lost names the files that are not there again, and the lines
// that were not whole.
func sameTree(t *testing.T, source, out fs.FS, lost []string) {
	t.Helper()
	missing := map[string]bool{}
	for _, l := range lost {
		missing[l] = true
	}
	files := 0
	err := fs.WalkDir(source, folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below := strings.TrimPrefix(name, folder+"/")
		want, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		got, err := fs.ReadFile(out, name)
		if errors.Is(err, fs.ErrNotExist) && missing[below] {
			delete(missing, below)
			return nil
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		files++
		switch path.Ext(name) {
		case outputEnd:
			want = wholeLines(below, want, missing)
			if d := cmp.Diff(lines(t, name, want), lines(t, name, got)); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		case logEnd:
			if !bytes.Equal(want, got) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		default:
			if d := cmp.Diff(bare(loose(t, name, want)), bare(loose(t, name, got))); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range missing {
		t.Errorf("%s is not lost, or was never there", name)
	}
	written := 0
	fs.WalkDir(out, ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			written++
		}
		return err
	})
	if files != written {
		t.Errorf("%d files were written, %d have a source", written, files)
	}
}

func lines(t *testing.T, name string, b []byte) (all []any) {
	for line := range bytes.Lines(b) {
		all = append(all, bare(loose(t, name, line)))
	}
	return all
}

// wholeLines drops what is torn, when it is named as a loss; of a line that
// another one was written into, that one stays.
func wholeLines(name string, b []byte, missing map[string]bool) []byte {
	var whole []byte
	for line := range bytes.Lines(b) {
		if !json.Valid(line) && missing[name+" torn"] {
			i := bytes.LastIndex(line, []byte(`{"type":"tool_use"`))
			if i < 0 {
				continue
			}
			line = line[i:]
		}
		whole = append(whole, line...)
	}
	delete(missing, name+" torn")
	return whole
}

func TestAnExportEqualsItsSource(t *testing.T) {
	place := own()
	// The listed losses beside files: the exit reason of the other page.
	source := fstest.MapFS{}
	err := fs.WalkDir(place.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(place.FS, name)
		source[name] = &fstest.MapFile{Data: bytes.Replace(b, []byte("end_turn"), []byte("success"), 1)}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out, _ := give(t, convert.Source{FS: source, Path: "."})
	sameTree(t, source, out.Files, []string{
		"herdctl.pid",
		"docker-sessions/33333333-0000-4000-8000-000000000003.jsonl",
		"jobs/job-2026-03-01-aaaaaa/output.log",
		"jobs/job-2026-03-01-bbbbbb.jsonl torn",
	})
}

func TestSamples(t *testing.T) {
	for name, c := range map[string]struct {
		agents, schedules, jobs, events, skips int
		lost                                   []string
	}{
		"basic": {3, 6, 10, 44, 1, []string{
			"jobs/job-2026-11-15-3y0e8d/output.log", "jobs/job-2026-11-15-qqiu93/output.log", "jobs/job-2026-11-15-hawlp2.jsonl torn"}},
		"legacy-handmade": {2, 0, 1, 5, 0, nil},
		"scheduler-100":   {100, 200, 0, 0, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := os.DirFS(path.Join(samples, name))
			place := convert.Source{FS: root, Path: "."}
			if !Tool().Detect(t.Context(), place) {
				t.Error("is not known as herdctl's")
			}
			got := take(t, place)
			events := 0
			for _, all := range got.Output {
				events += len(all)
			}
			if len(got.Agents) != c.agents || len(got.Schedules) != c.schedules || len(got.Jobs) != c.jobs || events != c.events || len(got.skips) != c.skips {
				t.Errorf("%d agents, %d schedules, %d jobs, %d events, skipped %q", len(got.Agents), len(got.Schedules), len(got.Jobs), events, got.skips)
			}
			out, lost := give(t, place)
			t.Logf("lost: %q", append(got.Lost, lost...))
			sameTree(t, root, out.Files, c.lost)
			again := take(t, out.Source())
			again.Lost, again.skips, got.Lost, got.skips = nil, nil, nil, nil
			if d := cmp.Diff(got, again, cmp.AllowUnexported(taken{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFiveThousandJobs(t *testing.T) {
	f, err := os.Open(path.Join(samples, "jobs-5000.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, some := fstest.MapFS{}, fstest.MapFS{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := path.Clean(h.Name)
		if h.FileInfo().IsDir() {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &fstest.MapFile{Data: b}
		// Reading is tried with all of them, comparing with those of one letter.
		if job := path.Base(name); !strings.HasPrefix(job, "job-") || strings.HasPrefix(job, "job-2026-11-15-1") {
			some[name] = all[name]
		}
	}
	got := take(t, convert.Source{FS: all, Path: "."})
	events := 0
	for _, all := range got.Output {
		events += len(all)
	}
	if len(got.Jobs) != 5002 || events != 40_000 || len(got.skips) > 0 {
		t.Errorf("%d jobs, %d events, skipped %q", len(got.Jobs), events, got.skips)
	}
	out, lost := give(t, convert.Source{FS: some, Path: "."})
	if len(lost) > 0 {
		t.Errorf("lost %q", lost)
	}
	sameTree(t, some, out.Files, nil)
}
