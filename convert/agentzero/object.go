package agentzero

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// object is a JSON object whose values are as they were written.
type object map[string]json.RawMessage

// text returns the text under a key, "" when there is something else.
func (o object) text(key string) (s string) {
	if json.Unmarshal(o[key], &s) != nil {
		return ""
	}
	return s
}

// isText reports whether there is a text under a key.
func (o object) isText(key string) bool {
	return len(o[key]) > 0 && o[key][0] == '"'
}

// object returns the object under a key, never nil.
func (o object) object(key string) object {
	var in object
	if json.Unmarshal(o[key], &in) != nil || in == nil {
		return object{}
	}
	return in
}

// number returns the whole number under a key.
func (o object) number(key string) (n int, ok bool) {
	err := json.Unmarshal(o[key], &n)
	return n, err == nil && o[key] != nil && string(o[key]) != "null"
}

// time returns the time under a key, zero when there is none.
func (o object) time(key string) time.Time {
	return convert.ParseTime(o.text(key))
}

func (o object) set(key string, value any) {
	if b, err := convert.Encode(value); err == nil {
		o[key] = b
	}
}

// without returns a copy of o that lacks keys.
func (o object) without(keys ...string) object {
	rest := make(object, len(o))
	for k, v := range o {
		rest[k] = v
	}
	for _, k := range keys {
		delete(rest, k)
	}
	return rest
}

// extra returns what an entry, session or checkpoint keeps of o.
func (o object) extra() json.RawMessage {
	b, err := convert.Encode(map[string]object{toolName: o})
	if err != nil {
		return nil
	}
	return b
}

// kept returns what extra kept; own is false for what came from elsewhere.
func kept(extra json.RawMessage) (o object, own bool) {
	var tools object
	if json.Unmarshal(extra, &tools) == nil && json.Unmarshal(tools[toolName], &o) == nil && o != nil {
		return o, true
	}
	return object{}, false
}

// pretty encodes as AgentZero does: two spaces, no newline at the end.
func pretty(v any) ([]byte, error) {
	b, err := convert.Encode(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// canonical returns one form for all ways to write a value.
func canonical(v any) []byte {
	raw, err := convert.Encode(v)
	if err != nil {
		return nil
	}
	return convert.Canonical(raw)
}
