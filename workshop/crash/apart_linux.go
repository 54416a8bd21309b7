package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithMe keeps writers from outliving a trial that is itself killed.
func dieWithMe() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// helperMark tells a process that it was started by another crash.
const helperMark = "TIDEMARK_CRASH_HELPER"

func isApart() bool { return os.Getenv(helperMark) == "apart" }

// runApart runs the same command again in a mount namespace of its own. The
// error means that this is not possible here.
func runApart(ctx context.Context, args []string, out, log io.Writer) (int, error) {
	if os.Geteuid() != 0 {
		return 0, os.ErrPermission
	}
	me, err := os.Executable()
	if err != nil {
		return 0, err
	}
	// The kernel ties Pdeathsig to the thread that starts the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, me, args...)
	cmd.Env = append(os.Environ(), helperMark+"=apart")
	cmd.Stdout, cmd.Stderr = out, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), nil
}
