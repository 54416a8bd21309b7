package nodes

import (
	"os/exec"
	"runtime"
	"syscall"
)

// collect starts a process that does not outlive this one, and waits for it.
// The kernel takes the end of the thread that started it for the end of this
// process, so that thread does nothing else.
func collect(cmd *exec.Cmd, begun chan<- error, ended chan<- struct{}) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	begun <- err
	if err == nil {
		cmd.Wait()
		close(ended)
	}
}
