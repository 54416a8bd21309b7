package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/modeltest"
)

func TestResponsesProvider(t *testing.T) { modeltest.Run(t, responsesProvider()) }

func responsesProvider() modeltest.Provider {
	failed := func(code, message string) string {
		return `{"type":"response.failed","response":{"status":"failed","error":{"code":"` + code + `","message":"` + message + `"}}}`
	}
	begun := events(`{"type":"response.output_text.delta","output_index":0,"delta":"void"}`)
	delta := func(kind, long string) http.HandlerFunc {
		return modeltest.Forever(`data: {"type":"response.` + kind + `.delta","output_index":0,"delta":"` + long + "\"}\n\n")
	}
	long := strings.Repeat("x", 64<<10)
	return modeltest.Provider{
		Name: "local", Model: ask("").Model,
		New: func(d modeltest.Dial) modeltest.Client {
			return New(Options{Name: "local", Responses: true, BaseURL: d.BaseURL, Key: d.Key, Retry: d.Retry, HTTP: d.HTTP})
		},
		Body: New(Options{Responses: true}).body,
		Saying: func(text string) http.HandlerFunc {
			raw, _ := model.JSON(text)
			return events(`{"type":"response.output_text.delta","output_index":0,"delta":`+string(raw)+`}`, `{"type":"response.completed","response":{"model":"gpt-x","status":"completed"}}`)
		},
		Half: begun,
		Busy: `{"error":{"type":"rate_limit_exceeded","message":"slow down"}}`, Overloaded: overloaded, TooLong: tooLong,
		Passing: map[string]modeltest.Passing{
			"ended in an event":    {Faults: []http.HandlerFunc{modeltest.Then(begun, modeltest.Write("data: {\"type\":"))}, Why: "connection was lost"},
			"ended before its end": {Faults: []http.HandlerFunc{begun}, Why: "connection was lost"},
			"failed":               {Faults: []http.HandlerFunc{modeltest.Then(begun, events(failed("server_error", "engine died")))}, Why: "500: engine died"},
			"too many":             {Faults: []http.HandlerFunc{events(failed("rate_limit_exceeded", "slow down"))}, Why: "429: slow down"},
			"error event":          {Faults: []http.HandlerFunc{events(`{"type":"error","code":"server_error","message":"it broke"}`)}, Why: "500: it broke"},
			"failed in silence":    {Faults: []http.HandlerFunc{events(`{"type":"response.failed"}`)}, Why: "did not say why"},
		},
		Lasting: map[string]modeltest.Lasting{
			"half a JSON":     {Fault: modeltest.Then(begun, events(`{"type": not`)), Words: []string{"makes no sense"}},
			"wrong types":     {Fault: events(`{"type":7}`), Words: []string{"makes no sense"}},
			"another JSON":    {Fault: modeltest.Page(200, `{"hello":"world"}`), Words: []string{"without an output"}},
			"a list":          {Fault: modeltest.Page(200, `["x"]`), Words: []string{"instead of a stream"}},
			"error under 200": {Fault: modeltest.Page(200, `{"error":{"message":"bad key","code":401}}`), Cause: tidemark.ErrDenied, Words: []string{"401: bad key"}},
			"no answer":       {Fault: events(`{"type":"response.completed"}`), Words: []string{"without an answer"}},
			"too long":        {Fault: modeltest.Then(begun, events(failed("context_length_exceeded", "Your input exceeds the context window of this model."))), Cause: model.ErrTooLong, Words: []string{"400"}},
		},
		Endless: map[string]http.HandlerFunc{
			"text":     delta("output_text", long),
			"thinking": delta("reasoning_summary_text", long),
			"items":    modeltest.Forever(strings.Repeat("data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"encrypted_content\":\""+long+"\"}}\n\n", 10)),
			"at once":  modeltest.Then(modeltest.Write(`{"x":"`), modeltest.Forever(long)),
		},
		Thought: func(b tidemark.Block, text string) bool {
			return b.Type == tidemark.BlockThinking && b.Text == text && b.Provider == ResponsesProvider && strings.Contains(b.Raw, `"encrypted_content":"ZmFrZQ=="`)
		},
		Usage: tidemark.Usage{InputTokens: 189995, OutputTokens: 900, CacheReadTokens: 5},
		Late:  "500",
		Blocks: func(text string) []tidemark.Block {
			raw, _ := model.JSON(map[string]string{"type": "reasoning", "encrypted_content": "x" + text})
			return []tidemark.Block{{Type: tidemark.BlockThinking, Text: text, Provider: ResponsesProvider, Raw: string(raw)}}
		},
	}
}

// TestWhatIsSentToResponses: thoughts of its own go back as they came, those of
// others and those that nothing follows do not, and nothing is kept there.
func TestWhatIsSentToResponses(t *testing.T) {
	own := `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"abc"}`
	r := model.Request{Model: "gpt-5.1", System: "Be brief.", MaxTokens: 100, Thinking: 8000, Tools: []model.Tool{{Name: "bash"}}, Entries: []tidemark.Entry{
		{Role: tidemark.User, Blocks: []tidemark.Block{tidemark.Text("look"), {Type: "image", MediaType: "image/png", Data: []byte("png")}}},
		{Role: tidemark.Assistant, Blocks: []tidemark.Block{{Type: "thinking", Text: "hm", Provider: "anthropic", Raw: `{"type":"thinking","signature":"s"}`},
			{Type: "thinking", Provider: ResponsesProvider, Raw: own}, tidemark.Text("I run it."), {Type: "tool_use", ID: "c1", Name: "bash", Input: json.RawMessage(`{ "command": "ls" }`)}}},
		{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: "tool_result", ToolUseID: "c1", Text: ""}}},
		{Role: tidemark.Assistant, Blocks: []tidemark.Block{tidemark.Text("Done."), {Type: "thinking", Provider: ResponsesProvider, Raw: own}}},
		{Role: tidemark.System, Blocks: []tidemark.Block{tidemark.Text("A file changed.")}},
	}}
	got, err := New(Options{Responses: true}).body(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"gpt-5.1","stream":true,"store":false,"max_output_tokens":100,"reasoning":{"effort":"medium","summary":"auto"},"include":["reasoning.encrypted_content"],` +
		`"tools":[{"type":"function","name":"bash","parameters":{"type":"object","properties":{}},"strict":false}],"instructions":"Be brief.","input":[` +
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,cG5n"}]},` +
		own + `,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I run it."}]},{"type":"function_call","call_id":"c1","name":"bash","arguments":"{\"command\":\"ls\"}"},` +
		`{"type":"function_call_output","call_id":"c1","output":""},` +
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]},` +
		`{"type":"message","role":"developer","content":[{"type":"input_text","text":"A file changed."}]}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	for name, include := range map[string]bool{"gpt-5.1": true, "o3": true, "gpt-4o": false, "gpt-5-chat-latest": false} {
		if got := headOfResponses(model.Request{Model: name}).Include != nil; got != include {
			t.Errorf("%s is asked for its thoughts: %v", name, got)
		}
	}
}

func TestAnswersOfResponsesInPieces(t *testing.T) {
	c, _ := client(t, Options{Responses: true}, events(
		`{"type":"response.created","response":{"status":"in_progress"}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs"}}`,
		`{"type":"response.reasoning_summary_part.added","output_index":0}`,
		`{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"one"}`,
		`{"type":"response.reasoning_summary_part.added","output_index":0}`,
		`{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"two"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs","encrypted_content":"e","summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}]}}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"web_search_call"}}`,
		`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"c","name":"bash","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"a\""}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"delta":":1}"}`,
		`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"c","name":"bash","arguments":"{\"a\":1}"}}`,
		`{"type":"response.completed","response":{"model":"gpt-5.1","status":"completed","usage":{"input_tokens":10,"output_tokens":4,"input_tokens_details":{"cached_tokens":8}}}}`))
	h := modeltest.Collect(c.Stream(t.Context(), ask("go")))
	if h.Err != nil || h.Thinking != "one\n\ntwo" || h.Answer.Stop != model.StopTools || len(h.Answer.Entry.Blocks) != 2 || h.Answer.Entry.Model != "gpt-5.1" {
		t.Fatalf("%+v", h)
	}
	if b := h.Answer.Entry.Blocks[1]; b.ID != "c" || string(b.Input) != `{"a":1}` {
		t.Errorf("called %+v", b)
	}
	if u := *h.Answer.Entry.Usage; u != (tidemark.Usage{InputTokens: 2, CacheReadTokens: 8, OutputTokens: 4}) {
		t.Errorf("used %+v", u)
	}
	for end, want := range map[string]string{
		`"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}`: model.StopMaxTokens,
		`"status":"incomplete","incomplete_details":{"reason":"content_filter"}`:    model.StopRefusal,
		`"status":"incomplete","incomplete_details":{"reason":"tired"}`:             model.StopUnknown,
	} {
		c, _ := client(t, Options{Responses: true}, modeltest.Page(200, `{"model":"m","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}],`+end+`}`))
		if h := modeltest.Collect(c.Stream(t.Context(), ask("go"))); h.Err != nil || h.Answer.Stop != want || h.Text != "a" {
			t.Errorf("%s: %+v", end, h)
		}
	}
	c, _ = client(t, Options{Responses: true}, events(`{"type":"response.refusal.delta","output_index":0,"delta":"No."}`, `{"type":"response.completed","response":{"status":"completed"}}`))
	if h := modeltest.Collect(c.Stream(t.Context(), ask("go"))); h.Err != nil || h.Answer.Stop != model.StopRefusal || h.Text != "No." {
		t.Errorf("%+v", h)
	}
}

func FuzzResponsesAreReadOrRefused(f *testing.F) {
	f.Add([]byte("data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n"))
	f.Add([]byte(`{"output":[{"type":"reasoning","encrypted_content":"e","summary":[{"text":"a"},{"text":"b"}]},{"type":"function_call","name":"x","arguments":{"a":1}}],"status":"incomplete"}`))
	f.Add([]byte("data: {\"type\":\"response.output_item.done\",\"output_index\":-1,\"item\":{\"type\":\"reasoning\",\"encrypted_content\":\"\xff\"}}\n\ndata: {\"type\":\"response.incomplete\",\"response\":{}}\n\n"))
	f.Add([]byte("data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"429\",\"message\":\"x\"}}}\n\n"))
	p := responsesProvider()
	f.Fuzz(func(t *testing.T, stream []byte) {
		answer, err := readResponses("fuzz", bytes.NewReader(stream), func() {}, func(model.Event) error { return nil })
		p.ReadOrRefused(t, answer, err)
	})
}
