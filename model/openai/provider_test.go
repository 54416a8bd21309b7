package openai

import (
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
		Name: "local", Model: ask("").Model,
		New: func(d modeltest.Dial) modeltest.Client {
			return New(Options{Name: "local", BaseURL: d.BaseURL, Key: d.Key, Retry: d.Retry, HTTP: d.HTTP})
		},
		Body:   New(Options{}).body,
		Saying: saying, Half: half(),
		Busy: `{"error":{"type":"rate_limit_exceeded","message":"slow down"}}`, Overloaded: overloaded, TooLong: tooLong,
		Passing: passing(), Lasting: lasting(), Endless: endless(),
		Thought: func(b tidemark.Block, text string) bool { return b.Type == tidemark.BlockThinking && b.Text == text },
		Usage:   tidemark.Usage{InputTokens: 189995, OutputTokens: 900, CacheReadTokens: 5},
		Late:    "500",
	}
}

const (
	overloaded = `{"error":{"message":"Overloaded","type":"overloaded_error","code":null}}`
	tooLong    = `{"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"You sent 250000 tokens, please send fewer"}}`
)

func passing() map[string]modeltest.Passing {
	return map[string]modeltest.Passing{
		"ended in an event":      {Faults: []http.HandlerFunc{modeltest.Then(half(), modeltest.Write("data: {\"choices\":["))}, Why: "connection was lost"},
		"error event":            {Faults: []http.HandlerFunc{modeltest.Then(half(), events(overloaded))}, Why: "529: Overloaded"},
		"error event of no type": {Faults: []http.HandlerFunc{modeltest.Then(half(), events(`{"error":"engine died"}`))}, Why: "500: engine died"},
		"error in a choice":      {Faults: []http.HandlerFunc{events(`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"upstream"}}]}`)}, Why: "502: upstream"},
		"half an answer at once": {Faults: []http.HandlerFunc{modeltest.Page(200, `{"choices":[`, "Content-Length", "5000")}, Why: "connection was lost"},
	}
}

func lasting() map[string]modeltest.Lasting {
	return map[string]modeltest.Lasting{
		"half a JSON":         {Fault: modeltest.Then(half(), events(`{"choices": not`)), Words: []string{"makes no sense"}},
		"wrong types":         {Fault: events(`{"choices":7}`), Words: []string{"makes no sense"}},
		"bytes that are none": {Fault: events("\xff\xfe"), Words: []string{"makes no sense"}},
		"nothing but the end": {Fault: events("[DONE]"), Words: []string{"before it began"}},
		"another JSON":        {Fault: modeltest.Page(200, `{"hello":"world"}`), Words: []string{"without a choice"}},
		"a list":              {Fault: modeltest.Page(200, `["x"]`), Words: []string{"instead of a stream"}},
		"error under 200":     {Fault: modeltest.Page(200, `{"error":{"message":"bad key","code":401}}`), Cause: tidemark.ErrDenied, Words: []string{"401: bad key"}},
		"llama.cpp too long":  {Fault: modeltest.Page(400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`), Cause: model.ErrTooLong},
		"no money left":       {Fault: modeltest.Page(429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`), Words: []string{"429: You exceeded"}},
		"detail":              {Fault: modeltest.Page(422, `{"detail":"nope"}`), Words: []string{"nope"}},
		"error event of ours": {Fault: modeltest.Then(half(), events(tooLong)), Cause: model.ErrTooLong, Words: []string{"400"}},
	}
}

func endless() map[string]http.HandlerFunc {
	long := strings.Repeat("x", 64<<10)
	delta := func(d string) string { return `data: {"choices":[{"index":0,"delta":` + d + "}]}\n\n" }
	return map[string]http.HandlerFunc{
		"text":      modeltest.Forever(delta(`{"content":"` + long + `"}`)),
		"thinking":  modeltest.Forever(delta(`{"reasoning":"` + long + `"}`)),
		"arguments": modeltest.Forever(delta(`{"tool_calls":[{"index":0,"function":{"name":"x","arguments":"` + long + `"}}]}`)),
		"calls":     modeltest.Forever(strings.Repeat(delta(`{"tool_calls":[{"function":{"name":"x"}}]}`), 100)),
		"at once":   modeltest.Then(modeltest.Write(`{"x":"`), modeltest.Forever(long)),
	}
}

// events sends server-sent events and flushes.
func events(list ...string) http.HandlerFunc {
	return modeltest.Stream("data: " + strings.Join(list, "\n\ndata: ") + "\n\n")
}

// said is a chunk with more text.
func said(text string) string {
	raw, _ := model.JSON(text)
	return `{"model":"gpt-x","choices":[{"index":0,"delta":{"content":` + string(raw) + `}}]}`
}

const stopped = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

// saying is a whole answer of one text.
func saying(text string) http.HandlerFunc { return events(said(text), stopped, "[DONE]") }

// half is the beginning of such an answer.
func half() http.HandlerFunc { return events(said("void")) }

func ask(text string) model.Request { return modeltest.PromptRequest("gpt-x", text) }

// client returns a client of a server that answers as the handlers do.
func client(t testing.TB, o Options, handlers ...http.HandlerFunc) (*Client, *modeltest.Server) {
	s, h := modeltest.Serve(t, handlers...)
	o.BaseURL, o.HTTP = "http://model.test", h
	return New(o), s
}
