package codex_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/codex"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func TestTheStoreComesBackFromAnExport(t *testing.T) {
	got := converttest.Read(t, codex.Tool(), home())
	for _, one := range got.Sessions {
		again := roundTrip(t, got, one)
		sameEntries(t, got, one, again)
		if again.ForeignID != one.ForeignID || again.Title != one.Title || again.Project != one.Project || !slices.Equal(again.Tags, one.Tags) {
			t.Errorf("%s: came back as %s %q in %s, %v", one.ForeignID, again.ForeignID, again.Title, again.Project, again.Tags)
		}
	}
}

func TestALineIsWrittenAsItWas(t *testing.T) {
	files := home()
	got := converttest.Read(t, codex.Tool(), files)
	one := got.Find(id(1))
	s, out := *one.Session, converttest.NewOut()
	s.Entries = convert.All(one.Entries)
	if _, err := codex.Tool().Export(t.Context(), out, &s); err != nil {
		t.Fatal(err)
	}
	name := "sessions/2025/11/01/rollout-2025-11-01T10-00-00-" + id(1) + ".jsonl"
	var written, source []string
	for l := range bytes.Lines(out.Files[name].Data) {
		written = append(written, items(t, l)...)
	}
	for l, err := range convert.Lines(files.FS, ".codex/"+name) {
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, items(t, l.Text)...)
	}
	if d := cmp.Diff(source, written); d != "" {
		t.Error(d)
	}
}

// items returns a line with its fields in order, when the model gets to see it.
func items(t *testing.T, line []byte) []string {
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatal(err)
	}
	if m["type"] == "event_msg" || m["type"] == "turn_context" {
		return nil
	}
	if m["type"] == "session_meta" {
		delete(m, "timestamp") // of the line, just after the one in it
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return []string{string(b)}
}

func TestASessionOfAnotherToolCanGoOn(t *testing.T) {
	at := time.Date(2025, 11, 1, 10, 0, 0, 0, time.UTC)
	say := func(id string, role tidemark.Role, blocks ...tidemark.Block) convert.Entry {
		return convert.Entry{ID: id, Entry: tidemark.Entry{At: at, Role: role, Blocks: blocks}}
	}
	call := tidemark.Block{Type: tidemark.BlockToolUse, ID: "toolu_1", Name: "mcp.read/file", Input: json.RawMessage(`{"path":"a"}`)}
	thought := tidemark.Block{Type: tidemark.BlockThinking, Text: "Hm.", Provider: "anthropic", Raw: `{"signature":"x"}`}
	answer := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: "toolu_1", Text: "no", IsError: true}
	other := say("x", tidemark.User, tidemark.Text("Never mind."))
	s := &convert.Session{
		Entries: convert.All([]convert.Entry{
			say("s", tidemark.System, tidemark.Text("Be kind.")),
			say("a", tidemark.User, tidemark.Text("Hello?")),
			other,
			{ID: "b", Parent: "a", Entry: tidemark.Entry{At: at, Role: tidemark.Assistant, Usage: &tidemark.Usage{InputTokens: 5, CacheReadTokens: 2, OutputTokens: 1},
				Blocks: []tidemark.Block{thought, tidemark.Text("Let me see."), call}}},
			say("c", tidemark.Tool, answer),
			{ID: "d", Entry: tidemark.Entry{At: at, Kind: "compaction", Blocks: []tidemark.Block{tidemark.Text("It was about a.")}}},
			{ID: "e", Entry: tidemark.Entry{At: at, Kind: "snapshot"}},
			say("f", tidemark.Assistant, tidemark.Text("There is no a.")),
		}),
		Workers: []convert.Worker{{Name: "helper", Call: "toolu_1", Entries: convert.All([]convert.Entry{say("w", tidemark.User, tidemark.Text("Look."))})}},
		Labels:  map[string]string{"a": "start"},
	}
	s.ForeignID, s.Title, s.CreatedAt, s.Project = "not a uuid", "talk", at, "/home/ada/tea"
	out := converttest.NewOut()
	lost, err := codex.Tool().Export(t.Context(), out, s)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"entry of another branch (1)", "entry of kind snapshot (1)", "label (1)", "mark of a failed tool (1)", "thought of another provider, shown and not sent (1)"}
	if d := cmp.Diff(want, lost); d != "" {
		t.Errorf("lost: %s", d)
	}
	got := converttest.Read(t, codex.Tool(), out.Source())
	if len(got.Sessions) != 1 || len(got.Skips) > 0 {
		t.Fatalf("%d sessions, skips %v", len(got.Sessions), got.Skips)
	}
	again := got.Sessions[0]
	lines := []string{"1 context Be kind.", "2 user Hello?", "3 assistant Let me see.", `4 assistant mcp_read_file({"path":"a"})toolu_1 [5 2 1]`,
		"5 tool done:toolu_1", "6 compaction It was about a.", "7 assistant There is no a."}
	if d := cmp.Diff(lines, outline(again.Entries)); d != "" {
		t.Error(d)
	}
	if again.Title != "talk" || again.Project != "/home/ada/tea" || len(again.Workers) != 1 || again.Workers[0].Call != "toolu_1" {
		t.Errorf("came back as %q in %s with workers %+v", again.Title, again.Project, again.Workers)
	}
	for _, name := range slices.Sorted(maps.Keys(out.Files)) {
		if !strings.HasPrefix(name, "sessions/2025/11/01/rollout-2025-11-01T10-00-00-") {
			t.Errorf("%s is not where Codex looks", name)
		}
	}
}
