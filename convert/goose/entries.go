package goose

import (
	"encoding/json"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// reader makes entries from the messages of one session.
type reader struct{ ids convert.EntryIDs }

// take makes the entries of a message, named by its id or by its place. The
// results of tools are in the user's role, and become entries of their own.
func (r *reader) take(m convert.Object, place string) (made []convert.Entry, err error) {
	role := tidemark.Role(m.Text("role"))
	if role != tidemark.User && role != tidemark.Assistant {
		return nil, tidemark.Invalidf("role %.40q is not known", role)
	}
	if _, ok := convert.Text(m["content"]); ok || m["content"] != nil && m.List("content") == nil {
		return nil, tidemark.Invalidf("its content is no list")
	}
	var said, results, notices []tidemark.Block
	for _, raw := range m.List("content") {
		b, kind := block(raw)
		switch {
		case b.Type == tidemark.BlockToolResult:
			results = append(results, b)
		case kind == "systemNotification":
			notices = append(notices, b)
		default:
			said = append(said, b)
		}
	}
	meta, _ := m.Object("metadata")
	own := tidemark.Entry{Role: role, Blocks: said}
	if string(meta["userVisible"]) == "false" { // a summary, or what is told the model with it
		own = tidemark.Entry{Kind: convert.KindContext, Blocks: said}
	}
	var all []tidemark.Entry
	if len(results) > 0 {
		all = append(all, tidemark.Entry{Role: tidemark.Tool, Blocks: results})
	}
	if len(said) > 0 || len(results)+len(notices) == 0 {
		all = append(all, own)
	}
	if len(notices) > 0 {
		all = append(all, tidemark.Entry{Kind: convert.KindNotice, Blocks: notices})
	}
	id := r.ids.Of(m.Text("id"), place)
	for i, e := range all {
		e.At = convert.Milli(m.Number("created") * 1000)
		one := convert.Entry{Entry: e, ID: id}
		if i > 0 {
			one.ID = r.ids.Of("", id+"."+string(e.Role)+e.Kind)
		}
		made = append(made, one)
	}
	rest := m.Without("id", "role", "created", "content", "metadata")
	// Whether the model still sees it changes with a compaction, and an entry never
	// changes.
	if more := meta.Without("userVisible", "agentVisible"); len(more) > 0 {
		rest.Set("metadata", more)
	}
	made[0].Extra = convert.Keep(name, rest)
	return made, nil
}

// block reads a part of a message. What is not known keeps its bytes.
func block(raw json.RawMessage) (b tidemark.Block, kind string) {
	var p convert.Object
	_ = json.Unmarshal(raw, &p) // what is no part is kept as it is
	known := []string{"type"}
	switch kind = p.Text("type"); kind {
	case "text":
		b, known = tidemark.Text(p.Text("text")), append(known, "text")
	case "image":
		b, known = tidemark.Block{Type: tidemark.BlockImage, MediaType: p.Text("mimeType"), Data: convert.Blob(p.Text("data"))}, append(known, "data", "mimeType")
	case "thinking":
		b, known = tidemark.Block{Type: tidemark.BlockThinking, Text: p.Text("thinking")}, nil // it is signed
	case "redactedThinking":
		b, known = tidemark.Block{Type: tidemark.BlockThinking}, nil
	case "toolRequest", "frontendToolRequest":
		call, _ := p.Object("toolCall")
		value, ok := call.Object("value")
		b = tidemark.Block{Type: tidemark.BlockToolUse, ID: p.Text("id"), Name: value.Text("name"), Input: wire.Input(value["arguments"])}
		if known = append(known, "id", "toolCall"); !ok { // the model did not write a call
			known = nil
		}
	case "toolResponse":
		b = answer(p)
		known = append(known, "id", "toolResult")
	case "systemNotification":
		b, known = tidemark.Text(p.Text("msg")), append(known, "msg", "notificationType")
	default:
		b, known = tidemark.Text(p.Text("text")), nil
	}
	if known == nil || wire.HasMore(raw, known...) {
		b.Provider, b.Raw = name, string(raw)
	}
	return b, kind
}

// answer reads the result of a call: in earlier versions a list, later an object
// with one.
func answer(p convert.Object) tidemark.Block {
	result, _ := p.Object("toolResult")
	list := result.List("value")
	value, _ := result.Object("value")
	if list == nil {
		list = value.List("content")
	}
	var blocks []tidemark.Block
	for _, raw := range list {
		b, _ := block(raw)
		if b.Type == tidemark.BlockToolResult { // no tool answers with an answer
			b = tidemark.Block{Type: tidemark.BlockText, Provider: name, Raw: string(raw)}
		}
		blocks = append(blocks, b)
	}
	if text := result.Text("error"); text != "" {
		blocks = append(blocks, tidemark.Text(text))
	}
	return wire.Result(p.Text("id"), value.True("isError") || result.Text("status") == "error", blocks)
}
