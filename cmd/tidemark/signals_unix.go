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

// quit ends the process as SIGQUIT does: with what every goroutine is doing.
func quit() {
	signal.Reset(sigQuit)
	syscall.Kill(os.Getpid(), sigQuit)
}

// suspend stops the process, as Ctrl-Z does in a shell, and returns when it
// goes on; or soon, where there is no shell that could let it.
func suspend() {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, sigCont)
	defer signal.Stop(goesOn)
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return
	}
	select {
	case <-goesOn:
	case <-time.After(500 * time.Millisecond):
	}
}
