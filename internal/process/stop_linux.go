package process

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long a child has to be stopped before this process stops as well:
// Ctrl-Z stops all processes of a job, and a shell continues them one after the other.
const settle = 50 * time.Millisecond

// StopWith has this process stop whenever a child stops that shares its terminal: some
// programs stop only themselves on Ctrl-Z, and the shell would wait for ever. The
// shell then continues both. Where no shell could, this process does not stop. It
// returns when the child has ended.
func StopWith(pid int) {
	// A signal that a thread sends to itself is handled before the call returns: what
	// comes behind it comes behind the stop.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for wait(pid, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT) == childStopped {
		time.Sleep(settle)
		// Each stop is told once, and not any more when the child goes on.
		if wait(pid, unix.WSTOPPED|unix.WNOHANG) == childStopped {
			_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP) // there is such a thread
		}
	}
}

// childStopped is CLD_STOPPED of waitid.
const childStopped = 5

// wait asks what happened to a child, and returns a code of waitid, 0 for nothing or
// if there is no such child.
func wait(pid, options int) int {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, options, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0
		}
		return int(info.Code)
	}
}
