package agentzero

import (
	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// maxFile bounds one file; files are held in memory whole and several times
// over. AgentZero shortens a session long before.
const maxFile = 32 << 20

// maxParts bounds the keys and elements in all files of a session.
const maxParts = 600_000

// admit adds the parts of one more file to the count.
func (r *reading) admit(b []byte) error {
	if r.parts += convert.Parts(b); r.parts > maxParts {
		return tidemark.Invalidf("has more than %d parts, with the other files of its session", maxParts)
	}
	return nil
}
