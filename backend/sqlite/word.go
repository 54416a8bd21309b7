package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// The index sees a word as one token of FTS5's tokenizer "ascii", which folds A
// to Z, and ends a token at a control character, a space and a double quote;
// everything else is part of a token (see schema2.sql). So characters that it
// would fold or end at are escaped, and so are the two escape characters:
//
//	A to Z              ^ and the small letter
//	0 to 32, " % ^ 127  % and two hexadecimal digits
//	the empty word      %
//
// No two words have the same form, and one word is a prefix of another exactly
// when its form is.

// maxTokenBytes bounds a token; FTS5 silently truncates longer ones at 32 KB. A
// longer word is replaced by a hash after a %, which no other word ends in.
const maxTokenBytes = 4096

const hexDigits = "0123456789abcdef"

// appendToken adds a word in the form that the index uses.
func appendToken(b []byte, word string) []byte {
	start := len(b)
	for i := range len(word) {
		switch c := word[i]; {
		case c >= 'A' && c <= 'Z':
			b = append(b, '^', c+'a'-'A')
		case c <= ' ' || c == '"' || c == '%' || c == '^' || c == 0x7f:
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	switch {
	case len(b) == start:
		b = append(b, '%')
	case len(b)-start > maxTokenBytes:
		sum := sha256.Sum256([]byte(word))
		b = hex.AppendEncode(b[:start], sum[:])
		b = append(b, '%')
	}
	return b
}

// matchOf writes a query in FTS5's language; "" when no line can match.
func matchOf(a tidemark.IndexQuery) (string, error) {
	if len(a.All) == 0 {
		return "", nil
	}
	var b strings.Builder
	for i, any := range a.All {
		if len(any) == 0 {
			return "", nil
		}
		if i > 0 {
			b.WriteString(" AND ")
		}
		if err := writeTerms(&b, any); err != nil {
			return "", err
		}
	}
	if len(a.None) == 0 {
		return b.String(), nil
	}
	all := b.String()
	b.Reset()
	b.WriteString("(" + all + ") NOT ")
	err := writeTerms(&b, a.None)
	return b.String(), err
}

func writeTerms(b *strings.Builder, terms []tidemark.Term) error {
	b.WriteByte('(')
	for i, t := range terms {
		if i > 0 {
			b.WriteString(" OR ")
		}
		token := appendToken(nil, t.Word)
		if t.Prefix && (t.Word == "" || len(t.Word) > maxTokenBytes/3) {
			return tidemark.Invalidf("search: the beginning of a word has 1 to %d bytes, not %d", maxTokenBytes/3, len(t.Word))
		}
		b.WriteByte('"')
		b.Write(token)
		b.WriteByte('"')
		if t.Prefix {
			b.WriteByte('*')
		}
	}
	b.WriteByte(')')
	return nil
}
