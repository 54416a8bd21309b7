//go:build !windows

package terminal

import (
	"io"
)

// takeSequences would enable escape sequences and return a function that
// restores the terminal. Here they are always enabled.
func takeSequences(io.Writer) (restore func()) { return func() {} }
