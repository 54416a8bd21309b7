//go:build !linux

package nodes

import "os/exec"

// collect starts a process and waits for it.
func collect(cmd *exec.Cmd, begun chan<- error, ended chan<- struct{}) {
	err := cmd.Start()
	begun <- err
	if err == nil {
		cmd.Wait()
		close(ended)
	}
}
