package messages

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func read(t *testing.T, tool convert.Tool, file string) converttest.Taken {
	t.Helper()
	return converttest.Read(t, tool, convert.Source{FS: os.DirFS("testdata"), Path: file})
}

// outline is one line for each entry: id, who and what.
func outline(entries []convert.Entry) []string {
	var all []string
	for _, e := range entries {
		var what []string
		for _, b := range e.Blocks {
			s := b.Type
			switch b.Type {
			case tidemark.BlockText, tidemark.BlockThinking:
				s = b.Text
			case tidemark.BlockToolUse:
				s = "call " + b.ID + " " + strings.Join(strings.Fields(string(b.Input)), "")
			case tidemark.BlockToolResult:
				s = "result " + b.ToolUseID + " " + strings.ReplaceAll(b.Text, "\n", "/")
			}
			if b.IsError {
				s += "!"
			}
			if b.Raw != "" {
				s += " (raw)"
			}
			what = append(what, s)
		}
		all = append(all, strings.Join([]string{e.ID, string(e.Role) + e.Kind + ":", strings.Join(what, " + ")}, " "))
	}
	return all
}

func TestOpenAIMessagesComeIn(t *testing.T) {
	got := read(t, OpenAI(), "openai.json")
	want := []string{
		"0 system: Be brief.",
		"1 user: What is this? + image + image (raw) + file (raw)",
		`2 assistant: call c1 {"dir":"."} + call c2 "{\"dir\":"`,
		"3 tool: result c1 a.txt",
		"4 tool: result c2 bad/arguments",
		"5 assistant: A file.",
		"6 user: Thanks 🍵 <b>",
	}
	if d := cmp.Diff(want, outline(got.Sessions[0].Entries)); d != "" || !strings.HasPrefix(got.Sessions[0].ForeignID, "openai-") {
		t.Error(d)
	}
	functions := read(t, OpenAI(), "functions.json")
	if d := cmp.Diff([]string{"0 user: add", "1 assistant: call call-1 {}", "2 tool: result call-1 3"}, outline(functions.Sessions[0].Entries)); d != "" {
		t.Error(d)
	}
}

func TestAnthropicMessagesComeIn(t *testing.T) {
	got := read(t, Anthropic(), "anthropic.json")
	want := []string{
		"system system: Be brief. (raw)",
		"0 user: What is this? + image + file",
		`1 assistant: hm (raw) +  (raw) + Looking. + call c1 {"dir":"."} + call c2 {}`,
		"2 tool: result c1 a.txt + result c2 no!",
		"2#text user: Go on.",
		"3 assistant: file (raw) + A file.",
	}
	if d := cmp.Diff(want, outline(got.Sessions[0].Entries)); d != "" || got.Sessions[0].Model != "m-1" {
		t.Error(d)
	}
}

func TestEachLineIsAConversation(t *testing.T) {
	got := read(t, OpenAI(), "tuning.jsonl")
	if len(got.Sessions) != 2 || len(got.Skips) != 1 || !strings.HasPrefix(got.Sessions[1].ForeignID, "tuning-2-") || len(got.Sessions[1].Entries) != 3 {
		t.Errorf("%+v", got)
	}
}

func TestConversationsInFilesOfOneNameAreTwo(t *testing.T) {
	id := func(data string) string {
		p := convert.Source{FS: fstest.MapFS{"chat.json": {Data: []byte(data)}}, Path: "chat.json"}
		return converttest.Read(t, OpenAI(), p).Sessions[0].ForeignID
	}
	one := id(`[{"role":"system","content":"s"},{"role":"user","content":"one"}]`)
	if grown := id(`[{"role":"system","content":"s"}, {"role":"user", "content":"one"},{"role":"assistant","content":"ONE"}]`); grown != one {
		t.Errorf("a conversation that has grown is %s, and was %s", grown, one)
	}
	if id(`[{"role":"system","content":"s"},{"role":"user","content":"two"}]`) == one {
		t.Error("two conversations have one id")
	}
}

func TestWhatCameInGoesOutAndComesInAgain(t *testing.T) {
	for file, tool := range map[string]convert.Tool{"openai.json": OpenAI(), "functions.json": OpenAI(), "anthropic.json": Anthropic()} {
		t.Run(file, func(t *testing.T) {
			first := read(t, tool, file).Sessions[0]
			out := converttest.NewOut()
			lost, err := tool.Export(t.Context(), out, first.Session)
			if err != nil || len(lost) > 0 {
				t.Fatalf("lost %v, %v", lost, err)
			}
			p := out.Source()
			p.Path = first.ForeignID + "." + tool.Name + ".json"
			if !tool.Detect(t.Context(), p) {
				t.Errorf("not detected: %s", out.Files[p.Path].Data)
			}
			again := converttest.Read(t, tool, p).Sessions[0]
			same := cmp.Transformer("JSON", func(m json.RawMessage) string {
				var v any
				if json.Unmarshal(m, &v) != nil {
					return string(m)
				}
				b, _ := json.Marshal(v)
				return string(b)
			})
			raw := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Raw" },
				cmp.Comparer(func(a, b string) bool {
					return strings.Join(strings.Fields(a), "") == strings.Join(strings.Fields(b), "")
				}))
			if d := cmp.Diff(merged(first.Entries), merged(again.Entries), same, raw); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(first.Session.Extra, again.Session.Extra, same); d != "" || first.Model != again.Model {
				t.Error(d)
			}
		})
	}
}

// merged gives entries new ids: one message of results and text goes out as
// two, and an old function result as a tool's.
func merged(entries []convert.Entry) []convert.Entry {
	var all []convert.Entry
	for _, e := range entries {
		e.ID = ""
		all = append(all, e)
	}
	return all
}

func session(entries ...convert.Entry) *convert.Session {
	s := &convert.Session{Entries: convert.All(entries)}
	s.ForeignID, s.Title = "../hostile", "A title"
	return s
}

func say(id, parent string, role tidemark.Role, blocks ...tidemark.Block) convert.Entry {
	e := convert.Entry{ID: id, Parent: parent}
	e.Role, e.Blocks = role, blocks
	return e
}

func export(t *testing.T, tool convert.Tool, s *convert.Session) (string, []string) {
	t.Helper()
	out := converttest.NewOut()
	lost, err := tool.Export(t.Context(), out, s)
	if err != nil || len(out.Files) != 1 {
		t.Fatalf("%d files, %v", len(out.Files), err)
	}
	for _, f := range out.Files {
		return string(f.Data), lost
	}
	return "", nil
}

func TestADocumentThatIsATextGoesOutAsOne(t *testing.T) {
	const said = `[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a<b"}},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"?"}}]}]`
	fsys := fstest.MapFS{"a.json": {Data: []byte(said)}}
	for s, err := range Anthropic().Import(t.Context(), convert.Source{FS: fsys, Path: "a.json"}) {
		if err != nil {
			t.Fatal(err)
		}
		out := converttest.NewOut()
		if _, err := Anthropic().Export(t.Context(), out, s); err != nil {
			t.Fatal(err)
		}
		for name, f := range out.Files {
			if !convert.SameJSON(f.Data, []byte(said)) {
				t.Errorf("%s: %s", name, f.Data)
			}
		}
		if len(out.Files) != 1 {
			t.Errorf("%d files", len(out.Files))
		}
	}
}

func TestOnlyThePathToTheHeadGoesOut(t *testing.T) {
	context := convert.Entry{ID: "x", Parent: "a"}
	context.Kind = "context"
	s := session(
		say("a", convert.Root, tidemark.User, tidemark.Text("one")), context,
		say("b", "x", tidemark.Assistant, tidemark.Text("ONE")),
		say("c", "a", tidemark.Assistant, tidemark.Text("UNO")))
	s.Head = "b"
	got, lost := export(t, OpenAI(), s)
	if want := `[{"content":"one","role":"user"},{"content":"ONE","role":"assistant"}]` + "\n"; got != want {
		t.Errorf("got %s", got)
	}
	if d := cmp.Diff([]string{"entries of kind context (1)", "entries of other branches (1)", "the title"}, lost); d != "" {
		t.Error(d)
	}
}

func TestWhatHasNoPlaceIsTold(t *testing.T) {
	answer := say("a", "", tidemark.Assistant,
		tidemark.Block{Type: tidemark.BlockThinking, Text: "hm"},
		tidemark.Block{Type: tidemark.BlockThinking, Text: "hm", Provider: "anthropic", Raw: `{"type":"thinking","thinking":"hm","signature":"x"}`},
		tidemark.Block{Type: tidemark.BlockToolUse, ID: "c", Name: "n", Input: json.RawMessage(`"not json"`)})
	answer.At, answer.Model, answer.Usage = time.Unix(1, 0), "m", &tidemark.Usage{}
	answer.Extra = json.RawMessage(`{"codex":{"x":1}}`)
	result := say("r", "", tidemark.Tool, tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: "c", Text: "no", IsError: true,
		Blocks: []tidemark.Block{{Type: tidemark.BlockImage, MediaType: "image/png", Data: []byte("hi")}}})
	s := session(answer, result, say("e", "", tidemark.Assistant))
	s.Workers, s.Labels = []convert.Worker{{Name: "w"}}, map[string]string{"a": "b"}
	both := []string{"messages that say nothing (1)", "models (1)", "names of entries", "the title", "helpers",
		"times (1)", "token counts (1)", "what codex keeps of its own (1)"}
	for _, c := range []struct {
		tool convert.Tool
		want string
		lost []string
	}{
		{OpenAI(), `[{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"not json","name":"n"},"id":"c","type":"function"}]},` +
			`{"content":"no","role":"tool","tool_call_id":"c"}]`,
			[]string{"thoughts that are not signed for it (2)", "marks of results that are errors (1)", "pictures and files in results (1)"}},
		{Anthropic(), `[{"content":[{"type":"thinking","thinking":"hm","signature":"x"},{"id":"c","input":{"arguments":"not json"},"name":"n","type":"tool_use"}],"role":"assistant"},` +
			`{"content":[{"content":[{"text":"no","type":"text"},{"source":{"data":"aGk=","media_type":"image/png","type":"base64"},"type":"image"}],"is_error":true,"tool_use_id":"c","type":"tool_result"}],"role":"user"}]`,
			[]string{"thoughts that are not signed for it (1)"}},
	} {
		got, lost := export(t, c.tool, s)
		if d := cmp.Diff(c.want+"\n", got); d != "" {
			t.Errorf("%s: %s", c.tool.Name, d)
		}
		for _, want := range append(c.lost, both...) {
			if !strings.Contains(strings.Join(lost, "\n")+"\n", want+"\n") {
				t.Errorf("%s: %q is not in %q", c.tool.Name, want, lost)
			}
		}
		if len(lost) != len(c.lost)+len(both) {
			t.Errorf("%s: lost %q", c.tool.Name, lost)
		}
	}
}

func TestFilesAreToldApart(t *testing.T) {
	for data, want := range map[string]string{
		`[{"role":"user","content":"hi"}]`:                                                   "openai",
		`{"model":"m","messages":[{"role":"user","content":"hi"}]}`:                          "openai",
		`{"system":"s","messages":[{"role":"user","content":"hi"}]}`:                         "anthropic",
		`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}]`:             "anthropic",
		`{"version":1,"sessionId":"s","messages":[{"id":"x","role":"user","content":"hi"}]}`: "",
		`{"sessionId":"s","history":[]}`:                                                     "",
		`[{"id":"x","role":"user","content":"hi"}]`:                                          "",
		`[]`:                                 "",
		`[{"role":"wizard","content":"hi"}]`: "",
		`[1,2]`:                              "",
		`{"type":"user","message":{}}`:       "",
		"":                                   "",
	} {
		p := convert.Source{FS: fstest.MapFS{"a.json": {Data: []byte(data)}}, Path: "a.json"}
		for _, tool := range []convert.Tool{OpenAI(), Anthropic()} {
			if got := tool.Detect(t.Context(), p); got != (tool.Name == want) {
				t.Errorf("%s detects %s: %v", tool.Name, data, got)
			}
		}
	}
}

func TestDamageIsSkippedAndTheRestComesIn(t *testing.T) {
	for data, want := range map[string][2]int{ // skips, entries
		"":                                  {1, 0},
		`[{"role":"us`:                      {1, 0},
		`{"a":1}`:                           {1, 0},
		`7`:                                 {1, 0},
		`[7,{"role":"user","content":"a"}]`: {1, 1},
		`[{"role":"wizard","content":"a"},{"role":"user","content":8}]`: {1, 1},
	} {
		for _, tool := range []convert.Tool{OpenAI(), Anthropic()} {
			got := converttest.Read(t, tool, convert.Source{FS: fstest.MapFS{"a.json": {Data: []byte(data)}}, Path: "a.json"})
			said := 0
			for _, s := range got.Sessions {
				said += len(s.Entries)
			}
			if len(got.Skips) != want[0] || said != want[1] {
				t.Errorf("%s: %s: %d skips, %d entries: %v", tool.Name, data, len(got.Skips), said, got.Skips)
			}
		}
	}
}

func TestAReaderMayStopAnywhere(t *testing.T) {
	converttest.CheckStops(t, OpenAI(), convert.Source{FS: os.DirFS("testdata"), Path: "tuning.jsonl"})
}

func FuzzImportAndExport(f *testing.F) {
	for _, n := range []string{"openai.json", "anthropic.json", "functions.json"} {
		b, err := os.ReadFile("testdata/" + n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, tool := range []convert.Tool{OpenAI(), Anthropic()} {
			p := convert.Source{FS: fstest.MapFS{"a.json": {Data: data}}, Path: "a.json"}
			tool.Detect(t.Context(), p)
			for _, s := range converttest.Read(t, tool, p).Sessions {
				out := converttest.NewOut()
				if _, err := tool.Export(t.Context(), out, s.Session); err != nil {
					t.Fatal(err)
				}
				back := out.Source()
				for name := range out.Files {
					back.Path = name
				}
				converttest.Read(t, tool, back)
			}
		}
	})
}
