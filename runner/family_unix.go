//go:build unix

package runner

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// family is a program with all that it started. It is like the family of the
// bash tool, with one thing more: it can be found again by another process.
//
// The program leads a session of its own. So it is a group that can be ended
// at once, and no child finds a terminal to ask for a password on. It is not
// told to die with its parent: the kernel's signal for that follows the thread
// that started it, not the process, and does not reach grandchildren. When the
// owner of a run dies, the program meets a closed pipe at its next line, and
// the next owner ends it by its Process.
type family struct {
	pid     int
	mark    string
	began   string
	trusted bool // the number of the group is proven to be the program's
}

func startFamily(cmd *exec.Cmd, mark string) (family, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return family{}, err
	}
	return family{pid: cmd.Process.Pid, mark: mark, began: startedAt(cmd.Process.Pid), trusted: true}, nil
}

// familyOf returns the family of a program that another process started.
func familyOf(p Process) family {
	return family{pid: p.PID, mark: p.Mark, began: p.StartedAt, trusted: p.sameProcess()}
}

// killWait bounds the wait for processes that were killed: one that waits for
// a dead disk ends when the disk answers, not before.
const killWait = 5 * time.Second

// stop asks everybody to end, kills who has not after a grace, and reports
// whether nobody is left.
func (f family) stop(grace time.Duration) bool {
	if !f.signal(syscall.SIGTERM) {
		return true
	}
	end := time.Now().Add(grace)
	for n := 0; time.Now().Before(end); n++ {
		time.Sleep(pollAt(n))
		if !f.signal(0) {
			return true
		}
	}
	// Again and again: whoever forks while it is killed leaves a child.
	end = time.Now().Add(killWait)
	for n := 0; f.signal(syscall.SIGKILL); n++ {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pollAt(n))
	}
	return true
}

func (f family) release() {}

func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
