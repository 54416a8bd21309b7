package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/modeltest"
)

func TestRequestIsMadeOfItsParts(t *testing.T) {
	client, server := client(t, Options{MaxTokens: 100}, saying("ok"))
	r := model.Request{Model: "claude-x", System: "Be <brief> & kind.",
		Tools: []model.Tool{{Name: "bash", Description: "runs", Schema: json.RawMessage(`{ "type": "object", "properties": {"command": {"type": "string"}} }`)}, {Name: "now"}},
		Entries: []tidemark.Entry{tidemark.Say(tidemark.User, "one <1>"), tidemark.Say(tidemark.User, "two"),
			tidemark.Say(tidemark.Assistant, "three"), tidemark.Say(tidemark.System, "note"), tidemark.Say(tidemark.User, "four")}}
	if h := modeltest.Collect(client.Stream(t.Context(), r)); h.Err != nil {
		t.Fatal(h.Err)
	}
	want := `{"model":"claude-x","max_tokens":100,"stream":true,"cache_control":{"type":"ephemeral"},` +
		`"tools":[{"name":"bash","description":"runs","input_schema":{"type":"object","properties":{"command":{"type":"string"}}}},` +
		`{"name":"now","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}],` +
		`"system":[{"type":"text","text":"Be <brief> & kind.","cache_control":{"type":"ephemeral"}}],` +
		`"messages":[{"role":"user","content":[{"type":"text","text":"one <1>"},{"type":"text","text":"two"}]},` +
		`{"role":"assistant","content":[{"type":"text","text":"three"}]},{"role":"user","content":[{"type":"text","text":"note"},{"type":"text","text":"four"}]}]}`
	if server.Bodies[0] != want {
		t.Errorf("sent\n%s\nwant\n%s", server.Bodies[0], want)
	}
	parts, err := client.Parts(r)
	if err != nil {
		t.Fatal(err)
	}
	made := `{"model":"claude-x","max_tokens":100,"stream":true,"cache_control":{"type":"ephemeral"},"tools":` + string(parts[0]) +
		`,"system":` + string(parts[1]) + `,"messages":[` + string(bytes.Join(parts[2:], nil)) + `]}]}`
	if made != server.Bodies[0] {
		t.Errorf("parts make\n%s\nsent was\n%s", made, server.Bodies[0])
	}
}

func TestThinkingIsAskedForAsTheModelWantsIt(t *testing.T) {
	for name, want := range map[string]string{
		"claude-sonnet-4-5-20250929": `"max_tokens":12192,"stream":true,"thinking":{"type":"enabled","budget_tokens":4000}`,
		"fake-1":                     `"max_tokens":12192,"stream":true,"thinking":{"type":"enabled","budget_tokens":4000}`,
		"claude-opus-4-8":            `"max_tokens":12192,"stream":true,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}`,
	} {
		r := ask("hi")
		r.Model, r.Thinking = name, 4000
		body, err := New(Options{}).body(r)
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v; want %s", name, body, err, want)
		}
	}
}

func TestForeignBlocksAreSentAsFarAsTheWireCan(t *testing.T) {
	use := func(id, name string) tidemark.Block { return tidemark.Block{Type: "tool_use", ID: id, Name: name} }
	for name, c := range map[string]struct {
		role tidemark.Role
		in   []tidemark.Block
		want string
	}{
		"thinking of another":   {tidemark.Assistant, []tidemark.Block{{Type: "thinking", Text: "hm", Provider: "other", Raw: `{"x":1}`}, tidemark.Text("a")}, `[{"type":"text","text":"a"}]`},
		"thinking at the end":   {tidemark.Assistant, []tidemark.Block{tidemark.Text("a"), {Type: "thinking", Provider: "anthropic", Raw: `{"type":"thinking","thinking":"x","signature":"s"}`}}, `[{"type":"text","text":"a"}]`},
		"unsigned thinking":     {tidemark.Assistant, []tidemark.Block{{Type: "thinking", Provider: "anthropic", Raw: `{"type":"thinking","thinking":"x"}`}, tidemark.Text("a")}, `[{"type":"text","text":"a"}]`},
		"masked thinking":       {tidemark.Assistant, []tidemark.Block{{Type: "thinking", Provider: "anthropic", Raw: `{"type":"thinking","thinking":"` + tidemark.Mask("aws", "0123abcd") + `","signature":"s"}`}, tidemark.Text("a")}, `[{"type":"text","text":"a"}]`},
		"blank text":            {tidemark.User, []tidemark.Block{tidemark.Text(" \n"), tidemark.Text("a")}, `[{"type":"text","text":"a"}]`},
		"an id of another":      {tidemark.Assistant, []tidemark.Block{use("functions.bash:0", "my.tool")}, `[{"type":"tool_use","id":"functions_bash_0_8497fe9cce69","name":"my_tool","input":{}}]`},
		"an image":              {tidemark.User, []tidemark.Block{{Type: "image", MediaType: "image/png", Data: []byte("png")}}, `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]`},
		"an image elsewhere":    {tidemark.User, []tidemark.Block{{Type: "image", URL: "https://x.test/a.png"}}, `[{"type":"image","source":{"type":"url","url":"https://x.test/a.png"}}]`},
		"an odd image":          {tidemark.User, []tidemark.Block{{Type: "image", MediaType: "image/tiff", Data: []byte("tif")}}, `[{"type":"text","text":"[image, image/tiff, 3 bytes, not shown]"}]`},
		"a document":            {tidemark.User, []tidemark.Block{{Type: "file", Name: "a.pdf", MediaType: "application/pdf", Data: []byte("pdf")}}, `[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"cGRm"},"title":"a.pdf"}]`},
		"a text file":           {tidemark.User, []tidemark.Block{{Type: "file", Name: "a.txt", Data: []byte("hello")}}, `[{"type":"text","text":"[file a.txt]\nhello"}]`},
		"an image of the model": {tidemark.Assistant, []tidemark.Block{{Type: "image", MediaType: "image/png", Data: []byte("png")}}, `[{"type":"text","text":"[image, image/png, 3 bytes, not shown]"}]`},
		"a result after text":   {tidemark.User, []tidemark.Block{tidemark.Text("a"), {Type: "tool_result", ToolUseID: "t1"}}, `[{"type":"tool_result","tool_use_id":"t1"},{"type":"text","text":"a"}]`},
		"a result with image":   {tidemark.Tool, []tidemark.Block{{Type: "tool_result", ToolUseID: "t1", Text: "a", Blocks: []tidemark.Block{{Type: "image", MediaType: "image/png", Data: []byte("png")}}}}, `[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			blocks, err := blocksOf(tidemark.Entry{Role: c.role, Blocks: c.in})
			if got := "[" + string(bytes.Join(blocks, []byte(","))) + "]"; err != nil || got != c.want {
				t.Errorf("got  %s %v\nwant %s", got, err, c.want)
			}
		})
	}
	if callID("functions.bash:0") == callID("functions_bash:0") {
		t.Error("two ids became one")
	}
}

func TestRequestThatCannotBeSentIsInvalid(t *testing.T) {
	broken := ask("hi")
	broken.Tools = []model.Tool{{Name: "x", Schema: json.RawMessage(`{`)}}
	args := ask("hi")
	args.Entries = append(args.Entries, tidemark.Entry{Role: tidemark.Assistant, Blocks: []tidemark.Block{{Type: "tool_use", ID: "a", Name: "b", Input: json.RawMessage(`[]`)}}})
	for name, r := range map[string]model.Request{"no message": {Model: "m"}, "blank message": ask(" "), "schema": broken, "arguments": args} {
		if h := modeltest.Collect(New(Options{}).Stream(t.Context(), r)); !errors.Is(h.Err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v", name, h.Err)
		}
	}
}

func BenchmarkDelta(b *testing.B) {
	var stream bytes.Buffer
	stream.WriteString("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n")
	const deltas = 1000
	for range deltas {
		stream.WriteString("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words\"}}\n\n")
	}
	stream.WriteString("data: {\"type\":\"message_stop\"}\n\n")
	for b.Loop() {
		if _, err := read(bytes.NewReader(stream.Bytes()), func() {}, func(model.Event) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
}
