package atif

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// OTel is OpenTelemetry: one trace for a session, in the JSON of OTLP.
func OTel() convert.Tool { return written("otel", "OpenTelemetry GenAI", exportTrace) }

type span struct {
	TraceID      string      `json:"traceId"`
	SpanID       string      `json:"spanId"`
	ParentSpanID string      `json:"parentSpanId,omitempty"`
	Name         string      `json:"name"`
	Kind         int         `json:"kind"`
	Start        string      `json:"startTimeUnixNano"`
	End          string      `json:"endTimeUnixNano"`
	Attributes   []attribute `json:"attributes,omitempty"`
	Events       []event     `json:"events,omitempty"`
	Status       *status     `json:"status,omitempty"`
}

type attribute struct {
	Key   string         `json:"key"`
	Value map[string]any `json:"value"`
}

type event struct {
	Time       string      `json:"timeUnixNano"`
	Name       string      `json:"name"`
	Attributes []attribute `json:"attributes,omitempty"`
}

type status struct {
	Code    int    `json:"code"`
	Message string `json:"message,omitempty"`
}

// The kinds of spans, and the status of one that failed.
const (
	internal = 1
	client   = 3
	failed   = 2
)

// tracer makes the spans of one trace.
type tracer struct {
	conversation string
	trace        string
	agent, model string
	lost         losses
	spans        []*span
	calls        map[string]*span // of tools, by the call
	ids          map[string]bool
	began        time.Time
}

func exportTrace(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	id := idOf(s)
	lost := losses{}
	entries, err := lost.pathTo(ctx, s.Entries, s.Head)
	if err != nil {
		return nil, err
	}
	t := &tracer{
		conversation: id, trace: digest(16, id), agent: cmp.Or(s.Agent, "unknown"), model: s.Model,
		lost: lost, calls: map[string]*span{}, ids: map[string]bool{}, began: s.CreatedAt,
	}
	root := t.run(t.agent, "", "session", entries)
	root.set("tidemark.session.title", s.Title)
	root.set("tidemark.session.project", s.Project)
	for _, w := range s.Workers {
		entries, err := lost.pathTo(ctx, w.Entries, "")
		if err != nil {
			return nil, err
		}
		parent := root.SpanID
		if caller := t.calls[w.Call]; caller != nil && w.Call != "" {
			parent = caller.SpanID
		}
		t.run(w.Name, parent, "worker "+w.Name, entries)
	}
	type object = map[string]any
	file := object{"resourceSpans": []object{{
		"resource":   object{"attributes": []attribute{text("service.name", t.agent)}},
		"scopeSpans": []object{{"scope": object{"name": "tidemark"}, "spans": t.spans}},
	}}}
	return lost.report(s), write(out, fileName(id)+".otlp.json", file)
}

// digest makes an id of n bytes that is the same at every export.
func digest(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:n])
}

func text(key, v string) attribute { return attribute{key, map[string]any{"stringValue": v}} }

func (s *span) set(key, v string) {
	if v != "" {
		s.Attributes = append(s.Attributes, text(key, v))
	}
}

func (s *span) count(key string, n int64) {
	if n > 0 {
		s.Attributes = append(s.Attributes, attribute{key, map[string]any{"intValue": strconv.FormatInt(n, 10)}})
	}
}

// nano is a time in OTLP's form. A time that it cannot represent becomes 0.
func nano(t time.Time) string {
	if t.Year() < 1970 || t.Year() > 2261 {
		return "0"
	}
	return strconv.FormatInt(t.UnixNano(), 10)
}

func (t *tracer) span(parent, name, id string, kind int, from, to time.Time) *span {
	if to.Before(from) {
		to = from
	}
	for t.ids[id] {
		id += "'" // a changed entry may have the id of the original
	}
	t.ids[id] = true
	s := &span{
		TraceID: t.trace, SpanID: digest(8, t.trace, id), ParentSpanID: parent,
		Name: name, Kind: kind, Start: nano(from), End: nano(to),
	}
	t.spans = append(t.spans, s)
	return s
}

// run makes the span of an agent's run, and below it those of the model's
// answers and of the tools.
func (t *tracer) run(agent, parent, id string, entries []convert.Entry) *span {
	from, to := t.began, t.began
	for i, e := range entries {
		if e.At.IsZero() {
			continue
		}
		if i == 0 || from.IsZero() || e.At.Before(from) {
			from = e.At
		}
		if e.At.After(to) {
			to = e.At
		}
	}
	root := t.span(parent, strings.TrimSpace("invoke_agent "+agent), id, internal, from, to)
	root.set("gen_ai.operation.name", "invoke_agent")
	root.set("gen_ai.provider.name", provider(t.model))
	root.set("gen_ai.agent.name", agent)
	root.set("gen_ai.conversation.id", t.conversation)
	root.set("gen_ai.request.model", t.model)
	c := &course{tracer: t, root: root, id: id, last: from}
	for _, e := range entries {
		c.entry(e)
	}
	root.set("gen_ai.system_instructions", asJSON(c.instructions))
	if len(c.input) > 0 {
		root.set("gen_ai.input.messages", asJSON(c.input)) // unanswered messages
	}
	return root
}

// course is one agent's run while its spans are made.
type course struct {
	*tracer
	root         *span
	id           string
	last         time.Time // of the previous entry
	input        []any     // messages since the last answer
	instructions []any
}

func (c *course) entry(e convert.Entry) {
	at := e.At
	if at.IsZero() {
		at = c.last
	}
	defer func() { c.last = at }()
	var extra map[string]json.RawMessage
	if json.Unmarshal(e.Extra, &extra) == nil {
		for tool := range extra {
			c.lost.add("what "+tool+" keeps of its own", 1)
		}
	}
	switch {
	case !isMessage(e):
		ev := event{Time: nano(at), Name: "tidemark." + e.Kind}
		if s := e.Text(); s != "" {
			ev.Attributes = []attribute{text("tidemark.text", s)}
		}
		c.root.Events = append(c.root.Events, ev)
		if e.Usage != nil {
			s := c.span(c.root.SpanID, strings.TrimSpace("chat "+cmp.Or(e.Model, c.model)), c.id+" "+e.ID, client, c.last, at)
			c.about(s, e)
		}
	case e.Role == tidemark.System:
		c.instructions = append(c.instructions, c.parts(e.Blocks)...)
	case e.Role == tidemark.Assistant:
		c.answer(e, at)
	default:
		if e.Role == tidemark.Tool {
			c.results(e, at)
		}
		c.input = append(c.input, map[string]any{"role": string(e.Role), "parts": c.parts(e.Blocks)})
	}
}

// about sets what is known of a call to a model.
func (c *course) about(s *span, e convert.Entry) {
	model := cmp.Or(e.Model, c.model)
	s.set("gen_ai.operation.name", "chat")
	s.set("gen_ai.provider.name", provider(model))
	s.set("gen_ai.conversation.id", c.conversation)
	s.set("gen_ai.request.model", model)
	s.set("gen_ai.response.model", e.Model)
	if u := e.Usage; u != nil {
		s.count("gen_ai.usage.input_tokens", u.InputTokens+u.CacheReadTokens+u.CacheWriteTokens)
		s.count("gen_ai.usage.output_tokens", u.OutputTokens)
		s.count("gen_ai.usage.cache_read.input_tokens", u.CacheReadTokens)
		s.count("gen_ai.usage.cache_creation.input_tokens", u.CacheWriteTokens)
		if u.CostUSD > 0 {
			s.Attributes = append(s.Attributes, attribute{"tidemark.cost_usd", map[string]any{"doubleValue": u.CostUSD}})
		}
	}
}

func (c *course) answer(e convert.Entry, at time.Time) {
	s := c.span(c.root.SpanID, strings.TrimSpace("chat "+cmp.Or(e.Model, c.model)), c.id+" "+e.ID, client, c.last, at)
	c.about(s, e)
	reason := "stop"
	for n, b := range e.Blocks {
		if b.Type != tidemark.BlockToolUse {
			continue
		}
		reason = "tool_call"
		tool := c.span(c.root.SpanID, "execute_tool "+b.Name, c.id+" "+e.ID+" "+strconv.Itoa(n), internal, at, at)
		tool.set("gen_ai.operation.name", "execute_tool")
		tool.set("gen_ai.tool.name", b.Name)
		tool.set("gen_ai.tool.call.id", b.ID)
		tool.set("gen_ai.tool.type", "function")
		tool.set("gen_ai.tool.call.arguments", asJSON(asObject(b.Input)))
		c.calls[b.ID] = tool
	}
	if len(c.input) > 0 {
		s.set("gen_ai.input.messages", asJSON(c.input))
	}
	s.set("gen_ai.output.messages", asJSON([]any{map[string]any{"role": "assistant", "parts": c.parts(e.Blocks), "finish_reason": reason}}))
	c.input = nil
}

// results end the spans of their tools.
func (c *course) results(e convert.Entry, at time.Time) {
	for _, b := range e.Blocks {
		tool := c.calls[b.ToolUseID]
		if b.Type != tidemark.BlockToolResult || tool == nil {
			continue
		}
		tool.End = nano(at)
		tool.set("gen_ai.tool.call.result", asJSON(b.Text))
		if b.IsError {
			tool.Status = &status{Code: failed}
			tool.set("error.type", "_OTHER")
		}
	}
}

// parts are blocks in the form of the conventions.
func (c *course) parts(blocks []tidemark.Block) []any {
	type object = map[string]any
	all := []any{}
	for _, b := range blocks {
		if b.Raw != "" && b.Type == tidemark.BlockThinking {
			c.lost.add("signatures of thoughts", 1)
		}
		modality := "document"
		if b.Type == tidemark.BlockImage {
			modality = "image"
		}
		switch {
		case b.Type == tidemark.BlockText:
			all = append(all, object{"type": "text", "content": b.Text})
		case b.Type == tidemark.BlockThinking:
			all = append(all, object{"type": "reasoning", "content": b.Text})
		case b.Type == tidemark.BlockToolUse:
			all = append(all, object{"type": "tool_call", "id": b.ID, "name": b.Name, "arguments": asObject(b.Input)})
		case b.Type == tidemark.BlockToolResult:
			all = append(all, object{"type": "tool_call_response", "id": b.ToolUseID, "response": b.Text})
			all = append(all, c.parts(slices.DeleteFunc(slices.Clone(b.Blocks), func(in tidemark.Block) bool {
				return in.Type == tidemark.BlockText || in.Type == tidemark.BlockToolResult
			}))...)
		case b.URL != "":
			all = append(all, object{"type": "uri", "modality": modality, "mime_type": b.MediaType, "uri": b.URL})
		case len(b.Data) > 0:
			all = append(all, object{"type": "blob", "modality": modality, "mime_type": b.MediaType, "content": b.Data})
		default:
			c.lost.add("files that are not in the session", 1)
		}
	}
	return all
}

func asJSON(v any) string {
	if list, ok := v.([]any); ok && len(list) == 0 {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

// provider guesses the provider of a model; entries do not say.
func provider(model string) string {
	known := map[string]string{"claude": "anthropic", "gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai",
		"codex": "openai", "gemini": "gcp.gemini", "mistral": "mistral_ai", "deepseek": "deepseek", "grok": "x_ai"}
	name := strings.ToLower(model[strings.LastIndex(model, "/")+1:])
	for _, prefix := range slices.Sorted(maps.Keys(known)) {
		if strings.HasPrefix(name, prefix) {
			return known[prefix]
		}
	}
	return "unknown"
}
