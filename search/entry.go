package search

import (
	"encoding/json"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// MatchEntry reports whether the query matches an entry.
func (q Query) MatchEntry(e tidemark.Entry) bool { return q.Match(Text(e)) }

// Text returns the text that a query for entries is matched with: text,
// thinking, names and input of tools, their results, names and URLs of files,
// each on a line of its own. Of JSON it has keys, strings and numbers. Attached
// data and the payloads of providers are left out.
func Text(e tidemark.Entry) string {
	var b strings.Builder
	fields(e.Blocks, func(s string) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	})
	return b.String()
}

func fields(blocks []tidemark.Block, yield func(string)) {
	for _, b := range blocks {
		for _, s := range [...]string{b.Name, b.Text, b.URL} {
			if s != "" {
				yield(s)
			}
		}
		if len(b.Input) > 0 {
			yield(jsonText(string(b.Input)))
		}
		fields(b.Blocks, yield)
	}
}

// jsonText returns the keys, strings and numbers of JSON, one per line. It looks
// only at tokens, so neither depth nor damage stops it.
func jsonText(raw string) string {
	var b strings.Builder
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			end := stringEnd(raw, i)
			line(&b, unquote(raw[i:end]))
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(raw) && strings.IndexByte("+-.eE0123456789", raw[end]) >= 0 {
				end++
			}
			line(&b, raw[i:end])
			i = end
		default:
			i++
		}
	}
	return b.String()
}

func line(b *strings.Builder, s string) {
	if s == "" {
		return
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(s)
}

// stringEnd returns the end of the string that begins at i, its closing quote
// included.
func stringEnd(raw string, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// unquote returns the value of a JSON string, or its raw content when it is not
// valid.
func unquote(s string) string {
	if strings.IndexByte(s, '\\') >= 0 {
		var v string
		if json.Unmarshal([]byte(s), &v) == nil {
			return v
		}
	}
	return strings.Trim(s, `"`)
}
