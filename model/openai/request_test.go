package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/modeltest"
)

func TestRequestIsMadeOfItsParts(t *testing.T) {
	client, server := client(t, Options{Key: "k"}, saying("ok"))
	r := model.Request{Model: "gpt-x", System: "Be <brief>.", MaxTokens: 50, Thinking: 5000,
		Tools: []model.Tool{{Name: "bash", Description: "runs", Schema: json.RawMessage(`{ "type": "object" }`)}, {Name: "now"}},
		Entries: []tidemark.Entry{tidemark.Say(tidemark.User, "one <1>"), {Role: tidemark.Assistant, Blocks: []tidemark.Block{
			{Type: "thinking", Text: "hm", Provider: "anthropic", Raw: `{"type":"thinking"}`}, tidemark.Text("two"), use("c0", "bash", `{"a": "<b>"}`), use("c1", "now", "")}},
			{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: "tool_result", ToolUseID: "c0", Text: "out"}, {Type: "tool_result", ToolUseID: "c1", Text: "none", IsError: true}}},
			{Role: tidemark.Assistant, Blocks: []tidemark.Block{{Type: "thinking", Text: "hm"}}},
			tidemark.Say(tidemark.System, "note"), tidemark.Say(tidemark.User, "three")}}
	if h := modeltest.Collect(client.Stream(t.Context(), r)); h.Err != nil {
		t.Fatal(h.Err)
	}
	begin := `{"model":"gpt-x","stream":true,"stream_options":{"include_usage":true},"max_tokens":50,"reasoning_effort":"medium","tools":`
	want := begin + `[{"type":"function","function":{"name":"bash","description":"runs","parameters":{"type":"object"}}},` +
		`{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}],"messages":[{"role":"system","content":"Be <brief>."},` +
		`{"role":"user","content":"one <1>"},{"role":"assistant","content":"two","tool_calls":[{"id":"c0","type":"function","function":{"name":"bash","arguments":"{\"a\":\"<b>\"}"}},` +
		`{"id":"c1","type":"function","function":{"name":"now","arguments":"{}"}}]},{"role":"tool","content":"out","tool_call_id":"c0"},` +
		`{"role":"tool","content":"error: none","tool_call_id":"c1"},{"role":"system","content":"note"},{"role":"user","content":"three"}]}`
	if server.Bodies[0] != want {
		t.Errorf("sent\n%s\nwant\n%s", server.Bodies[0], want)
	}
	parts, err := client.Parts(r)
	if err != nil {
		t.Fatal(err)
	}
	messages := slices.DeleteFunc(slices.Clone(parts[1:]), func(p []byte) bool { return len(p) == 0 })
	if made := begin + string(parts[0]) + `,"messages":[` + string(bytes.Join(messages, []byte(","))) + `]}`; made != server.Bodies[0] {
		t.Errorf("parts make\n%s\nsent was\n%s", made, server.Bodies[0])
	}
	if got := server.Heads[0].Get("Authorization"); got != "Bearer k" || server.Paths[0] != "/v1/chat/completions" {
		t.Errorf("key %q at %s", got, server.Paths[0])
	}
}

func TestAddressIsCompleted(t *testing.T) {
	for base, want := range map[string]string{
		"": "https://api.openai.com/v1/chat/completions", "http://localhost:11434": "http://localhost:11434/v1/chat/completions",
		"http://localhost:11434/": "http://localhost:11434/v1/chat/completions", "https://openrouter.ai/api/v1/": "https://openrouter.ai/api/v1/chat/completions",
	} {
		if got := New(Options{BaseURL: base}).url.String(); got != want {
			t.Errorf("base %q: %s, want %s", base, got, want)
		}
	}
	own, err := New(Options{}).body(model.Request{Model: "m", MaxTokens: 9, Entries: ask("hi").Entries})
	if err != nil || !strings.Contains(string(own), `"max_completion_tokens":9`) {
		t.Errorf("OpenAI's own is sent %s, %v", own, err)
	}
}

func TestBlocksAreSentAsFarAsTheWireCan(t *testing.T) {
	png := tidemark.Block{Type: "image", MediaType: "image/png", Data: []byte("png")}
	for name, c := range map[string]struct {
		role tidemark.Role
		in   []tidemark.Block
		want string
	}{
		"an image":              {tidemark.User, []tidemark.Block{tidemark.Text("see"), png}, `{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}]}`},
		"an image elsewhere":    {tidemark.User, []tidemark.Block{{Type: "image", URL: "https://x.test/a.png"}}, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.test/a.png"}}]}`},
		"a document":            {tidemark.User, []tidemark.Block{{Type: "file", Name: "a.pdf", MediaType: "application/pdf", Data: []byte("pdf")}}, `{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,cGRm"}}]}`},
		"a text file":           {tidemark.User, []tidemark.Block{{Type: "file", Name: "a.txt", Data: []byte("hello")}}, `{"role":"user","content":"[file a.txt]\nhello"}`},
		"a binary file":         {tidemark.User, []tidemark.Block{{Type: "file", Name: "a.bin", Data: []byte{0, 1}}}, `{"role":"user","content":"[file, a.bin, 2 bytes, not shown]"}`},
		"an image of the model": {tidemark.Assistant, []tidemark.Block{png}, `{"role":"assistant","content":"[image, image/png, 3 bytes, not shown]"}`},
		"a result with image":   {tidemark.Tool, []tidemark.Block{{Type: "tool_result", ToolUseID: "c", Text: "a", Blocks: []tidemark.Block{png}}}, `{"role":"tool","content":"a\n[image, image/png, 3 bytes, not shown]","tool_call_id":"c"}`},
		"a result after text":   {tidemark.User, []tidemark.Block{tidemark.Text("a"), {Type: "tool_result", ToolUseID: "c"}}, `{"role":"tool","content":"","tool_call_id":"c"},{"role":"user","content":"a"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := messagesOf(tidemark.Entry{Role: c.role, Blocks: c.in})
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s %v\nwant %s", got, err, c.want)
			}
		})
	}
}

func TestRequestThatCannotBeSentIsInvalid(t *testing.T) {
	broken := ask("hi")
	broken.Tools = []model.Tool{{Name: "x", Schema: json.RawMessage(`7`)}}
	for name, r := range map[string]model.Request{"no message": {Model: "m", System: "s"}, "schema": broken} {
		if h := modeltest.Collect(New(Options{}).Stream(t.Context(), r)); !errors.Is(h.Err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v", name, h.Err)
		}
	}
}

func BenchmarkDelta(b *testing.B) {
	const deltas = 1000
	stream := strings.Repeat("data: "+said("some words")+"\n\n", deltas) + "data: [DONE]\n\n"
	for b.Loop() {
		if _, err := readChat("bench", strings.NewReader(stream), func() {}, func(model.Event) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
}
