// Package claudeai imports the conversations of Claude.ai from the data export
// that the service sends: a zip, or the folder that it was unpacked into. It reads
// the conversations, and neither the account nor the list of users. It was built
// from descriptions of the format, without an export to compare with.
//
//	for s, err := range claudeai.Tool().Import(ctx, place) { … }
package claudeai

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/bundle"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// name is the name of the tool, and its key in Extra.
const name = "claude-ai"

// Tool returns the converter of Claude.ai's exports.
func Tool() convert.Tool {
	return convert.Tool{
		Name: name, Title: "Claude.ai (data export)",
		Detect: func(_ context.Context, p convert.Source) bool { return bundle.Detect(p, "uuid", "chat_messages") },
		Import: func(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
			return bundle.Sessions(ctx, p, session)
		},
	}
}

func session(_ *bundle.Bundle, c convert.Object) (*convert.Session, error) {
	id := c.Text("uuid")
	if err := tidemark.CheckID(id); err != nil {
		return nil, err
	}
	project, _ := c.Object("project")
	rest := c.Without("uuid", "name", "created_at", "updated_at", "chat_messages", "account", "model", "current_leaf_message_uuid")
	if len(project) == 0 {
		delete(rest, "project")
	}
	s := &convert.Session{UpdatedAt: bundle.Seconds(c, "updated_at"), Session: tidemark.Session{
		ForeignID: id, Agent: name, Mode: tidemark.ModeRemote, Title: c.Text("name"), Model: c.Text("model"), CreatedAt: bundle.Seconds(c, "created_at"), Extra: convert.Keep(name, rest)}}
	r := &reader{blocks: wire.NewDecoder(name), ids: convert.EntryIDs{}, at: map[string]string{}}
	var nodes []bundle.Node
	var messages []convert.Object
	for i, raw := range c.List("chat_messages") {
		var m convert.Object
		if json.Unmarshal(raw, &m) != nil || m == nil {
			m = convert.Object{"content": raw}
		}
		n := bundle.Node{ID: m.Text("uuid"), Parent: m.Text("parent_message_uuid"), At: bundle.Seconds(m, "created_at")}
		if n.ID == "" {
			n.ID = fmt.Sprintf("message.%d", i)
		}
		if m["parent_message_uuid"] == nil && i > 0 { // an older export: one follows the other
			n.Parent = nodes[i-1].ID
		}
		nodes, messages = append(nodes, n), append(messages, m)
	}
	var entries []convert.Entry
	for _, i := range bundle.Order(nodes) {
		entries = append(entries, r.entries(i, nodes[i], messages[i])...)
	}
	s.Entries, s.Head = convert.All(entries), r.at[c.Text("current_leaf_message_uuid")]
	return s, nil
}

// reader makes entries from the messages of one conversation.
type reader struct {
	blocks *wire.Decoder
	ids    convert.EntryIDs
	at     map[string]string // the last entry of each message
	calls  []tidemark.Block  // that no result has answered yet
}

// entries makes the entries of a message. An answer has its calls and their
// results in one list; here an entry ends where a result begins, and the other way
// round.
func (r *reader) entries(i int, n bundle.Node, m convert.Object) (made []convert.Entry) {
	role := tidemark.User
	if m.Text("sender") == "assistant" {
		role = tidemark.Assistant
	}
	add := func(role tidemark.Role, b tidemark.Block) {
		if len(made) == 0 || made[len(made)-1].Role != role {
			id := r.ids.Of(n.ID, fmt.Sprintf("message.%d", i))
			if len(made) > 0 {
				id = r.ids.Of("", fmt.Sprintf("%s.%d", made[0].ID, len(made)))
			}
			made = append(made, convert.Entry{ID: id, Entry: tidemark.Entry{Role: role, At: n.At}})
		}
		made[len(made)-1].Blocks = append(made[len(made)-1].Blocks, b)
	}
	r.calls = nil
	text, list, isText := wire.Content(m["content"])
	if isText {
		add(role, tidemark.Text(text))
	}
	for at, raw := range list {
		b := r.blocks.Any(raw, 0)
		if b.Type == tidemark.BlockToolUse {
			if b.ID == "" {
				b.ID = fmt.Sprintf("%s/%d", n.ID, at)
			}
			r.calls = append(r.calls, b)
		}
		if b.Type == tidemark.BlockToolResult {
			r.answer(&b, convert.Field(raw, "name"))
			add(tidemark.Tool, b)
			continue
		}
		add(role, b)
	}
	if s := m.Text("text"); len(made) == 0 && s != "" { // otherwise the content says the same
		add(role, tidemark.Text(s))
	}
	var attached []convert.Object
	for _, raw := range m.List("attachments") {
		var about convert.Object
		_ = json.Unmarshal(raw, &about) // what is no object has no text
		add(role, tidemark.Block{Type: tidemark.BlockFile, Name: about.Text("file_name"), MediaType: "text/plain", Data: []byte(about.Text("extracted_content"))})
		attached = append(attached, about.Without("extracted_content", "file_name"))
	}
	if len(made) == 0 {
		made = []convert.Entry{{ID: r.ids.Of(n.ID, fmt.Sprintf("message.%d", i)), Entry: tidemark.Entry{Role: role, At: n.At}}}
	}
	rest := m.Without("uuid", "parent_message_uuid", "sender", "created_at", "content", "text", "attachments")
	for key, value := range rest {
		if v := string(value); v == "[]" || v == "null" {
			delete(rest, key)
		}
	}
	if len(attached) > 0 {
		rest.Set("attachments", attached)
	}
	made[0].Extra = convert.Keep(name, rest)
	if parent, known := r.at[n.Parent]; known {
		made[0].Parent = parent
	} else if len(r.at) > 0 {
		made[0].Parent = convert.Root
	}
	r.at[n.ID] = made[len(made)-1].ID
	return made
}

// answer links a result to its call. Without an id it answers the oldest call of
// the same tool that has no result yet.
func (r *reader) answer(b *tidemark.Block, tool string) {
	for i, c := range r.calls {
		if b.ToolUseID == c.ID || b.ToolUseID == "" && c.Name == tool {
			b.ToolUseID = c.ID
			r.calls = append(r.calls[:i:i], r.calls[i+1:]...)
			return
		}
	}
}
