package fleet

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// marks counts what may begin or end a token. In a prompt it may be none: one
// that is so long belongs into a file of its own.
func marks(text string) (n int) {
	for i := range len(text) {
		switch text[i] {
		case ':', '-', '?':
			if i+1 == len(text) || strings.IndexByte(" \t\n\"", text[i+1]) >= 0 {
				n++
			}
		case '\n', '"', '\'', '[', '{', ']', '}', ',', '&', '*', '!', '#', '%', '|', '>':
			n++
		}
	}
	return n
}

// bounds counts what makes a text slow to parse.
type bounds struct {
	flow, line, entries, anchors int
	maps                         []openMap
}

// openMap is a mapping that may go on: where its keys begin, and how many
// there were.
type openMap struct{ column, keys int }

// add counts a token, and says what is too much.
func (b *bounds) add(t *token.Token) string {
	if t.Position.Line != b.line {
		b.line, b.entries = t.Position.Line, 0
	}
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		b.flow++
	case token.SequenceEndType, token.MappingEndType:
		b.flow--
		b.close(1<<20 + b.flow) // what was inside is over
	case token.SequenceEntryType:
		b.entries++
		if b.flow == 0 {
			b.close(t.Position.Column)
		}
	case token.AnchorType, token.AliasType, token.TagType:
		b.anchors++
	case token.MappingKeyType:
		b.entries++
		b.key(t)
	case token.MappingValueType:
		if t.Prev != nil {
			b.key(t.Prev)
		}
	}
	switch {
	case len(b.maps) > 0 && b.maps[len(b.maps)-1].keys > maxKeys:
		return fmt.Sprintf("a mapping of more than %d keys", maxKeys)
	case b.flow > maxDepth || b.entries > maxDepth || len(b.maps) > maxDepth || b.flow == 0 && t.Position.Column > 8*maxDepth && t.Prev != nil && t.Prev.Position.Line != b.line:
		return "this is too deep inside"
	case b.anchors > maxAnchors:
		return fmt.Sprintf("more than %d anchors, aliases and tags", maxAnchors)
	}
	return ""
}

// close ends the mappings whose keys begin right of a column.
func (b *bounds) close(column int) {
	for len(b.maps) > 0 && b.maps[len(b.maps)-1].column > column {
		b.maps = b.maps[:len(b.maps)-1]
	}
}

// key counts a key with those of its mapping: the ones that began at the same
// column, with nothing further out between.
func (b *bounds) key(t *token.Token) {
	column := t.Position.Column
	if b.flow > 0 {
		column = 1<<20 + b.flow
	}
	b.close(column)
	if n := len(b.maps); n == 0 || b.maps[n-1].column < column {
		b.maps = append(b.maps, openMap{column: column})
	}
	b.maps[len(b.maps)-1].keys++
}
