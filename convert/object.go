package convert

import (
	"bytes"
	"encoding/json"
	"maps"
	"unicode/utf8"
)

// Object is a JSON object with raw values.
type Object map[string]json.RawMessage

// Text returns the string under a key, "" when there is something else.
func (o Object) Text(key string) string {
	s, _ := Text(o[key])
	return s
}

// Number returns the number under a key, 0 when there is something else.
func (o Object) Number(key string) (n float64) {
	if json.Unmarshal(o[key], &n) != nil {
		return 0
	}
	return n
}

// True reports whether there is a true under a key.
func (o Object) True(key string) bool { return string(o[key]) == "true" }

// List returns the elements of the array under a key, nil when there is none.
func (o Object) List(key string) (list []json.RawMessage) {
	if json.Unmarshal(o[key], &list) != nil {
		return nil
	}
	return list
}

// Object returns the object under a key, never nil; ok is false when there is
// none.
func (o Object) Object(key string) (in Object, ok bool) {
	if json.Unmarshal(o[key], &in) != nil || in == nil {
		return Object{}, false
	}
	return in, true
}

// Take moves the string under a key out of o; when it returns false, o is
// unchanged.
func (o Object) Take(key string, s *string) bool {
	text, ok := Text(o[key])
	if ok {
		*s = text
		delete(o, key)
	}
	return ok
}

// Set puts a value under a key; one that cannot be encoded is left out.
func (o Object) Set(key string, value any) {
	if b, err := Encode(value); err == nil {
		o[key] = b
	}
}

// Without returns a copy without keys, never nil.
func (o Object) Without(keys ...string) Object {
	rest := maps.Clone(o)
	if rest == nil {
		rest = Object{}
	}
	for _, k := range keys {
		delete(rest, k)
	}
	return rest
}

// Text reads a JSON string; ok is false for anything else. Most of a transcript
// is text, so only what is hard to unescape goes to encoding/json.
func Text(raw []byte) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	if raw[len(raw)-1] == '"' {
		if s, ok = unescaped(inner); ok {
			return s, true
		}
	}
	if json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
