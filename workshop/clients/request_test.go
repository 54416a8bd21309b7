package main

import (
	"encoding/json"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func TestWhatIsMissingInARequestIsFound(t *testing.T) {
	session := []tidemark.Entry{
		tidemark.Say(tidemark.User, "an apple"),
		{Kind: tidemark.KindContext, Blocks: []tidemark.Block{tidemark.Text("You are an agent that has many tools and uses them.")}},
		{Role: tidemark.Assistant, Blocks: []tidemark.Block{{Type: tidemark.BlockToolUse, ID: "1", Name: "bash", Input: json.RawMessage(`{"cmd":"echo harbour"}`)}}},
		{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "1", Text: "harbour"}}},
		{Role: tidemark.User, Blocks: []tidemark.Block{{Type: tidemark.BlockImage, MediaType: "image/png", Data: []byte("pixels")}}},
		tidemark.Say(tidemark.Assistant, "noted"),
	}
	whole := count{1, 1, 0}
	for name, c := range map[string]struct {
		body string
		want func(carried) bool
	}{
		"all of it, for Anthropic": {`{"messages":[{"role":"user","content":"an apple"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"bash","input":{"command":"echo harbour"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"harbour"}]},{"type":"image","source":{"type":"base64","data":"cGl4ZWxz"}}]},{"role":"assistant","content":[{"type":"text","text":"noted"}]}]}`,
			func(c carried) bool {
				return c.Texts == count{2, 2, 0} && c.Calls == whole && c.Results == whole && c.Images == whole && c.Told == 0 && len(c.Lost) == 0
			}},
		"all of it, for Responses": {`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"an apple"}]},{"type":"function_call","name":"bash","arguments":"{\"command\":\"echo harbour\"}"},
			{"type":"function_call_output","output":"harbour"},{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,cGl4ZWxz"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"noted"}]}]}`,
			func(c carried) bool {
				return c.Texts == count{2, 2, 0} && c.Calls == whole && c.Results == whole && c.Images == whole && len(c.Lost) == 0
			}},
		"all of it, for Chat Completions": {`{"messages":[{"role":"system","content":"x"},{"role":"user","content":"an apple"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"bash","arguments":"{\"cmd\":\"echo harbour\"}"}}]},
			{"role":"tool","tool_call_id":"1","content":"harbour"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,cGl4ZWxz"}}]},{"role":"assistant","content":"noted"}]}`,
			func(c carried) bool {
				return c.Texts == count{2, 2, 0} && c.Calls == whole && c.Results == whole && c.Images == whole && len(c.Lost) == 0
			}},
		"all of it, for Gemini": {`{"contents":[{"role":"user","parts":[{"text":"an apple"}]},{"role":"model","parts":[{"functionCall":{"name":"bash","args":{"cmd":"echo harbour"}}}]},
			{"role":"user","parts":[{"functionResponse":{"name":"bash","response":{"output":"harbour"},"parts":[{"inlineData":{"data":"cGl4ZWxz"}}]}}]},{"role":"model","parts":[{"text":"noted"}]}]}`,
			func(c carried) bool {
				return c.Texts == count{2, 2, 0} && c.Calls == whole && c.Results == whole && c.Images == whole && len(c.Lost) == 0
			}},
		"a call of another tool": {`{"messages":[{"role":"user","content":"an apple"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"read","input":{"cmd":"echo harbour"}}]}]}`,
			func(c carried) bool { return c.Calls == count{1, 1, 1} }},
		"one text for two": {`{"messages":[{"role":"user","content":"an apple"},{"role":"assistant","content":"not"}]}`,
			func(c carried) bool { return c.Texts == count{1, 2, 0} }},
		"a call as text, no image, and what another told its model": {`{"messages":[{"role":"user","content":"an apple You are an agent that has many tools and uses them."},{"role":"assistant","content":"I called echo harbour"},{"role":"user","content":"and got harbour"},{"role":"assistant","content":"noted"}]}`,
			func(c carried) bool {
				return c.Texts == count{2, 2, 0} && c.Calls == count{1, 1, 1} && c.Images == count{0, 1, 0} && c.Told == 1 && len(c.Lost) == 1
			}},
		"out of order": {`{"messages":[{"role":"assistant","content":"noted"},{"role":"user","content":"an apple"}]}`,
			func(c carried) bool { return c.Texts == count{1, 2, 0} }},
	} {
		t.Run(name, func(t *testing.T) {
			if c2 := compare(session, parseRequest([]byte(c.body))); !c.want(c2) {
				t.Errorf("%+v", c2)
			}
		})
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"input":[{"type":"function_call","name":"n","arguments":"{"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if q := parseRequest(body); len(q.parts) > len(body) {
			t.Errorf("%d parts of %d bytes", len(q.parts), len(body))
		}
	})
}
