package agentzero

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// object is a JSON object with raw values.
type object = convert.Object

// inside returns the object under a key, never nil.
func inside(o object, key string) object {
	in, _ := o.Object(key)
	return in
}

// number returns the whole number under a key.
func number(o object, key string) (n int, ok bool) {
	err := json.Unmarshal(o[key], &n)
	return n, err == nil && o[key] != nil && string(o[key]) != "null"
}

// timeAt returns the time under a key, zero when there is none.
func timeAt(o object, key string) time.Time {
	return convert.ParseTime(o.Text(key))
}

// extraOf returns o as the Extra of an entry, session or checkpoint.
func extraOf(o object) json.RawMessage {
	b, err := convert.Encode(map[string]object{toolName: o})
	if err != nil {
		return nil
	}
	return b
}

// kept returns what extraOf kept; own is false for what came from elsewhere.
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
