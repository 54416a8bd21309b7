package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// provider is the provider of reasoning items: these may be encrypted, and are
// sent back byte for byte.
const provider = "openai"

// item makes an entry from something that was sent to the model or came from it.
func (r *reader) item(rec record, number int) {
	fields := split(rec.Payload)
	if fields == nil {
		r.skip(convert.Skipf(fmt.Sprintf("%s line %d", r.file.path, number), "is damaged: its payload is not an object"))
		return
	}
	var kind string
	takeString(fields, "type", &kind)
	k := kept{Line: rec.Rest}
	e := convert.Entry{Entry: tidemark.Entry{At: rec.at()}}
	switch kind {
	case "message":
		r.message(e, k, fields)
	case "reasoning":
		r.answer(e, k, reasoning(rec.Payload))
	case "function_call", "custom_tool_call", "local_shell_call":
		b := call(kind, fields, &k)
		k.Item = rest(fields)
		r.answer(e, k, b)
	case "function_call_output", "custom_tool_call_output":
		if kind != "function_call_output" {
			k.Type = kind
		}
		e.Role, e.Blocks = tidemark.Tool, []tidemark.Block{result(fields, &k)}
		k.Item = rest(fields)
		r.put(e, k)
	case "agent_message":
		e.Kind = kindAgent
		e.Blocks, k.Content = content(fields["content"], "input_text")
		delete(fields, "content")
		k.Item = rest(fields)
		r.put(e, k)
	default:
		e.Kind, k.Type = kindItem, kind
		k.Item = rest(fields)
		r.put(e, k)
	}
}

// answer holds back an entry of the model.
func (r *reader) answer(e convert.Entry, k kept, blocks ...tidemark.Block) {
	e.Role, e.Blocks, e.Model = tidemark.Assistant, blocks, r.model
	e.Usage, r.pending = r.pending, nil
	r.put(e, k)
}

// message holds a message back until its author is known.
func (r *reader) message(e convert.Entry, k kept, fields map[string]json.RawMessage) {
	var role string
	takeString(fields, "role", &role)
	usual := "input_text"
	if role == "assistant" {
		usual = "output_text"
	}
	e.Blocks, k.Content = content(fields["content"], usual)
	delete(fields, "content")
	k.Item = rest(fields)
	switch role {
	case "assistant":
		r.answer(e, k, e.Blocks...)
	case "user":
		e.Role = tidemark.User
		own, known := byUser(fields)
		announced := r.announced != "" && r.announced == e.Text()
		r.announced = ""
		if known && !own {
			k.Role, e.Kind, e.Role = role, convert.KindContext, ""
		}
		r.put(e, k)
		r.undecided = !known && !announced
	default:
		k.Role, e.Kind = role, convert.KindContext
		r.put(e, k)
	}
}

// byUser reads the stated origin of the pieces of a message; known is false for
// versions that do not state it.
func byUser(fields map[string]json.RawMessage) (own, known bool) {
	var m struct {
		Kinds []string `json:"content_item_kinds"`
	}
	if json.Unmarshal(fields["internal_chat_message_metadata_passthrough"], &m) != nil {
		return false, false
	}
	for _, kind := range m.Kinds {
		own = own || strings.HasPrefix(kind, "user.")
		known = known || kind != "unknown"
	}
	return own, known
}

// marks are how texts begin that the client sends in the user's role.
var marks = []string{
	"<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<INSTRUCTIONS>", "<turn_aborted>",
	"<subagent_notification>", "<user_shell_command>", "<skill>", "<permissions instructions>", "<collaboration_mode>",
	"<agent_message_board_notification>", "<recommended_plugins>", "<model_switch>", "<personality_spec>",
	"<realtime_conversation>", "<goal_context>", "<user_action>", "<hook_prompt", "<tool_context>", "<reasoning_context>",
	"<pinned_notes>",
}

// isWrapper reports whether a text is one of the tags that the client puts
// around an image.
func isWrapper(text string) bool {
	text = strings.TrimSpace(text)
	return text == "</image>" || text == "<image>" ||
		strings.HasPrefix(text, "<image ") && strings.HasSuffix(text, ">") && !strings.ContainsAny(text, "\r\n")
}

// An editor's client puts its context before the user's own words.
const (
	editorMark  = "# Context from my IDE setup:"
	requestMark = "## My request for Codex:"
)

// content makes blocks from the content of a message. The parts say how to
// restore it; there are none when each block is a text of the usual type.
func content(raw json.RawMessage, usual string) ([]tidemark.Block, []part) {
	pieces, ok := elements(raw)
	if !ok {
		var whole string
		if text(raw, &whole) && whole != "" {
			return []tidemark.Block{tidemark.Text(whole)}, nil
		}
		return nil, nil
	}
	var blocks []tidemark.Block
	var parts []part
	plain, images := true, bytes.Contains(raw, []byte(`"image_url"`))
	for _, raw := range pieces {
		b, p, usualPart := piece(raw, usual, images)
		plain = plain && usualPart
		if b != nil {
			at := len(blocks)
			p.Block = &at
			blocks = append(blocks, *b)
		}
		parts = append(parts, p)
	}
	if plain {
		parts = nil
	}
	return blocks, parts
}

// piece makes a block from one piece of content; the part is what the block
// cannot represent. No block: the piece is the client's. The last result is
// whether the block alone represents it completely.
func piece(raw json.RawMessage, usual string, images bool) (*tidemark.Block, part, bool) {
	item := split(raw)
	if item == nil {
		return nil, part{Item: raw}, false
	}
	var kind, said, url string
	text(item["type"], &kind)
	switch {
	case takeString(item, "image_url", &url):
		b := wire.Linked(tidemark.Block{Type: tidemark.BlockImage}, url)
		return &b, part{Item: mustJSON(item)}, false
	case item["encrypted_content"] != nil:
		return &tidemark.Block{Type: tidemark.BlockText, Provider: provider, Raw: string(raw)}, part{}, false
	case !takeString(item, "text", &said), images && isWrapper(said):
		return nil, part{Item: raw}, false
	}
	b := tidemark.Text(said)
	var p part
	if i := strings.Index(said, requestMark); i >= 0 && strings.HasPrefix(said, editorMark) {
		b.Text = strings.TrimLeft(said[i+len(requestMark):], "\r\n")
		p.Prefix = strings.TrimSuffix(said, b.Text)
	}
	plain := kind == usual && len(item) == 1 && p.Prefix == ""
	p.Item = mustJSON(item)
	return &b, p, plain
}

// reasoning makes a block from the model's thinking: the readable text, and the
// whole item.
func reasoning(payload json.RawMessage) tidemark.Block {
	var p struct {
		Summary []struct{ Text string } `json:"summary"`
		Content []struct{ Text string } `json:"content"`
	}
	_ = json.Unmarshal(payload, &p)
	var texts []string
	for _, s := range append(p.Summary, p.Content...) {
		texts = append(texts, s.Text)
	}
	return tidemark.Block{Type: tidemark.BlockThinking, Text: strings.Join(texts, "\n\n"), Provider: provider, Raw: string(payload)}
}

// call makes a block from a tool call. Arguments are JSON in a string, or free
// text for custom tools and when the model did not write JSON.
func call(kind string, fields map[string]json.RawMessage, k *kept) tidemark.Block {
	b := tidemark.Block{Type: tidemark.BlockToolUse}
	takeString(fields, "call_id", &b.ID)
	if kind == "local_shell_call" {
		k.Type, b.Name = kind, "local_shell"
		b.Input = bytes.Clone(fields["action"])
		delete(fields, "action")
		return b
	}
	takeString(fields, "name", &b.Name)
	key := "arguments"
	if kind == "custom_tool_call" {
		k.Type, key = kind, "input"
	}
	var args string
	if !takeString(fields, key, &args) {
		return b
	}
	if kind == "function_call" && json.Valid([]byte(args)) && !strings.HasPrefix(strings.TrimSpace(args), `"`) {
		b.Input = json.RawMessage(args)
		return b
	}
	b.Input = mustJSON(args)
	return b
}

// result makes a block from a tool result: a text, or pieces, or in some
// versions an object around them.
func result(fields map[string]json.RawMessage, k *kept) tidemark.Block {
	b := tidemark.Block{Type: tidemark.BlockToolResult}
	takeString(fields, "call_id", &b.ToolUseID)
	if takeString(fields, "output", &b.Text) {
		b.IsError = failed(b.Text)
		return b
	}
	raw := fields["output"]
	var wrapped struct {
		Content json.RawMessage `json:"content"`
		Success *bool           `json:"success"`
	}
	if json.Unmarshal(raw, &wrapped) == nil && wrapped.Content != nil {
		b.IsError = wrapped.Success != nil && !*wrapped.Success
		if json.Unmarshal(wrapped.Content, &b.Text) == nil {
			fields["output"] = outputShape(wrapped.Success)
			return b
		}
		raw = wrapped.Content
	}
	blocks, parts := content(raw, "input_text")
	if blocks == nil {
		return b // the output stays in k
	}
	delete(fields, "output")
	b.Blocks, k.Content = blocks, parts
	return b
}

// outputShape records that an output was an object around its text.
func outputShape(success *bool) json.RawMessage {
	return mustJSON(map[string]*bool{"success": success})
}

// failed reads the exit code of a command, in its two forms.
func failed(output string) bool {
	if strings.HasPrefix(output, `{"output":`) {
		var p struct {
			Metadata struct {
				ExitCode *int `json:"exit_code"`
			} `json:"metadata"`
		}
		return json.Unmarshal([]byte(output), &p) == nil && p.Metadata.ExitCode != nil && *p.Metadata.ExitCode != 0
	}
	head, _, ok := strings.Cut(output, "\nOutput:")
	if !ok {
		return false
	}
	_, code, ok := strings.Cut("\n"+head, "\nProcess exited with code ")
	if !ok {
		_, code, ok = strings.Cut("\n"+head, "\nExit code: ")
	}
	code, _, _ = strings.Cut(code, "\n")
	return ok && code != "0"
}

// shownText is the text of a prompt in an event.
func shownText(item map[string]json.RawMessage) string {
	var texts []string
	pieces, _ := elements(item["content"])
	for _, piece := range pieces {
		var said string
		if text(split(piece)["text"], &said) && said != "" {
			texts = append(texts, said)
		}
	}
	return strings.Join(texts, "\n")
}

// takeString moves a string out of fields; when it returns false, they are
// unchanged.
func takeString(fields map[string]json.RawMessage, key string, s *string) bool {
	return convert.Object(fields).Take(key, s)
}

// rest is nil when there are no fields, so that it is omitted.
func rest(fields map[string]json.RawMessage) map[string]json.RawMessage {
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// mustJSON is for strings and values that came from JSON.
func mustJSON(v any) json.RawMessage {
	b, err := convert.Encode(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
