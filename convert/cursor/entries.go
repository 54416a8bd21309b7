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

// entries yields the entries of a chat behind a point, in the order that the chat
// states. Bubbles that it does not name were deleted. Passed is called after each
// bubble to which nothing is added any more, with what is read until then.
func (d *database) entries(ctx context.Context, id string, values held, from point, passed func(point, string)) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		chat, err := values.value(ctx, d, composerKey+id)
		if err != nil {
			yield(convert.Entry{}, &convert.Skip{What: "chat " + id, Why: err})
			return
		}
		r := &reader{ids: convert.EntryIDs{}, last: from.At}
		bubbles := chat.List("conversation") // older versions have them in the chat
		headers := headersOf(chat)
		whole := len(headers) > 0 // all bubbles until here were read, and their entries have their names
		for i := from.Bubbles; i < max(len(bubbles), len(headers)); i++ {
			if ctx.Err() != nil {
				yield(convert.Entry{}, ctx.Err())
				return
			}
			var b convert.Object
			var err error
			if len(headers) > 0 {
				b, err = values.value(ctx, d, bubbleKey+id+":"+headers[i])
			} else if json.Unmarshal(bubbles[i], &b) != nil || b == nil {
				err = tidemark.Invalidf("is no bubble")
			}
			if err != nil {
				whole = false
				if !yield(convert.Entry{}, &convert.Skip{What: fmt.Sprintf("chat %s: bubble %d", id, i+1), Why: err}) {
					return
				}
				continue
			}
			running := i == max(len(bubbles), len(headers))-1 && chat.Text("status") == statusRunning
			made := r.take(b, i)
			for _, e := range made {
				e.Draft = running
				if !yield(e, nil) {
					return
				}
			}
			whole = whole && !running && made[0].ID == headers[i]
			if whole && passed != nil {
				passed(point{Bubbles: i + 1, At: r.last, ids: headers[:i+1]}, made[len(made)-1].ID)
			}
		}
	}
}

// headersOf are the ids of the bubbles of a chat.
func headersOf(chat convert.Object) (ids []string) {
	for _, raw := range chat.List("fullConversationHeadersOnly") {
		ids = append(ids, convert.Field(raw, "bubbleId"))
	}
	return ids
}

// maxHeld bounds the values of a chat that are held to be of one moment. A larger one
// is read as it is converted.
const maxHeld = 48 << 20

// held are values by their keys; nil: there are too many.
type held map[string][]byte

// hold reads chats with their bubbles as they are at one moment, or only the values of
// some keys. Rows are the bubbles of the first chat at that moment.
func (d *database) hold(ctx context.Context, chats []*composer, keys ...string) (all held, rows rowsOf, err error) {
	statement := fmt.Sprintf("SELECT key, CASE WHEN octet_length(value) <= %d THEN value END FROM %s WHERE ", convert.MaxLine, table)
	err = d.Steady(ctx, func() (err error) {
		all = held{}
		room := maxHeld
		take := func(where string, args ...any) error {
			for row, err := range d.Query(ctx, statement+where, args...) {
				if err != nil {
					return err
				}
				value := convert.CellText(row[1])
				if room -= len(value); room < 0 {
					return nil
				}
				all[convert.CellText(row[0])] = []byte(value)
			}
			return nil
		}
		for _, key := range keys {
			if err := take("key = ?", key); err != nil {
				return err
			}
		}
		for _, c := range chats {
			if len(keys) > 0 {
				break
			}
			if err := take("key = ? OR key >= ? AND key < ?", composerKey+c.id, bubbleKey+c.id+":", bubbleKey+c.id+";"); err != nil {
				return err
			}
		}
		if room < 0 {
			all = nil
		}
		rows, err = d.rows(ctx, chats[0].id)
		return err
	})
	return all, rows, err
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
