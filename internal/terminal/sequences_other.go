//go:build !windows

package terminal

import (
	"io"
)

// takeSequences would make a terminal obey escape sequences and return what puts
// it back. Here every terminal does.
func takeSequences(io.Writer) (restore func()) { return func() {} }
