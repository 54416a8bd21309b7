// Package chatgpt imports the conversations of ChatGPT from the data export that
// the service sends: a zip, or the folder that it was unpacked into. It reads the
// conversations and the images in them, and not the user's account. It was built
// from descriptions of the format, without an export to compare with.
//
//	for s, err := range chatgpt.Tool().Import(ctx, place) { … }
package chatgpt

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/bundle"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// name is the name of the tool, and its key in Extra.
const name = "chatgpt"

// Tool returns the converter of ChatGPT's exports.
func Tool() convert.Tool {
	return convert.Tool{
		Name: name, Title: "ChatGPT (data export)",
		Detect: func(_ context.Context, p convert.Source) bool { return bundle.Detect(p, "mapping") },
		Import: func(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
			return bundle.Sessions(ctx, p, session)
		},
	}
}

// session makes a session of a conversation: a tree of nodes, most of which have
// a message.
func session(b *bundle.Bundle, c convert.Object) (*convert.Session, error) {
	id := cmp.Or(c.Text("conversation_id"), c.Text("id"))
	if err := tidemark.CheckID(id); err != nil {
		return nil, err
	}
	s := &convert.Session{UpdatedAt: bundle.Seconds(c, "update_time"), Session: tidemark.Session{
		ForeignID: id, Agent: name, Mode: tidemark.ModeRemote, Title: c.Text("title"), Model: c.Text("default_model_slug"), CreatedAt: bundle.Seconds(c, "create_time"),
		Extra: convert.Keep(name, c.Without("conversation_id", "id", "title", "create_time", "update_time", "mapping", "current_node", "default_model_slug")),
	}}
	if c.True("is_archived") {
		s.Tags = []string{"archived"}
	}
	r := &reader{bundle: b, room: convert.MaxFiles, ids: convert.EntryIDs{}, at: map[string]string{}, calls: map[string]string{}, answered: map[string]bool{}}
	var nodes []bundle.Node
	var objects []convert.Object
	mapping, ok := c.Object("mapping")
	if !ok {
		return nil, tidemark.Invalidf("has no messages")
	}
	for _, id := range sorted(mapping) { // a map has no order, and two imports must not differ
		node, _ := mapping.Object(id)
		m, _ := node.Object("message")
		nodes = append(nodes, bundle.Node{ID: id, Parent: node.Text("parent"), At: bundle.Seconds(m, "create_time")})
		objects = append(objects, m)
	}
	var entries []convert.Entry
	for _, i := range bundle.Order(nodes) {
		if e, ok := r.entry(nodes[i], objects[i]); ok {
			s.Model = cmp.Or(e.Model, s.Model)
			entries = append(entries, e)
		}
	}
	if head := r.at[c.Text("current_node")]; head != convert.Root {
		s.Head = head
	}
	s.Entries, s.Lost = convert.All(entries), r.lost.List()
	return s, nil
}

// reader makes entries from the nodes of one conversation.
type reader struct {
	bundle   *bundle.Bundle
	room     int // for the bytes of files
	ids      convert.EntryIDs
	at       map[string]string // the entry of each node, or the one above
	calls    map[string]string // the last call on the way to each entry
	answered map[string]bool   // calls
	lost     convert.Losses
}

// entry makes the entry of a node; one without a message has none.
func (r *reader) entry(n bundle.Node, m convert.Object) (convert.Entry, bool) {
	parent, known := r.at[n.Parent]
	if !known {
		parent = convert.Root
	}
	if len(m) == 0 {
		r.at[n.ID] = parent
		return convert.Entry{}, false
	}
	e := convert.Entry{ID: r.ids.Of(n.ID, "node"), Parent: parent}
	if len(r.at) == 0 || parent == convert.Root && len(r.ids) == 1 {
		e.Parent = "" // the first entry has none to part from
	}
	r.at[n.ID] = e.ID
	r.calls[e.ID] = r.calls[parent]
	author, _ := m.Object("author")
	meta, _ := m.Object("metadata")
	content, _ := m.Object("content")
	e.At, e.Blocks = n.At, r.blocks(content)
	rest := m.Without("id", "create_time", "content")
	kind, to := content.Text("content_type"), m.Text("recipient")
	switch role := author.Text("role"); {
	case kind == "system_error":
		e.Kind = convert.KindError
	case role == "user" && kind != "user_editable_context" && !meta.True("is_user_system_message") && !meta.True("is_visually_hidden_from_conversation"):
		e.Role = tidemark.User
	case role == "assistant" && to != "" && to != "all":
		e.Role, e.Model = tidemark.Assistant, meta.Text("model_slug")
		e.Blocks = []tidemark.Block{{Type: tidemark.BlockToolUse, ID: e.ID, Name: to, Input: input(e.Text())}}
		r.calls[e.ID] = e.ID
	case role == "assistant":
		e.Role, e.Model = tidemark.Assistant, meta.Text("model_slug")
	case role == "tool" && r.calls[e.ID] != "" && !r.answered[r.calls[e.ID]]:
		call := r.calls[e.ID]
		r.answered[call] = true
		e.Role, e.Blocks = tidemark.Tool, []tidemark.Block{wire.Result(call, false, e.Blocks)}
	case role == "tool": // more of what a tool said, or without a call
		e.Kind = convert.KindEvent
	default:
		e.Kind = convert.KindContext
	}
	if e.Role != "" {
		delete(rest, "recipient")
	}
	if author["name"] == nil || string(author["name"]) == "null" {
		delete(rest, "author")
	}
	e.Extra = convert.Keep(name, rest)
	return e, true
}

// input returns the text of a call as JSON: some tools are called with that,
// others with a program.
func input(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	b, err := convert.Encode(text)
	if err != nil {
		return nil
	}
	return b
}

// blocks reads the content of a message by its type. What has no block of its own
// is kept byte for byte.
func (r *reader) blocks(c convert.Object) (blocks []tidemark.Block) {
	text := func(key string) {
		if s := c.Text(key); s != "" {
			blocks = append(blocks, tidemark.Text(s))
		}
	}
	switch c.Text("content_type") {
	case "text", "multimodal_text":
		for _, raw := range c.List("parts") {
			if b, ok := r.part(raw); ok {
				blocks = append(blocks, b)
			}
		}
	case "code", "execution_output", "system_error", "tether_quote":
		text("text")
	case "tether_browsing_display":
		text("result")
	case "user_editable_context":
		text("user_profile")
		text("user_instructions")
	case "thoughts":
		for _, raw := range c.List("thoughts") {
			b := tidemark.Block{Type: tidemark.BlockThinking, Text: cmp.Or(convert.Field(raw, "content"), convert.Field(raw, "summary")), Provider: name, Raw: string(raw)}
			blocks = append(blocks, b)
		}
	case "reasoning_recap":
		blocks = append(blocks, tidemark.Block{Type: tidemark.BlockThinking, Text: c.Text("content")})
	default:
		if len(c) > 0 {
			raw, _ := convert.Encode(c) // it was JSON before
			blocks = append(blocks, tidemark.Block{Type: tidemark.BlockText, Text: c.Text("text"), Provider: name, Raw: string(raw)})
		}
	}
	return blocks
}

// part reads a part of a message: a text, or something that is in a file.
func (r *reader) part(raw json.RawMessage) (b tidemark.Block, ok bool) {
	if text, ok := convert.Text(raw); ok {
		return tidemark.Text(text), text != ""
	}
	var p convert.Object
	_ = json.Unmarshal(raw, &p) // what is no object is kept as it is
	b = tidemark.Block{Type: tidemark.BlockText, Text: p.Text("text"), Provider: name, Raw: string(raw)}
	audio, _ := p.Object("audio_asset_pointer")
	link := cmp.Or(p.Text("asset_pointer"), audio.Text("asset_pointer"))
	if link == "" {
		return b, true
	}
	b.Type, b.Text, b.URL = tidemark.BlockFile, "", link
	if strings.HasPrefix(p.Text("content_type"), "image") {
		b.Type = tidemark.BlockImage
	}
	file, data := r.bundle.File(path.Base(link), min(r.room, convert.MaxLine/2))
	if data == nil {
		if r.lost == nil {
			r.lost = convert.Losses{}
		}
		r.lost.Add("a file that is not in the export, or too long")
		return b, true
	}
	r.room -= len(data)
	b.Name, b.Data, b.URL = file, data, ""
	b.MediaType, _, _ = strings.Cut(http.DetectContentType(data), ";")
	return b, true
}

func sorted(o convert.Object) []string { return slices.Sorted(maps.Keys(o)) }
