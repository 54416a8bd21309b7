package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// described are the names whose texts are the vendor's even when they are
// short.
var described = map[string]bool{"description": true}

// json replaces texts in JSON, in one value or in one per line, also in
// truncated JSON: it finds what is between quotes, and parses nothing else.
func (o own) json(b []byte) []byte {
	out := bytes.Clone(b)
	key := ""
	for i := 0; i < len(out); {
		if out[i] != '"' {
			i++
			continue
		}
		end := i + 1
		for end < len(out) && out[end] != '"' && out[end] != '\n' {
			if out[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(out))
		literal := out[i+1 : end]
		i = end + 1
		if rest := bytes.TrimLeft(out[min(i, len(out)):], " \t"); len(rest) > 0 && rest[0] == ':' {
			key = string(literal)
			continue
		}
		o.literal(literal, key)
	}
	return out
}

// literal replaces the text between two quotes, in place.
func (o own) literal(raw []byte, key string) {
	var s string
	if json.Unmarshal([]byte(`"`+string(raw)+`"`), &s) != nil {
		return // a truncated end, of a few bytes
	}
	most := usual
	if described[key] {
		most = short
	}
	var now string
	if strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[{") {
		now = string(o.json([]byte(s))) // the arguments of tools are sent as JSON
	} else {
		now = o.text(s, most)
	}
	if now == s {
		return
	}
	// Letter for letter: an escaped text keeps its length.
	for i, at := 0, 0; i < len(raw); {
		n, size := unit(raw[i:])
		if n == 1 {
			raw[i] = now[at]
		} else if c := now[at]; c != s[at] {
			const hex = "0123456789abcdef"
			raw[i+4], raw[i+5] = hex[c>>4], hex[c&15]
		}
		i, at = i+n, at+size
	}
}

// unit returns the number of bytes of the first character of a literal, and
// of its decoded form.
func unit(raw []byte) (n, size int) {
	if raw[0] != '\\' {
		_, n = utf8.DecodeRune(raw)
		if n > 1 {
			return n, n
		}
		return 1, 1
	}
	if raw[1] != 'u' {
		return 2, 1
	}
	r := hexRune(raw)
	if utf16.IsSurrogate(r) && len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(raw[6:])); pair != utf8.RuneError {
			return 12, utf8.RuneLen(pair)
		}
	}
	if utf16.IsSurrogate(r) {
		r = utf8.RuneError
	}
	return 6, utf8.RuneLen(r)
}

func hexRune(raw []byte) (r rune) {
	for _, c := range raw[2:6] {
		r <<= 4
		switch {
		case c <= '9':
			r |= rune(c - '0')
		default:
			r |= rune(c|0x20-'a') + 10
		}
	}
	return r
}
