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
	"strings"
	"unicode/utf8"
)

// The body of an entry is JSON, and every read of a session parses as many of
// them as it shows. So the form that appendBody writes is read by a parser
// that knows it: fields in the order of the struct, no blanks, no null.
// Whatever is not in that form goes to encoding/json, which decides alone what
// it means and whether it is an error. Both give the same entry for the same
// bytes.

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

// bodySize guesses the size of a body, a little high, so that most bodies are
// written without moving.
func bodySize(e *Entry) int {
	n := 160 + len(e.Model) + len(e.Extra)
	for i := range e.Blocks {
		b := &e.Blocks[i]
		n += 96 + len(b.Text) + len(b.Text)/16 + len(b.Input) + len(b.Data)/3*4 + len(b.Raw) + len(b.Raw)/8
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
			b, err := json.Marshal(f) // exponents, and what is not finite
			if err != nil {
				return nil, err
			}
			dst = append(dst, b...)
		}
	}
	return append(dst, '}'), nil
}

// appendName begins a field. No value ends in an opening brace, so the byte
// before tells whether this is the first.
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

// appendRaw writes foreign JSON without its blanks.
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
		return nil, errNesting // all else that value refuses is refused by Compact
	}
	return append(dst, p.b...), nil
}

// appendString writes s as encoding/json does when it does not escape for
// HTML: people read these files.
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

// plain returns how many bytes at the front of b are ASCII that stands for
// itself in a JSON string. It looks at eight bytes at a time: a byte that does
// not stand for itself leaves its highest bit set in odd, and the lowest such
// bit is exact.
func plain(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(b); n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, slash := w^ones*'"', w^ones*'\\'
		odd := ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash | w) & highs
		if odd != 0 {
			return n + bits.TrailingZeros64(odd)/8
		}
	}
	for n < len(b) && b[n] >= ' ' && b[n] < utf8.RuneSelf && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}

// parseBody reads the body of an entry. It means what json.Unmarshal would
// make of b, and keeps nothing of b. After an error e is as it was.
func parseBody(b []byte, e *Entry) error {
	var v body
	if p := (parser{b: b}); p.body(&v) {
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
}

func (p *parser) body(v *body) bool {
	return p.eat('{') &&
		(!p.field(`"blocks":`) || p.blocks(&v.Blocks, 1)) &&
		p.textField(`"model":`, &v.Model) &&
		(!p.field(`"usage":`) || p.usage(&v.Usage)) &&
		(!p.field(`"extra":`) || p.raw(&v.Extra, 1)) &&
		p.eat('}') && p.i == len(p.b)
}

func (p *parser) blocks(to *[]Block, depth int) bool {
	if depth+2 > maxNesting || !p.eat('[') {
		return false
	}
	for {
		*to = append(*to, Block{})
		if !p.block(&(*to)[len(*to)-1], depth+2) {
			return false
		}
		if !p.eat(',') {
			return p.eat(']')
		}
	}
}

func (p *parser) block(b *Block, depth int) bool {
	ok := p.eat('{') &&
		p.field(`"type":`) && p.text(&b.Type) &&
		p.textField(`"text":`, &b.Text)
	if ok && p.eat('}') {
		return true // most blocks are text alone
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

// field steps over the name of a field when it is the next one. As the fields
// are asked for in their order, none is met twice.
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
	n := readable(p.b[p.i:])
	s := p.b[p.i : p.i+n]
	p.i += n
	if p.eat('"') {
		*to = word(s)
		return true
	}
	return p.escapedText(to, s)
}

// word returns s as a string; the words that nearly every entry holds are not
// made anew.
func word(s []byte) string {
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
	return string(s)
}

// escapedText reads the rest of a string that begins with front and goes on
// with an escape. It looks for the end first, to make room once.
func (p *parser) escapedText(to *string, front []byte) bool {
	end := p.closingQuote()
	if end < 0 {
		return false
	}
	var s strings.Builder
	s.Grow(len(front) + end - p.i)
	s.Write(front)
	for p.i < end {
		if p.b[p.i] == '\\' {
			r, ok := p.escape()
			if !ok {
				return false
			}
			s.WriteRune(r)
			continue
		}
		n := readable(p.b[p.i:end])
		if n == 0 {
			return false // a control character, or not UTF-8
		}
		s.Write(p.b[p.i : p.i+n])
		p.i += n
	}
	*to = s.String()
	return p.eat('"')
}

// closingQuote returns where the string ends that the parser stands in, -1
// when it does not. A quote is escaped when the backslashes before it are odd
// in number.
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

// escape reads one escape. Halves of surrogate pairs are left to encoding/json.
func (p *parser) escape() (rune, bool) {
	if p.i+1 >= len(p.b) {
		return 0, false
	}
	c := p.b[p.i+1]
	p.i += 2
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'n':
		return '\n', true
	case 't':
		return '\t', true
	case 'r':
		return '\r', true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'u':
		r, ok := p.hex4()
		return r, ok && (r < 0xd800 || r > 0xdfff)
	}
	return 0, false
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

// readable returns how many bytes at the front of b are valid UTF-8 that
// stands for itself in a JSON string.
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

// data reads bytes in base64. Newlines are not JSON there, but the decoder
// would step over them.
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

// raw reads any value without blanks, and keeps it as it stands.
func (p *parser) raw(to *json.RawMessage, depth int) bool {
	at := p.i
	if !p.value(depth) {
		return false
	}
	*to = bytes.Clone(p.b[at:p.i])
	return true
}

// value steps over any value without blanks; depth is how many brackets are
// open around it. Its recursion ends at maxNesting.
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

// string steps over a string. Like encoding/json, it leaves bytes that are not
// UTF-8 to whoever reads the value.
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

// number steps over a number.
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
