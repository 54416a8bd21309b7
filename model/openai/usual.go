package openai

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// usual reads a chunk in the spelling that nearly all of a stream has: one choice
// with more text, or thought, and nothing else that counts. It makes no garbage
// beside that text: an answer has ten thousand of them, and a program that has
// much in memory pays for each collection. ok is false for any other chunk, which
// encoding/json reads; for those it reads, it reads the same.
func usual(data []byte) (c usualChunk, ok bool) {
	s := scanner{rest: data}
	ok = s.object(func(key []byte) bool {
		switch string(key) {
		case "choices":
			return c.once(hasChoices) && s.skip('[') && s.object(func(key []byte) bool { return c.choice(&s, key) }) && s.skip(']')
		case "model":
			if !c.once(hasModel) {
				return false
			}
			var plain bool
			c.model, plain = s.plain()
			return plain
		case "usage", "error":
			return s.null()
		}
		return ignorable[string(key)] && s.scalar()
	})
	return c, ok && s.end() && c.has&hasDelta != 0
}

// usualChunk is what counts of a usual chunk.
type usualChunk struct {
	model, content, reasoning []byte // as they stand in JSON, between the quotes
	has                       uint8
}

const (
	hasChoices = 1 << iota
	hasModel
	hasIndex
	hasDelta
	hasContent
	hasReasoning
)

// once reports whether a key is there for the first time: of two that are the
// same, encoding/json knows which counts.
func (c *usualChunk) once(bit uint8) bool {
	first := c.has&bit == 0
	c.has |= bit
	return first
}

// ignorable are keys of a chunk and of a choice that do not count. A key that is
// spelled with other letters may be one that does.
var ignorable = map[string]bool{"id": true, "object": true, "created": true, "system_fingerprint": true, "service_tier": true, "obfuscation": true,
	"provider": true, "logprobs": true, "native_finish_reason": true, "stop_reason": true, "token_ids": true, "role": true}

func (c *usualChunk) choice(s *scanner, key []byte) bool {
	switch string(key) {
	case "index":
		return c.once(hasIndex) && s.skip('0') && !s.number()
	case "delta":
		return c.once(hasDelta) && s.object(func(key []byte) bool { return c.delta(s, key) })
	case "finish_reason":
		return s.null()
	}
	return ignorable[string(key)] && s.scalar()
}

func (c *usualChunk) delta(s *scanner, key []byte) (ok bool) {
	switch string(key) {
	case "content":
		c.content, ok = s.text()
		return ok && c.once(hasContent)
	case "reasoning_content":
		c.reasoning, ok = s.text()
		return ok && c.once(hasReasoning)
	case "refusal", "tool_calls", "function_call":
		return s.null()
	}
	return ignorable[string(key)] && s.scalar()
}

// unquote returns the text that stands between quotes in JSON.
func unquote(inner []byte) (string, bool) {
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	var text string
	quoted := append(append(append(make([]byte, 0, len(inner)+2), '"'), inner...), '"')
	err := json.Unmarshal(quoted, &text)
	return text, err == nil
}

// scanner goes through JSON. What it does not know it does not skip.
type scanner struct{ rest []byte }

func (s *scanner) space() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\n' || s.rest[0] == '\t' || s.rest[0] == '\r') {
		s.rest = s.rest[1:]
	}
}

// skip skips one byte, if that is next.
func (s *scanner) skip(b byte) bool {
	s.space()
	if len(s.rest) == 0 || s.rest[0] != b {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) end() bool {
	s.space()
	return len(s.rest) == 0
}

// object goes through an object; member reads the value of each key.
func (s *scanner) object(member func(key []byte) bool) bool {
	if !s.skip('{') {
		return false
	}
	if s.skip('}') {
		return true
	}
	for {
		key, ok := s.plain()
		if !ok || !s.skip(':') || !member(key) {
			return false
		}
		if !s.skip(',') {
			return s.skip('}')
		}
	}
}

// text reads a string, and returns what is between its quotes; null is an empty
// one.
func (s *scanner) text() ([]byte, bool) {
	if s.null() {
		return nil, true
	}
	if !s.skip('"') {
		return nil, false
	}
	for i, b := range s.rest {
		switch {
		case b < ' ':
			return nil, false
		case b == '"' && !escaped(s.rest[:i]):
			inner := s.rest[:i]
			s.rest = s.rest[i+1:]
			return inner, utf8.Valid(inner)
		}
	}
	return nil, false
}

// escaped reports whether what follows is behind a backslash.
func escaped(before []byte) bool {
	return (len(before)-len(bytes.TrimRight(before, `\`)))%2 == 1
}

// plain reads a string that has no escapes.
func (s *scanner) plain() ([]byte, bool) {
	s.space()
	if len(s.rest) == 0 || s.rest[0] != '"' {
		return nil, false
	}
	inner, ok := s.text()
	return inner, ok && bytes.IndexByte(inner, '\\') < 0
}

func (s *scanner) null() bool { return s.word("null") }

func (s *scanner) word(word string) bool {
	s.space()
	rest, ok := bytes.CutPrefix(s.rest, []byte(word))
	if ok {
		s.rest = rest
	}
	return ok
}

// number reports whether a number goes on.
func (s *scanner) number() bool {
	return len(s.rest) > 0 && (s.rest[0] >= '0' && s.rest[0] <= '9' || s.rest[0] == '.' || s.rest[0]|0x20 == 'e')
}

// scalar skips a string without escapes, a whole number, a word or an empty
// list.
func (s *scanner) scalar() bool {
	if s.space(); len(s.rest) > 0 && s.rest[0] == '"' {
		_, ok := s.plain()
		return ok
	}
	if s.word("true") || s.word("false") || s.null() {
		return true
	}
	if s.skip('[') {
		return s.skip(']')
	}
	s.space()
	n := 0
	for n < len(s.rest) && s.rest[n] >= '0' && s.rest[n] <= '9' {
		n++
	}
	if n == 0 || n > 1 && s.rest[0] == '0' {
		return false
	}
	s.rest = s.rest[n:]
	return !s.number()
}
