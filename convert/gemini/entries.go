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
)

// message is one message as the tool writes it.
type message struct {
	ID             string          `json:"id"`
	Timestamp      string          `json:"timestamp"`
	Type           string          `json:"type"` // user, gemini, info, error, warning
	Content        json.RawMessage `json:"content"`
	DisplayContent json.RawMessage `json:"displayContent"`
	Thoughts       []thought       `json:"thoughts"`
	Tokens         *tokens         `json:"tokens"`
	Model          string          `json:"model"`
	ToolCalls      []call          `json:"toolCalls"`
	raw            json.RawMessage
	read           []part // of Content, once it was asked for
	isRead         bool
}

// parts are those of the content. They are asked for often.
func (m *message) parts() []part {
	if !m.isRead {
		m.read, m.isRead = parts(m.Content), true
	}
	return m.read
}

type thought struct{ Subject, Description string }

type tokens struct{ Input, Output, Cached, Thoughts, Tool int64 }

type call struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Args    json.RawMessage `json:"args"`
	Result  json.RawMessage `json:"result"`
	Status  string          `json:"status"`
	AgentID string          `json:"agentId"`
}

// part is a part of a message as the model's interface has it.
type part struct {
	Text       string `json:"text"`
	Thought    bool   `json:"thought"`
	Signature  string `json:"thoughtSignature"`
	InlineData *struct {
		Data     []byte `json:"data"`
		MimeType string `json:"mimeType"`
	} `json:"inlineData"`
	FileData *struct {
		FileURI  string `json:"fileUri"`
		MimeType string `json:"mimeType"`
	} `json:"fileData"`
	FunctionCall *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *struct {
		ID       string            `json:"id"`
		Name     string            `json:"name"`
		Response json.RawMessage   `json:"response"`
		Parts    []json.RawMessage `json:"parts"`
	} `json:"functionResponse"`
	raw json.RawMessage
}

func parse(raw json.RawMessage) (*message, error) {
	m := &message{raw: raw}
	if err := loose(raw, m); err != nil {
		return nil, err
	}
	if m.Type == "" {
		return nil, tidemark.Invalidf("a message without a type")
	}
	return m, nil
}

func (m *message) key() string { return m.Type + "|" + m.ID }

// callID is the id of a call; an old version of the tool gave none.
func (m *message) callID(n int) string {
	if id := m.ToolCalls[n].ID; id != "" {
		return id
	}
	return m.ID + "#call-" + string(rune('a'+n%26))
}

// parts reads content, which is a text or a list of parts or texts.
func parts(content json.RawMessage) []part {
	var text string
	if json.Unmarshal(content, &text) == nil {
		if text == "" {
			return nil
		}
		return []part{{Text: text}}
	}
	var list []json.RawMessage
	if json.Unmarshal(content, &list) != nil {
		if len(content) == 0 || string(content) == "null" {
			return nil
		}
		list = []json.RawMessage{content}
	}
	var all []part
	for _, raw := range list {
		p := part{raw: raw}
		if json.Unmarshal(raw, &p.Text) != nil && loose(raw, &p) != nil {
			continue
		}
		all = append(all, p)
	}
	return all
}

func texts(all []part) []string {
	var out []string
	for _, p := range all {
		if p.Text != "" && !p.Thought {
			out = append(out, p.Text)
		}
	}
	return out
}

func (m *message) text() string { return strings.Join(texts(m.parts()), "\n") }

// sum tells copies: what was said, by whom, and which calls were made. It is
// the same for the two forms of a model's message.
func (m *message) sum() sum {
	all := m.parts()
	said := append([]string{m.Type}, texts(all)...)
	for _, p := range all {
		if p.FunctionCall != nil {
			said = append(said, p.FunctionCall.ID)
		}
	}
	for _, c := range m.ToolCalls {
		said = append(said, c.ID)
	}
	return sumOf(said...)
}

// responses are the calls that a message answers.
func (m *message) responses() []string {
	if m.Type != "user" {
		return nil
	}
	var ids []string
	for _, p := range m.parts() {
		if p.FunctionResponse != nil {
			ids = append(ids, p.FunctionResponse.ID)
		}
	}
	return ids
}

// answered reports whether a message says nothing but results that are known.
func (m *message) answered(known map[string]bool) bool {
	ids := m.responses()
	return len(ids) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return !known[id] })
}

// isContext reports whether a message is the one that the client begins with.
func (m *message) isContext() bool {
	if m.Type != "user" {
		return false
	}
	text := strings.TrimSpace(m.text())
	return strings.HasPrefix(text, "<session_context>") ||
		strings.HasPrefix(text, "This is the Gemini CLI. We are setting up the context")
}

// hasContext reports whether the client added text to the user's.
func (m *message) hasContext() bool {
	_, added := m.split()
	return len(added) > 0
}

// split tells the user's parts from the texts that the client added, such as
// the content of files that were mentioned.
func (m *message) split() (own []part, added []string) {
	all := m.parts()
	shown := parts(m.DisplayContent)
	if m.Type != "user" || len(shown) == 0 {
		return all, nil
	}
	typed := texts(shown)
	own = shown
	for _, p := range all {
		switch n := slices.Index(typed, p.Text); {
		case p.Text == "":
			own = append(own, p)
		case n >= 0:
			typed = slices.Delete(typed, n, n+1)
		default:
			added = append(added, p.Text)
		}
	}
	return own, added
}

// entries reads the files again and yields what the first reading found, in
// its order. A message whose last version stands further down holds up those
// behind it for as long.
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
		if loose(o.Set, &set) == nil {
			list = set.Messages
		}
	}
	for _, i := range due {
		it := e.r.items[i]
		m := &o.message
		m.raw = bytes.Clone(m.raw) // the line goes
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
		if !e.yield(entry, nil) {
			return false
		}
	}
	return true
}

// rest yields what waits for a message that is gone: the file was changed
// between the readings.
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

// last is the id of the last entry that an item becomes.
func (r *replay) last(i int) string {
	it := r.items[i]
	switch {
	case it.role == aMessage && slices.ContainsFunc(it.calls, func(id string) bool { return !r.responses[id] }):
		return it.id + theResults
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

// build makes the entries of one message: itself, and behind it the results
// that no message of their own carries, or what the client added.
func (e *emitter) build(i int, m *message) []convert.Entry {
	it := e.r.items[i]
	if at := when(m.Timestamp); !at.IsZero() {
		e.at = at
	}
	main := convert.Entry{ID: it.id, Parent: e.r.parentOf(i)}
	main.At, main.Extra = e.at, m.extra()
	own, added := m.split()
	switch {
	case it.role == aContext:
		main.Kind, main.Blocks = "context", blocksOf(own)
	case it.role == aCompaction:
		main.Kind, main.Blocks = "compaction", blocksOf(own)
	case m.Type == "gemini":
		main.Role, main.Model, main.Usage = tidemark.Assistant, m.Model, m.Tokens.usage()
		main.Blocks = m.answer()
	case m.Type == "user" && len(m.responses()) > 0:
		main.Role, main.Blocks = tidemark.Tool, blocksOf(own)
	case m.Type == "user":
		main.Role, main.Blocks = tidemark.User, blocksOf(own)
	default:
		main.Kind, main.Blocks = "notice", blocksOf(own)
	}
	all := []convert.Entry{main}
	behind := convert.Entry{ID: e.r.last(i), Parent: it.id}
	behind.At = e.at
	switch behind.ID {
	case it.id + theResults:
		behind.Role, behind.Blocks = tidemark.Tool, m.results(e.r.responses)
		all = append(all, behind)
	case it.id + theContext:
		behind.Kind = "context"
		for _, text := range added {
			behind.Blocks = append(behind.Blocks, tidemark.Text(text))
		}
		all = append(all, behind)
	}
	return all
}

// usage counts the cached part of the input apart, and thoughts as output.
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
		all = append(all, tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: c.Name, Input: object(c.Args)})
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
		return tidemark.Block{Type: tidemark.BlockToolUse, ID: c.ID, Name: c.Name, Input: object(c.Args)}, true
	case p.FunctionResponse != nil:
		r := p.FunctionResponse
		b := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: r.ID}
		b.Text, b.IsError = responseText(r.Response)
		for _, raw := range r.Parts {
			inner := part{raw: raw}
			if loose(raw, &inner) == nil && inner.FunctionResponse == nil {
				if in, ok := inner.block(); ok {
					b.Blocks = append(b.Blocks, in)
				}
			}
		}
		return b, true
	case p.InlineData != nil:
		return tidemark.Block{Type: media(p.InlineData.MimeType), MediaType: p.InlineData.MimeType, Data: p.InlineData.Data}, true
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

// responseText is the text of a result: its output or its error where it is
// nothing else, the JSON of it otherwise.
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

// object is an input as it is kept; nil when there is none.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// extra is what a message has beyond what its entries hold: fields that are
// not known here, and how the tool showed a call.
func (m *message) extra() json.RawMessage {
	fields := map[string]json.RawMessage{}
	if m.raw == nil || json.Unmarshal(m.raw, &fields) != nil {
		return nil
	}
	for _, k := range []string{"id", "timestamp", "type", "content", "displayContent", "thoughts", "tokens", "model"} {
		delete(fields, k)
	}
	if shown := m.shown(fields["toolCalls"]); shown != nil {
		fields["toolCalls"] = shown
	} else {
		delete(fields, "toolCalls")
	}
	if len(fields) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any{name: fields})
	if err != nil {
		return nil
	}
	return b
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
