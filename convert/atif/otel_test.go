package atif

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// checkTrace holds a trace against the rules of OTLP, and returns its spans.
func checkTrace(t *testing.T, data []byte) []span {
	t.Helper()
	var file struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []span }
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	spans := file.ResourceSpans[0].ScopeSpans[0].Spans
	ids := map[string]bool{"": true}
	for _, s := range spans {
		from, err1 := strconv.ParseUint(s.Start, 10, 64)
		to, err2 := strconv.ParseUint(s.End, 10, 64)
		if len(s.TraceID) != 32 || len(s.SpanID) != 16 || ids[s.SpanID] || !ids[s.ParentSpanID] || err1 != nil || err2 != nil || to < from {
			t.Errorf("span %+v", s)
		}
		ids[s.SpanID] = true
		for _, a := range s.Attributes {
			if text, ok := a.Value["stringValue"].(string); strings.HasSuffix(a.Key, ".messages") && (!ok || !json.Valid([]byte(text))) {
				t.Errorf("span %s: %s is no JSON", s.Name, a.Key)
			}
		}
	}
	return spans
}

func TestATraceHasASpanForEachAnswerAndTool(t *testing.T) {
	out := converttest.NewOut()
	lost, err := OTel().Export(t.Context(), out, talk())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"entries of other branches (1)", "names of entries (1)", "signatures of thoughts (1)", "what cline keeps of its own (1)"}
	if d := cmp.Diff(want, lost); d != "" {
		t.Error(d)
	}
	spans := checkTrace(t, out.Files["talk.otlp.json"].Data)
	names := map[string]string{}
	var lines []string
	for _, s := range spans {
		names[s.SpanID] = s.Name
		line := fmt.Sprintf("%s < %s", s.Name, names[s.ParentSpanID])
		if s.Status != nil {
			line += " failed"
		}
		for _, e := range s.Events {
			line += " " + e.Name
		}
		lines = append(lines, line)
	}
	want = []string{
		"invoke_agent cline <  tidemark.compaction",
		"chat claude-x < invoke_agent cline",
		"execute_tool ls < invoke_agent cline",
		"execute_tool ls < invoke_agent cline failed",
		"chat claude-x < invoke_agent cline",
		"invoke_agent helper < execute_tool ls",
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
	attributes := map[string]any{}
	for _, a := range spans[1].Attributes {
		for _, v := range a.Value {
			attributes[a.Key] = v
		}
	}
	for key, want := range map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.conversation.id": "talk",
		"gen_ai.request.model": "claude-x", "gen_ai.usage.input_tokens": "9", "gen_ai.usage.output_tokens": "2",
		"gen_ai.usage.cache_read.input_tokens": "3", "gen_ai.usage.cache_creation.input_tokens": "1", "tidemark.cost_usd": 0.5,
		"gen_ai.input.messages": `[{"parts":[{"content":"What is this?","type":"text"},{"content":"aGk=","mime_type":"image/png","modality":"image","type":"blob"}],"role":"user"}]`,
		"gen_ai.output.messages": `[{"finish_reason":"tool_call","parts":[{"content":"hm","type":"reasoning"},{"content":"Looking.","type":"text"},` +
			`{"arguments":{"dir":"."},"id":"c1","name":"ls","type":"tool_call"},{"arguments":{"dir":"."},"id":"c2","name":"ls","type":"tool_call"}],"role":"assistant"}]`,
	} {
		if attributes[key] != want {
			t.Errorf("%s = %v, want %v", key, attributes[key], want)
		}
	}
	if tool := spans[2]; tool.Start == tool.End {
		t.Errorf("a tool that took two minutes took none: %+v", tool)
	}
}

func TestProvidersAreGuessedFromModels(t *testing.T) {
	for model, want := range map[string]string{"claude-x": "anthropic", "openai/gpt-5": "openai", "gemini-3": "gcp.gemini", "fake-1": "unknown", "": "unknown"} {
		if got := provider(model); got != want {
			t.Errorf("provider(%q) = %s, want %s", model, got, want)
		}
	}
}
