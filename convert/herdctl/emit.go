package herdctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// appendYAML writes an object as a YAML block, its keys in their order. A string
// is written so that no reader of any version of YAML takes it for anything
// else: as a block when it has several lines, in JSON quotes when it is not
// clearly a word.
func appendYAML(b []byte, raw json.RawMessage, indent int) []byte {
	if string(raw) == "{}" {
		return append(b, "{}\n"...)
	}
	for key, value := range members(raw) {
		b = append(b, strings.Repeat(" ", indent)...)
		b = append(appendKey(b, key), ':')
		switch {
		case value[0] == '{' && len(value) > 2:
			b = appendYAML(append(b, '\n'), value, indent+2)
		case value[0] == '"':
			b = append(appendText(append(b, ' '), text(value), value, indent+2), '\n')
		default: // JSON in one line is YAML
			b = append(append(append(b, ' '), escaped(value)...), '\n')
		}
	}
	return b
}

// members yields the members of a JSON object, in order.
func members(raw json.RawMessage) func(yield func(string, json.RawMessage) bool) {
	return func(yield func(string, json.RawMessage) bool) {
		dec := json.NewDecoder(bytes.NewReader(raw))
		if t, err := dec.Token(); err != nil || t != json.Delim('{') {
			return
		}
		for dec.More() {
			t, err := dec.Token()
			key, ok := t.(string)
			var value json.RawMessage
			if err != nil || !ok || dec.Decode(&value) != nil || !yield(key, compact(value)) {
				return
			}
		}
	}
}

func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return json.RawMessage("null")
	}
	return b.Bytes()
}

func appendKey(b []byte, key string) []byte {
	if isWord(key) {
		return append(b, key...)
	}
	return append(b, escaped(quoted(key))...)
}

func appendText(b []byte, s string, raw json.RawMessage, indent int) []byte {
	switch {
	case isWord(s):
		return append(b, s...)
	case !isBlock(s):
		return append(b, escaped(raw)...)
	}
	b = append(b, '|')
	if !strings.HasSuffix(s, "\n") {
		b = append(b, '-')
	}
	for line := range strings.Lines(s) {
		b = append(b, '\n')
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			b = append(append(b, strings.Repeat(" ", indent)...), line...)
		}
	}
	return b
}

// escaped escapes characters that YAML does not allow in a string or takes for a
// line break, as JSON permits.
func escaped(raw json.RawMessage) json.RawMessage {
	if !bytes.ContainsFunc(raw, isOdd) {
		return raw
	}
	var b []byte
	for _, r := range string(raw) {
		if isOdd(r) {
			b = fmt.Appendf(b, `\u%04x`, r)
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// isOdd reports whether some YAML reader does not accept r as it is.
func isOdd(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff
}

// isWord reports whether a text needs no quotes in any YAML.
func isWord(s string) bool {
	switch strings.ToLower(s) {
	case "", "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || !('0' <= c && c <= '9' || c == '_' || c == '-' || c == '.')) {
			return false
		}
	}
	return true
}

// isBlock reports whether a text can be written line by line: it has several
// lines, does not begin with a space, ends in one newline at most, and has only
// printable characters and no line breaks but newlines.
func isBlock(s string) bool {
	if !strings.Contains(s, "\n") || strings.TrimSpace(s) == "" || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") ||
		strings.HasSuffix(s, "\n\n") {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\n' || isOdd(r)
	}) && !strings.Contains(s, " \n") && !strings.HasSuffix(s, " ")
}
