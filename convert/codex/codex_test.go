package codex_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/codex"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func id(n int) string { return fmt.Sprintf("0199aaaa-0000-7000-8000-%012x", n) }

func home() convert.Source { return convert.Source{FS: os.DirFS("testdata/home"), Path: "."} }

// outline writes entries one a line: id, parent where it is not the one
// before, kind or role, and text, call or result.
func outline(entries []convert.Entry) []string {
	var all []string
	for _, e := range entries {
		line := e.ID
		switch e.Parent {
		case "":
		case convert.Root:
			line += " <root"
		default:
			line += " <" + e.Parent
		}
		line += " " + e.Kind + string(e.Role)
		for _, b := range e.Blocks {
			switch {
			case b.Type == tidemark.BlockToolUse:
				line += fmt.Sprintf(" %s(%s)%s", b.Name, b.Input, b.ID)
			case b.Type == tidemark.BlockToolResult && b.IsError:
				line += " failed:" + b.ToolUseID
			case b.Type == tidemark.BlockToolResult:
				line += " done:" + b.ToolUseID
			case b.Type == tidemark.BlockImage:
				line += fmt.Sprintf(" image:%s:%d%s", b.MediaType, len(b.Data), b.URL)
			case b.Raw != "":
				line += " sealed:" + b.Text
			default:
				line += " " + b.Text
			}
		}
		if u := e.Usage; u != nil {
			line += fmt.Sprintf(" [%d %d %d]", u.InputTokens, u.CacheReadTokens, u.OutputTokens)
		}
		all = append(all, strings.ReplaceAll(line, "0199aaaa-0000-7000-8000-0000000000", ""))
	}
	return all
}

func TestAStoreComesInWhole(t *testing.T) {
	got := converttest.Read(t, codex.Tool(), home())
	if len(got.Skips) != 0 {
		t.Errorf("skipped: %v", got.Skips)
	}
	want := map[int][]string{
		1: {
			"1 context <environment_context>\n  <cwd>/home/ada/tea</cwd>\n</environment_context>",
			"2 user Which kettle?",
			"3 assistant sealed:Look first. [60 40 10]",
			`4 assistant shell({"command":["ls"]})call_1`,
			"5 tool done:call_1",
			`6 assistant apply_patch("*** Begin Patch\n*** End Patch\n")call_2 [50 100 20]`,
			"7 tool failed:call_2",
			"8 assistant The blue one. [50 150 5]",
			"9 compaction The user wants the blue kettle. [300 0 30]",
			"10 user And the cup?",
			"11 assistant Any\u2028cup. [50 0 3]",
		},
		2: {
			"1 context <environment_context></environment_context>",
			"2 user One?", "3 assistant First. [10 0 1]",
			"4 user Two?", "5 assistant Second. [15 5 2]",
			"6 user Three?", "7 assistant Third. [30 0 3]",
		},
		3: {"1 user Fork?", "2 assistant Forked. [40 0 4]", "3 user More?"},
		4: {"1 user Deeper?", "2 assistant Deep."},
		5: {
			"1 user Alpha?", "2 assistant A.", "3 user Beta?", "3.1 interrupted interrupted",
			"32:1 <2 user Gamma?", "32:2 assistant G.",
			"33:1 <root user Delta?", "33:2 assistant D.",
		},
		6: {
			"1 user Ask helpers.",
			`2 assistant spawn_agent({"message":"count"})call_a`, "3 tool done:call_a",
			`4 assistant spawn_agent({"message":"weigh"})call_b`, "5 tool done:call_b",
			"6 context <subagent_notification>{}</subagent_notification>",
			"7 assistant Both are back.",
		},
		10: {"1 user Old?", "2 assistant Old."},
	}
	if len(got.Sessions) != len(want) {
		t.Errorf("%d sessions came in, want %d", len(got.Sessions), len(want))
	}
	for n, lines := range want {
		s := got.Find(id(n))
		if s == nil {
			t.Errorf("session %d did not come in", n)
			continue
		}
		if d := cmp.Diff(lines, outline(s.Entries)); d != "" {
			t.Errorf("session %d: %s", n, d)
		}
		if s.Project != "/home/ada/tea" || s.CreatedAt.IsZero() || !s.UpdatedAt.After(s.CreatedAt) || s.Model == "" {
			t.Errorf("session %d: project %q, created %v, updated %v, model %q", n, s.Project, s.CreatedAt, s.UpdatedAt, s.Model)
		}
	}
}

func TestAForkGoesOnFromItsSourceByReference(t *testing.T) {
	got := converttest.Read(t, codex.Tool(), home())
	for n, want := range map[int]convert.Fork{3: {Session: id(2), Entry: "5"}, 4: {Session: id(3), Entry: "2"}} {
		if d := cmp.Diff(&want, got.Find(id(n)).Fork); d != "" {
			t.Errorf("session %d: %s", n, d)
		}
	}
	said := converttest.Texts(got.Whole(got.Find(id(4))), tidemark.User)
	if d := cmp.Diff([]string{"One?", "Two?", "Fork?", "Deeper?"}, said); d != "" {
		t.Error(d)
	}
}

func TestHelperAgentsAreWorkersOfTheirSession(t *testing.T) {
	got := converttest.Read(t, codex.Tool(), home())
	type worker struct {
		Name, Call string
		Lines      []string
	}
	var workers []worker
	for _, w := range got.Find(id(6)).Workers {
		workers = append(workers, worker{strings.TrimSuffix(w.Name, w.Name[len(w.Name)-36:]), w.Call, outline(w.Entries)})
	}
	want := []worker{
		{"Carver-", "call_a", []string{"1 user count", "2 assistant spawn_agent({})call_c", "3 tool done:call_c", "4 assistant Three."}},
		{"weigh-", "call_b", []string{"1 agent_message weigh sealed:", "2 assistant Two kilos."}},
		{"Dirac-", "call_c", []string{"1 user deeper", "2 assistant Deeper."}},
	}
	if d := cmp.Diff(want, workers); d != "" {
		t.Error(d)
	}
}

func TestNamesAndArchivingAreKept(t *testing.T) {
	got := converttest.Read(t, codex.Tool(), home())
	if s := got.Find(id(2)); s.Title != "three questions" || s.Tags != nil {
		t.Errorf("session 2: title %q, tags %v", s.Title, s.Tags)
	}
	if s := got.Find(id(10)); s.Title != "" || !slices.Equal(s.Tags, []string{"archived"}) {
		t.Errorf("session 10: title %q, tags %v", s.Title, s.Tags)
	}
	var extra struct {
		Codex struct{ Meta map[string]json.RawMessage }
	}
	if err := json.Unmarshal(got.Find(id(1)).Extra, &extra); err != nil || string(extra.Codex.Meta["a_field_of_tomorrow"]) != `{"x":1}` {
		t.Errorf("unknown fields: %v, %v", extra.Codex.Meta, err)
	}
}

func TestEveryWayToNameAStoreIsDetected(t *testing.T) {
	files := os.DirFS("testdata/home")
	day := ".codex/sessions/2025/11/01"
	for _, name := range []string{".", ".codex", ".codex/sessions", ".codex/archived_sessions", day, day + "/" + rolloutName(1)} {
		p := convert.Source{FS: files, Path: name}
		if !codex.Tool().Detect(t.Context(), p) {
			t.Errorf("%s is not detected", name)
		}
		if len(converttest.Read(t, codex.Tool(), p).Sessions) == 0 {
			t.Errorf("%s: nothing came in", name)
		}
	}
	for name, text := range map[string]string{
		"empty.jsonl": "", rolloutName(1): "", "other.jsonl": `{"type":"session","id":"x"}` + "\n",
		"chat.json": `{"sessionId":"session_meta","payload":`, "rollout-x.jsonl": "\x00\x01", "note.txt": "session_meta payload",
	} {
		for _, at := range []string{name, "."} {
			p := convert.Source{FS: fstest.MapFS{name: {Data: []byte(text)}}, Path: at}
			if codex.Tool().Detect(t.Context(), p) {
				t.Errorf("%s with %q is detected at %s", name, text, at)
			}
		}
	}
}

func rolloutName(n int) string { return "rollout-2025-11-01T10-00-00-" + id(n) + ".jsonl" }

// watched tells what was opened.
type watched struct {
	fs.FS
	names *[]string
}

func (w watched) Open(name string) (fs.File, error) {
	*w.names = append(*w.names, name)
	return w.FS.Open(name)
}

func TestOnlySessionFilesAreOpened(t *testing.T) {
	var names []string
	files := fstest.MapFS{
		"sessions/2025/11/01/" + rolloutName(1): {Data: []byte(meta(1) + user("Hello?"))},
		"auth.json":                             {Data: []byte("{}")},
		"config.toml":                           {Data: []byte("x=1")},
		"history.jsonl":                         {Data: []byte("{}")},
		"sessions/auth.json":                    {Data: []byte("{}")},
		"session_index.jsonl":                   {Data: []byte("{}")},
	}
	p := convert.Source{FS: watched{files, &names}, Path: "."}
	codex.Tool().Detect(t.Context(), p)
	if got := converttest.Read(t, codex.Tool(), p); len(got.Sessions) != 1 {
		t.Fatalf("%d sessions", len(got.Sessions))
	}
	for _, name := range names {
		base := path.Base(name)
		info, err := fs.Stat(files, name)
		if err == nil && !info.IsDir() && base != "session_index.jsonl" && base != rolloutName(1) {
			t.Errorf("%s was opened", name)
		}
	}
}

func TestAFileAloneComesInWithWhatItGoesOnFrom(t *testing.T) {
	dir := ".codex/sessions/2025/11/01/"
	p := convert.Source{FS: os.DirFS("testdata/home"), Path: dir + "rollout-2025-11-01T08-00-00-" + id(4) + ".jsonl"}
	got := converttest.Read(t, codex.Tool(), p)
	if len(got.Sessions) != 1 || got.Sessions[0].Copied != id(3) || got.Sessions[0].Fork != nil {
		t.Fatalf("came in as %+v", got.Sessions)
	}
	want := []string{"One?", "Two?", "Fork?", "Deeper?"}
	if d := cmp.Diff(want, converttest.Texts(got.Sessions[0].Entries, tidemark.User)); d != "" {
		t.Error(d)
	}
	p.Path = dir + rolloutName(2)
	if s := converttest.Read(t, codex.Tool(), p).Sessions[0]; s.Title != "three questions" || len(s.Entries) != 7 {
		t.Errorf("title %q, %d entries", s.Title, len(s.Entries))
	}
}
