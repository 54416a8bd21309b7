//go:build !windows

package process

import (
	"os"
	"syscall"
	"time"
)

// Suspend stops this process and its group, as Ctrl-Z does in a shell, and returns
// when it is continued, which the channel has to say. If there is no shell that could
// continue it, it returns soon. It reports whether it was continued.
func Suspend(continued <-chan os.Signal) bool {
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return false
	}
	select {
	case <-continued:
		return true
	case <-time.After(500 * time.Millisecond):
		return false
	}
}

// settle is how long a child has to be stopped alone before this process stops, too:
// Ctrl-Z in a shell stops and continues both, one after the other.
const settle = 50 * time.Millisecond

// StopWith has this process stop whenever a child that shares its terminal stops,
// and the child go on when this process does: some programs stop only themselves on
// Ctrl-Z, and the shell would wait for ever. It is told by SIGCHLD that something
// happened to a child, and by SIGCONT that this process goes on, and returns when the
// channel of the former is closed.
func StopWith(pid int, child, continued <-chan os.Signal) {
	for range child {
		if stopsAlone(pid, continued) && Suspend(continued) {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may go on already, or have ended
		}
	}
}

// stopsAlone reports whether a child is stopped, and this process was not stopped
// with it.
func stopsAlone(pid int, continued <-chan os.Signal) bool {
	for lookUp(pid).stopped {
		time.Sleep(settle)
		select {
		case <-continued: // and perhaps the child is about to be
		default:
			return lookUp(pid).stopped
		}
	}
	return false
}
