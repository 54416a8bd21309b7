// Package messages imports and exports conversations as the plain arrays of
// messages that the APIs of OpenAI (chat completions) and Anthropic take. It
// knows no tool that stores them, sends nothing anywhere, and reports what the
// arrays cannot represent.
//
//	for s, err := range messages.OpenAI().Import(ctx, place) { … }
package messages

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// format is one of the two formats.
type format struct {
	name    string
	entries func(n int, m *message) []convert.Entry // of the n-th message
	write   func(w *writer, e convert.Entry) []map[string]any
}

// OpenAI is an array of messages of chat completions.
func OpenAI() convert.Tool {
	return (&format{"openai", openaiEntries, openaiMessages}).tool("OpenAI messages")
}

// Anthropic is an array of messages of Anthropic's API.
func Anthropic() convert.Tool {
	return (&format{"anthropic", anthropicEntries, anthropicMessages}).tool("Anthropic messages")
}

func (f *format) tool(title string) convert.Tool {
	return convert.Tool{Name: f.name, Title: title, Detect: f.detect, Import: f.imports, Export: f.export}
}

// maxLook is how much of a file is read to recognize it.
const maxLook = 256 << 10

// detect accepts only single files: a folder may hold anything.
func (f *format) detect(_ context.Context, p convert.Source) bool {
	info, err := fs.Stat(p.FS, p.Path)
	if ext := path.Ext(p.Path); err != nil || !info.Mode().IsRegular() || ext != ".json" && ext != ".jsonl" {
		return false
	}
	file, err := p.FS.Open(p.Path)
	if err != nil {
		return false
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxLook))
	return err == nil && looksLike(b) == f.name
}

// looksLike recognizes from the beginning of a file whose messages it holds; ""
// for neither. Plain texts could be either, and are treated as OpenAI's.
func looksLike(b []byte) string {
	dec := json.NewDecoder(bytes.NewReader(b))
	first, err := dec.Token()
	if err != nil {
		return ""
	}
	sign := ""
	if first == json.Delim('{') {
		for {
			key, err := dec.Token()
			k, ok := key.(string)
			if err != nil || !ok || !slices.Contains(requestFields, k) {
				return ""
			}
			if k == "messages" {
				break
			}
			var v json.RawMessage
			if dec.Decode(&v) != nil {
				return ""
			}
			if k == "system" {
				sign = "anthropic"
			}
		}
		first, err = dec.Token()
	}
	if err != nil || first != json.Delim('[') {
		return ""
	}
	seen := 0
	for dec.More() {
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			break // the rest of the file was not read
		}
		s, ok := signOf(raw)
		if !ok {
			return ""
		}
		sign = cmp.Or(sign, s)
		seen++
	}
	if seen == 0 {
		return ""
	}
	return cmp.Or(sign, "openai")
}

// requestFields are the fields of a request besides and including messages.
var requestFields = []string{"messages", "model", "system", "tools", "tool_choice", "temperature", "top_p", "top_k",
	"max_tokens", "max_completion_tokens", "stream", "stop", "stop_sequences", "metadata", "seed", "n", "user",
	"response_format", "parallel_tool_calls", "functions", "function_call", "thinking", "reasoning_effort", "store"}

// messageFields are the fields that a message may have.
var messageFields = []string{"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal",
	"reasoning_content", "reasoning", "annotations", "audio", "weight"}

// signOf returns what only one of the two formats has in a message. False: not a
// message.
func signOf(raw json.RawMessage) (sign string, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return "", false
	}
	for k := range fields {
		if !slices.Contains(messageFields, k) {
			return "", false
		}
	}
	m := &message{}
	if convert.Loose(raw, m) != nil || fields["role"] == nil || fields["content"] == nil && m.ToolCalls == nil && m.FunctionCall == nil {
		return "", false
	}
	switch m.Role {
	case "system", "developer", "tool", "function":
		return "openai", true
	case "user", "assistant":
	default:
		return "", false
	}
	if m.ToolCalls != nil || m.FunctionCall != nil {
		return "openai", true
	}
	_, parts, _ := wire.Content(m.Content)
	for _, raw := range parts {
		switch convert.Field(raw, "type") {
		case "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document":
			return "anthropic", true
		case "image_url", "input_audio", "file", "refusal":
			return "openai", true
		}
	}
	return "", true
}

// imports reads one file: an array, an object that holds one, or one
// conversation per line.
func (f *format) imports(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		info, err := fs.Stat(p.FS, p.Path)
		if err != nil {
			yield(nil, err)
			return
		}
		if !info.Mode().IsRegular() {
			yield(nil, convert.Skipf(p.Path, "is no file of messages"))
			return
		}
		id := strings.TrimSuffix(strings.TrimSuffix(path.Base(p.Path), "l"), ".json")
		id = strings.TrimSuffix(id, "."+f.name) // as export names it
		finish := func(id, what string, data []byte) bool {
			s, err := f.session(id, what, data)
			if err != nil {
				return yield(nil, &convert.Skip{What: what, Why: err})
			}
			s.UpdatedAt = info.ModTime().UTC()
			return yield(s, nil)
		}
		if path.Ext(p.Path) != ".jsonl" {
			b, err := convert.ReadFile(p.FS, p.Path)
			if err != nil {
				yield(nil, &convert.Skip{What: p.Path, Why: err})
				return
			}
			finish(id, p.Path, b)
			return
		}
		for l, err := range convert.Lines(p.FS, p.Path) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				if !yield(nil, err) || !convert.IsSkip(err) {
					return
				}
				continue
			}
			number := strconv.Itoa(l.Number)
			if !finish(id+"-"+number, p.Path+": line "+number, bytes.Clone(l.Text)) {
				return
			}
		}
	}
}

func (f *format) session(id, what string, data []byte) (*convert.Session, error) {
	var list []json.RawMessage
	fields := map[string]json.RawMessage{}
	switch trimmed := bytes.TrimSpace(data); {
	case len(trimmed) == 0:
		return nil, tidemark.Invalidf("is empty")
	case trimmed[0] == '[':
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, tidemark.Invalidf("not JSON: %w", err)
		}
	default:
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, tidemark.Invalidf("not JSON: %w", err)
		}
		if fields["messages"] == nil || json.Unmarshal(fields["messages"], &list) != nil {
			return nil, tidemark.Invalidf("holds no messages")
		}
	}
	s := &convert.Session{}
	s.ForeignID = id + "-" + fingerprint(list)
	if json.Unmarshal(fields["model"], &s.Model) != nil {
		s.Model = ""
	}
	system := fields["system"]
	for _, k := range []string{"messages", "model", "system"} {
		delete(fields, k)
	}
	if len(fields) > 0 {
		s.Extra, _ = convert.Encode(map[string]any{f.name: fields})
	}
	s.Entries = f.read(what, system, list)
	return s, nil
}

// fingerprint distinguishes conversations whose files have the same name. It is
// made from the user's first message, which stays the same as a conversation
// grows.
func fingerprint(list []json.RawMessage) string {
	var first bytes.Buffer
	for _, raw := range list {
		m := &message{}
		if convert.Loose(raw, m) == nil && m.Role == "user" && json.Compact(&first, m.Content) == nil {
			break
		}
	}
	sum := sha256.Sum256(first.Bytes())
	return hex.EncodeToString(sum[:4])
}

// read yields the messages. Anything else is reported and left out.
func (f *format) read(what string, system json.RawMessage, list []json.RawMessage) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		if system != nil {
			e := convert.Entry{ID: "system"}
			e.Role = tidemark.System
			e.Blocks = blocksOf(system, "anthropic", false)
			if !yield(e, nil) {
				return
			}
		}
		last := "" // the call that a message of the old role "function" answers
		for n, raw := range list {
			m := &message{raw: raw, answers: last}
			if convert.Loose(raw, m) != nil || m.Role == "" {
				if !yield(convert.Entry{}, convert.Skipf(what, "message %d has no role", n+1)) {
					return
				}
				continue
			}
			all := f.entries(n, m)
			if len(all) == 0 {
				if !yield(convert.Entry{}, convert.Skipf(what, "message %d has the role %.40q", n+1, m.Role)) {
					return
				}
			}
			for _, e := range all {
				for _, b := range e.Blocks {
					last = cmp.Or(b.ID, last)
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}
