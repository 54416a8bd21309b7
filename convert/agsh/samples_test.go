package agsh_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/agsh"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

const samples = "../testdata/agsh"

func sample(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(samples, name)
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheSampleOfAgshComesInAndGoesOut(t *testing.T) {
	dir := sample(t, "agsh-0.1.2")
	p := place(t, dir, ".")
	if !agsh.Tool().Detect(t.Context(), p) {
		t.Error("it is not detected")
	}
	got := converttest.Read(t, agsh.Tool(), p)
	if len(got.Sessions) != 4 || len(got.Skips) != 0 {
		t.Fatalf("%d sessions, skips %q", len(got.Sessions), got.Skips)
	}
	for id, want := range map[string]string{
		"550e8400-e29b-41d4-a716-446655440000": "find all TODO comments in this project",
		"a1b2c3d4-e5f6-4890-abcd-ef1234567890": "Fix the login page CSS",
		"0e5f7a21-93c4-4d1b-8f02-6a7b8c9d0e1f": "delete build/",
		"7a21c0de-1111-4222-8333-444455556666": "one-shot question",
	} {
		s := got.Find(id)
		if prompts := converttest.Texts(s.Entries, tidemark.User); len(prompts) != 1 || prompts[0] != want {
			t.Errorf("%s: prompts %q", id, prompts)
		}
		if open := len(s.Lost) > 0; open != strings.HasPrefix(id, "7a21") {
			t.Errorf("%s: lost %q; pid 1 alone is alive", id, s.Lost)
		}
	}
	to := again(t, p)
	if d := cmp.Diff(dump(t, copied(t, dir, "sessions.db"), false), dump(t, filepath.Join(to, "sessions.db"), false)); d != "" {
		t.Error(d)
	}
}

func TestTheSampleOfMekaComesInAndGoesOut(t *testing.T) {
	dir := sample(t, "meka-0.41.0")
	p := place(t, dir, ".")
	if !agsh.Tool().Detect(t.Context(), p) {
		t.Error("it is not detected")
	}
	got := converttest.Read(t, agsh.Tool(), p)
	if len(got.Sessions) != 1 || len(got.Skips) != 0 || len(got.Sessions[0].Workers) != 1 {
		t.Fatalf("%d sessions, skips %q", len(got.Sessions), got.Skips)
	}
	s := got.Sessions[0]
	if got := strings.Join(converttest.Texts(s.Entries, tidemark.User), ","); got != "hello,look,wrong turn,right turn" {
		t.Errorf("prompts %s", got)
	}
	// What the model sees is the path from the last compaction to the head.
	b, err := os.ReadFile(filepath.Join(dir, "materialized_view.json"))
	if err != nil {
		t.Fatal(err)
	}
	var view []struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(b, &view); err != nil {
		t.Fatal(err)
	}
	path := converttest.Path(s.Entries, s.Head)
	path = path[len(path)-len(view):]
	for i, m := range view {
		if path[i].Text() != m.Content[0].Text {
			t.Errorf("message %d is %q, want %q", i, path[i].Text(), m.Content[0].Text)
		}
	}
	to := again(t, p)
	if d := cmp.Diff(dump(t, copied(t, dir, "meka.db"), true), dump(t, filepath.Join(to, "meka.db"), true)); d != "" {
		t.Error(d)
	}

	file := converttest.Read(t, agsh.Tool(), place(t, dir, "session-"+s.ForeignID+".json"))
	if len(file.Sessions) != 1 || len(file.Skips) != 0 {
		t.Fatalf("the export: %d sessions, skips %q", len(file.Sessions), file.Skips)
	}
	if d := cmp.Diff(s.Entries, file.Sessions[0].Entries); d != "" {
		t.Errorf("the export is not what the database is: %s", d)
	}
	if d := cmp.Diff(s.Workers, file.Sessions[0].Workers); d != "" {
		t.Errorf("the helpers of the export are not those of the database: %s", d)
	}
}

// copied is a copy of a sample that may be opened.
func copied(t *testing.T, dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}
