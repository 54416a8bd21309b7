//go:build !windows

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The signals of a terminal.
const (
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

// suspend stops the process, as Ctrl-Z does in a shell, and returns when it is
// continued. If there is no shell that could continue it, it returns soon.
func suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, sigCont)
	defer signal.Stop(continued)
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return
	}
	select {
	case <-continued:
	case <-time.After(500 * time.Millisecond):
	}
}
