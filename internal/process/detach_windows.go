package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// detachedProcess is a process without a console.
const detachedProcess = 0x00000008

// StartDetached starts a command that is independent of this console.
func StartDetached(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
	return cmd.Start()
}

// Signal ends another process; there is no other signal here.
func Signal(pid int, s syscall.Signal) error {
	if s != syscall.SIGTERM {
		return errors.New("this system has no signal for that; stop it and start it again")
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
