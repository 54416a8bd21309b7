//go:build unix

package process

import (
	"os/exec"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Family is a process with all that it started.
//
// The process leads a session of its own. So it is a group that can be ended
// at once, and no child finds a terminal to ask for a password on. It is not
// told to die with its parent: the kernel's signal for that follows the thread
// that started it, not the process, and does not reach grandchildren. When its
// owner dies, the next one has to Find it.
type Family struct {
	pid     int
	mark    string
	began   string
	trusted bool // the number of the group is proven to be the process's
}

// Start starts cmd as the first of a family. mark, if it is not "", is a
// variable of cmd.Env, as NAME=VALUE, that no other family has: by it are found
// those who made themselves independent and whose parents have ended. What
// cmd.SysProcAttr says already, for a sandbox, stays.
func Start(cmd *exec.Cmd, mark string) (Family, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return Family{}, err
	}
	pid := cmd.Process.Pid
	return Family{pid: pid, mark: mark, began: look(pid).started, trusted: true}, nil
}

func familyOf(h tidemark.Holder, mark string) Family {
	return Family{pid: h.PID, mark: mark, began: h.StartedAt, trusted: same(h)}
}

// killWait bounds the wait for processes that were killed: one that waits for
// a dead disk ends when the disk answers, not before.
const killWait = 5 * time.Second

// Stop asks everybody to end, kills who has not after a grace, and reports
// whether nobody is left.
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
	// Again and again: whoever forks while it is killed leaves a child.
	end = time.Now().Add(killWait)
	for n := 0; f.signal(syscall.SIGKILL, known); n++ {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pollAt(n))
	}
	return true
}

// relatives are the members of a family who were found so far, by their pid,
// with the time at which they began, which tells them from a later process of
// the same number.
type relatives map[int]string

// signalGroup sends s to all of the group at once, so that nobody escapes it
// by a fork, and reports whether somebody was there.
func (f Family) signalGroup(s syscall.Signal) bool {
	return f.trusted && f.pid > 0 && syscall.Kill(-f.pid, s) == nil
}

// Kill kills what is left of the group after the process itself has ended,
// and asks for nobody who left the group. It has to follow the end at once,
// because the number of a group is free when nobody is in it.
func (f Family) Kill() { f.signalGroup(syscall.SIGKILL) }

// Release gives back what it takes to hold the family together. The family is
// not used after it.
func (f Family) Release() {}

// pollAt says how long to wait before the n-th look whether everybody has
// ended: soon at first, because most end at once.
func pollAt(n int) time.Duration { return min(5*time.Millisecond<<min(n, 5), 100*time.Millisecond) }
