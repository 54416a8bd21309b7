//go:build !windows

package process

import (
	"os/exec"
	"syscall"
)

// StartDetached starts a command in a session of its own, which the signals of
// this terminal do not reach.
func StartDetached(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// Signal sends a signal to another process.
func Signal(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }
