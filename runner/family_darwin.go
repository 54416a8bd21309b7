package runner

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// signal sends s to the group, and reports whether somebody was there. There
// is no cheap way to find those who left it.
func (f family) signal(s syscall.Signal) (someone bool) {
	return f.trusted && f.pid > 0 && syscall.Kill(-f.pid, s) == nil
}

// startedAt is written as package process writes it, which compares it.
func startedAt(pid int) string {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(p.Proc.P_pid) != pid {
		return ""
	}
	t := p.Proc.P_starttime
	return fmt.Sprintf("%d.%06d", t.Sec, t.Usec)
}
