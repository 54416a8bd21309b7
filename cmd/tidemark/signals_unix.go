//go:build !windows

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// The signals of a terminal.
const (
	sigChild = syscall.SIGCHLD
	sigCont  = syscall.SIGCONT
	sigWinch = syscall.SIGWINCH
	sigStop  = syscall.SIGTSTP
	sigQuit  = syscall.SIGQUIT
)

// quit ends the process as SIGQUIT does: with a dump of all goroutines.
func quit() {
	signal.Reset(sigQuit)
	syscall.Kill(os.Getpid(), sigQuit)
}
