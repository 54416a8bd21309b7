package copilotchat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// entries makes the entries of a chat: its requests one after the other, and those
// that were taken back as branches where they were. These come first, so that the
// chat is at its last entry.
func entries(log *replayed) (all []convert.Entry) {
	r := &reader{ids: convert.EntryIDs{}, at: map[string]string{}}
	requests := log.fields.List("requests")
	still := map[string]bool{}
	for _, raw := range requests {
		still[asObject(raw).Text("requestId")] = true
	}
	before := ""
	for i, raw := range requests {
		request := asObject(raw)
		for _, one := range log.removed {
			if id := one.request.Text("requestId"); one.after == before && !still[id] {
				still[id] = true
				all = append(all, r.take(one.request, before, false)...)
				for _, next := range log.removed { // those that followed it went with it
					if next.after == id && !still[next.request.Text("requestId")] {
						id = next.request.Text("requestId")
						still[id] = true
						all = append(all, r.take(next.request, next.after, false)...)
					}
				}
			}
		}
		all = append(all, r.take(request, before, i == len(requests)-1)...)
		before = request.Text("requestId")
	}
	return all
}

// reader makes entries from requests.
type reader struct {
	ids convert.EntryIDs
	at  map[string]string // the last entry of each request
	n   int
}

// modelOf returns the model of a request, without the word for Copilot before it.
func modelOf(q convert.Object) string {
	result, _ := q.Object("result")
	meta, _ := result.Object("metadata")
	return cmp.Or(meta.Text("resolvedModel"), strings.TrimPrefix(q.Text("modelId"), "copilot/"))
}

// take makes the entries of a request: the prompt, the answers and results in
// turn, and how it ended. The last request of a chat may go on as long as it has no
// result.
func (r *reader) take(q convert.Object, after string, last bool) (made []convert.Entry) {
	r.n++
	id := r.ids.Of(q.Text("requestId"), fmt.Sprintf("request.%d", r.n))
	message, _ := q.Object("message")
	result, ended := q.Object("result")
	meta, _ := result.Object("metadata")
	at := convert.Milli(q.Number("timestamp"))
	prompt := convert.Entry{ID: id, Entry: tidemark.Entry{Role: tidemark.User, At: at, Blocks: []tidemark.Block{tidemark.Text(cmp.Or(message.Text("text"), convert.Field(q["message"], "text")))}}}
	if text, ok := convert.Text(q["message"]); ok {
		prompt.Blocks[0].Text = text
	}
	if parent, known := r.at[after]; known {
		prompt.Parent = parent
	} else if r.n > 1 {
		prompt.Parent = convert.Root
	}
	answers := rounds(meta)
	parts, rest := spoken(q.List("response"))
	if !says(answers) {
		answers = parts
	}
	used := convert.Tokens(meta.Number("promptTokens"), meta.Number("outputTokens"), 0, 0)
	prompt.Extra = convert.Keep(name, q.Without("requestId", "responseId", "timestamp", "message", "response", "result", "modelId", "followups"))
	made = append(made, prompt)
	for i, e := range answers {
		one := convert.Entry{Entry: e, ID: r.ids.Of("", fmt.Sprintf("%s.%d", id, i))}
		if one.At = at; one.Role == tidemark.Assistant {
			one.Model = modelOf(q)
		}
		if i == 0 {
			more := result.Without("metadata", "errorDetails")
			if len(rest) > 0 {
				more.Set("response", rest)
			}
			one.Extra = convert.Keep(name, more)
		}
		made = append(made, one)
	}
	for i := len(made) - 1; i > 0 && used != nil; i-- {
		if made[i].Role == tidemark.Assistant {
			made[i].Usage, used = used, nil
		}
	}
	failed, _ := result.Object("errorDetails")
	if text := failed.Text("message"); text != "" {
		made = append(made, convert.Entry{ID: r.ids.Of("", id+".error"), Entry: tidemark.Entry{Kind: convert.KindError, At: at, Blocks: []tidemark.Block{tidemark.Text(text)}}})
	} else if q.True("isCanceled") {
		made = append(made, convert.Entry{ID: r.ids.Of("", id+".cancelled"), Entry: tidemark.Entry{Kind: convert.KindInterrupted, At: at}})
	}
	for i := range made {
		made[i].Draft = i > 0 && last && !ended
	}
	r.at[q.Text("requestId")] = made[len(made)-1].ID
	return made
}

func says(entries []tidemark.Entry) bool {
	for _, e := range entries {
		if e.Text() != "" {
			return true
		}
	}
	return false
}

// rounds reads what was exchanged with the model: answers with calls, and their
// results.
func rounds(meta convert.Object) (all []tidemark.Entry) {
	results, _ := meta.Object("toolCallResults")
	for _, raw := range meta.List("toolCallRounds") {
		round := asObject(raw)
		answer, answered := tidemark.Entry{Role: tidemark.Assistant}, tidemark.Entry{Role: tidemark.Tool}
		if thought := cmp.Or(round.Text("thinking"), convert.Field(round["thinking"], "text")); thought != "" {
			answer.Blocks = append(answer.Blocks, tidemark.Block{Type: tidemark.BlockThinking, Text: thought})
		}
		if text := round.Text("response"); text != "" {
			answer.Blocks = append(answer.Blocks, tidemark.Text(text))
		}
		for _, raw := range round.List("toolCalls") {
			call := asObject(raw)
			id := call.Text("id")
			answer.Blocks = append(answer.Blocks, wire.Call{ID: id, Function: wire.Function{Name: call.Text("name"), Arguments: call["arguments"]}}.Block())
			if raw, ok := results[id]; ok {
				answered.Blocks = append(answered.Blocks, wire.Result(id, false, values(asObject(raw).List("content"))))
			}
		}
		for _, e := range []tidemark.Entry{answer, answered} {
			if len(e.Blocks) > 0 {
				all = append(all, e)
			}
		}
	}
	return all
}

// values reads the parts of a result: texts, and others, which keep their bytes.
func values(parts []json.RawMessage) (blocks []tidemark.Block) {
	for _, raw := range parts {
		b := tidemark.Text(convert.Field(raw, "value"))
		if b.Text == "" {
			b.Provider, b.Raw = name, string(raw)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// spoken reads what the panel shows of an answer, for a request that was cut off
// and has nothing better. rest are the items that have no place in it: edits,
// references, questions.
func spoken(items []json.RawMessage) (all []tidemark.Entry, rest []json.RawMessage) {
	add := func(role tidemark.Role, b tidemark.Block) {
		n := len(all)
		if n == 0 || all[n-1].Role != role {
			all = append(all, tidemark.Entry{Role: role})
			n++
		}
		blocks := &all[n-1].Blocks
		if last := len(*blocks) - 1; last >= 0 && b.Type == tidemark.BlockText && (*blocks)[last].Type == tidemark.BlockText {
			(*blocks)[last].Text += b.Text // one text comes in many pieces
			return
		}
		*blocks = append(*blocks, b)
	}
	for _, raw := range items {
		item := asObject(raw)
		switch item.Text("kind") {
		case "":
			if text := shown(raw, item["value"]); text != "" {
				add(tidemark.Assistant, tidemark.Text(text))
			}
		case "thinking":
			add(tidemark.Assistant, tidemark.Block{Type: tidemark.BlockThinking, Text: shown(nil, item["value"])})
		case "toolInvocationSerialized":
			details, _ := item.Object("resultDetails")
			id := cmp.Or(item.Text("toolCallId"), fmt.Sprintf("call.%d", len(all)))
			call := tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: item.Text("toolId"), Provider: name, Raw: string(raw)}
			if input := details.Text("input"); json.Valid([]byte(input)) {
				call.Input = json.RawMessage(input)
			}
			add(tidemark.Assistant, call)
			if output := details.List("output"); output != nil {
				add(tidemark.Tool, wire.Result(id, details.True("isError"), values(output)))
			}
		case "prepareToolInvocation", "progressTask", "progressTaskSerialized", "progressMessage":
		default:
			rest = append(rest, raw)
		}
	}
	return all, rest
}

// shown returns a text of the panel: a string, or an object that has it as its
// value.
func shown(whole, value json.RawMessage) string {
	if text, ok := convert.Text(whole); ok {
		return text
	}
	if text, ok := convert.Text(value); ok {
		return text
	}
	return convert.Field(value, "value")
}
