package pi_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/pi"
)

func id(n int) string { return fmt.Sprintf("0199bbbb-0000-7000-8000-%012x", n) }

func home() convert.Source { return convert.Source{FS: os.DirFS("testdata/home"), Path: "."} }

// outline writes entries one a line: id, parent where it is not the one
// before, kind or role, and what is in the blocks.
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
			case b.Type == tidemark.BlockToolResult:
				line += fmt.Sprintf(" %s:%s:%v", b.ToolUseID, b.Text, b.IsError)
			case b.Type == tidemark.BlockImage:
				line += fmt.Sprintf(" %s:%d", b.MediaType, len(b.Data))
			default:
				line += " " + b.Text + b.Provider
			}
		}
		if u := e.Usage; u != nil {
			line += fmt.Sprintf(" [%d %d %d %d %v]", u.InputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.OutputTokens, u.CostUSD)
		}
		all = append(all, line)
	}
	return all
}

func TestAStoreComesInWhole(t *testing.T) {
	got := converttest.Read(t, pi.Tool(), home())
	if len(got.Skips) != 0 || len(got.Sessions) != 3 {
		t.Fatalf("%d sessions, skips %v", len(got.Sessions), got.Skips)
	}
	past := []string{
		"aaaaaaa1 model_change", "aaaaaaa2 user One?",
		`aaaaaaa3 assistant Hm.acme Look. read({"path":"a"})call_1 [10 5 1 2 0.5]`,
		"aaaaaaa4 tool call_1:ENOENT:true", "aaaaaaa5 assistant Not there. [10 5 1 2 0.5]",
	}
	want := map[int][]string{
		1: append(past[:5:5],
			"aaaaaaa6 user Two?", "aaaaaaa7 error refused [10 5 1 2 0.5]",
			"aaaaaaa8 <aaaaaaa1 branch_summary One was asked.", "aaaaaaa9 user Three? image/png:6",
			"aaaaaaaa label", "aaaaaaab session_info", "aaaaaaac command $ ls a", "aaaaaaad context Mind the gap.", "aaaaaaae custom",
			"aaaaaaaf compaction All about tea.", "aaaaaab0 user Four?"),
		2: append(past[:5:5], "bbbbbbb1 user Fork?", "bbbbbbb2 leaf"),
		3: {"line.2 user Hello", "line.3 assistant Hi! [10 5 1 2 0.5]"},
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
		if s.Project != "/home/ada/tea" || s.CreatedAt.IsZero() || s.Model == "" {
			t.Errorf("session %d: project %q, created %v, model %q", n, s.Project, s.CreatedAt, s.Model)
		}
	}
	one, two := got.Find(id(1)), got.Find(id(2))
	if one.Title != "tea things" || one.Copied != "" || one.Head != "" || !strings.Contains(string(one.Extra), `"tomorrow":1`) {
		t.Errorf("title %q, copied %q, head %q, extra %s", one.Title, one.Copied, one.Head, one.Extra)
	}
	if d := cmp.Diff(map[string]string{"aaaaaaa9": "start"}, one.Labels); d != "" {
		t.Error(d)
	}
	if two.Copied != id(1) || two.Head != "aaaaaaa5" {
		t.Errorf("copied %q, head %q", two.Copied, two.Head)
	}
}

func TestEveryWayToNameAStoreIsDetected(t *testing.T) {
	project := ".pi/agent/sessions/--home-ada-tea--"
	for _, name := range []string{".", ".pi", ".pi/agent", ".pi/agent/sessions", project, project + "/2025-11-01T10-00-00-000Z_" + id(1) + ".jsonl"} {
		p := convert.Source{FS: os.DirFS("testdata/home"), Path: name}
		if !pi.Tool().Detect(t.Context(), p) || len(converttest.Read(t, pi.Tool(), p).Sessions) == 0 {
			t.Errorf("%s is not detected", name)
		}
	}
	for _, text := range []string{"", "{}", `{"type":"session"}`, `{"type":"session_meta","payload":{}}`, "\x00"} {
		p := convert.Source{FS: fstest.MapFS{"a.jsonl": {Data: []byte(text)}}, Path: "."}
		if pi.Tool().Detect(t.Context(), p) {
			t.Errorf("%q is detected", text)
		}
	}
}

func head(n int) string {
	return fmt.Sprintf(`{"type":"session","version":3,"id":%q,"timestamp":"2025-11-01T10:00:00.000Z","cwd":"/home/ada/tea"}`, id(n)) + "\n"
}

func said(id, parent, text string) string {
	return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%q,"timestamp":"2025-11-01T10:00:01.000Z","message":{"role":"user","content":%q}}`, id, parent, text) + "\n"
}

func store(texts ...string) convert.Source {
	files := fstest.MapFS{}
	for i, text := range texts {
		files[fmt.Sprintf(".pi/agent/sessions/--tea--/%d.jsonl", i)] = &fstest.MapFile{Data: []byte(text)}
	}
	return convert.Source{FS: files, Path: "."}
}

func TestABadFileIsSkippedAndTheOthersComeIn(t *testing.T) {
	bad := []string{"", "\x00", "{half", said("a", "", "x"), strings.Replace(head(9), id(9), "../up", 1), head(1) + said("b", "", "again"), strings.Repeat("x", 1<<20)}
	got := converttest.Read(t, pi.Tool(), store(append([]string{head(1) + said("a", "", "One?")}, bad...)...))
	if len(got.Sessions) != 1 || len(got.Skips) != len(bad) {
		t.Errorf("%d sessions, skips:\n%s", len(got.Sessions), strings.Join(got.Skips, "\n"))
	}
}

func TestBadLinesAndLinksDoNotStopASession(t *testing.T) {
	text := head(1) + said("a", "", "One?") + "{half\n" + said("b", "b", "its own parent") + said("a", "b", "the same id again") + said("c", "gone", "no parent") +
		said(strings.Repeat("x", 300), "c", "a long id") + `{"type":"branch","id":"d"}` + "\n" + `{"type":"message","id":"e","message":7}` + "\n" + `{"type":"leaf","id":"f","targetId":"nowhere"}` + "\n" + `{"type":"mess`
	got := converttest.Read(t, pi.Tool(), store(text))
	want := []string{"a user One?", "b user its own parent", "line.5 user the same id again", "c user no parent", "line.7 user a long id", "d other", "e other", "f leaf"}
	if d := cmp.Diff(want, outline(got.Sessions[0].Entries)); d != "" || len(got.Skips) != 2 {
		t.Errorf("skips %v: %s", got.Skips, d)
	}
}

func TestAFolderWithoutRightsIsSkipped(t *testing.T) {
	files := store(head(1)).FS.(fstest.MapFS)
	files[".pi/agent/sessions/--locked--/1.jsonl"] = &fstest.MapFile{Data: []byte(head(2))}
	got := converttest.Read(t, pi.Tool(), convert.Source{FS: converttest.Locked{MapFS: files, Folder: "--locked--"}, Path: "."})
	if len(got.Sessions) != 1 || len(got.Skips) != 1 {
		t.Errorf("%d sessions, skips %v", len(got.Sessions), got.Skips)
	}
}

func FuzzImport(f *testing.F) {
	f.Add(head(1)+said("a", "", "One?")+said("b", "a", "Two?"), head(2))
	f.Add(head(1)+`{"type":"label","id":"b","parentId":null,"targetId":"b","label":"x"}`+"\n"+`{"type":"leaf","targetId":"b"}`, "")
	f.Add(head(1)+`{"type":"message","id":"a","message":{"role":"assistant","content":[{"type":"thinking","thinking":"x","thinkingSignature":"y"},7],"usage":{"input":-1}}}`, "{}")
	f.Add(head(1)+`{"type":"message","message":{"role":"toolResult","content":[{"type":"image","data":"AA=="}],"isError":1}}`, "")
	f.Fuzz(func(t *testing.T, a, b string) {
		p := store(a, b)
		pi.Tool().Detect(t.Context(), p)
		converttest.Read(t, pi.Tool(), p)
	})
}
