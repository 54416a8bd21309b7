package agent

import (
	"io"
	"os"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// maxInstructionBytes is how long instructions may be.
const maxInstructionBytes = 1 << 20

// ReadInstructions reads the file with instructions that a flag or a setting
// names. ErrNotFound; ErrInvalid when it is too long or cannot be read.
func ReadInstructions(named, file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", tidemark.NotFoundf("%s: %w", named, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxInstructionBytes+1))
	if err != nil || len(b) > maxInstructionBytes {
		return "", tidemark.Invalidf("%s %s: cannot be read, or is over %d bytes", named, file, maxInstructionBytes)
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(b)), "\uFFFD"), nil
}
