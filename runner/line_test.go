package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
)

func TestLinesAreTheSameHoweverTheyArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.StringMatching(`[a-zé\r]{0,200}`)).Draw(t, "lines")
		whole := strings.Join(parts, "\n")
		var want []string
		if whole != "" {
			for _, p := range strings.Split(strings.TrimSuffix(whole, "\n"), "\n") {
				want = append(want, strings.TrimSuffix(p, "\r"))
			}
		}
		for _, r := range []io.Reader{strings.NewReader(whole), iotest.OneByteReader(strings.NewReader(whole)), iotest.DataErrReader(strings.NewReader(whole))} {
			var got []string
			scanLines(r, func(line []byte, left int64) { got = append(got, string(line)) })
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
		}
	})
}

func TestALineIsCutAtItsLimit(t *testing.T) {
	for _, over := range []int{-1, 0, 1, 100_000} {
		text := strings.Repeat("x", maxLine+over)
		for name, end := range map[string]string{"with": "\nnext\n", "without": ""} {
			var got []string
			scanLines(strings.NewReader(text+end), func(line []byte, left int64) {
				got = append(got, fmt.Sprint(len(line), " ", left))
			})
			want := []string{fmt.Sprint(min(len(text), maxLine), " ", max(0, over))}
			if end != "" {
				want = append(want, "4 0")
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%d over, %s a newline (-want +got):\n%s", over, name, d)
			}
		}
	}
}

// keepable checks that an event that was made of foreign bytes can be kept.
func keepable(t *testing.T, events ...tidemark.Event) {
	t.Helper()
	for _, e := range events {
		l, err := e.Line()
		if err != nil {
			t.Fatalf("event %+v: %v", e, err)
		}
		if _, err := tidemark.EventOf(l); err != nil {
			t.Fatalf("event %s: %v", l.Body, err)
		}
	}
}

func fuzzLines(f *testing.F, seeds ...string) {
	for _, s := range append(seeds, "", "{}", "null", "[]", `"x"`, "{", `{"type":null}`, `{"type":"x","type":"y"}`, "\xff\x00", strings.Repeat("[", 200)) {
		f.Add([]byte(s))
	}
}

// each hands the lines of foreign bytes to a parser as a run does.
func each(b []byte, parse func([]byte)) {
	scanLines(bytes.NewReader(b), func(line []byte, _ int64) { parse(line) })
}

func FuzzCommandLine(f *testing.F) {
	fuzzLines(f, `{"type":"assistant","content":"x","usage":{"input_tokens":1},"extra":{"a":1},"timestamp":3}`, `{"type":"error","message":"x","extra":[1]}`,
		`{"type":"tool_use","input":null,"success":true,"Type":"x"}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		each(b, func(line []byte) {
			if e, ok := commandLine(line); ok {
				keepable(t, e)
			}
		})
	})
}

func FuzzClaudeLine(f *testing.F) {
	fuzzLines(f, `{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"n","input":{}},7],"usage":{"input_tokens":-1}}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"}],"is_error":true}]}}`,
		`{"type":"user","message":{"content":"x"}}`,
		`{"type":"result","subtype":"success","num_turns":-4,"modelUsage":{"":{"inputTokens":1}}}`+"\n"+`{"type":"result","errors":[]}`,
		`{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"x"}}`,
		`{"type":"stream_event","event":{"delta":{"type":"text_delta","text":"x"}}}`, `{"type":"system","subtype":"init","session_id":"s","tools":[]}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		var s claudeStream
		each(b, func(line []byte) { keepable(t, s.line(line)...) })
		s.judge(ending{})
		checkOutcome(t, s.outcome(Task{}))
	})
}

func FuzzCodexLine(f *testing.F) {
	fuzzLines(f, `{"type":"thread.started","thread_id":"t"}`+"\n"+`{"type":"turn.started"}`+"\n"+`{"type":"turn.completed","usage":{"input_tokens":5,"cached_input_tokens":9}}`,
		`{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"x","exit_code":1}}`, `{"type":"item.started","item":{"type":"mcp_tool_call","arguments":null}}`,
		`{"type":"item.updated","item":{"type":"todo_list","items":[]}}`, `{"type":"turn.failed"}`, `{"type":"error","message":"x"}`, `{"type":"item.completed","item":7}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := codexStream{spent: new(tidemark.Usage)}
		each(b, func(line []byte) { keepable(t, s.line(line)...) })
		s.judge(ending{})
		var o Outcome
		o.use("m", *s.spent)
		checkOutcome(t, o)
	})
}

func FuzzACPUpdate(f *testing.F) {
	for _, s := range []string{`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}`, `{"sessionUpdate":"agent_thought_chunk","content":{"type":"image","data":"x"}}`,
		`{"sessionUpdate":"tool_call","toolCallId":"c","rawInput":{"a":1},"status":"completed","content":[]}`, `{"sessionUpdate":"tool_call_update","toolCallId":"","status":"failed","rawOutput":"x"}`,
		`{"sessionUpdate":"usage_update","cost":{"amount":1e9,"currency":"usd"}}`, `{"sessionUpdate":"plan","entries":[]}`, `{"sessionUpdate":7}`, `null`, ``, `{`} {
		f.Add([]byte(`{"update":`+s+`}`), []byte(`{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"y"}}}`))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var s acpStream
		for _, p := range [][]byte{a, b, a} {
			if json.Valid(p) { // as it is when it was read as a part of a message
				p = lineText(p)
				keepable(t, s.update(p)...)
			}
		}
		keepable(t, s.end()...)
	})
}

// checkOutcome wants figures that can be added up and text that can be kept.
func checkOutcome(t *testing.T, o Outcome) {
	t.Helper()
	if o.Turns < 0 || o.CostUSD < 0 || !utf8.ValidString(summary(o.Summary)) || len(summary(o.Summary)) > maxSummary+len("…") {
		t.Fatalf("outcome %+v", o)
	}
	if _, err := json.Marshal(o.Usage); err != nil {
		t.Fatal(err)
	}
	for m, u := range o.Usage {
		if u.InputTokens < 0 || u.OutputTokens < 0 || u.CacheReadTokens < 0 || u.CacheWriteTokens < 0 || u.CostUSD < 0 || m == "" {
			t.Fatalf("model %q used %+v", m, u)
		}
	}
}
