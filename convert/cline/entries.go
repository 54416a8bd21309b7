package cline

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

type message struct {
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	TS        float64         `json:"ts"`
	ModelInfo struct {
		ID       string `json:"id"`
		Provider string `json:"provider"`
	} `json:"modelInfo"`
	Metrics *struct {
		InputTokens      int64   `json:"inputTokens"`
		OutputTokens     int64   `json:"outputTokens"`
		CacheReadTokens  int64   `json:"cacheReadTokens"`
		CacheWriteTokens int64   `json:"cacheWriteTokens"`
		Cost             float64 `json:"cost"`
	} `json:"metrics"`
}

func (m *message) at() time.Time { return convert.Milli(m.TS) }

// part is a part of a message; it is made like one of Anthropic's.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Data      string          `json:"data"`
	MediaType string          `json:"mediaType"`
	Path      string          `json:"path"`
	Source    *struct {
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
	} `json:"source"`
}

// entries reads the messages again: what is in them is held only meanwhile.
func entries(fsys fs.FS, file string) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		t, err := read(fsys, file)
		if err != nil {
			yield(convert.Entry{}, &convert.Skip{What: file, Why: err})
			return
		}
		ids := map[string]bool{}
		var last time.Time
		if t.SystemPrompt != "" {
			e := convert.Entry{ID: "system"}
			e.Kind, e.Blocks = "context", []tidemark.Block{tidemark.Text(t.SystemPrompt)}
			if first := (message{}); len(t.Messages) > 0 && convert.Loose(t.Messages[0], &first) == nil {
				e.At = first.at()
			}
			ids[e.ID] = true
			if !yield(e, nil) {
				return
			}
		}
		for n, raw := range t.Messages {
			var m message
			if convert.Loose(raw, &m) != nil || m.Role == "" {
				if !yield(convert.Entry{}, convert.Skipf(file, "message %d has no role", n+1)) {
					return
				}
				continue
			}
			if at := m.at(); !at.IsZero() {
				last = at
			}
			m.ID = cmp.Or(m.ID, "message-"+strconv.Itoa(n+1))
			for _, e := range m.entries(raw) {
				e.ID, e.At = unique(ids, e.ID), last
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// unique is an id, with a number behind it where it is taken.
func unique(ids map[string]bool, id string) string {
	one := id
	for n := 2; ids[one]; n++ {
		one = id + "#" + strconv.Itoa(n)
	}
	ids[one] = true
	return one
}

// entries makes the entries of a message. One of the user may hold results of
// tools, what was typed, and what the client added; each is an entry.
func (m *message) entries(raw json.RawMessage) []convert.Entry {
	parts, raws := m.parts()
	extra := m.extra(raw)
	if m.Role == "assistant" {
		e := convert.Entry{ID: m.ID}
		e.Role, e.Model, e.Extra = tidemark.Assistant, m.ModelInfo.ID, extra
		if u := m.Metrics; u != nil {
			e.Usage = &tidemark.Usage{
				InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
				CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens, CostUSD: u.Cost,
			}
		}
		for i, p := range parts {
			if b, ok := p.block(raws[i], m.ModelInfo.Provider); ok {
				e.Blocks = append(e.Blocks, b)
			}
		}
		return []convert.Entry{e}
	}
	var results, own, added []tidemark.Block
	mode := ""
	for i, p := range parts {
		b, ok := p.block(raws[i], m.ModelInfo.Provider)
		switch {
		case !ok:
		case b.Type == tidemark.BlockToolResult:
			results = append(results, b)
		case b.Type != tidemark.BlockText:
			own = append(own, b)
		default:
			typed, around, how := split(b.Text, m.Role == "user" && len(results) == 0)
			mode = cmp.Or(mode, how)
			own, added = append(own, texts(typed)...), append(added, texts(around)...)
		}
	}
	return m.chain(results, own, added, extra, mode)
}

// chain puts the parts of a user's message one behind the other. The first
// has the id of the message.
func (m *message) chain(results, own, added []tidemark.Block, extra json.RawMessage, mode string) []convert.Entry {
	var all []convert.Entry
	add := func(suffix, kind string, role tidemark.Role, blocks []tidemark.Block) {
		if len(blocks) == 0 {
			return
		}
		e := convert.Entry{ID: m.ID}
		if len(all) > 0 {
			e.ID += suffix
		}
		e.Kind, e.Role, e.Blocks = kind, role, blocks
		all = append(all, e)
	}
	add("#results", "", tidemark.Tool, results)
	if m.Role == "user" {
		add("#text", "", tidemark.User, own)
	} else {
		added = append(own, added...)
	}
	if len(all) > 0 && mode != "" && all[len(all)-1].Role == tidemark.User {
		all[len(all)-1].Extra, _ = json.Marshal(map[string]any{name: map[string]string{"mode": mode}})
	}
	add("#context", "context", "", added)
	if len(all) > 0 && extra != nil && all[0].Extra == nil {
		all[0].Extra = extra
	}
	return all
}

func texts(all []string) []tidemark.Block {
	var blocks []tidemark.Block
	for _, s := range all {
		blocks = append(blocks, tidemark.Text(s))
	}
	return blocks
}

// wrapped finds what a person typed: the client wraps it, with the mode.
var wrapped = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)<user_input(?: mode="([^"]*)")?>(.*?)</user_input>`)
})

// split tells what was typed from what the client put around it. A text
// without a wrapping is the user's where theirs says so.
func split(text string, theirs bool) (typed, around []string, mode string) {
	rest := 0
	keep := func(s string) {
		if strings.TrimSpace(s) != "" {
			around = append(around, s)
		}
	}
	for _, at := range wrapped().FindAllStringSubmatchIndex(text, -1) {
		keep(text[rest:at[0]])
		if at[2] >= 0 {
			mode = text[at[2]:at[3]]
		}
		typed = append(typed, text[at[4]:at[5]])
		rest = at[1]
	}
	if rest == 0 && theirs && !strings.HasPrefix(strings.TrimSpace(text), "<environment_details>") {
		if text == "" {
			return nil, nil, ""
		}
		return []string{text}, nil, ""
	}
	keep(text[rest:])
	return typed, around, mode
}

// parts reads content, which is a text or a list of parts.
func (m *message) parts() (all []part, raws []json.RawMessage) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return []part{{Type: "text", Text: text}}, []json.RawMessage{nil}
	}
	var list []json.RawMessage
	if json.Unmarshal(m.Content, &list) != nil {
		return nil, nil
	}
	for _, raw := range list {
		var p part
		if convert.Loose(raw, &p) == nil {
			all, raws = append(all, p), append(raws, raw)
		}
	}
	return all, raws
}

func (p part) block(raw json.RawMessage, provider string) (tidemark.Block, bool) {
	switch p.Type {
	case "text":
		return tidemark.Text(p.Text), p.Text != ""
	case "thinking", "redacted_thinking":
		b := tidemark.Block{Type: tidemark.BlockThinking, Text: p.Thinking}
		if p.Signature != "" || p.Data != "" {
			b.Provider, b.Raw = cmp.Or(provider, "anthropic"), string(raw)
		}
		return b, b.Text != "" || b.Raw != ""
	case "tool_use":
		b := tidemark.Block{Type: tidemark.BlockToolUse, ID: p.ID, Name: p.Name}
		if string(p.Input) != "null" {
			b.Input = p.Input
		}
		return b, true
	case "tool_result":
		b := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: p.ToolUseID, IsError: p.IsError}
		p.result(&b)
		return b, true
	case "image", "file", "document":
		return p.file(), true
	}
	return tidemark.Block{}, false
}

func (p part) file() tidemark.Block {
	b := tidemark.Block{Type: tidemark.BlockFile, Name: p.Path, MediaType: p.MediaType, Text: p.Text}
	if p.Type == "image" {
		b.Type = tidemark.BlockImage
	}
	if s := p.Source; s != nil {
		b.MediaType, b.Data, b.URL = cmp.Or(s.MediaType, b.MediaType), convert.Blob(s.Data), s.URL
		return b
	}
	b.Data = convert.Blob(p.Data)
	var text string
	if json.Unmarshal(p.Content, &text) == nil && text != "" {
		b.Data = []byte(text)
	}
	return b
}

// result reads what a tool gave: a text, parts, or the list of outcomes that
// the tool keeps for several commands, which stays the JSON it is.
func (p part) result(b *tidemark.Block) {
	if json.Unmarshal(p.Content, &b.Text) == nil {
		return
	}
	b.Text = string(p.Content)
	var list []struct {
		part
		Success *bool
	}
	if convert.Loose(p.Content, &list) != nil || len(list) == 0 {
		return
	}
	failed, plain := 0, 0
	var words []string
	for _, one := range list {
		if one.Success != nil && !*one.Success {
			failed++
		}
		switch one.Type {
		case "text":
			words = append(words, one.Text)
			plain++
		case "image":
			b.Blocks = append(b.Blocks, one.file())
			plain++
		}
	}
	if plain == len(list) {
		b.Text = strings.Join(words, "\n")
	} else {
		b.Blocks = nil
	}
	b.IsError = b.IsError || failed == len(list)
}

// extra is what a message has beyond what its entries hold: fields and parts
// that are not known here.
func (m *message) extra(raw json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	for _, k := range []string{"id", "role", "content", "ts", "metrics"} {
		delete(fields, k)
	}
	var unknown []json.RawMessage
	parts, raws := m.parts()
	for i, p := range parts {
		if _, ok := p.block(raws[i], ""); !ok && p.Type != "text" && raws[i] != nil {
			unknown = append(unknown, raws[i])
		}
	}
	if unknown != nil {
		fields["parts"], _ = json.Marshal(unknown)
	}
	return convert.Keep(name, fields)
}
