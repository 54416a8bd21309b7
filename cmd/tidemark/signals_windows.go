package main

import (
	"syscall"
)

// Signals that a terminal sends elsewhere; here nobody does.
const (
	sigCont  = syscall.Signal(-1)
	sigWinch = syscall.Signal(-2)
	sigStop  = syscall.Signal(-3)
	sigQuit  = syscall.Signal(-4)
)

func quit() {}

func suspend() {}
