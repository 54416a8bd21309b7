package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// recorder keeps what a model was asked.
type recorder struct {
	next http.Handler
	mu   sync.Mutex
	all  [][]byte
}

func newRecorder(next http.Handler) *recorder { return &recorder{next: next} }

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
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
	r.mu.Lock()
	r.all = append(r.all, b)
	r.mu.Unlock()
	r.next.ServeHTTP(w, req)
}

// with returns the last request that has a text in it since the last call.
func (r *recorder) with(text string) (request, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	for i := len(all) - 1; i >= 0; i-- {
		if q := parseRequest(all[i]); len(q.parts) > 1 && strings.Contains(q.text(), text) {
			return q, true
		}
	}
	return request{}, false
}

// request is the conversation in a request to a model, whatever its protocol.
type request struct{ parts []part }

// part is a piece of a conversation.
type part struct {
	kind string // text, call, result, image
	text string
}

// parseRequest reads the conversation of a request: messages of Anthropic or Chat
// Completions, or input of Responses.
func parseRequest(body []byte) (q request) {
	var in struct{ Messages, Input []json.RawMessage }
	if json.Unmarshal(body, &in) != nil {
		return q
	}
	for _, raw := range append(in.Messages, in.Input...) {
		q.add(raw)
	}
	return q
}

// add adds one message, item or block.
func (q *request) add(raw json.RawMessage) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		q.parts = append(q.parts, part{"text", text})
		return
	}
	var b struct {
		Type, Text, Name, Data string
		Content, Output        json.RawMessage
		Input                  json.RawMessage
		Arguments              string
		ImageURL               json.RawMessage `json:"image_url"`
		Source                 struct{ Data string }
	}
	if json.Unmarshal(raw, &b) != nil {
		return
	}
	switch b.Type {
	case "tool_use":
		q.parts = append(q.parts, part{"call", b.Name + " " + leaves(b.Input)})
	case "function_call", "custom_tool_call", "local_shell_call":
		q.parts = append(q.parts, part{"call", b.Name + " " + leaves(json.RawMessage(b.Arguments)) + leaves(b.Input)})
	case "tool_result", "function_call_output", "custom_tool_call_output":
		q.parts = append(q.parts, part{"result", leaves(b.Content) + leaves(b.Output)})
	case "image", "input_image", "image_url":
		q.parts = append(q.parts, part{"image", b.Source.Data + leaves(b.ImageURL)})
	default:
		if b.Text != "" {
			q.parts = append(q.parts, part{"text", b.Text})
		}
		var list []json.RawMessage
		if json.Unmarshal(b.Content, &list) == nil {
			for _, one := range list {
				q.add(one)
			}
		} else if b.Content != nil {
			q.add(b.Content)
		}
	}
}

// leaves are the strings and numbers in JSON, in order.
func leaves(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	var b strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			b.WriteString(v + "\n")
		case json.Number:
			b.WriteString(v.String() + "\n")
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, one := range v {
				walk(one)
			}
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
	Texts, Calls, Results, Images count
	Told                          int      // texts of the harness of the tool before, which should not be there
	Lost                          []string // what is missing
}

// count is how many of how many.
type count struct{ N, Of, AsText int }

// compare looks for what a session holds in a request, in order, each piece once.
func compare(entries []tidemark.Entry, q request) (c carried) {
	from := 0
	look := func(n *count, kind, text string) {
		n.Of++
		at := indexOf(q.parts, from, kind, text)
		if at < 0 && kind != "image" { // folded into text
			if at = indexOf(q.parts, from, "", text); at >= 0 {
				n.AsText++
			}
		}
		if at < 0 {
			c.Lost = append(c.Lost, kind+" "+text[:min(len(text), 60)])
			return
		}
		n.N++
		if from = at; kind != "text" {
			from++
		}
	}
	for _, e := range entries {
		if e.Context() {
			if text := strings.TrimSpace(e.Text()); len(text) > 40 && strings.Contains(q.text(), text) {
				c.Told++
			}
			continue
		}
		if e.Kind != "" && e.Kind != tidemark.KindMessage {
			continue
		}
		for _, b := range e.Blocks {
			switch b.Type {
			case tidemark.BlockText:
				look(&c.Texts, "text", strings.TrimSpace(b.Text))
			case tidemark.BlockToolUse:
				look(&c.Calls, "call", strings.TrimSpace(longest(b.Input)))
			case tidemark.BlockToolResult:
				look(&c.Results, "result", strings.TrimSpace(b.Text))
			case tidemark.BlockImage:
				look(&c.Images, "image", base64.StdEncoding.EncodeToString(b.Data))
			}
		}
	}
	return c
}

// indexOf returns the first part from a place on that has a text, of a kind or of
// any; -1 if there is none.
func indexOf(parts []part, from int, kind, text string) int {
	for i := from; i < len(parts); i++ {
		if strings.Contains(parts[i].text, text) && (kind == "" || parts[i].kind == kind) {
			return i
		}
	}
	return -1
}

// longest is the longest string in the input of a call: tools name their arguments
// differently.
func longest(input json.RawMessage) (most string) {
	for line := range strings.Lines(leaves(input)) {
		if line = strings.TrimSpace(line); len(line) > len(most) {
			most = line
		}
	}
	return most
}
