package terminal

import (
	"golang.org/x/sys/unix"
)

// fionread asks how many bytes can be read.
const fionread = 0x4004667f

// typedAhead returns how many bytes were typed and not read yet.
func typedAhead(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), fionread)
	if err != nil {
		return 0
	}
	return n
}
