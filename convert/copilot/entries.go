package copilot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// stream makes entries from the events of a session, or of one helper in it: the
// events of all of them are in one file.
type stream struct {
	fsys      fs.FS
	file      string
	agent     string // "" for the session itself
	agentName string

	Memory convert.Memory `json:"memory"`
	Tip    string         `json:"tip"` // the last entry, Root for none

	before map[string]string          // by event: the last entry before it
	usages map[string]*tidemark.Usage // of model calls whose message has not come yet
	order  []string                   // of usages
	moved  bool                       // the tip is not the previous entry
}

// Kinds of names: of entries, calls, and system prompts.
const (
	ofEntry  = 'e'
	ofCall   = 'c'
	ofPrompt = 'p'
)

// was returns whether there was something before, and notes it: system prompts come
// again and again.
func (s *stream) was(kind byte, name string) bool {
	was := s.Memory.Has(kind, name)
	if !was || kind == ofPrompt {
		s.Memory.Set(kind, name, "")
	}
	return was
}

func (s *stream) start() {
	s.before, s.usages = map[string]string{}, map[string]*tidemark.Usage{}
	s.order, s.moved = nil, false
}

// entries yields the entries of the session itself, or those that were added.
func (s *survey) entries(fsys fs.FS, marker *convert.Marker) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		r := &stream{fsys: fsys, file: s.file, Tip: convert.Root}
		if s.reader != nil {
			r.Memory, r.Tip = *s.reader.Memory.Clone(), s.reader.Tip
		}
		r.read(s.from, func(at convert.Mark) {
			if r.Tip != convert.Root && len(r.usages) == 0 && !r.moved {
				marker.Exactly(at, r.Tip, func() any { return bookmark{s.known, r} })
			}
		})(yield)
	}
}

// entries yields all entries.
func (s *stream) entries() iter.Seq2[convert.Entry, error] {
	s.Memory, s.Tip = convert.Memory{}, convert.Root
	return s.read(convert.Mark{}, func(convert.Mark) {})
}

// read yields the entries from a mark on; before is called before each event.
func (s *stream) read(from convert.Mark, before func(at convert.Mark)) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		s.start()
		var last *event
		for e, err := range read(s.fsys, s.file, from, nil) {
			if err != nil {
				// Damage is reported once, by the session itself.
				if s.agent == "" && !yield(convert.Entry{}, err) || !convert.IsSkip(err) {
					return
				}
				continue
			}
			before(e.start)
			if last = e; e.AgentID != s.agent {
				continue
			}
			out, ok := s.entry(e)
			if ok {
				out = s.place(out)
			}
			if s.Memory.Missed() {
				yield(convert.Entry{}, convert.ErrWhole)
				return
			}
			if ok && !yield(out, nil) {
				return
			}
		}
		for _, call := range s.order {
			if u := s.usages[call]; u != nil {
				out := convert.Entry{ID: "usage-" + call}
				out.Kind, out.Usage, out.At = "usage", u, convert.ParseTime(last.Timestamp)
				out.Draft = true // its message may still come
				if !yield(s.place(out), nil) {
					return
				}
			}
		}
	}
}

// endsAt is the entry that a session is at when it ends with an undo, "" when it
// is at its last entry.
func (s *stream) endsAt() string {
	for range s.entries() {
		continue
	}
	if s.moved && s.Tip != convert.Root {
		return s.Tip
	}
	return ""
}

// place gives an entry a unique id and its parent.
func (s *stream) place(e convert.Entry) convert.Entry {
	id := e.ID
	for n := 2; s.was(ofEntry, e.ID); n++ {
		e.ID = id + "#" + strconv.Itoa(n)
	}
	e.Parent, s.Tip, s.moved = s.Tip, e.ID, false
	return e
}

// entry makes an entry from an event; false when the event has no content of its
// own.
func (s *stream) entry(e *event) (convert.Entry, bool) {
	if e.ID == "" {
		e.ID = "line-" + strconv.Itoa(e.line)
	}
	s.before[e.ID] = s.Tip
	out := convert.Entry{ID: e.ID}
	out.At = convert.ParseTime(e.Timestamp)
	switch e.Type {
	case "user.message":
		return s.prompt(out, e)
	case "assistant.message":
		return s.answer(out, e)
	case "tool.execution_start":
		return s.call(out, e)
	case "tool.execution_complete":
		return s.result(out, e)
	case "system.message":
		sum := sha256.Sum256(text(e.Data, "content"))
		if s.was(ofPrompt, hex.EncodeToString(sum[:8])) {
			return out, false
		}
		out.Kind, out.Extra = convert.KindContext, extra(e.Data, "content")
		out.Blocks = []tidemark.Block{tidemark.Text(string(text(e.Data, "content")))}
		return out, true
	case "session.compaction_complete":
		return compaction(out, e)
	case "session.usage_record":
		s.usage(e)
		return out, false
	case "session.snapshot_rewind":
		var d struct{ UpToEventID string }
		if convert.Loose(e.Data, &d) != nil {
			return out, false
		}
		if to, ok := s.before[d.UpToEventID]; ok {
			s.Tip, s.moved = to, true
		}
		return out, false
	case "session.context_cleared":
		s.Tip, s.moved = convert.Root, true
		return out, false
	case "session.error", "session.warning", "session.info", "abort", "system.notification", "session.task_complete":
		out.Kind, out.Extra = convert.KindNotice, extra(e.Data, "content", "message", "reason", "summary")
		for _, key := range []string{"content", "message", "reason", "summary"} {
			if b := text(e.Data, key); len(b) > 0 {
				out.Blocks = append(out.Blocks, tidemark.Text(string(b)))
			}
		}
		return out, true
	}
	if isNoise(e.Type) {
		return out, false
	}
	kept := map[string]any{"type": e.Type}
	if e.Data != nil {
		kept["data"] = e.Data
	}
	out.Kind = convert.KindEvent
	out.Extra, _ = json.Marshal(map[string]any{name: kept})
	return out, true
}

// isNoise reports events about how the tool worked, and those that repeat
// others: raw model calls, parts of a reply as they arrived, totals.
func isNoise(t string) bool {
	group, what, _ := strings.Cut(t, ".")
	switch group {
	case "model", "hook", "permission", "pending_messages", "subagent":
		return true
	case "assistant":
		return true
	case "session":
		return slices.Contains([]string{"start", "resume", "shutdown", "idle", "usage_info", "usage_checkpoint",
			"compaction_start", "title_changed", "background_tasks_changed", "tools_updated", "skills_loaded",
			"mcp_servers_loaded", "model_change", "remote_steerable_changed"}, what)
	}
	return strings.HasSuffix(what, "_delta") || t == "tool.execution_progress" || t == "tool.execution_partial_result"
}

// prompt uses what was typed as the text. What the tool made of it is kept
// beside it: the parts around the text, or all of it when it does not contain
// the text.
func (s *stream) prompt(out convert.Entry, e *event) (convert.Entry, bool) {
	var d struct {
		Content     string
		Transformed string `json:"transformedContent"`
		Source      string
		Attachments []struct {
			Type, Path, DisplayName, MimeType, URL, Data string
		}
	}
	if convert.Loose(e.Data, &d) != nil {
		return out, false
	}
	out.Role = tidemark.User
	if d.Source != "" && d.Source != "user" && s.agent == "" {
		out.Role, out.Kind = "", convert.KindContext // the tool speaks in the user's role
	}
	if d.Content != "" {
		out.Blocks = []tidemark.Block{tidemark.Text(d.Content)}
	}
	for _, a := range d.Attachments {
		b := tidemark.Block{Type: tidemark.BlockFile, Name: cmp.Or(a.DisplayName, a.Path), MediaType: a.MimeType, Data: convert.Blob(a.Data), URL: a.URL}
		if strings.HasPrefix(a.MimeType, "image/") {
			b.Type = tidemark.BlockImage
		}
		out.Blocks = append(out.Blocks, b)
	}
	fields := rest(e.Data, "content", "transformedContent")
	if s.agentName != "" {
		fields["agent_name"], _ = json.Marshal(s.agentName)
	}
	if before, after, ok := strings.Cut(d.Transformed, d.Content); ok && d.Transformed != d.Content {
		fields["added"], _ = json.Marshal([]string{before, after})
	} else if !ok {
		fields["transformedContent"], _ = json.Marshal(d.Transformed)
	}
	out.Extra = convert.Keep(name, fields)
	return out, true
}

func (s *stream) answer(out convert.Entry, e *event) (convert.Entry, bool) {
	var d struct {
		Content, Model, APICallID string
		ReasoningText             string
		ReasoningOpaque           json.RawMessage
		EncryptedContent          json.RawMessage
		OutputTokens              int64
		ToolRequests              []struct {
			ToolCallID, Name string
			Arguments        json.RawMessage
		}
	}
	if convert.Loose(e.Data, &d) != nil {
		return out, false
	}
	out.Role, out.Model = tidemark.Assistant, d.Model
	fields := rest(e.Data, "content", "model", "reasoningText", "reasoningOpaque", "encryptedContent")
	shown := requests(fields["toolRequests"])
	if delete(fields, "toolRequests"); shown != nil {
		fields["toolRequests"] = shown
	}
	out.Extra = convert.Keep(name, fields)
	signed := map[string]json.RawMessage{}
	for key, raw := range map[string]json.RawMessage{"reasoningOpaque": d.ReasoningOpaque, "encryptedContent": d.EncryptedContent} {
		if len(raw) > 0 && string(raw) != "null" {
			signed[key] = raw
		}
	}
	if d.ReasoningText != "" || len(signed) > 0 {
		b := tidemark.Block{Type: tidemark.BlockThinking, Text: d.ReasoningText}
		if len(signed) > 0 {
			raw, _ := json.Marshal(signed)
			b.Provider, b.Raw = "copilot", string(raw)
		}
		out.Blocks = append(out.Blocks, b)
	}
	if d.Content != "" {
		out.Blocks = append(out.Blocks, tidemark.Text(d.Content))
	}
	for _, r := range d.ToolRequests {
		if s.was(ofCall, r.ToolCallID) {
			continue
		}
		out.Blocks = append(out.Blocks, tidemark.Block{Type: tidemark.BlockToolUse, ID: r.ToolCallID, Name: r.Name, Input: wire.Input(r.Arguments)})
	}
	if out.Usage = s.usages[d.APICallID]; out.Usage != nil {
		delete(s.usages, d.APICallID)
	} else if d.OutputTokens > 0 {
		out.Usage = &tidemark.Usage{OutputTokens: d.OutputTokens}
	}
	return out, true
}

// requests is what calls have besides their name and arguments, by id.
func requests(raw json.RawMessage) json.RawMessage {
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	shown := map[string]map[string]json.RawMessage{}
	for _, r := range list {
		var id string
		if json.Unmarshal(r["toolCallId"], &id) != nil {
			continue
		}
		for _, k := range []string{"toolCallId", "name", "arguments"} {
			delete(r, k)
		}
		if len(r) > 0 {
			shown[id] = r
		}
	}
	b, err := json.Marshal(shown)
	if err != nil || len(shown) == 0 {
		return nil
	}
	return b
}

// call handles a call that no answer requested, such as one of the user.
func (s *stream) call(out convert.Entry, e *event) (convert.Entry, bool) {
	var d struct {
		ToolCallID, ToolName, Model string
		Arguments                   json.RawMessage
	}
	if convert.Loose(e.Data, &d) != nil || s.was(ofCall, d.ToolCallID) {
		return out, false
	}
	out.Role, out.Model = tidemark.Assistant, d.Model
	out.Blocks = []tidemark.Block{{Type: tidemark.BlockToolUse, ID: d.ToolCallID, Name: d.ToolName, Input: wire.Input(d.Arguments)}}
	return out, true
}

func (s *stream) result(out convert.Entry, e *event) (convert.Entry, bool) {
	var d struct {
		ToolCallID string
		Success    *bool
		Result     struct {
			Content  json.RawMessage
			Contents []struct {
				Type, Text, MimeType, Data string
			}
		}
		Error struct{ Message string }
	}
	if convert.Loose(e.Data, &d) != nil {
		return out, false
	}
	b := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: d.ToolCallID, Text: d.Error.Message, IsError: d.Success != nil && !*d.Success}
	if len(d.Result.Content) > 0 && json.Unmarshal(d.Result.Content, &b.Text) != nil {
		b.Text = string(d.Result.Content)
	}
	for _, c := range d.Result.Contents {
		if c.Type == "image" {
			b.Blocks = append(b.Blocks, tidemark.Block{Type: tidemark.BlockImage, MediaType: c.MimeType, Data: convert.Blob(c.Data)})
		}
	}
	out.Role, out.Blocks = tidemark.Tool, []tidemark.Block{b}
	fields := rest(e.Data, "toolCallId", "toolTelemetry", "success")
	var shown map[string]json.RawMessage
	given := fields["result"]
	if delete(fields, "result"); json.Unmarshal(given, &shown) == nil {
		delete(shown, "content")
		if len(shown) > 0 {
			fields["result"], _ = json.Marshal(shown)
		}
	}
	out.Extra = convert.Keep(name, fields)
	return out, true
}

func compaction(out convert.Entry, e *event) (convert.Entry, bool) {
	var d struct {
		Success        *bool
		SummaryContent string
		Used           *usage `json:"compactionTokensUsed"`
	}
	if convert.Loose(e.Data, &d) != nil {
		return out, false
	}
	out.Kind, out.Usage, out.Extra = convert.KindCompaction, d.Used.take(), extra(e.Data, "summaryContent", "compactionTokensUsed")
	if d.Success != nil && !*d.Success {
		out.Kind = convert.KindNotice
	}
	if d.SummaryContent != "" {
		out.Blocks = []tidemark.Block{tidemark.Text(d.SummaryContent)}
	}
	return out, true
}

type usage struct {
	APICallID                                                    string
	InputTokens, OutputTokens, CacheReadTokens, CacheWriteTokens int64
}

// take counts what was read from the cache separately from the rest of the
// input.
func (u *usage) take() *tidemark.Usage {
	if u == nil {
		return nil
	}
	return &tidemark.Usage{
		InputTokens: max(u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens, 0), OutputTokens: u.OutputTokens,
		CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens,
	}
}

// usage keeps what a model call cost for the message that results from it.
func (s *stream) usage(e *event) {
	var d struct{ Usage *usage }
	if convert.Loose(e.Data, &d) != nil || d.Usage == nil {
		return
	}
	call := cmp.Or(d.Usage.APICallID, e.ID)
	if _, ok := s.usages[call]; !ok {
		s.order = append(s.order, call)
	}
	s.usages[call] = d.Usage.take()
}

func value(data json.RawMessage, key string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return nil
	}
	return fields[key]
}

func text(data json.RawMessage, key string) []byte {
	var s string
	if json.Unmarshal(value(data, key), &s) != nil {
		return nil
	}
	return []byte(s)
}

// rest returns the fields of an event's data except those that an entry holds.
func rest(data json.RawMessage, held ...string) map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(data, &fields) != nil || fields == nil {
		return map[string]json.RawMessage{}
	}
	for _, k := range held {
		delete(fields, k)
	}
	return fields
}

func extra(data json.RawMessage, held ...string) json.RawMessage {
	return convert.Keep(name, rest(data, held...))
}
