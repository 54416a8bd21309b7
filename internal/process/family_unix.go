//go:build unix

package process

import (
	"os/exec"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Family is a process with everything that it started.
//
// The process leads a session of its own. So it is a group that can be ended at
// once, and no child finds a terminal to ask for a password on. It is not set to
// die with its parent: the kernel's signal for that follows the thread that
// started it, not the process, and does not reach grandchildren. When its owner
// dies, the next owner has to Find it.
type Family struct {
	pid     int
	mark    string
	began   string
	trusted bool // the group id is proven to be the process's
}

// Start starts cmd as the first of a family. mark, if it is not "", is a
// variable of cmd.Env, as NAME=VALUE, that no other family has: it finds
// processes that detached themselves and whose parents have ended. What is
// already set in cmd.SysProcAttr, for a sandbox, stays.
func Start(cmd *exec.Cmd, mark string) (Family, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return Family{}, err
	}
	pid := cmd.Process.Pid
	return Family{pid: pid, mark: mark, began: lookUp(pid).started, trusted: true}, nil
}

func familyOf(h tidemark.Holder, mark string) Family {
	return Family{pid: h.PID, mark: mark, began: h.StartedAt, trusted: same(h)}
}

// killWait bounds the wait for killed processes: one that waits for a dead disk
// ends when the disk answers, not before.
const killWait = 5 * time.Second

// Stop asks all processes to end, kills those that have not after grace, and
// reports whether none is left.
func (f Family) Stop(grace time.Duration) bool {
	known := make(relatives)
	if !f.signal(syscall.SIGTERM, known) {
		return true
	}
	end := time.Now().Add(grace)
	for n := 0; time.Now().Before(end); n++ {
		time.Sleep(pollAt(n))
		if !f.signal(0, known) {
			return true
		}
	}
	// Repeatedly: a process that forks while it is killed leaves a child.
	end = time.Now().Add(killWait)
	for n := 0; f.signal(syscall.SIGKILL, known); n++ {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pollAt(n))
	}
	return true
}

// relatives are the members of a family that were found so far, by pid, with
// their start times, which distinguish them from a later process with the same
// pid.
type relatives map[int]string

// signalGroup sends s to the whole group at once, so that none escapes by a
// fork, and reports whether anybody was there.
func (f Family) signalGroup(s syscall.Signal) bool {
	return f.trusted && f.pid > 0 && syscall.Kill(-f.pid, s) == nil
}

// Kill kills what is left of the group after the process itself has ended, and
// does not look for processes that left the group. It has to be called right
// after that end, because the id of an empty group can be reused.
func (f Family) Kill() { f.signalGroup(syscall.SIGKILL) }

// Release releases what holds the family together. The family is not used
// afterwards.
func (f Family) Release() {}

// pollAt returns how long to wait before the n-th check whether all have ended:
// short at first, because most end at once.
func pollAt(n int) time.Duration { return min(5*time.Millisecond<<min(n, 5), 100*time.Millisecond) }
