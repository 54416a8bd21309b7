package claudecode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// The client writes its lines in one way. Such a line is split once, and the
// record, its blocks and what is kept of it are made from the parts. A line in
// any other spelling is read by encoding/json; both make the same entries, byte
// for byte.

// recordNames and messageNames are the fields of record and message.
var (
	recordNames = convert.NamesOf("type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "timestamp", "cwd", "version", "agentId",
		"provenance", "isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage", "promptSource", "origin", "forkedFrom", "toolUseResult",
		"attachment", "rendered", "content", "message", "costUSD", "modelUsage", "customTitle", "aiTitle", "summary", "leafUuid")
	messageNames = convert.NamesOf("id", "model", "content", "usage", "stop_reason")
	usageNames   = convert.NamesOf("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
	callNames    = convert.NamesOf("id", "input")
)

// parts are the values of a line that was scanned. They are valid until the next
// one is read.
type parts struct {
	line, message, content, usage, result convert.Value
}

// scanned reports whether the line was scanned.
func (p parts) scanned() bool { return p.line.Kind() == '{' }

// scanRecord reads a record from a line that was scanned; ok is false for one
// that encoding/json has to read. Most texts are those of the record before.
func scanRecord(line convert.Value, before *record) (r record, ok bool) {
	if !line.Exact(recordNames) {
		return r, false
	}
	r.parts.line = line
	for key, v := range line.Members() {
		switch string(key) {
		case "type":
			r.Type = recurring(v, before.Type)
		case "subtype":
			r.Subtype = recurring(v, before.Subtype)
		case "uuid":
			r.UUID, _ = v.Text()
		case "parentUuid":
			r.Parent = recurring(v, before.UUID)
		case "logicalParentUuid":
			r.Logical, _ = v.Text()
		case "sessionId":
			r.Session = recurring(v, before.Session)
		case "timestamp":
			r.Time = recurring(v, before.Time)
		case "cwd":
			r.Cwd = recurring(v, before.Cwd)
		case "version":
			r.Version = recurring(v, before.Version)
		case "agentId":
			r.Agent = recurring(v, before.Agent)
		case "provenance":
			r.Provenance, _ = v.Text()
		case "isSidechain":
			r.Sidechain = v.Kind() == 't'
		case "isMeta":
			r.Meta = v.Kind() == 't'
		case "isCompactSummary":
			r.Summarizes = v.Kind() == 't'
		case "isApiErrorMessage":
			r.APIError = v.Kind() == 't'
		case "promptSource":
			r.Source = recurring(v, before.Source)
		case "origin":
			r.Origin = v.Raw()
		case "forkedFrom":
			r.ForkedFrom = v.Raw()
		case "toolUseResult":
			r.Result, r.parts.result = v.Raw(), v
		case "attachment":
			r.Attached = v.Raw()
		case "rendered":
			r.Rendered = v.Raw()
		case "content":
			r.Content = v.Raw()
		case "message":
			if !r.scanMessage(v, before) {
				return record{}, false
			}
		case "costUSD":
			r.CostUSD = number(v)
		case "modelUsage":
			return record{}, false // once a turn
		case "customTitle":
			r.CustomTitle, _ = v.Text()
		case "aiTitle":
			r.AITitle, _ = v.Text()
		case "summary":
			r.Summary, _ = v.Text()
		case "leafUuid":
			r.Leaf, _ = v.Text()
		}
	}
	return r, true
}

func (r *record) scanMessage(message convert.Value, before *record) bool {
	if message.Kind() != '{' {
		return true // no message, for encoding/json as well
	}
	if !message.Exact(messageNames) {
		return false
	}
	r.parts.message = message
	for key, v := range message.Members() {
		switch string(key) {
		case "id":
			r.Message.ID = recurring(v, before.Message.ID)
		case "model":
			r.Message.Model = recurring(v, before.Message.Model)
		case "content":
			r.Message.Content, r.parts.content = v.Raw(), v
		case "usage":
			r.Message.Usage, r.parts.usage = v.Raw(), v
		case "stop_reason":
			r.Message.Stop = recurring(v, before.Message.Stop)
		}
	}
	return true
}

// recurring is the text of a value, "" for anything but a string; text if it is that
// again.
func recurring(v convert.Value, text string) string {
	if v.Is(text) {
		return text
	}
	text, _ = v.Text()
	return text
}

// number reads a number, 0 for anything else and for one that is out of range.
func number(v convert.Value) float64 {
	if v.Kind() != '0' {
		return 0
	}
	f, err := strconv.ParseFloat(string(v.Raw()), 64)
	if err != nil {
		return 0
	}
	return f
}

// resultField is the text under a key of the tool's result.
func (r record) resultField(key string) string {
	if r.parts.scanned() {
		return r.parts.result.Field(key)
	}
	return convert.Field(r.Result, key)
}

// blocks are the blocks of the message.
func (r record) blocks(depth int) (blocks []tidemark.Block, isString bool) {
	v := r.parts.content
	switch v.Kind() {
	case '"':
		text, _ := v.Text()
		return []tidemark.Block{tidemark.Text(text)}, true
	case '[':
		for e := range v.Elements() {
			b, err := decoder().Value(e, depth)
			blocks = append(blocks, blockFrom(b, err, e.Raw()))
		}
		return blocks, false
	}
	return contentOf(r.Message.Content, depth)
}

// lastBlock is the type of the last block of the message, "" if there is none.
func (r record) lastBlock() (last string) {
	v := r.parts.content
	switch v.Kind() {
	case '"':
		return tidemark.BlockText
	case '[':
		for e := range v.Elements() {
			last = e.Field("type")
		}
		return last
	}
	_, list, isString := wire.Content(r.Message.Content)
	switch {
	case isString:
		return tidemark.BlockText
	case len(list) == 0:
		return ""
	}
	return convert.Field(list[len(list)-1], "type")
}

// tokens is the usage of the message, nil if there is none.
func (r record) tokens() *tidemark.Usage {
	v := r.parts.usage
	if !v.Exact(usageNames) {
		return usageOf(r.Message.Usage)
	}
	var in, out, read, write float64
	for key, v := range v.Members() {
		switch string(key) {
		case "input_tokens":
			in = number(v)
		case "output_tokens":
			out = number(v)
		case "cache_read_input_tokens":
			read = number(v)
		case "cache_creation_input_tokens":
			write = number(v)
		}
	}
	return usage(in, out, read, write)
}

// scanCalls yields the calls of a message with the prompts that they gave; ok is
// false for one that encoding/json has to read.
func (r record) scanCalls(see func(id, prompt string)) (ok bool) {
	content := r.parts.content
	if content.Kind() != '[' {
		return r.parts.scanned()
	}
	for e := range content.Elements() {
		if e.Kind() == '{' && !e.Exact(callNames) {
			return false
		}
	}
	for e := range content.Elements() {
		var id string
		var input convert.Value
		for key, v := range e.Members() {
			switch string(key) {
			case "id":
				id, _ = v.Text()
			case "input":
				input = v
			}
		}
		if prompt := input.Field("prompt"); prompt != "" {
			see(id, prompt)
		}
	}
	return true
}

// size is about what appendRecord adds.
func (k *kept) size() int {
	n := len(k.line.Raw()) + 64
	for key, v := range k.line.Members() {
		if k.stripped && string(key) == "message" {
			for key, v := range v.Members() {
				if string(key) == "content" {
					n -= len(v.Raw())
				}
			}
		}
	}
	return n
}

// appendRecord adds a kept record whose line was scanned, as json.Marshal writes
// it.
func (k *kept) appendRecord(dst []byte) []byte {
	dst = append(dst, `{"record":`...)
	dst = appendSorted(dst, k.line, func(dst []byte, m member) []byte {
		if k.stripped && m.key == "message" {
			return appendSorted(append(dst, `"message":`...), m.value, func(dst []byte, m member) []byte {
				if m.key == "content" {
					return dst
				}
				return m.append(dst)
			})
		}
		return m.append(dst)
	})
	if k.Shape != "" {
		dst = append(append(append(dst, `,"shape":"`...), k.Shape...), '"')
	}
	if k.Blocks != 0 {
		dst = strconv.AppendInt(append(dst, `,"blocks":`...), int64(k.Blocks), 10)
	}
	if k.Fine {
		dst = append(dst, `,"fine":true`...)
	}
	return append(dst, '}')
}

// member is a key of an object and its value.
type member struct {
	key   string
	value convert.Value
}

func (m member) append(dst []byte) []byte {
	return convert.AppendHTML(append(append(append(dst, '"'), m.key...), '"', ':'), m.value.Raw())
}

// appendSorted adds an object with its keys in order; add adds a member, or
// leaves it out.
func appendSorted(dst []byte, object convert.Value, add func([]byte, member) []byte) []byte {
	all := make([]member, 0, 32)
	for key, v := range object.Members() {
		all = append(all, member{string(key), v})
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for _, m := range all {
		if dst = add(dst, m); dst[len(dst)-1] != ',' && dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
	}
	return append(bytes.TrimSuffix(dst, []byte(",")), '}')
}

// tight is a line as json.Marshal writes it.
func tight(text []byte, scanned bool) json.RawMessage {
	if scanned {
		return convert.AppendHTML(make([]byte, 0, len(text)), text)
	}
	b, err := json.Marshal(json.RawMessage(text))
	if err != nil {
		return bytes.Clone(text) // it was JSON when it was read
	}
	return b
}
