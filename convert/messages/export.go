package messages

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// writer collects messages and what they cannot represent.
type writer struct {
	format *format
	system []tidemark.Block
	lost   map[string]int
}

func (w *writer) lose(what string) { w.lost[what]++ }

// export writes one path of a session, the one to its head, as one file: an
// array, or an object if there is more than messages.
func (f *format) export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	w := &writer{format: f, lost: map[string]int{}}
	entries, err := w.pathTo(ctx, s)
	if err != nil {
		return nil, err
	}
	all := []map[string]any{}
	for _, e := range entries {
		w.about(e)
		if e.Kind != "" && e.Kind != tidemark.KindMessage {
			w.lose("entries of kind " + e.Kind)
			continue
		}
		all = append(all, f.write(w, e)...)
	}
	var whole any = all
	fields := extraOf(s.Extra, f.name)
	if len(fields) > 0 || len(w.system) > 0 {
		object := map[string]any{"messages": all}
		for k, v := range fields {
			object[k] = v
		}
		if s.Model != "" {
			object["model"] = s.Model
		}
		if len(w.system) > 0 {
			object["system"] = w.content(w.system)
		}
		whole = object
	}
	b, err := convert.Encode(whole)
	if err != nil {
		return nil, tidemark.Invalidf("session %s: %w", s.ForeignID, err)
	}
	return w.report(s), convert.WriteFile(out, f.fileName(s), append(b, '\n'))
}

// fileName is the session's own id, or the tool's if that is a valid file name.
func (f *format) fileName(s *convert.Session) string {
	name := cmp.Or(string(s.ID), s.ForeignID)
	if tidemark.CheckID(name) != nil {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:8])
	}
	return name + "." + f.name + ".json"
}

// pathTo returns the entries from the root to the head: an array of messages
// has no branches.
func (w *writer) pathTo(ctx context.Context, s *convert.Session) ([]convert.Entry, error) {
	b, err := convert.BranchTo(ctx, s.Entries, s.Head)
	if err != nil {
		return nil, err
	}
	if b.Damaged > 0 {
		w.lost["damaged entries"] += b.Damaged
	}
	if b.Beside > 0 {
		w.lost["entries of other branches"] += b.Beside
	}
	return b.Entries, nil
}

// about counts what no message can represent of an entry.
func (w *writer) about(e convert.Entry) {
	if !e.At.IsZero() {
		w.lose("times")
	}
	if e.Model != "" {
		w.lose("models")
	}
	if e.Usage != nil {
		w.lose("token counts")
	}
	for k := range extraOf(e.Extra, "") {
		if k != w.format.name {
			w.lose("what " + k + " keeps of its own")
		}
	}
}

func (w *writer) report(s *convert.Session) []string {
	lost := slices.Clone(s.Lost)
	for _, what := range slices.Sorted(maps.Keys(w.lost)) {
		lost = append(lost, fmt.Sprintf("%s (%d)", what, w.lost[what]))
	}
	if s.Title != "" {
		lost = append(lost, "the title")
	}
	for what, n := range map[string]int{"helpers": len(s.Workers), "names of entries": len(s.Labels), "files": len(s.Files), "a checkpoint": len(s.Checkpoint)} {
		if n > 0 {
			lost = append(lost, what)
		}
	}
	slices.Sort(lost)
	return lost
}

// extraOf returns the part of a tool in extra; of all tools for "".
func extraOf(extra json.RawMessage, name string) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(extra, &all) != nil || name == "" {
		return all
	}
	var own map[string]json.RawMessage
	if json.Unmarshal(all[name], &own) != nil {
		return nil
	}
	return own
}

// content is blocks as the content of a message: a string if there is only text.
func (w *writer) content(blocks []tidemark.Block) any {
	if len(blocks) == 1 && blocks[0].Type == tidemark.BlockText && blocks[0].Provider != w.format.name {
		return blocks[0].Text
	}
	parts := []any{}
	for _, b := range blocks {
		if p := w.part(b); p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

// part is one block as a part; nil, counted as lost, if it cannot be
// represented.
func (w *writer) part(b tidemark.Block) any {
	if b.Raw != "" && b.Provider == w.format.name && json.Valid([]byte(b.Raw)) {
		return json.RawMessage(b.Raw)
	}
	type object = map[string]any
	openai := w.format.name == "openai"
	switch b.Type {
	case tidemark.BlockText:
		if b.Text == "" {
			return nil
		}
	case tidemark.BlockToolUse:
	case tidemark.BlockImage, tidemark.BlockFile:
		switch {
		case len(b.Data) == 0 && b.URL == "":
			w.lose("files that are not in the session")
			return nil
		case openai && b.Type == tidemark.BlockImage:
			return object{"type": "image_url", "image_url": object{"url": wire.Link(b)}}
		case openai:
			return object{"type": "file", "file": object{"filename": b.Name, "file_data": wire.Link(b)}}
		case b.URL != "":
			b.Data = nil
		}
	case tidemark.BlockThinking:
		w.lose("thoughts that are not signed for it")
		return nil
	default:
		w.lose("blocks of type " + b.Type)
		return nil
	}
	return w.object(b)
}

// object is a block in Anthropic's shape.
func (w *writer) object(b tidemark.Block) any {
	e := wire.Encoder{Input: asObject, Result: w.resultContent,
		Whole: func(b tidemark.Block) bool { return b.Provider == w.format.name && json.Valid([]byte(b.Raw)) }}
	object, raw := e.Block(b)
	if raw != nil {
		return raw
	}
	return object.Map()
}

// asObject is a call's input, which is required to be an object there.
func asObject(input json.RawMessage) any {
	var fields map[string]json.RawMessage
	switch {
	case len(input) == 0:
		return map[string]any{}
	case json.Unmarshal(input, &fields) == nil && fields != nil:
		return input
	}
	return map[string]any{"arguments": input}
}

// anthropicMessages writes an entry. System texts are separate from the
// messages.
func anthropicMessages(w *writer, e convert.Entry) []map[string]any {
	role := "user"
	parts := []any{}
	switch e.Role {
	case tidemark.System:
		w.system = append(w.system, e.Blocks...)
		return nil
	case tidemark.Assistant:
		role = "assistant"
	case tidemark.Tool:
		for _, b := range e.Blocks {
			if b.Type == tidemark.BlockToolResult {
				parts = append(parts, w.object(b))
			} else if p := w.part(b); p != nil {
				parts = append(parts, p)
			}
		}
	}
	var content any = parts
	if e.Role != tidemark.Tool {
		content = w.content(e.Blocks)
	}
	if list, ok := content.([]any); ok && len(list) == 0 {
		w.lose("messages that say nothing")
		return nil
	}
	m := fill(extraOf(e.Extra, "anthropic"))
	m["role"], m["content"] = role, content
	return []map[string]any{m}
}

// resultContent is the content of a tool result: a string, or parts.
func (w *writer) resultContent(b tidemark.Block) any {
	if len(b.Blocks) == 0 {
		return b.Text
	}
	inner := b.Blocks
	if b.Text != "" && !slices.ContainsFunc(inner, func(b tidemark.Block) bool { return b.Type == tidemark.BlockText }) {
		inner = append([]tidemark.Block{tidemark.Text(b.Text)}, inner...)
	}
	return w.content(inner)
}

func fill(fields map[string]json.RawMessage) map[string]any {
	m := map[string]any{}
	for k, v := range fields {
		m[k] = v
	}
	return m
}

// openaiMessages writes an entry. Each result is a message of its own.
func openaiMessages(w *writer, e convert.Entry) []map[string]any {
	extra := extraOf(e.Extra, "openai")
	if e.Role == tidemark.Tool {
		return w.toolMessages(e, extra)
	}
	m := fill(extra)
	if _, ok := m["role"]; !ok {
		m["role"] = string(e.Role)
	}
	var said []tidemark.Block
	calls := []any{}
	for _, b := range e.Blocks {
		if b.Type != tidemark.BlockToolUse {
			said = append(said, b)
			continue
		}
		calls = append(calls, map[string]any{"id": b.ID, "type": "function",
			"function": map[string]any{"name": b.Name, "arguments": wire.ArgumentText(b.Input)}})
	}
	if len(calls) > 0 {
		m["tool_calls"] = calls
	}
	m["content"] = nil
	if content := w.content(said); content != nil {
		if list, ok := content.([]any); !ok || len(list) > 0 {
			m["content"] = content
		}
	}
	if m["content"] == nil && len(calls) == 0 && len(extra) == 0 {
		w.lose("messages that say nothing")
		return nil
	}
	return []map[string]any{m}
}

func (w *writer) toolMessages(e convert.Entry, extra map[string]json.RawMessage) []map[string]any {
	var all []map[string]any
	for _, b := range e.Blocks {
		if b.Type != tidemark.BlockToolResult {
			w.lose("blocks beside results")
			continue
		}
		if b.IsError {
			w.lose("marks of results that are errors")
		}
		var content any = b.Text
		var texts []tidemark.Block
		for _, inner := range b.Blocks {
			if inner.Type == tidemark.BlockText {
				texts = append(texts, inner)
			} else {
				w.lose("pictures and files in results")
			}
		}
		if len(texts) > 1 || b.Text == "" && len(texts) == 1 {
			content = w.content(texts)
		}
		m := fill(extra)
		m["role"], m["tool_call_id"], m["content"] = "tool", b.ToolUseID, content
		all = append(all, m)
	}
	return all
}
