package convert

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// A transcript is mostly JSON that a program wrote: no white space between
// tokens, keys in the letters that they always have. Such a line is checked and
// split into its values in one pass, without a copy. Everything else is refused
// and goes to encoding/json, which alone decides what it means: a converter has
// to make the same bytes of a line as before, or the next import would take the
// entry for another one.

// Scanner splits one JSON text after the other. The zero Scanner is ready.
type Scanner struct {
	text  []byte
	nodes []node
	at    int
}

// node is a value, or the key of a member, which is in front of its value.
type node struct {
	start, end uint32
	after      uint32 // the index of the first node that is not inside this one
	odd        bool   // a string with an escape; an object with a key that is not plain
	wide       bool   // a string with bytes that are not ASCII
}

// maxScanned bounds how deep values are nested; encoding/json reads deeper ones.
const maxScanned = 200

// Scan splits a text, which is not copied. It returns false for one that is not
// JSON, and for one with white space between tokens or nested very deeply. The
// Value is valid until the next Scan and as long as text is unchanged.
func (s *Scanner) Scan(text []byte) (Value, bool) {
	s.text, s.nodes, s.at = text, s.nodes[:0], 0
	if len(text) > MaxLine || !s.value(0) || s.at != len(text) {
		return Value{}, false
	}
	return Value{s, 0}, true
}

func (s *Scanner) value(depth int) bool {
	if s.at == len(s.text) || depth > maxScanned {
		return false
	}
	n := len(s.nodes)
	start := s.at
	s.nodes = append(s.nodes, node{start: uint32(start)})
	ok := false
	switch s.text[start] {
	case '{':
		ok = s.object(n, depth)
	case '[':
		ok = s.array(depth)
	case '"':
		return s.string(n)
	case 't':
		ok = s.word("true")
	case 'f':
		ok = s.word("false")
	case 'n':
		ok = s.word("null")
	default:
		ok = s.number()
	}
	s.nodes[n].end, s.nodes[n].after = uint32(s.at), uint32(len(s.nodes))
	return ok
}

func (s *Scanner) object(n, depth int) bool {
	s.at++
	if s.next('}') {
		return true
	}
	for {
		k := len(s.nodes)
		s.nodes = append(s.nodes, node{start: uint32(s.at)})
		if s.at == len(s.text) || s.text[s.at] != '"' || !s.string(k) {
			return false
		}
		if key := &s.nodes[k]; key.odd || key.wide || !plainKey(s.text[key.start+1:key.end-1]) {
			s.nodes[n].odd = true
		}
		if !s.next(':') || !s.value(depth+1) {
			return false
		}
		if !s.next(',') {
			return s.next('}')
		}
	}
}

// plainKey reports whether a key is written the same by every encoder.
func plainKey(key []byte) bool {
	for _, c := range key {
		if c == '<' || c == '>' || c == '&' || c == 0x7f {
			return false
		}
	}
	return true
}

func (s *Scanner) array(depth int) bool {
	s.at++
	if s.next(']') {
		return true
	}
	for s.value(depth + 1) {
		if !s.next(',') {
			return s.next(']')
		}
	}
	return false
}

// string reads a string into the node n.
func (s *Scanner) string(n int) bool {
	s.at++
	escaped, wide := false, false
	for {
		length, more := inString(s.text[s.at:])
		s.at += length
		wide = wide || more
		if s.at == len(s.text) {
			return false
		}
		switch s.text[s.at] {
		case '"':
			s.at++
			s.nodes[n].odd, s.nodes[n].wide = escaped, wide
			s.nodes[n].end, s.nodes[n].after = uint32(s.at), uint32(len(s.nodes))
			return true
		case '\\':
			escaped = true
			_, size := unescape(s.text[s.at:])
			if size == 0 {
				return false
			}
			s.at += size
		default:
			return false // a control character
		}
	}
}

func (s *Scanner) word(w string) bool {
	if len(s.text)-s.at < len(w) || string(s.text[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

func (s *Scanner) number() bool {
	s.next('-')
	if !s.next('0') && !s.digits() {
		return false
	}
	if s.next('.') && !s.digits() {
		return false
	}
	if s.next('e') || s.next('E') {
		if !s.next('+') {
			s.next('-')
		}
		return s.digits()
	}
	return true
}

func (s *Scanner) digits() bool {
	start := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}

func (s *Scanner) next(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

// inString returns how many bytes at the front of b are in a string before its
// end, an escape or a control character, and whether some of them are not ASCII.
// It looks at eight bytes at a time: a byte that stops it sets its highest bit
// in stop, and the lowest such bit is exact.
func inString(b []byte) (n int, wide bool) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	var seen uint64
	for ; n+8 <= len(b); n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, slash := w^ones*'"', w^ones*'\\'
		stop := ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
		if stop != 0 {
			length := bits.TrailingZeros64(stop) / 8
			seen |= w & (1<<(8*length) - 1)
			return n + length, seen&highs != 0
		}
		seen |= w
	}
	for ; n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\'; n++ {
		seen |= uint64(b[n])
	}
	return n, seen&highs != 0
}

// unescape reads the escape at the front of b; size is 0 if it is none. A half of
// a surrogate pair is returned as it is.
func unescape(b []byte) (r rune, size int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch c := b[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
	default:
		return 0, 0
	}
	if len(b) < 6 {
		return 0, 0
	}
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, 0
		}
	}
	return r, 6
}

// Value is a value in a text that was scanned. The zero Value is none.
type Value struct {
	s  *Scanner
	at uint32
}

// Kind is what begins a value: one of {["tfn, or 0 for a number.
func (v Value) Kind() byte {
	if v.s == nil {
		return ' '
	}
	if c := v.s.text[v.s.nodes[v.at].start]; c > '9' || c == '"' {
		return c
	}
	return '0'
}

// Raw is the value as it is written, in the memory of the text; nil for none.
func (v Value) Raw() []byte {
	if v.s == nil {
		return nil
	}
	n := v.s.nodes[v.at]
	return v.s.text[n.start:n.end:n.end]
}

// Names are the keys that encoding/json has fields for, by their length. It also
// takes them in other letters.
type Names [][]string

// NamesOf returns the names in the order of their length.
func NamesOf(names ...string) Names {
	var all Names
	for _, name := range names {
		for len(all) <= len(name) {
			all = append(all, nil)
		}
		all[len(name)] = append(all[len(name)], name)
	}
	return all
}

// maxMembers bounds the objects whose keys are compared with each other.
const maxMembers = 64

// Exact reports whether an object has one meaning for everyone who reads it: all
// keys are plain, none is there twice, and none is one of names but for its
// letters.
func (v Value) Exact(names Names) bool {
	if v.Kind() != '{' || !v.Plain() {
		return false
	}
	var keys [maxMembers][]byte
	n := 0
	for key := range v.Members() {
		if n == maxMembers {
			return false
		}
		for _, other := range keys[:n] {
			if bytes.Equal(key, other) {
				return false
			}
		}
		keys[n] = key
		n++
		if len(key) < len(names) {
			for _, name := range names[len(key)] {
				if string(key) != name && sameLetters(key, name) {
					return false
				}
			}
		}
	}
	return true
}

// sameLetters compares ASCII whatever its case; the lengths are the same.
func sameLetters(key []byte, name string) bool {
	for i, c := range key {
		if (c^name[i])&^0x20 != 0 {
			return false
		}
	}
	return true
}

// Field is the text under a key of an object, as the function Field finds it.
func (v Value) Field(key string) string {
	if v.Kind() != '{' {
		return ""
	}
	if !v.Plain() {
		return Field(v.Raw(), key)
	}
	var last Value
	for k, member := range v.Members() {
		if string(k) == key {
			last = member
		}
	}
	s, _ := last.Text()
	return s
}

// Plain reports whether every key of an object is ASCII that no encoder escapes.
func (v Value) Plain() bool { return !v.s.nodes[v.at].odd }

// Members yields the keys of an object, without their quotes, and its values. The
// keys are what they are in the text: see Plain.
func (v Value) Members() iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		if v.Kind() != '{' {
			return
		}
		nodes := v.s.nodes
		for at := v.at + 1; at < nodes[v.at].after; at = nodes[at+1].after {
			if !yield(v.s.text[nodes[at].start+1:nodes[at].end-1], Value{v.s, at + 1}) {
				return
			}
		}
	}
}

// Elements yields the elements of an array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != '[' {
			return
		}
		nodes := v.s.nodes
		for at := v.at + 1; at < nodes[v.at].after; at = nodes[at].after {
			if !yield(Value{v.s, at}) {
				return
			}
		}
	}
}

// Text is the text of a string; ok is false for anything else.
func (v Value) Text() (s string, ok bool) {
	if v.Kind() != '"' {
		return "", false
	}
	n := v.s.nodes[v.at]
	if raw := v.s.text[n.start:n.end]; n.odd || n.wide {
		return Text(raw)
	}
	return string(v.s.text[n.start+1 : n.end-1]), true
}

// Is reports whether the value is a string that is written like this, without an
// escape.
func (v Value) Is(s string) bool {
	raw := v.Raw()
	return len(raw) == len(s)+2 && raw[0] == '"' && !v.s.nodes[v.at].odd && string(raw[1:len(raw)-1]) == s
}

// AppendHTML adds JSON without white space as json.Marshal writes a RawMessage:
// with escapes for what HTML and JavaScript would misread.
func AppendHTML(dst, raw []byte) []byte {
	const hex = "0123456789abcdef"
	from := 0
	for i := 0; i < len(raw); {
		n := plainInHTML(raw[i:])
		if i += n; i == len(raw) {
			break
		}
		switch c := raw[i]; {
		case c == '<' || c == '>' || c == '&':
			dst = append(dst, raw[from:i]...)
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			i++
			from = i
		case i+2 < len(raw) && raw[i+1] == 0x80 && raw[i+2]&^1 == 0xa8:
			dst = append(dst, raw[from:i]...)
			dst = append(dst, '\\', 'u', '2', '0', '2', hex[raw[i+2]&15])
			i += 3
			from = i
		default:
			i++ // another character that begins like the separators of lines
		}
	}
	return append(dst, raw[from:]...)
}

// plainInHTML returns how many bytes at the front of b are none of < > & nor the
// first of U+2028.
func plainInHTML(b []byte) (n int) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(b); n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		// < and > differ in one bit.
		less, and, wide := (w&^(ones*2))^ones*'<', w^ones*'&', w^ones*0xe2
		if stop := ((less-ones)&^less | (and-ones)&^and | (wide-ones)&^wide) & highs; stop != 0 {
			return n + bits.TrailingZeros64(stop)/8
		}
	}
	for n < len(b) && b[n] != '<' && b[n] != '>' && b[n] != '&' && b[n] != 0xe2 {
		n++
	}
	return n
}

// unescaped is the text of the inside of a JSON string, which is UTF-8; ok is
// false for what encoding/json has to read.
func unescaped(inner []byte) (text string, ok bool) {
	if !utf8.Valid(inner) {
		return "", false
	}
	var out strings.Builder
	out.Grow(len(inner))
	for {
		n, _ := inString(inner)
		out.Write(inner[:n])
		if inner = inner[n:]; len(inner) == 0 {
			return out.String(), true
		}
		r, size := unescape(inner)
		if inner[0] != '\\' || size == 0 || r >= 0xd800 && r <= 0xdfff {
			return "", false
		}
		out.WriteRune(r)
		inner = inner[size:]
	}
}
