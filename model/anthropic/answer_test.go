package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/modeltest"
)

func TestAnswerHasTextThinkingCallsAndUsage(t *testing.T) {
	redacted := `{"type":"redacted_thinking", "data":"b64<&>=="}`
	client, server := client(t, Options{Key: "k"}, events(
		`message_start {"type":"message_start","message":{"model":"claude-y","usage":{"input_tokens":11,"output_tokens":1,"cache_read_input_tokens":5,"cache_creation_input_tokens":6}}}`,
		`ping {"type":"ping"}`,
		`news {"type":"news","index":"none of ours"}`,
		`content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a<b "}}`,
		`content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"ü"}}`,
		`content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln=="}}`,
		`content_block_stop {"type":"content_block_stop","index":0}`,
		`content_block_start {"type":"content_block_start","index":1,"content_block":`+redacted+`}`,
		`content_block_stop {"type":"content_block_stop","index":1}`,
		`content_block_start {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
		`content_block_delta {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Hel"}}`,
		`content_block_delta {"type":"content_block_delta","index":2,"delta":{"type":"odd_delta","text":"?"}}`,
		`content_block_delta {"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"?"}}`,
		`content_block_delta {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"lo"}}`,
		`content_block_start {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}}`,
		`content_block_delta {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"command\": "}}`,
		`content_block_delta {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\"ls <x>\"}"}}`,
		`content_block_start {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"now","input":{}}}`,
		`message_delta {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":30}}`,
		`message_stop {"type":"message_stop"}`))
	h := modeltest.Collect(client.Stream(t.Context(), ask("hi")))
	if h.Err != nil {
		t.Fatal(h.Err)
	}
	want := &model.Answer{Stop: model.StopTools, Entry: tidemark.Entry{
		Kind: tidemark.KindMessage, Role: tidemark.Assistant, Model: "claude-y",
		Usage: &tidemark.Usage{InputTokens: 11, OutputTokens: 30, CacheReadTokens: 5, CacheWriteTokens: 6},
		Blocks: []tidemark.Block{
			{Type: "thinking", Text: "a<b ü", Provider: "anthropic", Raw: `{"type":"thinking","thinking":"a<b ü","signature":"c2ln=="}`},
			{Type: "thinking", Provider: "anthropic", Raw: redacted},
			{Type: "text", Text: "Hello"},
			{Type: "tool_use", ID: "toolu_1", Name: "bash", Input: json.RawMessage(`{"command":"ls <x>"}`)},
			{Type: "tool_use", ID: "toolu_2", Name: "now", Input: json.RawMessage(`{}`)},
		}}}
	if diff := cmp.Diff(want, h.Answer); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if h.Text != "Hello" || h.Thinking != "a<b ü" || fmt.Sprint(h.Calls) != "[bash now]" {
		t.Errorf("streamed %+v", h)
	}
	if got := server.Heads[0].Get("X-Api-Key"); got != "k" || server.Paths[0] != "/v1/messages" {
		t.Errorf("key %q at %s", got, server.Paths[0])
	}

	// What was signed goes back as it came, also after it was kept.
	line, err := h.Answer.Entry.Line()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := tidemark.EntryOf(line)
	if err != nil {
		t.Fatal(err)
	}
	r := ask("hi")
	r.Entries = append(r.Entries, kept, tidemark.Entry{Role: tidemark.Tool, Blocks: []tidemark.Block{
		{Type: "tool_result", ToolUseID: "toolu_1", Text: "a.txt"}, {Type: "tool_result", ToolUseID: "toolu_2", Text: "no clock", IsError: true}}})
	_ = modeltest.Collect(client.Stream(t.Context(), r))
	wantBody := `"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[` +
		`{"type":"thinking","thinking":"a<b ü","signature":"c2ln=="},` + redacted + `,{"type":"text","text":"Hello"},` +
		`{"type":"tool_use","id":"toolu_1","name":"bash","input":{"command":"ls <x>"}},{"type":"tool_use","id":"toolu_2","name":"now","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a.txt"}]},` +
		`{"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"no clock"}],"is_error":true}]}]}`
	if !strings.HasSuffix(server.Bodies[1], wantBody) {
		t.Errorf("sent\n%s\nwant it to end in\n%s", server.Bodies[1], wantBody)
	}
}

func TestBrokenArgumentsAreNamed(t *testing.T) {
	for _, args := range []string{`{"a":`, `[1]`, `"x"`, `not json`, `{"a":1}}`} {
		client, _ := client(t, Options{}, events(
			`s {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"bash","input":{}}}`,
			`d {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":`+quoted(args)+`}}`,
			`e {"type":"message_stop"}`))
		h := modeltest.Collect(client.Stream(t.Context(), ask("hi")))
		if h.Err != nil {
			t.Fatal(h.Err)
		}
		b := h.Answer.Entry.Blocks[0]
		if string(b.Input) != "{}" || h.Answer.Broken["t1"] != args || h.Answer.Stop != model.StopTools {
			t.Errorf("%s: input %s, broken %q, stop %s", args, b.Input, h.Answer.Broken, h.Answer.Stop)
		}
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	client, _ := client(t, Options{}, events(
		`s {"type":"content_block_start","index":0,"content_block":{"type":"text"}}`,
		"d {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\xffb\\ud800c\"}}",
		"s {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"\xfe\",\"name\":\"n\xfe\"}}",
		"d {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"x\\\":\\\"\xff\\\"}\"}}",
		`e {"type":"message_stop"}`))
	h := modeltest.Collect(client.Stream(t.Context(), ask("hi")))
	if h.Err != nil {
		t.Fatal(h.Err)
	}
	if !utf8.ValidString(h.Text) || !strings.HasPrefix(h.Text, "a\uFFFDb") || !strings.HasSuffix(h.Text, "c") {
		t.Errorf("text %q", h.Text)
	}
	if b := h.Answer.Entry.Blocks[1]; !utf8.ValidString(b.ID) || b.Name != "n\uFFFD" || string(b.Input) != `{"x":"`+"\uFFFD"+`"}` {
		t.Errorf("call %+v", b)
	}
}

func TestStopReasonsAreTold(t *testing.T) {
	for reason, want := range map[string]string{
		"end_turn": model.StopEnd, "max_tokens": model.StopMaxTokens, "stop_sequence": model.StopSequence, "refusal": model.StopRefusal,
		"model_context_window_exceeded": model.StopMaxTokens, "pause_turn": model.StopPause, "tool_use": model.StopEnd, "new": model.StopUnknown,
	} {
		client, _ := client(t, Options{}, events(
			`s {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}`,
			`d {"type":"message_delta","delta":{"stop_reason":"`+reason+`"}}`, `e {"type":"message_stop"}`))
		h := modeltest.Collect(client.Stream(t.Context(), ask("hi")))
		if h.Err != nil || h.Answer.Stop != want {
			t.Errorf("%s: %+v, want %s", reason, h.Answer, want)
		}
	}
}

func FuzzAnswerIsReadOrRefused(f *testing.F) {
	f.Add([]byte("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"))
	f.Add([]byte("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\",\"input\":{\"x\":1}}}\r\n\r\ndata: {\"type\":\"message_stop\"}"))
	f.Add([]byte("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"s\"}}\n\n: hi\n\ndata: {\"type\":\"message_stop\"}\n\n"))
	f.Add([]byte("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n"))
	f.Add([]byte("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"x\"}}\n\ndata: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":-1}}\n\ndata: {\"type\":\"message_stop\"}\n\n"))
	f.Add([]byte("<html>"))
	p := provider()
	f.Fuzz(func(t *testing.T, stream []byte) {
		answer, err := read(bytes.NewReader(stream), func() {}, func(model.Event) error { return nil })
		p.ReadOrRefused(t, answer, err)
	})
}
