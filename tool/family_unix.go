//go:build unix

package tool

import (
	"os/exec"
	"syscall"
	"time"
)

// family is a process with all that it started. It has a session of its own:
// so it is a group that can be ended at once, and no child finds a terminal to
// ask for a password on.
type family struct{ pid int }

func startFamily(cmd *exec.Cmd) (family, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return family{}, err
	}
	return family{cmd.Process.Pid}, nil
}

// pollEvery is how often stop looks whether everybody has ended.
const pollEvery = 10 * time.Millisecond

// stop asks everybody to end, and kills who has not after a grace.
func (f family) stop() {
	others := descendants(f.pid)
	signal := func(s syscall.Signal) (someone bool) {
		someone = syscall.Kill(-f.pid, s) == nil
		for _, o := range others {
			if o.same() && syscall.Kill(o.pid, s) == nil {
				someone = true
			}
		}
		return someone
	}
	signal(syscall.SIGTERM)
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(pollEvery) {
		if !signal(0) {
			return
		}
	}
	others = append(others, descendants(f.pid)...)
	signal(syscall.SIGKILL)
}

// end kills what is left after the process itself has ended. It follows the
// end at once, because the number of a group is free when nobody is in it.
func (f family) end() { syscall.Kill(-f.pid, syscall.SIGKILL) }

func (f family) release() {}
