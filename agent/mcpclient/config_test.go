package mcpclient_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/mcpclient"
	"github.com/tidemark-sessions/tidemark/internal/grant"
)

type grantOf = grant.Grant

func TestThePersonsServersComeBeforeTheProjects(t *testing.T) {
	dir, own := t.TempDir(), filepath.Join(t.TempDir(), "mcp.json")
	for file, text := range map[string]string{
		filepath.Join(dir, mcpclient.ProjectFile): `{"mcpServers":{"a":{"command":"theirs"},"b":{"command":"x","args":["y z"]}}}`,
		own: `{"mcpServers":{"a":{"command":"mine"}}}`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := mcpclient.Files{Own: own, Project: dir}.Read()
	if err != nil || len(all) != 2 || all[0].Command != "mine" || !all[0].Own || all[1].Own || all[1].What() != "x y z" {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := (mcpclient.Files{Named: []string{filepath.Join(dir, "none.json")}}).Read(); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a named file that is not there: %v", err)
	}
	outside := filepath.Join(t.TempDir(), "outside.json")
	if err := os.WriteFile(outside, []byte(`{"mcpServers":{"c":{"command":"x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	linked := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(linked, mcpclient.ProjectFile)); err != nil {
		t.Skip("no links here: ", err)
	}
	if all, err := (mcpclient.Files{Project: linked}).Read(); len(all) != 0 || err == nil {
		t.Errorf("through a link out: %+v, %v", all, err)
	}
}

func TestWhatIsWrongWithADefinitionIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		`[]`: "mcpServers", `{"mcpServers":{"a b":{"command":"x"}}}`: "a name has", `{"mcpServers":{"a__b":{"command":"x"}}}`: "a name has",
		`{"mcpServers":{"a":{}}}`: "neither", `{"mcpServers":{"a":{"command":"x","url":"https://x"}}}`: "want one", `{"mcpServers":{"a":{"type":"sse","url":"https://x"}}}`: "not supported",
		`{"mcpServers":{"a":{"command":7}}}`: "a", `{"mcpServers":{"a":{"command":"x","sandbox":{"allow_write":["/"]}}}}`: "root of all",
	} {
		if all, err := mcpclient.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || len(all) != 0 {
			t.Errorf("%s: %+v, %v", text, all, err)
		}
	}
	all, err := mcpclient.Parse([]byte(`{"mcpServers":{"bad":{},"good":{"command":"x","unknown":1}},"other":2}`))
	if err == nil || len(all) != 1 || all[0].Name != "good" {
		t.Errorf("beside a wrong one: %+v, %v", all, err)
	}
}

func TestAddAndRemoveKeepWhatElseIsInTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config", "mcp.json")
	if err := mcpclient.Add(t.Context(), file, mcpclient.Server{Name: "a", Command: "x", Args: []string{"y"}}); err != nil {
		t.Fatal(err)
	}
	if err := mcpclient.Add(t.Context(), file, mcpclient.Server{Name: "a", URL: "https://example.org"}); !errors.Is(err, tidemark.ErrExists) {
		t.Errorf("twice: %v", err)
	}
	if err := mcpclient.Add(t.Context(), file, mcpclient.Server{Name: "b"}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("nothing: %v", err)
	}
	if err := os.WriteFile(file, []byte(`{"note":"mine","mcpServers":{"a":{"command":"x","alwaysAllow":["z"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mcpclient.Add(t.Context(), file, mcpclient.Server{Name: "b", URL: "https://example.org"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(b), `"note": "mine"`) || !strings.Contains(string(b), "alwaysAllow") {
		t.Errorf("%s, %v", b, err)
	}
	if err := mcpclient.Remove(t.Context(), file, "a"); err != nil {
		t.Fatal(err)
	}
	if err := mcpclient.Remove(t.Context(), file, "a"); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	all, err := mcpclient.Files{Own: file}.Read()
	if err != nil || len(all) != 1 || all[0].Name != "b" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := os.WriteFile(file, []byte(`{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mcpclient.Add(t.Context(), file, mcpclient.Server{Name: "c", Command: "x"}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a damaged file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{}`, `{"mcpServers":{"a":{"command":"x"}}}`, `{"mcpServers":{"a":{"url":"https://x/${Y:-z}","headers":{"a":"b"}}}}`, `{"mcpServers":null}`, "\uFEFF{}", `{"mcpServers":{"a":null}}`} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		all, _ := mcpclient.Parse(b)
		for i, s := range all {
			if mcpclient.CheckName(s.Name) != nil || (s.Command == "") == (s.URL == "") {
				t.Fatalf("%+v", s)
			}
			if i > 0 && all[i-1].Name >= s.Name {
				t.Fatalf("%q before %q", all[i-1].Name, s.Name)
			}
			again, err := mcpclient.Parse(b)
			if err == nil && cmp.Diff(again[i].Request(dir), s.Request(dir)) != "" {
				t.Fatal("two readings are two requests")
			}
		}
	})
}
