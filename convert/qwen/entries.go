package qwen

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// provider is the provider of raw parts.
const provider = "google"

// attached is the text before the files that a prompt mentions.
const attached = "--- Content from referenced files ---"

// reader is what is known of a transcript before a message.
type reader struct {
	Memory convert.Memory `json:"memory"`
	Last   string         `json:"last"` // the uuid of the record before
	At     time.Time      `json:"at,omitzero"`
	Begun  bool           `json:"begun,omitempty"`
}

// Kinds of names: of records with what tells whether a line is the same, and with
// the entry that they are in.
const (
	ofLine  = 'l'
	ofEntry = 'e'
)

// clone returns a copy; of nil, one that knows nothing.
func (r *reader) clone() *reader {
	if r == nil {
		return &reader{}
	}
	c := *r
	c.Memory = *r.Memory.Clone()
	return &c
}

// entries reads a transcript, or what was added to it, and yields what was said. The
// last answer may get more lines until the client states what it used.
func (s source) entries(ctx context.Context, fsys fs.FS, marker *convert.Marker) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		r := s.reader.clone()
		var open *convert.Entry
		yielded := ""
		for it, err := range records(ctx, fsys, s.file, s.from, r) {
			if r.Memory.Missed() {
				yield(convert.Entry{}, convert.ErrWhole)
				return
			}
			switch {
			case err != nil:
				if !yield(convert.Entry{}, err) || !convert.IsSkip(err) {
					return
				}
				continue
			case !it.begins() && it.Subtype == telemetry:
				to, _ := r.Memory.Get(ofEntry, string(it.Parent))
				r.Memory.Set(ofEntry, string(it.UUID), to)
				continue
			case it.more && open != nil && open.ID == string(it.UUID):
				join(open, it)
				continue
			}
			if open != nil {
				if yielded = open.ID; !yield(*open, nil) {
					return
				}
			}
			marker.Exactly(it.start, yielded, func() any { return state{s.id, s.known, it.before(r)} })
			e := convert.Entry{Entry: entryOf(it), ID: string(it.UUID)}
			if e.At = it.at(); e.At.IsZero() {
				e.At = r.At
			}
			r.At = e.At
			switch parent, known := r.Memory.Get(ofEntry, string(it.Parent)); {
			case known && parent != "":
				e.Parent = parent
			case (it.Parent == "" || known) && r.Begun:
				e.Parent = convert.Root
			}
			r.Memory.Set(ofEntry, e.ID, e.ID)
			open, r.Begun = &e, true
		}
		if r.Memory.Missed() {
			yield(convert.Entry{}, convert.ErrWhole)
			return
		}
		if open != nil {
			open.Draft = open.Role == tidemark.Assistant && open.Usage == nil
			yield(*open, nil)
		}
	}
}

// maxJoined bounds the lines of one message.
const maxJoined = 4096

// join adds the parts of a line to the message that it continues.
func join(e *convert.Entry, it item) {
	if len(e.Blocks) > maxJoined {
		return
	}
	next := entryOf(it)
	e.Blocks = append(e.Blocks, next.Blocks...)
	if next.Usage != nil {
		e.Usage = next.Usage
	}
	e.Model = cmp.Or(e.Model, next.Model)
}

func entryOf(it item) tidemark.Entry {
	e := tidemark.Entry{}
	whole := false
	switch it.Type {
	case "user":
		whole = userEntry(it.record, &e)
	case "assistant":
		e = tidemark.Entry{Role: tidemark.Assistant, Blocks: blocksOf(it.Message.Parts), Model: string(it.Model), Usage: usageOf(it.Usage)}
	case "tool_result":
		e = tidemark.Entry{Role: tidemark.Tool, Blocks: blocksOf(it.Message.Parts)}
		if status := convert.Field(it.Result, "status"); status == "error" {
			for i := range e.Blocks {
				e.Blocks[i].IsError = e.Blocks[i].Type == tidemark.BlockToolResult
			}
		}
	case "system":
		systemEntry(it.record, &e)
	default:
		e.Kind = kindOf(string(it.Type))
		whole = true
	}
	e.Extra = extraOf(it.text, whole)
	return e
}

// userEntry fills in a record in the user's role. It is true when the entry does
// not hold all of the message.
func userEntry(r record, e *tidemark.Entry) bool {
	e.Blocks = blocksOf(r.Message.Parts)
	if r.Provenance != "" && r.Provenance != "real_user" || r.Subtype == "notification" || r.Subtype == "cron" {
		e.Kind = convert.KindContext
		return false
	}
	e.Role = tidemark.User
	if shown := convert.Field(r.Payload, "displayText"); shown != "" && shown != e.Text() {
		var own []tidemark.Block
		for _, b := range e.Blocks {
			if b.Type != tidemark.BlockText {
				own = append(own, b)
			}
		}
		e.Blocks = append([]tidemark.Block{tidemark.Text(shown)}, own...)
		return true
	}
	for i, b := range e.Blocks {
		if i > 0 && b.Type == tidemark.BlockText && strings.HasPrefix(strings.TrimSpace(b.Text), attached) {
			e.Blocks = e.Blocks[:i]
			return true
		}
	}
	return false
}

func systemEntry(r record, e *tidemark.Entry) {
	e.Kind = kindOf(string(r.Subtype))
	var p struct {
		History []message `json:"compressedHistory"`
		Phase   str       `json:"phase"`
		Command str       `json:"rawCommand"`
		Items   []struct {
			Text str `json:"text"`
		} `json:"outputHistoryItems"`
	}
	if json.Unmarshal(r.Payload, &p) != nil {
		return
	}
	switch {
	case r.Subtype == "chat_compression":
		e.Kind = convert.KindCompaction
		if len(p.History) > 0 {
			e.Blocks = blocksOf(p.History[0].Parts)
		}
	case r.Subtype == "slash_command" && p.Phase == "result":
		e.Kind = convert.KindCommandOutput
		for _, item := range p.Items {
			if item.Text != "" {
				e.Blocks = append(e.Blocks, tidemark.Text(string(item.Text)))
			}
		}
	case r.Subtype == "slash_command":
		e.Kind = convert.KindCommand
		e.Blocks = []tidemark.Block{tidemark.Text(string(p.Command))}
	}
}

// extraOf is what a record has besides the entry, nil when that is nothing.
func extraOf(text []byte, whole bool) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	for _, key := range []string{"uuid", "parentUuid", "sessionId", "timestamp", "version", "model", "usageMetadata", "forkedFrom"} {
		delete(m, key)
	}
	if !whole {
		delete(m, "message")
	}
	raw, err := json.Marshal(map[string]any{name: m})
	if err != nil || len(raw) > tidemark.MaxBodyBytes/4 {
		return nil
	}
	return raw
}

func blocksOf(parts []json.RawMessage) (blocks []tidemark.Block) {
	for _, raw := range parts {
		blocks = append(blocks, blockOf(raw))
	}
	return blocks
}

// blockOf turns one part into a block. A part with anything that the block has
// no field for is kept in Raw, byte for byte.
func blockOf(raw json.RawMessage) tidemark.Block {
	var part struct {
		Text     *str            `json:"text"`
		Thought  json.RawMessage `json:"thought"`
		Call     json.RawMessage `json:"functionCall"`
		Response json.RawMessage `json:"functionResponse"`
		Inline   json.RawMessage `json:"inlineData"`
		File     json.RawMessage `json:"fileData"`
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &part) != nil || json.Unmarshal(raw, &keys) != nil {
		return tidemark.Block{Type: tidemark.BlockText, Provider: provider, Raw: string(raw)}
	}
	var b tidemark.Block
	plain := 1
	switch {
	case part.Call != nil:
		b = callOf(part.Call)
	case part.Response != nil:
		b = resultOf(part.Response)
	case part.Inline != nil:
		b = mediaOf(part.Inline, "data")
	case part.File != nil:
		b = mediaOf(part.File, "fileUri")
	case string(part.Thought) == "true":
		b = tidemark.Block{Type: tidemark.BlockThinking}
		plain = 2
	case part.Text != nil:
		b = tidemark.Block{Type: tidemark.BlockText}
	default:
		b, plain = tidemark.Block{Type: tidemark.BlockText}, 0
	}
	if part.Text != nil && (b.Type == tidemark.BlockText || b.Type == tidemark.BlockThinking) {
		b.Text = string(*part.Text)
	}
	if len(keys) > plain {
		b.Provider, b.Raw = provider, string(raw)
	}
	return b
}

func callOf(raw json.RawMessage) tidemark.Block {
	var c struct {
		ID   str             `json:"id"`
		Name str             `json:"name"`
		Args json.RawMessage `json:"args"`
	}
	_ = json.Unmarshal(raw, &c) // fields of another type stay empty
	return tidemark.Block{Type: tidemark.BlockToolUse, ID: string(c.ID), Name: string(c.Name), Input: c.Args}
}

func resultOf(raw json.RawMessage) tidemark.Block {
	var r struct {
		ID       str             `json:"id"`
		Response json.RawMessage `json:"response"`
		Parts    json.RawMessage `json:"parts"`
	}
	_ = json.Unmarshal(raw, &r) // fields of another type stay empty
	b := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: string(r.ID)}
	output, failure := convert.Field(r.Response, "output"), convert.Field(r.Response, "error")
	b.Text, b.IsError = cmp.Or(output, failure), output == "" && failure != ""
	var keys map[string]json.RawMessage
	if json.Unmarshal(r.Response, &keys) == nil && len(keys) != 1 || b.Text == "" && len(keys) > 0 && keys["output"] == nil {
		b.Text = string(r.Response)
	}
	var media []json.RawMessage
	if json.Unmarshal(r.Parts, &media) == nil && len(media) > 0 {
		b.Blocks = []tidemark.Block{tidemark.Text(b.Text)}
		for _, part := range media {
			var m struct {
				Inline json.RawMessage `json:"inlineData"`
				File   json.RawMessage `json:"fileData"`
			}
			_ = json.Unmarshal(part, &m) // fields of another type stay empty
			switch {
			case m.Inline != nil:
				b.Blocks = append(b.Blocks, mediaOf(m.Inline, "data"))
			case m.File != nil:
				b.Blocks = append(b.Blocks, mediaOf(m.File, "fileUri"))
			}
		}
		b.Text = ""
	}
	return b
}

// mediaOf reads data that is in the part, or a URL.
func mediaOf(raw json.RawMessage, key string) tidemark.Block {
	b := tidemark.Block{Type: tidemark.BlockFile, MediaType: convert.Field(raw, "mimeType"), Name: convert.Field(raw, "displayName")}
	if strings.HasPrefix(b.MediaType, "image/") {
		b.Type = tidemark.BlockImage
	}
	value := convert.Field(raw, key)
	if key != "data" {
		b.URL = value
		return b
	}
	data, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		b.Provider, b.Raw = provider, string(raw)
		return b
	}
	b.Data = data
	return b
}

// usageOf counts what was read from the cache separately. Thoughts are part of
// the answer; some providers include them already, which the total shows.
func usageOf(raw json.RawMessage) *tidemark.Usage {
	var u struct {
		Prompt   int64 `json:"promptTokenCount"`
		Answer   int64 `json:"candidatesTokenCount"`
		Thoughts int64 `json:"thoughtsTokenCount"`
		Cached   int64 `json:"cachedContentTokenCount"`
		Total    int64 `json:"totalTokenCount"`
	}
	if json.Unmarshal(raw, &u) != nil || u.Prompt == 0 && u.Answer == 0 {
		return nil
	}
	if u.Total == u.Prompt+u.Answer+u.Thoughts {
		u.Answer += u.Thoughts
	}
	return &tidemark.Usage{InputTokens: max(0, u.Prompt-u.Cached), OutputTokens: u.Answer, CacheReadTokens: u.Cached}
}

// kindOf makes a kind of entry from a word of the client.
func kindOf(word string) string {
	word = strings.ReplaceAll(strings.ToLower(word), "-", "_")
	if !convert.IsKind(word) {
		return convert.KindOther
	}
	return word
}
