package tidemark

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// The body of an entry is JSON, and reading a session parses one for every entry
// it shows. So the exact form that appendBody writes is read by a parser made
// for it: fields in the order of the struct, no white space, no null. Anything
// else goes to encoding/json, which alone decides what it means and whether it
// is an error. Both give the same entry for the same bytes.

// maxNesting is how many brackets may be open at once. It is the limit of
// encoding/json for reading; the writer keeps to it too, so that nothing is
// written that cannot be read again.
const maxNesting = 10_000

var errNesting = errors.New("nested too deeply")

// appendBody writes the body of an entry as JSON without newlines. It is an
// error when Extra or an Input is not JSON, or a number is not finite.
func appendBody(dst []byte, e *Entry) ([]byte, error) {
	if dst == nil {
		dst = make([]byte, 0, bodySize(e))
	}
	var err error
	dst = append(dst, '{')
	if len(e.Blocks) > 0 {
		dst = append(dst, `"blocks":`...)
		if dst, err = appendBlocks(dst, e.Blocks, 1); err != nil {
			return nil, err
		}
	}
	dst = appendText(dst, `"model":`, e.Model)
	if e.Usage != nil {
		if dst, err = appendUsage(appendName(dst, `"usage":`), e.Usage); err != nil {
			return nil, fmt.Errorf("usage: %w", err)
		}
	}
	if len(e.Extra) > 0 {
		if dst, err = appendRaw(appendName(dst, `"extra":`), e.Extra, 1); err != nil {
			return nil, fmt.Errorf("extra: %w", err)
		}
	}
	return append(dst, '}'), nil
}

// bodySize estimates the size of a body, a little high, so that most bodies are
// written without growing the buffer.
func bodySize(e *Entry) int {
	n := 48 + len(e.Model) + len(e.Extra)
	if e.Usage != nil {
		n += 160
	}
	for i := range e.Blocks {
		b := &e.Blocks[i]
		n += 40 + len(b.Text) + len(b.Text)/16 + len(b.Input) + len(b.Data)/3*4 + len(b.Raw) + len(b.Raw)/8
		if b.Type != BlockText {
			n += 128
		}
	}
	return n
}

// appendBlocks writes blocks; depth is how many brackets are open already.
func appendBlocks(dst []byte, blocks []Block, depth int) ([]byte, error) {
	if depth+2 > maxNesting {
		return nil, errNesting
	}
	var err error
	dst = append(dst, '[')
	for i := range blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendBlock(dst, &blocks[i], depth+2); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendBlock(dst []byte, b *Block, depth int) ([]byte, error) {
	var err error
	dst = appendString(append(dst, `{"type":`...), b.Type)
	dst = appendText(dst, `"text":`, b.Text)
	dst = appendText(dst, `"id":`, b.ID)
	dst = appendText(dst, `"name":`, b.Name)
	if len(b.Input) > 0 {
		if dst, err = appendRaw(appendName(dst, `"input":`), b.Input, depth); err != nil {
			return nil, fmt.Errorf("input of %q: %w", clip(b.Name), err)
		}
	}
	dst = appendText(dst, `"tool_use_id":`, b.ToolUseID)
	if b.IsError {
		dst = append(appendName(dst, `"is_error":`), "true"...)
	}
	if len(b.Blocks) > 0 {
		if dst, err = appendBlocks(appendName(dst, `"blocks":`), b.Blocks, depth); err != nil {
			return nil, err
		}
	}
	dst = appendText(dst, `"media_type":`, b.MediaType)
	if len(b.Data) > 0 {
		dst = append(appendName(dst, `"data":`), '"')
		dst = append(base64.StdEncoding.AppendEncode(dst, b.Data), '"')
	}
	dst = appendText(dst, `"url":`, b.URL)
	dst = appendText(dst, `"provider":`, b.Provider)
	dst = appendText(dst, `"raw":`, b.Raw)
	return append(dst, '}'), nil
}

func appendUsage(dst []byte, u *Usage) ([]byte, error) {
	dst = append(dst, '{')
	dst = appendInt(dst, `"input_tokens":`, u.InputTokens)
	dst = appendInt(dst, `"output_tokens":`, u.OutputTokens)
	dst = appendInt(dst, `"cache_read_tokens":`, u.CacheReadTokens)
	dst = appendInt(dst, `"cache_write_tokens":`, u.CacheWriteTokens)
	if f := u.CostUSD; f != 0 {
		dst = appendName(dst, `"cost_usd":`)
		if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
			dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
		} else {
			b, err := json.Marshal(f) // exponents, and numbers that are not finite
			if err != nil {
				return nil, err
			}
			dst = append(dst, b...)
		}
	}
	return append(dst, '}'), nil
}

// appendName begins a field. No value ends in an opening brace, so the previous
// byte tells whether this is the first field.
func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(dst, name...)
}

func appendText(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	return appendString(appendName(dst, name), s)
}

func appendInt(dst []byte, name string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(appendName(dst, name), n, 10)
}

// appendRaw writes foreign JSON without its white space.
func appendRaw(dst []byte, raw json.RawMessage, depth int) ([]byte, error) {
	p := parser{b: raw}
	if p.value(depth) && p.i == len(raw) {
		return append(dst, raw...), nil
	}
	var tight bytes.Buffer
	if err := json.Compact(&tight, raw); err != nil {
		return nil, err
	}
	p = parser{b: tight.Bytes()}
	if !p.value(depth) {
		return nil, errNesting // Compact refuses everything else that value refuses
	}
	return append(dst, p.b...), nil
}

// appendString writes s as encoding/json does without escaping for HTML: people
// read these files.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for {
		n := plain([]byte(s))
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		s = s[n:]
		c := s[0]
		if c < utf8.RuneSelf {
			dst = appendEscape(dst, c)
			s = s[1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, `\ufffd`...)
		case r == '\u2028':
			dst = append(dst, `\u2028`...)
		case r == '\u2029':
			dst = append(dst, `\u2029`...)
		default:
			dst = append(dst, s[:size]...)
		}
		s = s[size:]
	}
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\t':
		return append(dst, `\t`...)
	case '\r':
		return append(dst, `\r`...)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// plain returns how many bytes at the front of b are ASCII that needs no escape
// in a JSON string.
func plain(b []byte) int {
	n := 0
	for ; n+8 <= len(b); n += 8 {
		if odd := oddBytes(binary.LittleEndian.Uint64(b[n:])); odd != 0 {
			return n + bits.TrailingZeros64(odd)/8
		}
	}
	for n < len(b) && b[n] >= ' ' && b[n] < utf8.RuneSelf && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}

// oddBytes looks at eight bytes at a time: one that is not ASCII, or needs an escape in
// a JSON string, sets its highest bit. The lowest such bit is exact.
func oddBytes(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^ones*'"', w^ones*'\\'
	return ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash | w) & highs
}
