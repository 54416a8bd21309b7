package yaml

import (
	"io"

	"github.com/tidemark-sessions/tidemark"
)

// settingsBytes keeps a wrong file from being read completely.
const settingsBytes = 1 << 20

// ReadSettings reads a settings file that a person wrote. ErrInvalid says where
// it is wrong; what names the kind of file.
func ReadSettings(what, file string, r io.Reader, into any) error {
	b, err := io.ReadAll(io.LimitReader(r, settingsBytes+1))
	if err != nil {
		return tidemark.Invalidf("%s %s: %w", what, file, err)
	}
	limits := Limits{Bytes: settingsBytes, Parts: 100_000, Keys: 1000, Depth: 16, Anchors: 100, Values: 100_000}
	if problems := Decode(b, limits, into); len(problems) > 0 {
		p := problems[0]
		return tidemark.Invalidf("%s %s:%d:%d: %s", what, file, p.Line, p.Column, p.Message)
	}
	return nil
}
