package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tidemark-sessions/tidemark/convert"
)

// An imported entry is known again by its key and by the sum of its body. A
// converter that writes one byte of a body differently, were it only a less-than
// sign that used to be escaped, makes the next import of everybody take such
// entries a second time, as branches. So what earlier releases wrote is kept in
// releasedFile, and never changes.

const (
	releasedFile = "testdata/released.txt"
	// releasedSum is the sum of that file. Whoever adds a source to it changes
	// this, too; sources in it are neither changed nor removed.
	releasedSum = "a96737eec951f831b0de2c03c5f46efdc29cc3227c8cfd238d3a034d6b9b6e13"
)

// TestBodiesAreThoseOfEarlierReleases compares the keys and bodies of all
// entries of the samples and of texts that are hard to copy. TIDEMARK_UPDATE=1
// adds sources that the file does not have, and never replaces one.
func TestBodiesAreThoseOfEarlierReleases(t *testing.T) {
	kept, err := os.ReadFile(releasedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, part := range strings.Split(string(kept), "# ")[1:] {
		name, lines, _ := strings.Cut(part, "\n")
		want[name] = lines
	}
	added := bytes.NewBuffer(slices.Clone(kept))
	entries := 0
	for _, s := range releasedSources(t) {
		got, n := s.record(t)
		entries += n
		lines, ok := want[s.name]
		delete(want, s.name)
		switch {
		case ok && lines != got:
			t.Errorf("%s: entries are not what earlier releases wrote:\n%s", s.name, firstChange(lines, got))
		case !ok && os.Getenv("TIDEMARK_UPDATE") != "":
			fmt.Fprintf(added, "# %s\n%s", s.name, got)
		case !ok:
			t.Errorf("%s is not in %s", s.name, releasedFile)
		}
	}
	for name := range want {
		t.Errorf("%s is in %s and is no longer compared", name, releasedFile)
	}
	if entries == 0 {
		t.Error("there were no entries to compare")
	}
	if !bytes.Equal(kept, added.Bytes()) {
		if err := os.WriteFile(releasedFile, added.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if sum := sha256.Sum256(added.Bytes()); hex.EncodeToString(sum[:]) != releasedSum {
		t.Errorf("%s was changed: its sum is %x", releasedFile, sum)
	}
	t.Logf("%d entries", entries)
}

// firstChange shows where two lists of lines begin to differ.
func firstChange(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(b), len(a))
}

// releasedSource is something to import.
type releasedSource struct {
	name  string
	tool  convert.Tool
	place convert.Source
	brief bool // one line a log instead of one an entry
}

// record imports the source and writes a line for each entry: its key and the
// beginning of the sum of its kind and body. The Extra of a session has a line,
// too, and what is skipped is counted.
func (s releasedSource) record(t *testing.T) (text string, entries int) {
	t.Helper()
	var b strings.Builder
	skips := 0
	l := &logImport{sessionImport: &sessionImport{toolImport: &toolImport{tool: s.tool}}}
	log := func(name string, all iter.Seq2[convert.Entry, error]) {
		if all == nil {
			return
		}
		var lines strings.Builder
		n := 0
		for e, err := range all {
			if convert.IsSkip(err) {
				skips++
				continue
			}
			if err != nil {
				t.Fatalf("%s: %s: %v", s.name, name, err)
			}
			line, err := e.Line()
			if err != nil {
				fmt.Fprintf(&lines, "%s cannot be kept\n", l.keyOf("", e.ID))
				continue
			}
			sum := sha256.Sum256([]byte(line.Kind + "\x00" + string(line.Body)))
			fmt.Fprintf(&lines, "%s %x\n", l.keyOf("", e.ID), sum[:8])
			n++
		}
		entries += n
		if sum := sha256.Sum256([]byte(lines.String())); s.brief {
			fmt.Fprintf(&b, "%s %d %x\n", name, n, sum[:8])
		} else {
			fmt.Fprintf(&b, "%s %d\n%s", name, n, lines.String())
		}
	}
	for f, err := range s.tool.Import(context.Background(), s.place) {
		if convert.IsSkip(err) {
			skips++
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		extra := sha256.Sum256(f.Extra)
		fmt.Fprintf(&b, "extra %x\n", extra[:8])
		log(f.ForeignID, f.Entries)
		for _, w := range f.Workers {
			log(f.ForeignID+"/"+workerName(w), withOrigin(w, false))
		}
	}
	fmt.Fprintf(&b, "skipped %d\n", skips)
	return b.String(), entries
}

// releasedSources are the samples, the samples with each of the changes in
// spellings, and transcripts made of texts that are hard to copy.
func releasedSources(t *testing.T) (all []releasedSource) {
	t.Helper()
	for _, sample := range []struct{ tool, dir string }{
		{"claude-code", "convert/testdata/claude-code/*"}, {"codex", "convert/testdata/codex/*"}, {"codex", "convert/codex/testdata/home"},
		{"opencode", "convert/testdata/opencode/*"}, {"opencode", "convert/opencode/testdata/tree"},
		{"gemini-cli", "convert/testdata/gemini-cli/*"}, {"gemini-cli", "convert/gemini/testdata/home"}, {"qwen-code", "convert/testdata/qwen-code/*"},
		{"copilot-cli", "convert/testdata/copilot-cli/*"}, {"copilot-cli", "convert/copilot/testdata/home"},
		{"pi", "convert/testdata/pi/*"}, {"pi", "convert/pi/testdata/home"},
		{"continue", "convert/testdata/continue-cli/*"}, {"continue", "convert/continuecli/testdata/home"},
		{"cline", "convert/testdata/cline/*"}, {"cline", "convert/cline/testdata/home"},
		{"kimi-code", "convert/testdata/kimi-code/*"}, {"factory-droid", "convert/testdata/factory-droid/*"}, {"kilo-cli", "convert/testdata/kilo-cli/*"},
		{"agentzero", "convert/testdata/agentzero/expected"}, {"agsh", "convert/testdata/agsh/*"}, {"fleet-rlm", "convert/testdata/fleet-rlm/volume*"},
		{"anthropic", "convert/messages/testdata/anthropic.json"}, {"openai", "convert/messages/testdata/openai.json"},
		{"openai", "convert/messages/testdata/functions.json"}, {"openai", "convert/messages/testdata/tuning.jsonl"},
	} {
		tool, err := ToolNamed(sample.tool)
		if err != nil {
			t.Fatal(err)
		}
		places, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(sample.dir)))
		if err != nil || len(places) == 0 {
			t.Fatalf("%s: no samples: %v", sample.dir, err)
		}
		for _, place := range places {
			p, done, err := openSource(place, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(done)
			name := strings.TrimPrefix(filepath.ToSlash(place), "../convert/")
			all = append(all, releasedSource{name: name, tool: tool, place: p})
			for _, s := range spellings {
				if files, ok := respelled(t, p.FS, s.change); ok {
					all = append(all, releasedSource{name: name + ", " + s.name, tool: tool, place: convert.Source{FS: files, Path: p.Path}, brief: true})
				}
			}
		}
	}
	tool, _ := ToolNamed("claude-code")
	files := fstest.MapFS{"projects/-home-ada/6f1c2b52-7d3e-4b35-9f1b-5d2f9b8c7a61.jsonl": {Data: []byte(hardTranscript())}}
	return append(all, releasedSource{name: "claude-code, hard to copy", tool: tool, place: convert.Source{FS: files, Path: "."}})
}

// respelled changes the JSON in all files; ok is false if there is none, or if
// the sessions are in a database.
func respelled(t *testing.T, fsys fs.FS, change func([]byte) []byte) (files fstest.MapFS, ok bool) {
	t.Helper()
	files = fstest.MapFS{}
	database := false
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		switch ext := path.Ext(name); {
		case ext == ".json":
			b, ok = change(b), true
		case ext == ".jsonl":
			lines := bytes.Split(b, []byte("\n"))
			for i := range lines {
				lines[i] = change(lines[i])
			}
			b, ok = bytes.Join(lines, []byte("\n")), true
		}
		database = database || strings.HasPrefix(string(b), convert.SQLiteMagic)
		files[name] = &fstest.MapFile{Data: b}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, ok && !database
}
