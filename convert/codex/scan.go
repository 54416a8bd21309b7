package codex

import (
	"bytes"
	"encoding/json"

	"github.com/tidemark-sessions/tidemark/convert"
)

// Lines are validated once and then split without validating again: a decoder at
// each level would read a rollout several times over.

// split returns the fields of an object in valid JSON. The values are slices of
// it, not copies. It is nil for anything but an object.
func split(valid []byte) map[string]json.RawMessage {
	b := space(valid)
	if len(b) == 0 || b[0] != '{' {
		return nil
	}
	fields := map[string]json.RawMessage{}
	for b = space(b[1:]); len(b) > 0 && b[0] == '"'; b = space(b[1:]) {
		n := valueEnd(b)
		var key string
		text(b[:n], &key)
		b = space(space(b[n:])[1:]) // over the colon
		n = valueEnd(b)
		fields[key] = json.RawMessage(b[:n:n])
		if b = space(b[n:]); len(b) == 0 || b[0] != ',' {
			break
		}
	}
	return fields
}

// elements is split for an array.
func elements(valid []byte) ([]json.RawMessage, bool) {
	b := space(valid)
	if len(b) == 0 || b[0] != '[' {
		return nil, false
	}
	all := []json.RawMessage{}
	for b = space(b[1:]); len(b) > 0 && b[0] != ']'; {
		n := valueEnd(b)
		all = append(all, json.RawMessage(b[:n:n]))
		if b = space(b[n:]); len(b) > 0 && b[0] == ',' {
			b = space(b[1:])
		}
	}
	return all, true
}

func space(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// valueEnd returns the length of the value at the start of valid JSON.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
			if depth < 0 {
				return i
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(b)
}

// stringEnd returns the length of the string at the start of b.
func stringEnd(b []byte) int {
	i := 1
	for i < len(b) {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		i += n + 1
		slashes := 0
		for j := i - 2; j > 0 && b[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return len(b)
}

// text reads a JSON string; for anything else it returns false and leaves s
// unchanged.
func text(raw []byte, s *string) bool {
	t, ok := convert.Text(raw)
	if ok {
		*s = t
	}
	return ok
}
