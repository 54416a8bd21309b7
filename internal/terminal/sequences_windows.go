package terminal

import (
	"io"

	"golang.org/x/sys/windows"
)

// takeSequences enables escape sequences, and returns a function that restores
// the terminal. Older consoles of Windows have them off by default.
func takeSequences(out io.Writer) (restore func()) {
	f, ok := out.(interface{ Fd() uintptr })
	if !ok {
		return func() {}
	}
	var mode uint32
	h := windows.Handle(f.Fd())
	if err := windows.GetConsoleMode(h, &mode); err != nil {
		return func() {}
	}
	_ = windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING|windows.DISABLE_NEWLINE_AUTO_RETURN)
	return func() { _ = windows.SetConsoleMode(h, mode) }
}
