package openai

import (
	"encoding/json"
	"testing"
)

// usualSpellings are chunks as servers write them.
var usualSpellings = []string{
	`{"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"word "}}]}`,
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-x","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" a"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"abc"}`,
	`{"id": "1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "é \"quoted\"\n\u00e9"}, "logprobs": null, "finish_reason": null, "stop_reason": null, "token_ids": null}]}`,
	`{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"hm"}}],"created":1,"id":"y","model":"q.gguf","system_fingerprint":"b1","object":"chat.completion.chunk"}`,
	`{"choices":[{"delta":{}}]}`,
}

// unusual are chunks that mean something else, or nothing.
var unusual = []string{
	`{"choices":[]}`, `{"choices":[{"index":1,"delta":{"content":"x"}}]}`, `{"choices":[{"index":0.0,"delta":{"content":"x"}}]}`, `{"choices":[{"index":00,"delta":{"content":"x"}}]}`,
	`{"choices":[{"delta":{"content":"x"}},{"delta":{"content":"y"}}]}`, `{"choices":[{"delta":{"content":"x","content":"y"}}]}`, `{"choices":[{"delta":{"Content":"x"}}]}`,
	`{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`, `{"choices":[{"delta":{"content":[{"text":"x"}]}}]}`, `{"choices":[{"delta":{"content":"x","tool_calls":[]}}]}`,
	`{"choices":[{"delta":{"content":"x"},"error":{"code":1}}]}`, `{"error":"x","choices":[{"delta":{"content":"x"}}]}`, `{"usage":{"prompt_tokens":1},"choices":[{"delta":{"content":"x"}}]}`,
	`{"choices":[{"delta":{"content":"x"}}]} x`, `{"choices":[{"delta":{"content":"x"}}]`, `{"choices":[{"delta":{"content":"\x"}}]}`, "{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}",
	"{\"choices\":[{\"delta\":{\"content\":\"\n\"}}]}", `{"created":01,"choices":[{"delta":{"content":"x"}}]}`, `{"created":1.5,"choices":[{"delta":{"content":"x"}}]}`, `{"model":null,"choices":[{"delta":{}}]}`, `[]`, ``,
}

func TestUsualChunksAreReadWithoutGarbage(t *testing.T) {
	for _, chunk := range usualSpellings {
		data := []byte(chunk)
		if _, ok := usual(data); !ok {
			t.Errorf("unusual: %s", chunk)
		}
		if n := testing.AllocsPerRun(10, func() { usual(data) }); n > 0 {
			t.Errorf("%v allocations for %s", n, chunk)
		}
	}
	for _, chunk := range unusual {
		c, ok := usual([]byte(chunk))
		_, text := unquote(c.content)
		if ok && text {
			t.Errorf("usual: %s", chunk)
		}
	}
}

func FuzzAUsualChunkIsReadAsAnyOther(f *testing.F) {
	for _, chunk := range append(usualSpellings, unusual...) {
		f.Add([]byte(chunk))
	}
	f.Add([]byte(`{"choices":[{"delta":{},"token_ids":"null}]}`)) // a string that does not end
	f.Fuzz(func(t *testing.T, data []byte) {
		u, ok := usual(data)
		text, ok1 := unquote(u.content)
		thought, ok2 := unquote(u.reasoning)
		if !ok || !ok1 || !ok2 {
			return
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if len(c.Choices) != 1 || c.Model != string(u.model) || isError(c.Error) || c.Usage != nil {
			t.Fatalf("%s is %+v", data, c)
		}
		o := c.Choices[0]
		if o.Index != 0 || o.Delta == nil || o.Message != nil || o.Finish != "" || isError(o.Error) {
			t.Fatalf("%s is %+v", data, o)
		}
		if d := o.Delta; string(d.Content) != text || string(d.ReasoningContent) != thought || d.Reasoning != "" || d.Refusal != "" || d.ToolCalls != nil {
			t.Fatalf("%s: %q, %q, read as %+v", data, text, thought, d)
		}
	})
}
