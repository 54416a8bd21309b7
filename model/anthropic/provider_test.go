package anthropic

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/modeltest"
)

func TestProvider(t *testing.T) { modeltest.Run(t, provider()) }

func provider() modeltest.Provider {
	return modeltest.Provider{
		Name: Provider, Model: ask("").Model,
		New: func(d modeltest.Dial) modeltest.Client {
			return New(Options{BaseURL: d.BaseURL, Key: d.Key, Retry: d.Retry, HTTP: d.HTTP})
		},
		Body:   New(Options{}).body,
		Saying: saying, Half: half(),
		Busy: `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, Overloaded: overloaded, TooLong: tooLong,
		Passing: passing(), Lasting: lasting(), Endless: endless(),
		Thought: func(b tidemark.Block, text string) bool {
			return b.Raw == `{"type":"thinking","thinking":"`+text+`","signature":"ZmFrZS1zaWduYXR1cmU="}`
		},
		Usage: tidemark.Usage{InputTokens: 190000, OutputTokens: 900, CacheReadTokens: 5, CacheWriteTokens: 6},
		Late:  "529",
		Blocks: func(s string) []tidemark.Block {
			return []tidemark.Block{{Type: "thinking", Provider: Provider, Raw: `{"type":"thinking","thinking":` + quoted(s) + `,"signature":"x"}`}}
		},
	}
}

const (
	overloaded = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	tooLong    = `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 250000 tokens > 200000 maximum"}}`
)

func passing() map[string]modeltest.Passing {
	return map[string]modeltest.Passing{
		"ended in an event":      {Faults: []http.HandlerFunc{modeltest.Then(half(), modeltest.Write("data: {\"type\":\"mess"))}, Why: "connection was lost"},
		"error event":            {Faults: []http.HandlerFunc{modeltest.Then(half(), events("error "+overloaded))}, Why: "529: Overloaded"},
		"error event of no type": {Faults: []http.HandlerFunc{modeltest.Then(half(), events(`error {"type":"error"}`))}, Why: "500"},
	}
}

func lasting() map[string]modeltest.Lasting {
	return map[string]modeltest.Lasting{
		"half a JSON":         {Fault: modeltest.Then(half(), events(`x {"type": not`)), Words: []string{"makes no sense"}},
		"wrong types":         {Fault: events(`x {"type":7}`), Words: []string{"makes no sense"}},
		"bytes that are none": {Fault: events("x \xff\xfe"), Words: []string{"makes no sense"}},
		"no stream":           {Fault: modeltest.Page(200, `{"type":"message","content":[]}`), Words: []string{"instead of a stream"}},
		"error event of ours": {Fault: modeltest.Then(half(), events("error "+tooLong)), Cause: model.ErrTooLong, Words: []string{"400"}},
	}
}

func endless() map[string]http.HandlerFunc {
	long := strings.Repeat("x", 64<<10)
	delta := func(kind, field string) string {
		return fmt.Sprintf("data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":%q,%q:%q}}\n\n", kind, field, long)
	}
	start := func(block string) http.HandlerFunc {
		return events(`s {"type":"content_block_start","index":0,"content_block":` + block + `}`)
	}
	return map[string]http.HandlerFunc{
		"text":              modeltest.Then(start(`{"type":"text"}`), modeltest.Forever(delta("text_delta", "text"))),
		"thinking":          modeltest.Then(start(`{"type":"thinking"}`), modeltest.Forever(delta("thinking_delta", "thinking"))),
		"signature":         modeltest.Then(start(`{"type":"thinking"}`), modeltest.Forever(delta("signature_delta", "signature"))),
		"arguments":         modeltest.Then(start(`{"type":"tool_use","id":"a","name":"b"}`), modeltest.Forever(delta("input_json_delta", "partial_json"))),
		"blocks":            modeltest.Forever(strings.Repeat("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n", 100)),
		"redacted thinking": modeltest.Forever("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"" + long + "\"}}\n\n"),
	}
}

// events sends server-sent events, each "NAME {data}", and flushes.
func events(list ...string) http.HandlerFunc {
	var b strings.Builder
	for _, e := range list {
		name, data, _ := strings.Cut(e, " ")
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, data)
	}
	return modeltest.Stream(b.String())
}

// saying is a whole answer of one text.
func saying(text string) http.HandlerFunc {
	return events(
		`message_start {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"usage":{"input_tokens":7,"output_tokens":1}}}`,
		`content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+quoted(text)+`}}`,
		`content_block_stop {"type":"content_block_stop","index":0}`,
		`message_delta {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
		`message_stop {"type":"message_stop"}`)
}

// half is the beginning of such an answer.
func half() http.HandlerFunc {
	return events(
		`message_start {"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":7}}}`,
		`content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"void"}}`)
}

func ask(text string) model.Request { return modeltest.PromptRequest("claude-x", text) }

// client returns a client of a server that answers as the handlers do.
func client(t testing.TB, o Options, handlers ...http.HandlerFunc) (*Client, *modeltest.Server) {
	s, h := modeltest.Serve(t, handlers...)
	o.BaseURL, o.HTTP = "http://model.test", h
	return New(o), s
}
