package pi

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// maxID bounds the ids that are used as they are. pi's have eight letters.
const maxID = 64

// reader makes entries from the lines of one file.
type reader struct {
	name string
	IDs  convert.Memory `json:"ids"`  // from ids in the file to ids of entries
	Last string         `json:"last"` // the id of the previous entry
	At   time.Time      `json:"at,omitzero"`
}

// inFile is the kind of the ids in the file.
const inFile = 'i'

func entries(fsys fs.FS, name string, from state, marker *convert.Marker) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		r, end := from.reader(), from.at
		r.name = name
		for l, err := range convert.LinesFrom(fsys, name, from.at) {
			if err != nil && !convert.IsSkip(err) {
				yield(convert.Entry{}, &convert.Skip{What: name, Why: err})
				return
			}
			marker.At(l.Start, r.Last, func() any { return from.with(r) })
			if end = l.End; l.Number == 1 {
				continue
			}
			var e convert.Entry
			if err == nil {
				e, err = r.entry(l)
			}
			if r.IDs.Missed() {
				err = convert.ErrWhole
			}
			if !yield(e, err) || r.IDs.Missed() {
				return
			}
		}
		marker.At(end, r.Last, func() any { return from.with(r) })
	}
}

// entry makes an entry from a line. Every line is one, since any may be the
// parent of another.
func (r *reader) entry(l convert.Line) (convert.Entry, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(l.Text, &fields); err != nil {
		why := "is damaged"
		if l.Torn {
			why = "is cut off"
		}
		return convert.Entry{}, convert.Skipf(fmt.Sprintf("%s line %d", r.name, l.Number), "%s: %w", why, err)
	}
	var kind, id, at string
	take(fields, "type", &kind)
	take(fields, "id", &id)
	take(fields, "timestamp", &at)
	if t := convert.ParseTime(at); !t.IsZero() {
		r.At = t
	}
	e := convert.Entry{Entry: tidemark.Entry{At: r.At}}
	e.Parent = r.parent(fields)
	e.ID = r.nameOf(id, l.Number)
	r.Last = e.ID
	if kind == "message" {
		message(&e, fields)
	} else {
		other(&e, kind, fields)
	}
	if len(fields) > 0 {
		if b, err := json.Marshal(map[string]any{"pi": fields}); err == nil {
			e.Extra = b
		}
	}
	return e, nil
}

// parent finds the entry that a line follows. If it is missing, or comes later,
// it is the previous entry.
func (r *reader) parent(fields map[string]json.RawMessage) string {
	raw, ok := fields["parentId"]
	var id string
	if !ok || json.Unmarshal(raw, &id) != nil {
		return ""
	}
	delete(fields, "parentId")
	if id == "" {
		if r.Last == "" {
			return ""
		}
		return convert.Root
	}
	known, _ := r.IDs.Get(inFile, id)
	if known == r.Last {
		return ""
	}
	return known
}

// nameOf returns the id of an entry: its own, or its line number if its own is
// not unique.
func (r *reader) nameOf(id string, line int) string {
	own := id
	if r.IDs.Has(inFile, id) || len(id) > maxID || tidemark.CheckID(id) != nil {
		own = fmt.Sprintf("line.%d", line)
	}
	if len(id) <= maxID {
		r.IDs.Set(inFile, id, own)
	}
	return own
}

// message makes a message entry, or something else where pi uses the word
// message more widely.
func message(e *convert.Entry, fields map[string]json.RawMessage) {
	var m map[string]json.RawMessage
	if json.Unmarshal(fields["message"], &m) != nil || m == nil {
		e.Kind = convert.KindOther
		return
	}
	var role, failure string
	take(m, "role", &role)
	switch role {
	case "user":
		e.Role, e.Blocks = tidemark.User, content(m, "")
	case "assistant":
		var provider string
		_ = json.Unmarshal(m["provider"], &provider)
		e.Role, e.Blocks = tidemark.Assistant, content(m, provider)
		take(m, "model", &e.Model)
		e.Usage = usage(m)
		if take(m, "errorMessage", &failure); failure != "" && len(e.Blocks) == 0 {
			e.Kind, e.Role, e.Blocks = convert.KindError, "", []tidemark.Block{tidemark.Text(failure)}
		} else if failure != "" {
			m["errorMessage"] = quote(failure)
		}
	case "toolResult":
		e.Role, e.Blocks = tidemark.Tool, []tidemark.Block{result(m)}
		e.Usage = usage(m)
	case "bashExecution":
		e.Kind, e.Blocks = convert.KindCommand, command(m)
	case "compactionSummary", "branchSummary":
		e.Kind, e.Blocks = convert.KindContext, summary(m)
		m["role"] = quote(role)
	default: // of extensions
		e.Kind, e.Blocks = convert.KindContext, content(m, "")
		m["role"] = quote(role)
	}
	delete(fields, "message")
	if len(m) > 0 {
		if b, err := json.Marshal(m); err == nil {
			fields["message"] = b
		}
	}
}

// other makes an entry from a line that is not a message.
func other(e *convert.Entry, kind string, fields map[string]json.RawMessage) {
	e.Kind = kind
	switch kind {
	case convert.KindCompaction, "branch_summary":
		e.Blocks = summary(fields)
	case "custom_message":
		e.Kind, e.Blocks = convert.KindContext, content(fields, "")
		fields["type"] = quote(kind)
	}
	if !convert.IsKind(kind) {
		e.Kind = convert.KindOther
		fields["type"] = quote(kind)
	}
}

func summary(fields map[string]json.RawMessage) []tidemark.Block {
	var text string
	if !take(fields, "summary", &text) || text == "" {
		return nil
	}
	return []tidemark.Block{tidemark.Text(text)}
}

// command is what the user ran in the shell.
func command(m map[string]json.RawMessage) []tidemark.Block {
	var line, output string
	take(m, "command", &line)
	take(m, "output", &output)
	blocks := []tidemark.Block{tidemark.Text("$ " + line)}
	if output != "" {
		blocks = append(blocks, tidemark.Text(output))
	}
	return blocks
}

func result(m map[string]json.RawMessage) tidemark.Block {
	b := tidemark.Block{Type: tidemark.BlockToolResult}
	take(m, "toolCallId", &b.ToolUseID)
	if json.Unmarshal(m["isError"], &b.IsError) == nil {
		delete(m, "isError")
	}
	blocks := content(m, "")
	if len(blocks) == 1 && blocks[0].Type == tidemark.BlockText && blocks[0].Raw == "" {
		b.Text = blocks[0].Text
	} else {
		b.Blocks = blocks
	}
	return b
}

// content moves the content of a message into blocks.
func content(m map[string]json.RawMessage, provider string) []tidemark.Block {
	var text string
	if take(m, "content", &text) {
		if text == "" {
			return nil
		}
		return []tidemark.Block{tidemark.Text(text)}
	}
	var parts []json.RawMessage
	if json.Unmarshal(m["content"], &parts) != nil {
		return nil
	}
	delete(m, "content")
	var blocks []tidemark.Block
	for _, raw := range parts {
		blocks = append(blocks, block(raw, provider))
	}
	return blocks
}

// block reads one piece of content. A signed or unknown one is kept byte for
// byte.
func block(raw json.RawMessage, provider string) tidemark.Block {
	var p struct {
		Type, Text, Thinking, ID, Name string
		Arguments                      json.RawMessage
		Data                           []byte
		MimeType                       string
		ThinkingSignature              string
		TextSignature                  string
		ThoughtSignature               string
	}
	if json.Unmarshal(raw, &p) != nil {
		return tidemark.Block{Type: tidemark.BlockText, Provider: "pi", Raw: string(raw)}
	}
	b := tidemark.Block{Type: tidemark.BlockText, Text: p.Text}
	known := true
	switch p.Type {
	case "text":
	case "thinking":
		b = tidemark.Block{Type: tidemark.BlockThinking, Text: p.Thinking}
	case "toolCall":
		b = tidemark.Block{Type: tidemark.BlockToolUse, ID: p.ID, Name: p.Name, Input: p.Arguments}
	case "image":
		b = tidemark.Block{Type: tidemark.BlockImage, MediaType: p.MimeType, Data: p.Data}
	default:
		known, provider = false, "pi"
	}
	if p.ThinkingSignature+p.TextSignature+p.ThoughtSignature != "" || !known {
		b.Provider, b.Raw = provider, string(raw)
	}
	return b
}

// usage reads the tokens of an answer, and their cost.
func usage(m map[string]json.RawMessage) *tidemark.Usage {
	var u struct {
		Input, Output, CacheRead, CacheWrite int64
		Cost                                 struct{ Total float64 }
	}
	if json.Unmarshal(m["usage"], &u) != nil {
		return nil
	}
	delete(m, "usage")
	used := tidemark.Usage{
		InputTokens: max(0, u.Input), OutputTokens: max(0, u.Output),
		CacheReadTokens: max(0, u.CacheRead), CacheWriteTokens: max(0, u.CacheWrite), CostUSD: max(0, u.Cost.Total),
	}
	if used == (tidemark.Usage{}) {
		return nil
	}
	return &used
}

// take moves a string out of fields; when it returns false, they are unchanged.
func take(fields map[string]json.RawMessage, key string, s *string) bool {
	return convert.Object(fields).Take(key, s)
}

func quote(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return b
}
