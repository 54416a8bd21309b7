package agentzero

import "github.com/tidemark-sessions/tidemark"

// maxFile bounds one of the files, which are held whole and a few times over.
// AgentZero shortens a session long before.
const maxFile = 32 << 20

// maxParts bounds the keys and elements in all files of a session. What is
// three bytes in a file is hundreds in memory; so the length alone says little.
const maxParts = 600_000

// partsOf counts the keys and elements in JSON, about: the commas outside of
// texts.
func partsOf(b []byte) (n int) {
	text := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			text = !text
		case c == '\\' && text:
			i++
		case c == ',' && !text:
			n++
		}
	}
	return n
}

// admit counts the parts of one more file.
func (r *reading) admit(b []byte) error {
	if r.parts += partsOf(b); r.parts > maxParts {
		return tidemark.Invalidf("has more than %d parts, with the other files of its session", maxParts)
	}
	return nil
}
