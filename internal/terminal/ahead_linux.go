package terminal

import (
	"golang.org/x/sys/unix"
)

// typedAhead returns how many bytes were typed and not read yet.
func typedAhead(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}
