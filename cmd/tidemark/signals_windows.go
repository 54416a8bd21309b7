package main

import (
	"syscall"
)

// Stand-ins for the signals of a terminal on Unix, which Windows does not have.
const (
	sigCont  = syscall.Signal(-1)
	sigWinch = syscall.Signal(-2)
	sigStop  = syscall.Signal(-3)
	sigQuit  = syscall.Signal(-4)
)

func quit() {}

func suspend() {}
