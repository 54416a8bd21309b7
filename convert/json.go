package convert

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
)

// Loose decodes JSON and tolerates fields of an unexpected type: such a field
// stays empty, the rest is decoded. One odd field is no reason to lose a
// message.
func Loose(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return nil
	}
	return err
}

// Encode is json.Marshal without HTML escapes: text is in the file as it was
// typed.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Field reads one text of an object, "" when there is none.
func Field(object json.RawMessage, key string) string {
	var fields map[string]json.RawMessage
	var s string
	if json.Unmarshal(object, &fields) != nil || json.Unmarshal(fields[key], &s) != nil {
		return ""
	}
	return s
}

// Keep wraps fields that cannot be represented here as an Extra, under the name
// of their tool; nil when there are none.
func Keep(tool string, fields map[string]json.RawMessage) json.RawMessage {
	if len(fields) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any{tool: fields})
	if err != nil {
		return nil
	}
	return b
}

// Canonical returns one form for all ways to write a value: sorted keys, no
// white space, numbers verbatim. Invalid JSON stays as it is.
func Canonical(raw []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	b, err := Encode(v)
	if err != nil {
		return raw
	}
	return b
}

// SameJSON reports whether two texts are the same value, whatever the order of
// keys.
func SameJSON(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(Canonical(a), Canonical(b))
}

// Parts estimates the number of keys and elements in JSON by the commas outside
// strings. Three bytes in a file may be hundreds in memory, so the length alone
// does not say what decoding costs.
func Parts(raw []byte) (n int) {
	text := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			text = !text
		case c == '\\' && text:
			i++
		case c == ',' && !text:
			n++
		}
	}
	return n
}

// Blob decodes base64; anything else stays as it is.
func Blob(s string) []byte {
	if s == "" {
		return nil
	}
	if b, err := base64.StdEncoding.DecodeString(s); err == nil {
		return b
	}
	return []byte(s)
}

// Elements yields the elements of a JSON array, none for anything else.
func Elements(list json.RawMessage) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		dec := json.NewDecoder(bytes.NewReader(list))
		if t, err := dec.Token(); err != nil || t != json.Delim('[') {
			return
		}
		for dec.More() {
			var e json.RawMessage
			if dec.Decode(&e) != nil || !yield(e) {
				return
			}
		}
	}
}
