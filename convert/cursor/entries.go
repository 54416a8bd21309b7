package cursor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// Types of bubbles.
const userBubble = 1

// maxRest bounds what is kept of a bubble beside what was said: some hold copies
// of whole files.
const maxRest = 256 << 10

// entries yields the entries of a chat in the order that it states. Bubbles that it
// does not name were deleted.
func (d *database) entries(ctx context.Context, id string, values held) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		chat, err := values.value(ctx, d, composerKey+id)
		if err != nil {
			yield(convert.Entry{}, &convert.Skip{What: "chat " + id, Why: err})
			return
		}
		r := &reader{ids: convert.EntryIDs{}}
		bubbles := chat.List("conversation") // older versions have them in the chat
		headers := chat.List("fullConversationHeadersOnly")
		for i := range max(len(bubbles), len(headers)) {
			if ctx.Err() != nil {
				yield(convert.Entry{}, ctx.Err())
				return
			}
			var b convert.Object
			var err error
			if len(headers) > 0 {
				b, err = values.value(ctx, d, bubbleKey+id+":"+convert.Field(headers[i], "bubbleId"))
			} else if json.Unmarshal(bubbles[i], &b) != nil || b == nil {
				err = tidemark.Invalidf("is no bubble")
			}
			if err != nil {
				if !yield(convert.Entry{}, &convert.Skip{What: fmt.Sprintf("chat %s: bubble %d", id, i+1), Why: err}) {
					return
				}
				continue
			}
			running := i == max(len(bubbles), len(headers))-1 && chat.Text("status") == statusRunning
			for _, e := range r.take(b, i) {
				e.Draft = running
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// maxHeld bounds the values of a chat that are held to be of one moment. A larger one
// is read as it is converted.
const maxHeld = 48 << 20

// held are values by their keys; nil: there are too many.
type held map[string][]byte

// hold reads chats with their bubbles as they are at one moment.
func (d *database) hold(ctx context.Context, chats []*composer) (all held, err error) {
	statement := fmt.Sprintf("SELECT key, CASE WHEN octet_length(value) <= %d THEN value END FROM %s WHERE key = ? OR key >= ? AND key < ?", convert.MaxLine, table)
	err = d.Steady(ctx, func() error {
		all = held{}
		room := maxHeld
		for _, c := range chats {
			for row, err := range d.Query(ctx, statement, composerKey+c.id, bubbleKey+c.id+":", bubbleKey+c.id+";") {
				if err != nil {
					return err
				}
				value := convert.CellText(row[1])
				if room -= len(value); room < 0 {
					all = nil
					return nil
				}
				all[convert.CellText(row[0])] = []byte(value)
			}
		}
		return nil
	})
	return all, err
}

// value reads an object by its key.
func (h held) value(ctx context.Context, d *database, key string) (convert.Object, error) {
	if h == nil {
		return d.value(ctx, key)
	}
	text, ok := h[key]
	if !ok {
		return nil, tidemark.Invalidf("is not there")
	}
	return object(text)
}

func object(text []byte) (o convert.Object, err error) {
	if json.Unmarshal(text, &o) != nil || o == nil {
		return nil, tidemark.Invalidf("is not JSON, or longer than %d bytes", convert.MaxLine)
	}
	return o, nil
}

// value reads an object by its key.
func (d *database) value(ctx context.Context, key string) (o convert.Object, err error) {
	for row, err := range d.Query(ctx, "SELECT CASE WHEN octet_length(value) <= ? THEN value END FROM "+table+" WHERE key = ?", convert.MaxLine, key) {
		if err != nil {
			return nil, err
		}
		return object([]byte(convert.CellText(row[0])))
	}
	return nil, tidemark.Invalidf("is not there")
}

// reader makes entries from bubbles.
type reader struct {
	ids  convert.EntryIDs
	last time.Time
}

// take makes the entries of a bubble: a prompt, a piece of an answer, or a call
// with its result.
func (r *reader) take(b convert.Object, i int) []convert.Entry {
	timing, _ := b.Object("timingInfo")
	model, _ := b.Object("modelInfo")
	r.last = cmp.Or(moment(b["createdAt"]), moment(timing["clientStartTime"]), r.last)
	e := convert.Entry{ID: r.ids.Of(b.Text("bubbleId"), fmt.Sprintf("bubble.%d", i)), Entry: tidemark.Entry{Role: tidemark.Assistant, At: r.last, Model: model.Text("modelName")}}
	rest := filled(b.Without("_v", "type", "bubbleId", "text", "richText", "thinking", "toolFormerData", "createdAt", "modelInfo"))
	if kept := convert.Keep(name, rest); len(kept) <= maxRest {
		e.Extra = kept
	}
	if thinking, ok := b.Object("thinking"); ok && thinking.Text("text") != "" {
		t := tidemark.Block{Type: tidemark.BlockThinking, Text: thinking.Text("text")}
		if wire.HasMore(b["thinking"], "text") { // it is signed
			t.Provider, t.Raw = name, string(b["thinking"])
		}
		e.Blocks = append(e.Blocks, t)
	}
	if text := b.Text("text"); text != "" {
		e.Blocks = append(e.Blocks, tidemark.Text(text))
	}
	if b.Number("type") == userBubble {
		e.Role, e.Model = tidemark.User, ""
		return []convert.Entry{e}
	}
	tool, ok := b.Object("toolFormerData")
	if !ok || len(tool) == 0 {
		return []convert.Entry{e}
	}
	id := cmp.Or(tool.Text("toolCallId"), e.ID)
	input, more := tool["rawArgs"], tool.Without("toolCallId", "name", "rawArgs", "result", "error")
	if tool.Text("rawArgs") == "" {
		input = tool["params"]
		delete(more, "params")
	}
	e.Blocks = append(e.Blocks, wire.Call{ID: id, Function: wire.Function{Name: tool.Text("name"), Arguments: input}}.Block())
	text := cmp.Or(tool.Text("result"), shown(tool["result"]), tool.Text("error"), shown(tool["error"]))
	status := tool.Text("status")
	if text == "" && status != "completed" && status != "error" && status != "cancelled" {
		return []convert.Entry{e} // it has no result yet, or never had one
	}
	answer := convert.Entry{ID: r.ids.Of("", e.ID+".result"), Entry: tidemark.Entry{Role: tidemark.Tool, At: r.last,
		Blocks: []tidemark.Block{wire.Result(id, status == "error", []tidemark.Block{tidemark.Text(text)})},
		Extra:  convert.Keep(name, filled(more))}}
	return []convert.Entry{e, answer}
}

// shown returns a value that is no string as its JSON.
func shown(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" || raw[0] == '"' {
		return ""
	}
	return string(raw)
}
