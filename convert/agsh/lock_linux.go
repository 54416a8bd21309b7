package agsh

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// isLocked reads the kernel's list of locks. Trying the lock would be simpler,
// but would for a moment lock out the program that uses it.
func isLocked(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return false
	}
	defer f.Close()
	dev := uint64(st.Dev)
	major, minor := dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff
	want := fmt.Sprintf("%02x:%02x:%d", major, minor, st.Ino)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 1: FLOCK ADVISORY WRITE 4411 08:01:131 0 EOF
		if fields := strings.Fields(lines.Text()); len(fields) > 5 && fields[1] == "FLOCK" && fields[5] == want {
			return true
		}
	}
	return false
}
