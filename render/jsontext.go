package render

import (
	"bytes"
	"encoding/json"
)

// appendJSON adds raw to dst, one value per line, or unchanged when it is not
// JSON after all. It stops indenting at maxIndent: ten thousand brackets
// would otherwise take a hundred megabytes of blanks.
func appendJSON(dst, raw []byte) []byte {
	if !json.Valid(raw) {
		return append(dst, raw...)
	}
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case ' ', '\t', '\r', '\n':
		case '"':
			n := stringEnd(raw[i:])
			dst = append(dst, raw[i:i+n]...)
			i += n - 1
		case '{', '[':
			dst = append(dst, c)
			rest := bytes.TrimLeft(raw[i+1:], " \t\r\n")
			if len(rest) > 0 && (rest[0] == '}' || rest[0] == ']') {
				dst = append(dst, rest[0])
				i = len(raw) - len(rest)
				continue
			}
			depth++
			dst = newLine(dst, depth)
		case '}', ']':
			depth--
			dst = append(newLine(dst, depth), c)
		case ',':
			dst = newLine(append(dst, c), depth)
		case ':':
			dst = append(dst, ": "...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func newLine(dst []byte, depth int) []byte {
	dst = append(dst, '\n')
	for range min(depth, maxIndent) {
		dst = append(dst, "  "...)
	}
	return dst
}

// stringEnd returns the length of the string at the front of raw, which is all
// of raw when it is not terminated.
func stringEnd(raw []byte) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// valueEnd returns the length of the JSON value at the front of raw.
func valueEnd(raw []byte) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i += stringEnd(raw[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(raw)
}

// member is a name with its value in a JSON object.
type member struct {
	name  string
	value []byte
}

// maxMembers is how many values of a tool's input are shown individually.
// An object with more of them is data, and is shown as JSON.
const maxMembers = 64

// members returns the members of a JSON object, in order, and false when raw
// is anything else.
func members(raw []byte) ([]member, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return nil, false
	}
	var all []member
	for rest := raw[1:]; ; {
		rest = bytes.TrimLeft(rest, ", \t\r\n")
		if len(rest) == 0 || rest[0] != '"' {
			return all, len(all) > 0
		}
		if len(all) == maxMembers {
			return nil, false
		}
		n := stringEnd(rest)
		name, _ := jsonString(rest[:n])
		rest = bytes.TrimLeft(rest[n:], ": \t\r\n")
		n = valueEnd(rest)
		all = append(all, member{name, bytes.TrimSpace(rest[:n])})
		rest = rest[n:]
	}
}

// jsonString returns the text of a JSON string, and false for any other value.
func jsonString(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), true
	}
	var s string
	return s, json.Unmarshal(value, &s) == nil
}

// edit is a replacement of one text by another.
type edit struct{ old, new string }

// editNames are the names that editing tools use for the two texts.
var editNames = [][2]string{
	{"old_string", "new_string"}, {"old_str", "new_str"}, {"old_text", "new_text"},
	{"oldString", "newString"}, {"oldText", "newText"}, {"oldStr", "newStr"},
}

// edits returns the replacements in a tool's input: its own, or those of a
// list of objects in it.
func edits(input []member) []edit {
	var all []edit
	for _, names := range editNames {
		var e edit
		found := 0
		for _, m := range input {
			s, ok := jsonString(m.value)
			switch {
			case !ok:
			case m.name == names[0]:
				e.old = s
				found |= 1
			case m.name == names[1]:
				e.new = s
				found |= 2
			}
		}
		if found == 3 {
			return []edit{e}
		}
	}
	for _, m := range input {
		if m.name != "edits" || len(m.value) == 0 || m.value[0] != '[' {
			continue
		}
		for rest := m.value[1:]; ; {
			rest = bytes.TrimLeft(rest, ", \t\r\n")
			if len(rest) == 0 || rest[0] != '{' {
				break
			}
			n := valueEnd(rest)
			inner, _ := members(rest[:n])
			all = append(all, edits(withoutLists(inner))...)
			rest = rest[n:]
		}
	}
	return all
}

// withoutLists keeps edits from searching for lists in lists.
func withoutLists(all []member) []member {
	var kept []member
	for _, m := range all {
		if len(m.value) > 0 && m.value[0] == '"' {
			kept = append(kept, m)
		}
	}
	return kept
}
