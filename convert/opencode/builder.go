package opencode

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// builder makes the entries of one message from its parts.
type builder struct {
	id     string
	at     time.Time
	msg    wireMessage
	fields map[string]json.RawMessage   // of the message, those that Tidemark has no field for
	rests  []map[string]json.RawMessage // of the parts
	said   []tidemark.Block             // by the user
	added  []tidemark.Block             // by opencode, in a prompt
	steps  []step                       // of an answer
	costs  int                          // steps that state their cost
}

// step is one request to the model: its answer, and the results of its calls.
// Earlier versions stored the steps of an answer in one message.
type step struct {
	blocks  []tidemark.Block
	results []tidemark.Block
	ended   time.Time // when the last call ended
	usage   *tidemark.Usage
	done    bool
}

// keep keeps the fields of the message that are not decoded. The summary of a
// prompt is left out: opencode recomputes it from snapshots now and then, and
// the same message would differ at the next import.
func (b *builder) keep(data json.RawMessage) {
	if json.Unmarshal(data, &b.fields) != nil {
		b.fields = map[string]json.RawMessage{}
	}
	for _, taken := range []string{"id", "sessionID", "role", "modelID", "cost", "tokens", "summary"} {
		delete(b.fields, taken)
	}
}

// add takes a part.
func (b *builder) add(p item, part wirePart) {
	rest := map[string]json.RawMessage{}
	if json.Unmarshal(p.data, &rest) != nil {
		return
	}
	for _, taken := range []string{"sessionID", "messageID", "id"} {
		delete(rest, taken)
	}
	if b.msg.Role == "user" {
		b.prompt(part, rest)
	} else {
		b.answer(part, rest)
	}
	if len(rest) > 1 || len(rest) == 1 && rest["type"] != nil && !spoken(part.Type) {
		rest["id"] = marshal(p.id)
		b.rests = append(b.rests, rest)
	}
}

// spoken reports whether parts of a type become blocks, so that a part with
// nothing else adds nothing.
func spoken(kind string) bool {
	return kind == "text" || kind == "reasoning" || kind == "file" || kind == "tool" || kind == "step-start"
}

func (b *builder) prompt(part wirePart, rest map[string]json.RawMessage) {
	switch part.Type {
	case "text":
		delete(rest, "text")
		if part.Synthetic || part.Ignored {
			b.added = append(b.added, tidemark.Text(part.Text))
			return
		}
		said, quoted := unquote(part.Text)
		if quoted {
			rest["quoted"] = marshal(true)
		}
		b.said = append(b.said, tidemark.Text(said))
	case "file":
		// This includes a file that opencode read: the user attached it.
		delete(rest, "url")
		b.said = append(b.said, fileBlock(part))
	case "subtask":
		delete(rest, "prompt")
		b.added = append(b.added, tidemark.Text(part.Prompt))
	}
}

func (b *builder) answer(part wirePart, rest map[string]json.RawMessage) {
	s := b.step()
	switch part.Type {
	case "step-start":
		if s.done || len(s.results) > 0 {
			b.steps = append(b.steps, step{})
		}
	case "text":
		delete(rest, "text")
		s.blocks = append(s.blocks, signed(tidemark.Text(part.Text), part.Metadata, rest))
	case "reasoning":
		delete(rest, "text")
		s.blocks = append(s.blocks, signed(tidemark.Block{Type: tidemark.BlockThinking, Text: part.Text}, part.Metadata, rest))
	case "file":
		delete(rest, "url")
		s.blocks = append(s.blocks, fileBlock(part))
	case "tool":
		s.call(part, rest)
	case "step-finish":
		s.usage, s.done = usage(part.Tokens, part.Cost), true
		b.costs++
		delete(rest, "tokens")
		delete(rest, "cost")
	}
}

func (b *builder) step() *step {
	if len(b.steps) == 0 {
		b.steps = append(b.steps, step{})
	}
	return &b.steps[len(b.steps)-1]
}

// signed adds what a provider requires back with a block: the metadata of a part
// is an object with the provider's name and its payload.
func signed(b tidemark.Block, metadata json.RawMessage, rest map[string]json.RawMessage) tidemark.Block {
	var by map[string]json.RawMessage
	if json.Unmarshal(metadata, &by) != nil || len(by) != 1 {
		return b
	}
	for provider, payload := range by {
		if len(payload) > 0 && payload[0] == '{' {
			b.Provider, b.Raw = provider, string(compact(payload))
			delete(rest, "metadata")
		}
	}
	return b
}

// call handles a tool's part: the call, and its result if there is one.
func (s *step) call(part wirePart, rest map[string]json.RawMessage) {
	input := compact(part.State.Input)
	if s := string(input); s == "" || s == "null" || s == `""` {
		input = json.RawMessage("{}")
	}
	s.blocks = append(s.blocks, signed(tidemark.Block{Type: tidemark.BlockToolUse, ID: part.CallID, Name: part.Tool, Input: input}, part.Metadata, rest))
	delete(rest, "callID")
	delete(rest, "tool")
	trimState(part, rest)
	result := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: part.CallID}
	switch part.State.Status {
	case "completed":
		result.Text = part.State.Output
		if len(part.State.Attachments) > 0 {
			result.Text, result.Blocks = "", []tidemark.Block{tidemark.Text(part.State.Output)}
			for _, a := range part.State.Attachments {
				result.Blocks = append(result.Blocks, fileBlock(a))
			}
		}
	case "error":
		result.Text, result.IsError = part.State.Error, true
	default:
		return // pending or running: it was interrupted
	}
	s.results = append(s.results, result)
	s.ended = later(s.ended, convert.Milli(part.State.Time.End))
}

// trimState reduces a tool's state to what is not in its blocks.
func trimState(part wirePart, rest map[string]json.RawMessage) {
	var state, times, metadata map[string]json.RawMessage
	if json.Unmarshal(rest["state"], &state) != nil || state == nil {
		return
	}
	for _, taken := range []string{"input", "output", "error", "attachments"} {
		delete(state, taken)
	}
	// opencode records here, long after, that a result was left out of later
	// requests.
	if json.Unmarshal(state["time"], &times) == nil && times != nil {
		delete(times, "compacted")
		state["time"] = marshal(times)
	}
	// Most tools repeat their output here.
	var again string
	if json.Unmarshal(state["metadata"], &metadata) == nil && json.Unmarshal(metadata["output"], &again) == nil && again == part.State.Output {
		delete(metadata, "output")
		state["metadata"] = marshal(metadata)
	}
	rest["state"] = marshal(state)
}

// extra is what is kept with the first entry of the message.
func (b *builder) extra() json.RawMessage {
	fields := map[string]json.RawMessage{"message": sorted(marshal(b.fields))}
	if len(b.rests) > 0 {
		fields["parts"] = sorted(marshal(b.rests))
	}
	return extra(fields)
}

// sorted orders the fields of objects: opencode rewrites a message whenever
// something changes, and when it moves from files to a database.
func sorted(raw json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	return marshal(v)
}

// compact removes the white space that the files have.
func compact(raw json.RawMessage) json.RawMessage {
	var buf bytes.Buffer
	if json.Compact(&buf, raw) != nil {
		return raw
	}
	return buf.Bytes()
}

// entries returns the entries of the message, without duplicates.
func (b *builder) entries() []convert.Entry {
	var all []convert.Entry
	if b.msg.Role == "user" {
		all = b.prompts()
	} else {
		all = b.answers()
	}
	all[0].Extra = b.extra()
	return all
}

func (b *builder) entry(suffix, kind string, blocks []tidemark.Block) convert.Entry {
	return convert.Entry{ID: b.id + suffix, Entry: tidemark.Entry{At: b.at, Kind: kind, Blocks: blocks}}
}

func (b *builder) prompts() (all []convert.Entry) {
	if len(b.said) > 0 {
		e := b.entry("", "", b.said)
		e.Role = tidemark.User
		all = append(all, e)
	}
	switch {
	case len(b.added) > 0 && len(all) > 0:
		all = append(all, b.entry("c", convert.KindContext, b.added))
	case len(b.added) > 0:
		all = append(all, b.entry("", convert.KindContext, b.added))
	case len(all) == 0:
		all = append(all, b.entry("", convert.KindEvent, nil))
	}
	return all
}

func (b *builder) answers() (all []convert.Entry) {
	var idle *tidemark.Usage // of steps without content
	for _, s := range b.steps {
		if len(s.blocks) == 0 {
			idle = sum(idle, s.usage)
			continue
		}
		suffix := ""
		if len(all) > 0 {
			suffix = "." + strconv.Itoa(len(all)+1)
		}
		e := b.entry(suffix, "", s.blocks)
		e.Role, e.Model = tidemark.Assistant, b.msg.model()
		if string(b.msg.Summary) == "true" {
			e.Kind, e.Role = convert.KindCompaction, ""
		}
		if b.costs > 1 {
			e.Usage, idle = sum(idle, s.usage), nil
		}
		all = append(all, e)
		if len(s.results) > 0 {
			r := b.entry(suffix+"r", "", s.results)
			r.Role, r.At = tidemark.Tool, later(b.at, s.ended)
			all = append(all, r)
		}
	}
	if b.msg.Error != nil {
		why := b.msg.Error.Name
		if b.msg.Error.Data.Message != "" {
			why += ": " + b.msg.Error.Data.Message
		}
		suffix := ""
		if len(all) > 0 {
			suffix = "e"
		}
		all = append(all, b.entry(suffix, convert.KindError, []tidemark.Block{tidemark.Text(why)}))
	}
	if len(all) == 0 {
		all = append(all, b.entry("", convert.KindInterrupted, nil))
	}
	all[0].Usage = sum(all[0].Usage, idle)
	if b.costs <= 1 {
		// There was one request: the message states its cost, even if it failed.
		all[0].Usage = usage(b.msg.Tokens, b.msg.Cost)
	}
	return all
}
