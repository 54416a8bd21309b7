package gemini

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// entries reads the files again and yields what the first reading found, in its
// order. A message whose last version comes later in the file delays those after
// it.
func (r *replay) entries() iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		due := map[where][]int{}
		for i, it := range r.items {
			r.items[i].missing = false
			line := where{it.file, it.line, 0}
			due[line] = append(due[line], i)
		}
		e := emitter{r: r, yield: yield, ready: map[int]*message{}}
		for f := range r.files {
			wanted := func(line int) bool {
				at := where{f, line, 0}
				return due[at] != nil || r.bad[at] != nil
			}
			for line, o := range r.ops(f, wanted) {
				at := where{f, line, 0}
				if o.err != nil {
					if !yield(convert.Entry{}, o.err) || !convert.IsSkip(o.err) {
						return
					}
					continue
				}
				for _, skip := range r.bad[at] {
					if !yield(convert.Entry{}, skip) {
						return
					}
				}
				if !e.take(due[at], &o.op) {
					return
				}
			}
		}
		if e.rest() && r.more > 0 {
			yield(convert.Entry{}, convert.Skipf(r.files[0].name, "%d more lines or messages are damaged", r.more))
		}
	}
}

type emitter struct {
	r     *replay
	yield func(convert.Entry, error) bool
	ready map[int]*message
	next  int
	at    time.Time // of the last entry, for one without a time
}

// take makes entries of the messages in one operation.
func (e *emitter) take(due []int, o *op) bool {
	if len(due) == 0 {
		return true
	}
	list := o.Messages
	if o.Set != nil {
		var set struct{ Messages []json.RawMessage }
		if convert.Loose(o.Set, &set) == nil {
			list = set.Messages
		}
	}
	for _, i := range due {
		it := e.r.items[i]
		m := &o.message
		m.raw = bytes.Clone(m.raw) // the line buffer is reused
		if it.index >= 0 {
			if it.index >= len(list) {
				continue
			}
			var err error
			if m, err = parse(list[it.index]); err != nil {
				continue
			}
		}
		e.ready[i] = m
	}
	for e.ready[e.next] != nil {
		if !e.emit() {
			return false
		}
	}
	return true
}

func (e *emitter) emit() bool {
	i, m := e.next, e.ready[e.next]
	delete(e.ready, i)
	e.next++
	for _, entry := range e.build(i, m) {
		// The client writes an answer that only calls tools without its calls first.
		entry.Draft = m.Type == "gemini" && len(entry.Blocks) == 0 && i == len(e.r.items)-1
		if !e.yield(entry, nil) {
			return false
		}
	}
	return true
}

// rest yields what waits for a missing message: the file was changed between the
// readings.
func (e *emitter) rest() bool {
	for e.next < len(e.r.items) {
		if e.ready[e.next] != nil {
			if !e.emit() {
				return false
			}
			continue
		}
		it := &e.r.items[e.next]
		it.missing = true
		e.next++
		if !e.yield(convert.Entry{}, convert.Skipf(e.r.files[it.file].name, "message %s is not there any more", it.id)) {
			return false
		}
	}
	return true
}

// last is the id of the last entry of an item.
func (r *replay) last(i int) string {
	it := r.items[i]
	switch {
	case it.role == aMessage && slices.ContainsFunc(it.calls, func(id string) bool { return !r.responses[id] }):
		return it.id + theResults
	case it.role == aMessage && it.more:
		return it.id + theText
	case it.role == aMessage && it.context:
		return it.id + theContext
	}
	return it.id
}

func (r *replay) parentOf(i int) string {
	p := r.items[i].parent
	for p != root && r.items[p].missing {
		p = r.items[p].parent
	}
	if p == root {
		return convert.Root
	}
	return r.last(p)
}

// build makes the entries of one message: itself, followed by the results that
// have no message of their own, or by what the client added.
func (e *emitter) build(i int, m *message) []convert.Entry {
	it := e.r.items[i]
	if at := convert.ParseTime(m.Timestamp); !at.IsZero() {
		e.at = at
	}
	main := convert.Entry{ID: it.id, Parent: e.r.parentOf(i)}
	main.At, main.Extra = e.at, m.extra()
	own, added := m.split()
	switch {
	case it.role == aContext:
		main.Kind, main.Blocks = convert.KindContext, blocksOf(own)
	case it.role == aCompaction:
		main.Kind, main.Blocks = convert.KindCompaction, blocksOf(own)
	case m.Type == "gemini":
		main.Role, main.Model, main.Usage = tidemark.Assistant, m.Model, m.Tokens.usage()
		main.Blocks = m.answer()
	case m.Type == "user" && len(m.responses()) > 0:
		main.Role, main.Blocks = tidemark.Tool, blocksOf(own)
	case m.Type == "user":
		main.Role, main.Blocks = tidemark.User, blocksOf(own)
	default:
		main.Kind, main.Blocks = convert.KindNotice, blocksOf(own)
	}
	all := []convert.Entry{main}
	behind := convert.Entry{ID: e.r.last(i), Parent: it.id}
	behind.At = e.at
	switch behind.ID {
	case it.id + theResults:
		behind.Role, behind.Blocks = tidemark.Tool, m.results(e.r.responses)
		all = append(all, behind)
	case it.id + theText:
		isText := func(b tidemark.Block) bool { return b.Type == tidemark.BlockText }
		all[0].Blocks = slices.DeleteFunc(all[0].Blocks, isText)
		behind.Role = tidemark.User
		for _, text := range texts(own) {
			behind.Blocks = append(behind.Blocks, tidemark.Text(text))
		}
		all = append(all, behind)
	case it.id + theContext:
		behind.Kind = convert.KindContext
		for _, text := range added {
			behind.Blocks = append(behind.Blocks, tidemark.Text(text))
		}
		all = append(all, behind)
	}
	return all
}

// usage counts the cached part of the input separately, and thoughts as output.
func (t *tokens) usage() *tidemark.Usage {
	if t == nil {
		return nil
	}
	return &tidemark.Usage{
		InputTokens:     max(t.Input-t.Cached, 0) + t.Tool,
		OutputTokens:    t.Output + t.Thoughts,
		CacheReadTokens: t.Cached,
	}
}

// answer is a model's message: thoughts, text, calls.
func (m *message) answer() []tidemark.Block {
	var all []tidemark.Block
	for _, t := range m.Thoughts {
		text := strings.TrimPrefix(t.Subject+"\n"+t.Description, "\n")
		if text = strings.TrimSuffix(text, "\n"); text != "" {
			all = append(all, tidemark.Block{Type: tidemark.BlockThinking, Text: text})
		}
	}
	all = append(all, blocksOf(m.parts())...)
	for n, c := range m.ToolCalls {
		id := m.callID(n)
		if slices.ContainsFunc(all, func(b tidemark.Block) bool { return b.Type == tidemark.BlockToolUse && b.ID == id }) {
			continue
		}
		all = append(all, tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: c.Name, Input: wire.Input(c.Args)})
	}
	return all
}

// results are those of the calls that no message answers.
func (m *message) results(answered map[string]bool) []tidemark.Block {
	var all []tidemark.Block
	for n, c := range m.ToolCalls {
		id := m.callID(n)
		if answered[id] || len(c.Result) == 0 || string(c.Result) == "null" {
			continue
		}
		result := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: id, IsError: c.Status == "error" || c.Status == "cancelled"}
		for _, b := range blocksOf(parts(c.Result)) {
			if b.Type == tidemark.BlockToolResult && result.Text == "" {
				result.Text, result.IsError = b.Text, result.IsError || b.IsError
				result.Blocks = append(result.Blocks, b.Blocks...)
				continue
			}
			result.Blocks = append(result.Blocks, b)
		}
		all = append(all, result)
	}
	return all
}

func blocksOf(all []part) []tidemark.Block {
	var blocks []tidemark.Block
	for _, p := range all {
		b, ok := p.block()
		if !ok {
			continue
		}
		if p.Signature != "" {
			b.Provider, b.Raw = "google", string(p.raw)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func (p part) block() (tidemark.Block, bool) {
	switch {
	case p.FunctionCall != nil:
		c := p.FunctionCall
		return tidemark.Block{Type: tidemark.BlockToolUse, ID: c.ID, Name: c.Name, Input: wire.Input(c.Args)}, true
	case p.FunctionResponse != nil:
		r := p.FunctionResponse
		b := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: r.ID}
		b.Text, b.IsError = responseText(r.Response)
		for _, raw := range r.Parts {
			inner := part{raw: raw}
			if convert.Loose(raw, &inner) == nil && inner.FunctionResponse == nil {
				if in, ok := inner.block(); ok {
					b.Blocks = append(b.Blocks, in)
				}
			}
		}
		return b, true
	case p.InlineData != nil:
		return tidemark.Block{Type: media(p.InlineData.MimeType), MediaType: p.InlineData.MimeType, Data: convert.Blob(p.InlineData.Data)}, true
	case p.FileData != nil:
		return tidemark.Block{Type: media(p.FileData.MimeType), MediaType: p.FileData.MimeType, URL: p.FileData.FileURI}, true
	case p.Thought:
		return tidemark.Block{Type: tidemark.BlockThinking, Text: p.Text}, p.Text != "" || p.Signature != ""
	}
	return tidemark.Text(p.Text), p.Text != "" || p.Signature != ""
}

func media(mime string) string {
	if strings.HasPrefix(mime, "image/") {
		return tidemark.BlockImage
	}
	return tidemark.BlockFile
}

// responseText is the text of a result: its output or its error if it has
// nothing else, and its JSON otherwise.
func responseText(raw json.RawMessage) (text string, failed bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return string(raw), false
	}
	_, failed = fields["error"]
	for _, key := range []string{"output", "error"} {
		if len(fields) == 1 && json.Unmarshal(fields[key], &text) == nil {
			return text, failed
		}
	}
	return string(raw), failed
}

// extra is what a message has besides its entries: unknown fields, and how the
// tool showed a call.
func (m *message) extra() json.RawMessage {
	held := []string{"id", "timestamp", "type", "content", "displayContent", "thoughts", "tokens", "model"}
	fields := map[string]json.RawMessage{}
	if m.raw == nil || onlyKeys(m.raw, held) || json.Unmarshal(m.raw, &fields) != nil {
		return nil
	}
	for _, k := range held {
		delete(fields, k)
	}
	if shown := m.shown(fields["toolCalls"]); shown != nil {
		fields["toolCalls"] = shown
	} else {
		delete(fields, "toolCalls")
	}
	return convert.Keep(name, fields)
}

// onlyKeys reports whether an object has no other keys than these. It scans the
// bytes only, which is much faster than decoding, and is correct for JSON that
// was decoded before.
func onlyKeys(object []byte, keys []string) bool {
	depth, isKey := 0, false
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '{', '[':
			depth++
			isKey = depth == 1
		case '}', ']':
			depth--
		case ',':
			isKey = depth == 1
		case ':':
			isKey = false
		case '"':
			end := i + 1
			for end < len(object) && object[end] != '"' {
				if object[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(object) {
				return false
			}
			if isKey && depth == 1 && !slices.Contains(keys, string(object[i+1:end])) {
				return false
			}
			i = end
		}
	}
	return true
}

// shown is what is left of calls without their arguments and results, by id.
func (m *message) shown(raw json.RawMessage) json.RawMessage {
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) != len(m.ToolCalls) {
		return nil
	}
	out := map[string]map[string]json.RawMessage{}
	for n, c := range list {
		for _, k := range []string{"id", "name", "args", "result"} {
			delete(c, k)
		}
		if len(c) > 0 {
			out[m.callID(n)] = c
		}
	}
	b, err := json.Marshal(out)
	if err != nil || len(out) == 0 {
		return nil
	}
	return b
}
