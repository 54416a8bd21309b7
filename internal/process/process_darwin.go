package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bootID is random and made anew by each boot. The time of the boot would not
// do: it moves when the clock is set, and a moved one would look like a boot.
func bootID() string {
	s, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return s
}

// namespace is empty: all processes of a host are numbered together.
func namespace() string { return "" }

// machine is not told here; the host name has to be enough.
func machine() string { return "" }

const zombie = 5 // SZOMB: ended, and its parent has not noticed yet

// look asks kill first, because the list of processes has no error that means
// "no such pid". EPERM is the answer for a process of somebody else.
func look(pid int) sight {
	if unix.Kill(pid, 0) == unix.ESRCH {
		return sight{gone: true}
	}
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(p.Proc.P_pid) != pid {
		return sight{}
	}
	t := p.Proc.P_starttime
	return sight{gone: p.Proc.P_stat == zombie, started: fmt.Sprintf("%d.%06d", t.Sec, t.Usec)}
}
