package tidemark

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseBody reads the body of an entry. The result is what json.Unmarshal would
// make of b, and shares no memory with b. After an error e is unchanged.
func (d *Decoder) parseBody(b []byte, e *Entry) error {
	var v body
	if p := (parser{b: b, d: d}); p.body(&v) {
		e.Blocks, e.Model, e.Usage, e.Extra = v.Blocks, v.Model, v.Usage, v.Extra
		return nil
	}
	return parseAnyBody(b, e)
}

func parseAnyBody(b []byte, e *Entry) error {
	var v body
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	e.Blocks, e.Model, e.Usage, e.Extra = v.Blocks, v.Model, v.Usage, v.Extra
	return nil
}

// parser reads JSON as appendBody writes it. Its methods return false for
// anything else, not only for errors.
type parser struct {
	b []byte
	i int
	d *Decoder // makes what is kept of b; nil: nothing is
}

func (p *parser) body(v *body) bool {
	return p.eat('{') &&
		(!p.field(`"blocks":`) || p.blocks(&v.Blocks, 1)) &&
		(!p.field(`"model":`) || p.model(&v.Model)) &&
		(!p.field(`"usage":`) || p.usage(&v.Usage)) &&
		(!p.field(`"extra":`) || p.raw(&v.Extra, 1)) &&
		p.eat('}') && p.i == len(p.b)
}

func (p *parser) blocks(to *[]Block, depth int) bool {
	if depth+2 > maxNesting || !p.eat('[') {
		return false
	}
	for *to = p.d.block(); ; *to = append(*to, Block{}) {
		if !p.block(&(*to)[len(*to)-1], depth+2) {
			return false
		}
		if !p.eat(',') {
			return p.eat(']')
		}
	}
}

func (p *parser) block(b *Block, depth int) bool {
	ok := false
	if p.literal(`{"type":"text","text":"`) { // most blocks are text alone
		b.Type, ok = BlockText, p.restOfText(&b.Text)
	} else {
		ok = p.eat('{') &&
			p.field(`"type":`) && p.text(&b.Type) &&
			p.textField(`"text":`, &b.Text)
	}
	if ok && p.eat('}') {
		return true
	}
	return ok &&
		p.textField(`"id":`, &b.ID) &&
		p.textField(`"name":`, &b.Name) &&
		(!p.field(`"input":`) || p.raw(&b.Input, depth)) &&
		p.textField(`"tool_use_id":`, &b.ToolUseID) &&
		(!p.field(`"is_error":`) || p.yes(&b.IsError)) &&
		(!p.field(`"blocks":`) || p.blocks(&b.Blocks, depth)) &&
		p.textField(`"media_type":`, &b.MediaType) &&
		(!p.field(`"data":`) || p.data(&b.Data)) &&
		p.textField(`"url":`, &b.URL) &&
		p.textField(`"provider":`, &b.Provider) &&
		p.textField(`"raw":`, &b.Raw) &&
		p.eat('}')
}

func (p *parser) usage(to **Usage) bool {
	u := new(Usage)
	*to = u
	return p.eat('{') &&
		p.intField(`"input_tokens":`, &u.InputTokens) &&
		p.intField(`"output_tokens":`, &u.OutputTokens) &&
		p.intField(`"cache_read_tokens":`, &u.CacheReadTokens) &&
		p.intField(`"cache_write_tokens":`, &u.CacheWriteTokens) &&
		(!p.field(`"cost_usd":`) || p.float(&u.CostUSD)) &&
		p.eat('}')
}

func (p *parser) eat(c byte) bool {
	if p.i < len(p.b) && p.b[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *parser) literal(s string) bool {
	if len(p.b)-p.i < len(s) || string(p.b[p.i:p.i+len(s)]) != s {
		return false
	}
	p.i += len(s)
	return true
}

// field skips the name of a field when it is the next one. As fields are read in
// their fixed order, none is accepted twice.
func (p *parser) field(name string) bool {
	at := p.i
	if p.b[at-1] != '{' && !p.eat(',') {
		return false
	}
	if p.literal(name) {
		return true
	}
	p.i = at
	return false
}

// textField reads a field that may be missing, as intField does.
func (p *parser) textField(name string, to *string) bool { return !p.field(name) || p.text(to) }

func (p *parser) intField(name string, to *int64) bool { return !p.field(name) || p.int(to) }

func (p *parser) yes(to *bool) bool {
	*to = true
	return p.literal("true")
}

// text reads a string.
func (p *parser) text(to *string) bool {
	if !p.eat('"') {
		return false
	}
	if n := readable(p.b[p.i:]); p.i+n < len(p.b) && p.b[p.i+n] == '"' {
		*to = p.d.word(p.b[p.i : p.i+n])
		p.i += n + 1
		return true
	}
	return p.restOfText(to)
}

// model reads a string that is mostly the one before.
func (p *parser) model(to *string) bool {
	if !p.text(to) {
		return false
	}
	p.d.model = *to
	return true
}

// word returns s as a string; words that nearly every entry holds are not
// kept again.
func (d *Decoder) word(s []byte) string {
	switch string(s) {
	case BlockText:
		return BlockText
	case BlockThinking:
		return BlockThinking
	case BlockToolUse:
		return BlockToolUse
	case BlockToolResult:
		return BlockToolResult
	}
	if string(s) == d.model {
		return d.model
	}
	return d.text(s)
}

// restOfText reads a string behind its first quote. Of a long one the end is found
// first, to allocate what it needs.
func (p *parser) restOfText(to *string) bool {
	most := len(p.b) - p.i
	if most > sharedText {
		end := p.closingQuote()
		if end < 0 {
			return false
		}
		most = end - p.i
	}
	s := p.d.room(most)
	start := s.Len()
	for more := true; more; {
		n := 0
		n, more = p.unescape(p.d.piece[:])
		s.Write(p.d.piece[:n])
	}
	*to = s.String()[start:]
	return p.eat('"') // or there was a control character, or what is not UTF-8
}

// unescape writes the next bytes of a string to a piece of memory, as they are without
// escapes, and returns how many they are. It reports false when it has come to the end
// of the string, or to what cannot be in one. Like plain, it looks at eight bytes at a
// time, and keeps them before it knows how many of them are wanted.
func (p *parser) unescape(to []byte) (n int, more bool) {
	const most = 8 + utf8.UTFMax // that a round writes
	b, i := p.b, p.i
	for n+most <= len(to) {
		if i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			binary.LittleEndian.PutUint64(to[n:], w)
			odd := oddBytes(w)
			if odd == 0 {
				i, n = i+8, n+8
				continue
			}
			same := bits.TrailingZeros64(odd) / 8
			i, n = i+same, n+same
		}
		p.i = i
		switch {
		case i == len(b) || b[i] == '"' || b[i] < ' ':
			return n, false
		case b[i] >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				return n, false
			}
			n += copy(to[n:], b[i:i+size])
			i += size
		case b[i] != '\\':
			to[n] = b[i]
			i, n = i+1, n+1
		case i+1 == len(b):
			return n, false
		case short[b[i+1]] != 0:
			to[n] = short[b[i+1]]
			i, n = i+2, n+1
		default:
			r, ok := p.unicodeEscape()
			if !ok {
				p.i = i
				return n, false
			}
			n += utf8.EncodeRune(to[n:], r)
			i = p.i
		}
	}
	p.i = i
	return n, true
}

// short is what an escape of one letter stands for, by its letter.
var short = [256]byte{'"': '"', '\\': '\\', '/': '/', 'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f'}

// closingQuote returns where the string that the parser is in ends, or -1. A
// quote is escaped when an odd number of backslashes precede it.
func (p *parser) closingQuote() int {
	for at := p.i; ; at++ {
		n := bytes.IndexByte(p.b[at:], '"')
		if n < 0 {
			return -1
		}
		at += n
		slashes := 0
		for at-slashes > p.i && p.b[at-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
	}
}

// unicodeEscape reads an escape with the number of a character. Halves of surrogate
// pairs are left to encoding/json.
func (p *parser) unicodeEscape() (rune, bool) {
	if p.b[p.i+1] != 'u' {
		return 0, false
	}
	p.i += 2
	r, ok := p.hex4()
	return r, ok && (r < 0xd800 || r > 0xdfff)
}

func (p *parser) hex4() (r rune, ok bool) {
	if len(p.b)-p.i < 4 {
		return 0, false
	}
	for _, c := range p.b[p.i : p.i+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	p.i += 4
	return r, true
}

// readable returns how many bytes at the front of b are valid UTF-8 that needs
// no escape in a JSON string.
func readable(b []byte) int {
	n := 0
	for {
		n += plain(b[n:])
		if n == len(b) || b[n] < utf8.RuneSelf {
			return n
		}
		for n < len(b) && b[n] >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(b[n:])
			if r == utf8.RuneError && size == 1 {
				return n
			}
			n += size
		}
	}
}

// data reads bytes in base64. Newlines are not valid JSON there, but the decoder
// would skip them.
func (p *parser) data(to *[]byte) bool {
	if !p.eat('"') {
		return false
	}
	n := bytes.IndexByte(p.b[p.i:], '"')
	if n < 0 {
		return false
	}
	s := p.b[p.i : p.i+n]
	p.i += n + 1
	if bytes.IndexByte(s, '\n') >= 0 || bytes.IndexByte(s, '\r') >= 0 {
		return false
	}
	d := make([]byte, base64.StdEncoding.DecodedLen(n))
	n, err := base64.StdEncoding.Decode(d, s)
	*to = d[:n]
	return err == nil
}

func (p *parser) int(to *int64) bool {
	at := p.i
	if !p.number() {
		return false
	}
	n, err := strconv.ParseInt(string(p.b[at:p.i]), 10, 64)
	*to = n
	return err == nil
}

func (p *parser) float(to *float64) bool {
	at := p.i
	if !p.number() {
		return false
	}
	f, err := strconv.ParseFloat(string(p.b[at:p.i]), 64)
	*to = f
	return err == nil
}

// raw reads any value without white space, and keeps it verbatim.
func (p *parser) raw(to *json.RawMessage, depth int) bool {
	at := p.i
	if !p.value(depth) {
		return false
	}
	*to = bytes.Clone(p.b[at:p.i])
	return true
}

// value skips any value without white space; depth is how many brackets are open
// around it. Its recursion ends at maxNesting.
func (p *parser) value(depth int) bool {
	if p.i == len(p.b) {
		return false
	}
	switch p.b[p.i] {
	case '{':
		return depth < maxNesting && p.members(depth+1)
	case '[':
		return depth < maxNesting && p.elements(depth+1)
	case '"':
		return p.string()
	case 't':
		return p.literal("true")
	case 'f':
		return p.literal("false")
	case 'n':
		return p.literal("null")
	}
	return p.number()
}

func (p *parser) members(depth int) bool {
	p.i++
	if p.eat('}') {
		return true
	}
	for p.string() && p.eat(':') && p.value(depth) {
		if !p.eat(',') {
			return p.eat('}')
		}
	}
	return false
}

func (p *parser) elements(depth int) bool {
	p.i++
	if p.eat(']') {
		return true
	}
	for p.value(depth) {
		if !p.eat(',') {
			return p.eat(']')
		}
	}
	return false
}

// string skips a string. Like encoding/json, it leaves bytes that are not UTF-8
// to whoever reads the value.
func (p *parser) string() bool {
	if !p.eat('"') {
		return false
	}
	for {
		p.i += plain(p.b[p.i:])
		switch {
		case p.eat('"'):
			return true
		case p.i == len(p.b) || p.b[p.i] < ' ':
			return false
		case p.b[p.i] != '\\':
			p.i++
		case p.i+1 == len(p.b):
			return false
		case p.b[p.i+1] == 'u':
			p.i += 2
			if _, ok := p.hex4(); !ok {
				return false
			}
		case strings.IndexByte(`"\/bfnrt`, p.b[p.i+1]) < 0:
			return false
		default:
			p.i += 2
		}
	}
}

// number skips a number.
func (p *parser) number() bool {
	p.eat('-')
	if !p.eat('0') && !p.digits() {
		return false
	}
	if p.eat('.') && !p.digits() {
		return false
	}
	if p.eat('e') || p.eat('E') {
		if !p.eat('+') {
			p.eat('-')
		}
		return p.digits()
	}
	return true
}

func (p *parser) digits() bool {
	at := p.i
	for p.i < len(p.b) && p.b[p.i] >= '0' && p.b[p.i] <= '9' {
		p.i++
	}
	return p.i > at
}
