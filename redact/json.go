package redact

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// FindJSON returns the secrets of JSON, as Find would in its decoded strings: an
// escape neither hides a secret nor ends it. The positions are those in raw;
// they are inside strings and cut no escape, so that replacing them with a mask
// leaves valid JSON. Text that is not JSON is searched as it is.
func (r *Redactor) FindJSON(raw string) []Secret {
	text, origin := unescape(raw)
	found := r.Find(text)
	if len(found) == 0 {
		return nil
	}
	if !json.Valid([]byte(raw)) {
		return r.Find(raw)
	}
	quotes := quotesOf(raw)
	var kept []Secret
	for _, s := range found {
		if from, to := inString(quotes, origin.of(s.From), origin.of(s.To)); from < to {
			kept = append(kept, Secret{s.Rule, from, to})
		}
	}
	return kept
}

// origins maps positions in a text to positions in the JSON that it was decoded
// from. A nil one maps each to itself.
type origins []int32

func (o origins) of(i int) int {
	if o == nil {
		return i
	}
	return int(o[i])
}

// unescape returns raw with its escapes replaced by what they mean. Invalid
// escapes stay.
func unescape(raw string) (string, origins) {
	if strings.IndexByte(raw, '\\') < 0 {
		return raw, nil
	}
	text := make([]byte, 0, len(raw))
	origin := make(origins, 0, len(raw)+1)
	for i := 0; i < len(raw); {
		n := len(text)
		size := 1
		if raw[i] == '\\' {
			text, size = appendEscape(text, raw[i:])
		} else {
			text = append(text, raw[i])
		}
		for range len(text) - n {
			origin = append(origin, int32(i))
		}
		i += size
	}
	return string(text), append(origin, int32(len(raw)))
}

// appendEscape appends what the escape at the front of s means, and returns
// how long it is.
func appendEscape(text []byte, s string) ([]byte, int) {
	const escapes, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if len(s) > 1 {
		if i := strings.IndexByte(escapes, s[1]); i >= 0 {
			return append(text, meanings[i]), 2
		}
		if s[1] == 'u' && len(s) >= 6 {
			if r, err := strconv.ParseUint(s[2:6], 16, 16); err == nil {
				return utf8.AppendRune(text, rune(r)), 6
			}
		}
	}
	return append(text, s[0]), 1
}

// inString returns the longest part between from and to that is inside one JSON
// string; quotes are the positions of all quotes. It is empty when there is
// none.
func inString(quotes []int, from, to int) (int, int) {
	best := [2]int{from, from}
	for i := 0; i+1 < len(quotes) && quotes[i] < to; i += 2 {
		a, b := max(from, quotes[i]+1), min(to, quotes[i+1])
		if b-a > best[1]-best[0] {
			best = [2]int{a, b}
		}
	}
	return best[0], best[1]
}

// quotesOf returns the positions of the unescaped quotes of JSON.
func quotesOf(raw string) (at []int) {
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			at = append(at, i)
		}
	}
	return at
}
