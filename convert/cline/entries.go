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
	"github.com/tidemark-sessions/tidemark/convert/wire"
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

// media has the fields that the tool adds to Anthropic's block of a picture or a
// file.
type media struct {
	wire.Part
	Data      string `json:"data"`
	MediaType string `json:"mediaType"`
	Path      string `json:"path"`
}

// entries reads the messages again, so that their content is held only while it
// is needed.
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
			e.Kind, e.Blocks = convert.KindContext, []tidemark.Block{tidemark.Text(t.SystemPrompt)}
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

// unique is the id, with a number added if it is taken.
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
	blocks, unknown := m.blocks()
	extra := m.extra(raw, unknown)
	if m.Role == "assistant" {
		e := convert.Entry{ID: m.ID}
		e.Role, e.Model, e.Extra = tidemark.Assistant, m.ModelInfo.ID, extra
		if u := m.Metrics; u != nil {
			e.Usage = &tidemark.Usage{
				InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
				CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens, CostUSD: u.Cost,
			}
		}
		e.Blocks = blocks
		return []convert.Entry{e}
	}
	var results, own, added []tidemark.Block
	mode := ""
	for _, b := range blocks {
		switch {
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

// chain makes the parts of a user's message follow each other. The first has the
// id of the message.
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
	add("#context", convert.KindContext, "", added)
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

// wrapped matches what a person typed: the client wraps it, with the mode.
var wrapped = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)<user_input(?: mode="([^"]*)")?>(.*?)</user_input>`)
})

// split separates what was typed from what the client put around it. theirs says
// whether text without a wrapping is the user's.
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

// blocks reads content, which is a text or a list of parts, and returns its
// blocks and the parts of unknown types. A text without a letter is neither.
func (m *message) blocks() (all []tidemark.Block, unknown []json.RawMessage) {
	text, list, _ := wire.Content(m.Content)
	if text != "" {
		return []tidemark.Block{tidemark.Text(text)}, nil
	}
	d := wire.Decoder{Provider: cmp.Or(m.ModelInfo.Provider, "anthropic"), Result: takeResult, Media: takeMedia,
		Unknown: func(wire.Part) tidemark.Block { return tidemark.Block{} },
		Same:    func(tidemark.Block, json.RawMessage) bool { return true }}
	for _, raw := range list {
		b, err := d.Block(raw, 0)
		if b.Type == tidemark.BlockThinking && !isSigned(raw) {
			b.Provider, b.Raw = "", ""
		}
		b.Input = wire.Input(b.Input)
		switch {
		case b.Type == tidemark.BlockText && b.Text == "":
		case err != nil, b.Type == "", b.Type == tidemark.BlockThinking && b.Text == "" && b.Raw == "":
			unknown = append(unknown, raw)
		default:
			all = append(all, b)
		}
	}
	return all, unknown
}

func isSigned(raw json.RawMessage) bool {
	return convert.Field(raw, "signature") != "" || convert.Field(raw, "data") != ""
}

func takeMedia(p wire.Part, raw json.RawMessage) (b tidemark.Block, known []string, ok bool) {
	var m media
	if p.Type != "image" && p.Type != "file" && p.Type != "document" || convert.Loose(raw, &m) != nil {
		return b, nil, false
	}
	return m.block(), []string{"type"}, true
}

func (m media) block() tidemark.Block {
	b := tidemark.Block{Type: tidemark.BlockFile, Name: m.Path, MediaType: m.MediaType, Text: m.Text}
	if m.Type == "image" {
		b.Type = tidemark.BlockImage
	}
	if s := m.Source; s != nil {
		b.MediaType, b.Data, b.URL = cmp.Or(s.MediaType, b.MediaType), convert.Blob(s.Data), s.URL
		return b
	}
	b.Data = convert.Blob(m.Data)
	var text string
	if json.Unmarshal(m.Content, &text) == nil && text != "" {
		b.Data = []byte(text)
	}
	return b
}

// takeResult reads a tool result: a text, parts, or the list of outcomes that
// the tool stores for several commands, which stays JSON.
func takeResult(b *tidemark.Block, content json.RawMessage, _ int) error {
	if json.Unmarshal(content, &b.Text) == nil {
		return nil
	}
	b.Text = string(content)
	var list []struct {
		media
		Success *bool
	}
	if convert.Loose(content, &list) != nil || len(list) == 0 {
		return nil
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
			b.Blocks = append(b.Blocks, one.block())
			plain++
		}
	}
	if plain == len(list) {
		b.Text = strings.Join(words, "\n")
	} else {
		b.Blocks = nil
	}
	b.IsError = b.IsError || failed == len(list)
	return nil
}

// extra is what a message has beyond its entries: unknown fields and parts.
func (m *message) extra(raw json.RawMessage, unknown []json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	for _, k := range []string{"id", "role", "content", "ts", "metrics"} {
		delete(fields, k)
	}
	if unknown != nil {
		fields["parts"], _ = json.Marshal(unknown)
	}
	return convert.Keep(name, fields)
}
