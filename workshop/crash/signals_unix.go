//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error  { return p.Signal(syscall.SIGCONT) }

// ownGroup makes a process the leader of a group.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// killGroup ends a process and all of its group at one instant.
func killGroup(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }
