package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
)

// recorder keeps what a model was asked, and what of that it refused.
type recorder struct {
	next    http.Handler
	mu      sync.Mutex
	taken   [][]byte
	refused []string // why
}

// statusWriter notes whether an answer is a refusal, and begins to keep it.
type statusWriter struct {
	http.ResponseWriter
	status int
	said   []byte
}

// WriteHeader notes the status.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write keeps what a refusal says.
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status >= http.StatusBadRequest {
		w.said = append(w.said, b...)
	}
	return w.ResponseWriter.Write(b)
}

// Flush sends what was written.
func (w *statusWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

func (r *recorder) ServeHTTP(to http.ResponseWriter, req *http.Request) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(b))
	if req.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
			b, _ = io.ReadAll(z) // what is no gzip is refused by the model
		}
	}
	w := &statusWriter{ResponseWriter: to, status: http.StatusOK}
	defer func() { // an answer may be cut off by a panic
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case w.status == http.StatusOK:
			r.taken = append(r.taken, b)
		case w.status == http.StatusBadRequest:
			r.refused = append(r.refused, string(w.said))
		}
	}()
	r.next.ServeHTTP(w, req)
}

// forget forgets what was asked.
func (r *recorder) forget() {
	r.mu.Lock()
	r.taken, r.refused = nil, nil
	r.mu.Unlock()
}

// refusal is why the model refused what it was asked last, "" if it did not.
func (r *recorder) refusal() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.refused) == 0 {
		return ""
	}
	var said struct{ Error struct{ Message string } }
	last := r.refused[len(r.refused)-1]
	if json.Unmarshal([]byte(last), &said) != nil {
		return last
	}
	return said.Error.Message
}

// with returns the longest request that has a text in it since the last call: agents
// also ask for titles.
func (r *recorder) with(text string) (longest request, found bool) {
	r.mu.Lock()
	all := r.taken
	r.taken = nil
	r.mu.Unlock()
	for _, body := range all {
		if q := parseRequest(body); len(q.parts) >= max(2, len(longest.parts)) && strings.Contains(q.text(), text) {
			longest, found = q, true
		}
	}
	return longest, found
}

// request is the conversation in a request to a model, whatever its protocol.
type request struct{ parts []part }

// part is a piece of a conversation.
type part struct {
	kind string // text, call, result, image
	text string
}

// parseRequest reads the conversation of a request: messages of Anthropic or Chat
// Completions, input of Responses, or contents of Gemini.
func parseRequest(body []byte) (q request) {
	var in struct{ Messages, Input, Contents []json.RawMessage }
	if json.Unmarshal(body, &in) != nil {
		return q
	}
	for _, raw := range slices.Concat(in.Messages, in.Input, in.Contents) {
		q.add(raw)
	}
	return q
}

// piece is a message, an item or a block of any protocol.
type piece struct {
	Type, Role, Text, Name string
	Content, Output, Input json.RawMessage
	Arguments              string
	ImageURL               json.RawMessage `json:"image_url"`
	Source                 struct{ Data string }
	ToolCalls              []struct {
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
	Parts        []json.RawMessage
	FunctionCall *struct {
		Name string
		Args json.RawMessage
	} `json:"functionCall"`
	FunctionResponse *struct {
		Response json.RawMessage
		Parts    []json.RawMessage
	} `json:"functionResponse"`
	InlineData *struct{ Data string } `json:"inlineData"`
}

func (q *request) put(kind, text string) { q.parts = append(q.parts, part{kind, text}) }

// add adds one message, item or block.
func (q *request) add(raw json.RawMessage) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		q.put("text", text)
		return
	}
	var b piece
	if json.Unmarshal(raw, &b) != nil {
		return
	}
	switch {
	case b.Type == "tool_use":
		q.put("call", b.Name+"\n"+leaves(b.Input))
	case b.Type == "function_call" || b.Type == "custom_tool_call" || b.Type == "local_shell_call":
		q.put("call", b.Name+"\n"+leaves(json.RawMessage(b.Arguments))+leaves(b.Input))
	case b.FunctionCall != nil:
		q.put("call", b.FunctionCall.Name+"\n"+leaves(b.FunctionCall.Args))
	case b.Type == "tool_result" || b.Role == "tool":
		q.result(b.Content)
	case b.Type == "function_call_output" || b.Type == "custom_tool_call_output":
		q.result(b.Output)
	case b.FunctionResponse != nil:
		q.put("result", leaves(b.FunctionResponse.Response))
		q.all(b.FunctionResponse.Parts)
	case b.InlineData != nil:
		q.put("image", b.InlineData.Data)
	case b.Type == "image" || b.Type == "input_image" || b.Type == "image_url":
		q.put("image", b.Source.Data+leaves(b.ImageURL))
	default:
		if b.Text != "" {
			q.put("text", b.Text)
		}
		var list []json.RawMessage
		if json.Unmarshal(b.Content, &list) == nil {
			q.all(list)
		} else if b.Content != nil {
			q.add(b.Content)
		}
		q.all(b.Parts)
		for _, c := range b.ToolCalls {
			q.put("call", c.Function.Name+"\n"+leaves(json.RawMessage(c.Function.Arguments)))
		}
	}
}

func (q *request) all(list []json.RawMessage) {
	for _, one := range list {
		q.add(one)
	}
}

// result adds the result of a call: its text, and the images in it.
func (q *request) result(content json.RawMessage) {
	var list []piece
	if json.Unmarshal(content, &list) != nil {
		q.put("result", leaves(content))
		return
	}
	var texts strings.Builder
	var images []string
	for _, b := range list {
		if b.Text != "" {
			texts.WriteString(b.Text + "\n")
		}
		if data := b.Source.Data + leaves(b.ImageURL); data != "" {
			images = append(images, data)
		}
	}
	q.put("result", texts.String())
	for _, data := range images {
		q.put("image", data)
	}
}

// leaves are the strings, numbers and truths in JSON, one on a line, by the order of
// their names: agents write objects in orders of their own, and numbers as doubles.
func leaves(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	var b strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case nil:
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(v[name])
			}
		default:
			fmt.Fprintln(&b, v)
		}
	}
	walk(v)
	return b.String()
}

func (q request) text() string {
	var b strings.Builder
	for _, p := range q.parts {
		b.WriteString(p.text + "\n")
	}
	return b.String()
}

// carried is how much of a session is in a request.
type carried struct {
	Texts   count    `json:",omitzero"`
	Calls   count    `json:",omitzero"`
	Results count    `json:",omitzero"`
	Images  count    `json:",omitzero"`
	Told    int      `json:",omitzero"`  // texts of the harness of the tool before, which should not be there
	Lost    []string `json:",omitempty"` // what is missing
}

// count is how many of how many.
type count struct {
	N, Of  int
	AsText int `json:",omitzero"`
}

// compare looks for what a session holds in a request, in order, each piece once.
func compare(entries []tidemark.Entry, q request) (c carried) {
	l := look{parts: q.parts}
	text := q.text()
	for _, e := range entries {
		if e.Context() {
			if said := strings.TrimSpace(e.Text()); len(said) > 40 && strings.Contains(text, said) {
				c.Told++
			}
			continue
		}
		if e.Kind != "" && e.Kind != tidemark.KindMessage {
			continue
		}
		for _, b := range e.Blocks {
			c.block(&l, b)
		}
	}
	return c
}

// block looks for a block.
func (c *carried) block(l *look, b tidemark.Block) {
	switch b.Type {
	case tidemark.BlockText:
		c.count(&c.Texts, l, "text", b.Text)
	case tidemark.BlockToolUse:
		c.count(&c.Calls, l, "call", b.Name+"\n"+leaves(b.Input))
	case tidemark.BlockToolResult:
		texts, media := dialogue.Split(b)
		c.count(&c.Results, l, "result", texts)
		for _, one := range media {
			c.block(l, one)
		}
	case tidemark.BlockImage:
		c.count(&c.Images, l, "image", base64.StdEncoding.EncodeToString(b.Data))
	}
}

// count notes whether a piece is there, as such or within a text.
func (c *carried) count(n *count, l *look, kind, text string) {
	text = strings.TrimSpace(text)
	n.Of++
	switch {
	case l.find(kind, text):
		n.N++
	case kind != "image" && l.find("", lastLine(text)):
		n.N++
		n.AsText++
	default:
		c.Lost = append(c.Lost, kind+" "+fmt.Sprintf("%.60q", text))
	}
}

// lastLine is the last line of a call: as text it is not in the form of a call.
func lastLine(text string) string { return text[strings.LastIndex(text, "\n")+1:] }

// look is a place in a request.
type look struct {
	parts    []part
	at, from int // the part, and the byte in it
}

// find goes behind the next part of a kind, or of any, that has a text in it.
func (l *look) find(kind, text string) bool {
	from := l.from
	for i := l.at; i < len(l.parts); i++ {
		if p := l.parts[i]; kind == "" || p.kind == kind {
			if at := strings.Index(p.text[from:], text); at >= 0 {
				l.at, l.from = i, from+at+len(text)
				if kind == "call" || kind == "result" || kind == "image" {
					l.at, l.from = i+1, 0
				}
				return true
			}
		}
		from = 0
	}
	return false
}
