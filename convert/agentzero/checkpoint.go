package agentzero

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// checkpoint is the part of a store's checkpoint that AgentZero has too.
type checkpoint struct {
	SavedAt      time.Time       `json:"saved_at"`
	Reason       string          `json:"reason,omitempty"`
	Approvals    []approval      `json:"approvals,omitempty"`
	Limits       limits          `json:"limits"`
	DynamicTools []dynamicTool   `json:"dynamic_tools,omitempty"`
	WakeTriggers []wakeTrigger   `json:"wake_triggers,omitempty"`
	Extra        json.RawMessage `json:"extra,omitempty"`
}

type approval struct {
	Tool  string `json:"tool"`
	Scope string `json:"scope,omitempty"`
}

type limits struct {
	ToolRounds     int `json:"tool_rounds,omitempty"`
	OutputBytes    int `json:"output_bytes,omitempty"`
	ToolsInContext int `json:"tools_in_context,omitempty"`
}

type dynamicTool struct {
	Name string `json:"name"`
}

type wakeTrigger struct {
	Kind string    `json:"kind"`
	At   time.Time `json:"at,omitzero"`
	From string    `json:"from,omitempty"`
}

// The default limits of AgentZero.
var defaultLimits = limits{ToolRounds: 5, OutputBytes: 2000, ToolsInContext: 20}

// The kinds of wake triggers.
const (
	wakeResume  = "resume"
	wakeMessage = "message"
	wakeTimer   = "timer"
)

// made, in a checkpoint file, says that the session had no checkpoint: the file
// exists because AgentZero looks for it first.
const made = "tidemark_made"

// readCheckpoint returns the content of a checkpoint file. All of its fields
// except the messages stay in Extra.
func readCheckpoint(fields object) checkpoint {
	c := checkpoint{SavedAt: timeAt(fields, "created_at"), Reason: fields.Text("idle_reason")}
	var approvals, tools []string
	if json.Unmarshal(fields["session_approvals"], &approvals) == nil {
		for _, tool := range approvals {
			c.Approvals = append(c.Approvals, approval{tool, "session"})
		}
	}
	if json.Unmarshal(fields["dynamic_tools"], &tools) == nil {
		for _, name := range tools {
			c.DynamicTools = append(c.DynamicTools, dynamicTool{name})
		}
	}
	config := inside(fields, "config")
	c.Limits.ToolRounds, _ = number(config, "max_tool_rounds")
	c.Limits.OutputBytes, _ = number(config, "max_output_bytes")
	c.Limits.ToolsInContext, _ = number(config, "max_tools_in_context")
	var wakes []json.RawMessage
	if json.Unmarshal(fields["wake_triggers"], &wakes) == nil {
		for _, w := range wakes {
			if t, ok := readWake(w); ok {
				c.WakeTriggers = append(c.WakeTriggers, t)
			}
		}
	}
	return c
}

func readWake(raw json.RawMessage) (wakeTrigger, bool) {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return wakeTrigger{Kind: wakeResume}, name == "CliResume"
	}
	var tagged object
	if json.Unmarshal(raw, &tagged) != nil {
		return wakeTrigger{}, false
	}
	if tagged["Timer"] != nil {
		t := wakeTrigger{Kind: wakeTimer, At: timeAt(inside(tagged, "Timer"), "at")}
		return t, !t.At.IsZero()
	}
	from := inside(tagged, "GatewayMessage").Text("gateway")
	return wakeTrigger{Kind: wakeMessage, From: from}, from != ""
}

// writeCheckpoint returns the fields of a checkpoint file without its messages.
// What did not change since it was read is written verbatim.
func writeCheckpoint(raw json.RawMessage, savedAt time.Time, lost convert.Losses) object {
	var c checkpoint
	var more object
	if len(raw) > 0 && json.Unmarshal(raw, &c) == nil {
		json.Unmarshal(raw, &more)
	}
	for _, k := range []string{"name", "loops", "core_memory", "document_paths", "interpreter_state"} {
		if saysSomething(more[k]) {
			lost.Add("of the checkpoint: " + k)
		}
	}
	fields, own := kept(c.Extra)
	was := readCheckpoint(fields)
	if !own {
		was = checkpoint{}
	}
	put := func(key string, then, now, value any) {
		if fields[key] == nil || !reflect.DeepEqual(then, now) {
			fields.Set(key, value)
		}
	}
	if fields["version"] == nil {
		fields.Set("version", 1)
	}
	if !c.SavedAt.IsZero() {
		savedAt = c.SavedAt.UTC()
	}
	if len(raw) == 0 {
		fields.Set(made, true)
	}
	put("created_at", was.SavedAt, c.SavedAt, stamp(savedAt))
	put("session_approvals", was.Approvals, c.Approvals, approved(c.Approvals, lost))
	put("config", was.Limits, c.Limits, configOf(c.Limits))
	put("dynamic_tools", was.DynamicTools, c.DynamicTools, namesOf(c.DynamicTools))
	put("wake_triggers", was.WakeTriggers, c.WakeTriggers, wakesOf(c.WakeTriggers, lost))
	if c.Reason != "" {
		put("idle_reason", was.Reason, c.Reason, c.Reason)
	} else if !own || was.Reason != "" {
		fields.Set("idle_reason", nil)
	}
	return fields
}

// saysSomething is false for a value that is always present but empty: nothing,
// or an object of empty values.
func saysSomething(raw json.RawMessage) bool {
	var fields object
	if json.Unmarshal(raw, &fields) != nil {
		return !isNothing(raw)
	}
	for _, v := range fields {
		if !isNothing(v) {
			return true
		}
	}
	return false
}

func isNothing(raw json.RawMessage) bool {
	switch string(raw) {
	case "", `""`, "[]", "{}", "null":
		return true
	}
	return false
}

// stamp writes a time in AgentZero's format.
func stamp(t time.Time) string {
	layout := "2006-01-02T15:04:05-07:00"
	if t.Nanosecond() != 0 {
		layout = "2006-01-02T15:04:05.000000-07:00"
	}
	return t.UTC().Format(layout)
}

func approved(all []approval, lost convert.Losses) []string {
	names := []string{}
	for _, a := range all {
		// AgentZero stores only approvals for the session.
		if a.Scope == "" || a.Scope == "session" {
			names = append(names, a.Tool)
		} else {
			lost.Add("approvals with scope " + a.Scope)
		}
	}
	return names
}

func configOf(l limits) any {
	or := func(n, otherwise int) int {
		if n > 0 {
			return n
		}
		return otherwise
	}
	return struct {
		Rounds int `json:"max_tool_rounds"`
		Output int `json:"max_output_bytes"`
		Tools  int `json:"max_tools_in_context"`
	}{or(l.ToolRounds, defaultLimits.ToolRounds), or(l.OutputBytes, defaultLimits.OutputBytes), or(l.ToolsInContext, defaultLimits.ToolsInContext)}
}

func namesOf(tools []dynamicTool) []string {
	names := []string{}
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

func wakesOf(all []wakeTrigger, lost convert.Losses) []any {
	wakes := []any{}
	for _, w := range all {
		switch {
		case w.Kind == wakeResume:
			wakes = append(wakes, "CliResume")
		case w.Kind == wakeTimer:
			wakes = append(wakes, map[string]any{"Timer": map[string]string{"at": w.At.UTC().Format(time.RFC3339Nano)}})
		case w.Kind == wakeMessage:
			wakes = append(wakes, map[string]any{"GatewayMessage": map[string]string{"gateway": w.From}})
		default:
			lost.Add("wake triggers of kind " + w.Kind)
		}
	}
	return wakes
}
