package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bootID is random and changes with each boot. The time of the boot would not
// do: it moves when the clock is set, which would look like a boot.
func bootID() string {
	s, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return s
}

// namespace is empty: all processes of a host share one numbering.
func namespace() string { return "" }

// machine is not known here; the host name has to be enough.
func machine() string { return "" }

const zombie = 5 // SZOMB: ended, but its parent has not waited for it yet

// lookUp uses kill first, because the list of processes has no error that means
// "no such pid". EPERM means a process of another user.
func lookUp(pid int) pidState {
	if unix.Kill(pid, 0) == unix.ESRCH {
		return pidState{gone: true}
	}
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(p.Proc.P_pid) != pid {
		return pidState{}
	}
	t := p.Proc.P_starttime
	return pidState{gone: p.Proc.P_stat == zombie, started: fmt.Sprintf("%d.%06d", t.Sec, t.Usec)}
}
