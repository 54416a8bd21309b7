package agentsfleet

import (
	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// A few bytes in a file may be hundreds in memory; so besides lengths, the
// numbers of keys and elements are bounded.
const (
	// maxValue bounds one value of a session file, which the decoder holds
	// whole, and more than once while it grows.
	maxValue = 32 << 20
	// maxFields bounds the keys of a session file, and maxFieldBytes all their
	// values except the transcript.
	maxFields     = 10_000
	maxFieldBytes = 32 << 20
	// maxParts bounds the keys and elements of a line or of the workers.
	maxParts = 250_000
	// shortLine is a length below which nothing needs to be counted.
	shortLine = 1 << 20
)

// checkParts returns ErrInvalid for JSON of too many keys and elements.
func checkParts(b []byte) error {
	if len(b) >= shortLine && convert.Parts(b) > maxParts {
		return tidemark.Invalidf("has more than %d parts", maxParts)
	}
	return nil
}

// add adds a field of a session file, and its length to held.
func (o object) add(key string, value []byte, held *int) error {
	*held += len(key) + len(value)
	if o[key] = value; len(o) > maxFields || *held > maxFieldBytes {
		return tidemark.Invalidf("has more than %d fields or %d bytes beside its transcript", maxFields, maxFieldBytes)
	}
	return nil
}
