package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/modeltest"
)

// use is a call in an answer.
func use(id, name, input string) tidemark.Block {
	return tidemark.Block{Type: "tool_use", ID: id, Name: name, Input: json.RawMessage(input)}
}

func TestDialectsAreUnderstood(t *testing.T) {
	plain := func(text string) []tidemark.Block { return []tidemark.Block{tidemark.Text(text)} }
	call := func(fields string) string {
		return `{"choices":[{"index":0,"delta":{"tool_calls":[` + fields + `]}}]}`
	}
	finish := func(reason string) string {
		return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
	}
	for name, c := range map[string]struct {
		server http.HandlerFunc
		blocks []tidemark.Block
		stop   string
		usage  *tidemark.Usage
	}{
		"OpenAI": {events(`{"model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`, said("Hel"), said("lo"), stopped,
			`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}}`, "[DONE]"),
			plain("Hello"), model.StopEnd, &tidemark.Usage{InputTokens: 2, OutputTokens: 4, CacheReadTokens: 8}},
		"no [DONE]":             {events(said("Hello"), stopped), plain("Hello"), model.StopEnd, nil},
		"no finish reason":      {events(said("Hello"), "[DONE]"), plain("Hello"), model.StopEnd, nil},
		"no newline at the end": {modeltest.Then(events(said("Hello")), modeltest.Write("data: [DONE]")), plain("Hello"), model.StopEnd, nil},
		"comments and CRLF": {modeltest.Page(200, ": OPENROUTER PROCESSING\r\n\r\n: still\r\ndata: "+said("Hello")+"\r\n\r\nid: 7\r\nevent: x\r\ndata:"+stopped+"\r\n\r\ndata: [DONE]\r\n\r\n"),
			plain("Hello"), model.StopEnd, nil},
		"a byte order mark": {modeltest.Page(200, "\xEF\xBB\xBFdata: "+said("Hello")+"\n\ndata: [DONE]\n\n"), plain("Hello"), model.StopEnd, nil},
		"DeepSeek": {events(`{"choices":[{"delta":{"reasoning_content":"hm","content":null}}]}`, `{"choices":[{"delta":{"reasoning_content":null,"content":"Hello"}}]}`, finish("stop")),
			[]tidemark.Block{{Type: "thinking", Text: "hm"}, tidemark.Text("Hello")}, model.StopEnd, nil},
		"OpenRouter": {events(`{"choices":[{"delta":{"reasoning":"hm","content":""}}]}`, said("Hello"), finish("stop"), `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"cost":0.5}}`),
			[]tidemark.Block{{Type: "thinking", Text: "hm"}, tidemark.Text("Hello")}, model.StopEnd, &tidemark.Usage{InputTokens: 3, OutputTokens: 1, CostUSD: 0.5}},
		"calls in fragments": {events(call(`{"index":0,"id":"c0","type":"function","function":{"name":"bash","arguments":""}}`), call(`{"index":0,"function":{"arguments":"{\"a\""}}`),
			call(`{"index":1,"id":"c1","function":{"name":"read","arguments":"{}"}}`), call(`{"index":0,"function":{"arguments":":1}"}}`), finish("tool_calls"), "[DONE]"),
			[]tidemark.Block{use("c0", "bash", `{"a":1}`), use("c1", "read", `{}`)}, model.StopTools, nil},
		"calls without an index": {events(call(`{"id":"c0","function":{"name":"bash","arguments":"{\"a\":1}"}}`), call(`{"id":"c1","function":{"name":"bash","arguments":"{\"a\":2}"}}`), finish("stop")),
			[]tidemark.Block{use("c0", "bash", `{"a":1}`), use("c1", "bash", `{"a":2}`)}, model.StopTools, nil},
		"calls of one index": {events(call(`{"index":0,"id":"c0","function":{"name":"bash","arguments":"{}"}}`), call(`{"index":0,"id":"c1","function":{"name":"bash","arguments":"{}"}}`), finish("tool_calls")),
			[]tidemark.Block{use("c0", "bash", `{}`), use("c1", "bash", `{}`)}, model.StopTools, nil},
		"name and id in each fragment": {events(call(`{"index":0,"id":"c0","function":{"name":"bash","arguments":"{"}}`), call(`{"index":0,"id":"c0","function":{"name":"bash","arguments":"}"}}`), finish("tool_calls")),
			[]tidemark.Block{use("c0", "bash", `{}`)}, model.StopTools, nil},
		"arguments as an object": {events(call(`{"index":0,"id":"c0","function":{"name":"bash","arguments":{"a": 1}}}`), finish("tool_calls")),
			[]tidemark.Block{use("c0", "bash", `{"a":1}`)}, model.StopTools, nil},
		"no arguments": {events(call(`{"index":0,"id":"c0","function":{"name":"now"}}`), finish("tool_calls")), []tidemark.Block{use("c0", "now", `{}`)}, model.StopTools, nil},
		"not streamed": {modeltest.Page(200, ` {"model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"Hello","reasoning_content":"hm","tool_calls":[{"id":"c0","type":"function","function":{"name":"bash","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, "Content-Type", "application/json"),
			[]tidemark.Block{{Type: "thinking", Text: "hm"}, tidemark.Text("Hello"), use("c0", "bash", `{"a":1}`)}, model.StopTools, &tidemark.Usage{InputTokens: 1, OutputTokens: 2}},
		"content in parts":    {events(`{"choices":[{"delta":{"content":[{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]}}]}`, finish("stop")), plain("Hello"), model.StopEnd, nil},
		"length":              {events(said("Hel"), finish("length")), plain("Hel"), model.StopMaxTokens, nil},
		"content filter":      {events(said("Hel"), finish("content_filter")), plain("Hel"), model.StopRefusal, nil},
		"refusal":             {events(`{"choices":[{"delta":{"refusal":"I will not"}}]}`, finish("stop")), plain("I will not"), model.StopRefusal, nil},
		"a new finish reason": {events(said("Hel"), finish("eos")), plain("Hel"), model.StopEnd, nil},
		"other choices":       {events(`{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"Hello"}}]}`, stopped), plain("Hello"), model.StopEnd, nil},
		"unknown fields":      {events(`{"object":"odd","x":{"y":[1]},"choices":[{"index":0,"delta":{"content":"Hello","audio":{}},"logprobs":null}]}`, `{"object":"ping"}`, stopped), plain("Hello"), model.StopEnd, nil},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := client(t, Options{Retry: model.Retry{Attempts: 1}}, c.server)
			h := modeltest.Collect(client.Stream(t.Context(), ask("hi")))
			if h.Err != nil {
				t.Fatal(h.Err)
			}
			want := &model.Answer{Stop: c.stop, Entry: tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, Model: "gpt-x", Blocks: c.blocks, Usage: c.usage}}
			if diff := cmp.Diff(want, h.Answer); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if h.Text != h.Answer.Entry.Text() {
				t.Errorf("streamed %q", h.Text)
			}
		})
	}
}

func TestCallWithoutIDGetsOne(t *testing.T) {
	client, _ := client(t, Options{}, events(
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","function":{"name":"a","arguments":"{}"}},{"index":1,"function":{"name":"b","arguments":"{}"}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":2,"id":"same","function":{"name":"c"}},{"index":3,"id":"same","function":{"name":"d"}}]}}]}`, stopped))
	h := modeltest.Collect(client.Stream(t.Context(), ask("hi")))
	if h.Err != nil {
		t.Fatal(h.Err)
	}
	seen := make(map[string]bool)
	for _, b := range h.Answer.Entry.Blocks {
		if b.ID == "" || seen[b.ID] {
			t.Errorf("call %s has id %q", b.Name, b.ID)
		}
		seen[b.ID] = true
	}
	if fmt.Sprint(h.Calls) != "[a b c d]" || h.Answer.Entry.Blocks[2].ID != "same" || h.Answer.Stop != model.StopTools {
		t.Errorf("heard %+v", h)
	}
}

func TestBrokenArgumentsAreNamed(t *testing.T) {
	for _, args := range []string{`{"a":`, `[1]`, `not json`} {
		raw, _ := model.JSON(args)
		client, _ := client(t, Options{}, events(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c0","function":{"name":"bash","arguments":`+string(raw)+`}}]}}]}`, stopped))
		h := modeltest.Collect(client.Stream(t.Context(), ask("hi")))
		if h.Err != nil {
			t.Fatal(h.Err)
		}
		if b := h.Answer.Entry.Blocks[0]; string(b.Input) != "{}" || h.Answer.Broken["c0"] != args {
			t.Errorf("%s: input %s, broken %q", args, b.Input, h.Answer.Broken)
		}
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	client, _ := client(t, Options{}, events(said("a\xffb"), "{\"choices\":[{\"delta\":{\"content\":\"c\xfe\\ud800\"}}]}", stopped))
	h := modeltest.Collect(client.Stream(t.Context(), ask("hi")))
	if h.Err != nil || !utf8.ValidString(h.Text) || !strings.HasPrefix(h.Text, "a\uFFFDbc\uFFFD") {
		t.Errorf("heard %+v", h)
	}
}

func FuzzAnswerIsReadOrRefused(f *testing.F) {
	f.Add([]byte("data: " + said("x") + "\n\ndata: [DONE]\n\n"))
	f.Add([]byte(": hi\r\n\r\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"b\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"stop\"}]}"))
	f.Add([]byte(`{"choices":[{"message":{"content":"x","reasoning":"y"},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"cost":1e-9}}`))
	f.Add([]byte("data: {\"error\":{\"code\":\"429\",\"message\":\"x\"}}\n\n"))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":[{\"text\":\"a\"}],\"tool_calls\":[{\"index\":-5,\"function\":{\"arguments\":[1]}}]}}]}\n\ndata: [DONE]"))
	p := provider()
	f.Fuzz(func(t *testing.T, stream []byte) {
		answer, err := readChat("fuzz", bytes.NewReader(stream), func() {}, func(model.Event) error { return nil })
		p.ReadOrRefused(t, answer, err)
	})
}
