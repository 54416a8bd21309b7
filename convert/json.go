package convert

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
)

// Loose decodes JSON and does not mind a field of another type than expected:
// the field stays empty, the rest is taken. One odd field is no reason to lose
// a message.
func Loose(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return nil
	}
	return err
}

// Encode is json.Marshal without the escapes that are meant for web pages: text
// stands in the file as it was typed.
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

// Keep wraps fields that have no place here for an Extra, under the name of
// their tool; nil when there are none.
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

// Canonical returns one form for all ways to write a value: keys in order, no
// blanks, numbers as they are written. What is no JSON stays as it is.
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

// SameJSON reports whether two texts are one value, whatever the order of keys.
func SameJSON(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(Canonical(a), Canonical(b))
}

// Parts counts the keys and elements in JSON, about: the commas outside of
// texts. What is three bytes in a file is hundreds in memory, so that the
// length alone does not say what it costs to decode it.
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

// Blob decodes what is written in base 64; what is not stays as it is.
func Blob(s string) []byte {
	if s == "" {
		return nil
	}
	if b, err := base64.StdEncoding.DecodeString(s); err == nil {
		return b
	}
	return []byte(s)
}

// Elements yields the elements of a list, none for anything else.
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
