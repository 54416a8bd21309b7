package main

import (
	"errors"
	"os"
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

// detachedProcess is a process without a console.
const detachedProcess = 0x00000008

// ownSession keeps a process from what happens to this console.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}

// tellProcess ends another process; there is no other signal here.
func tellProcess(pid int, s syscall.Signal) error {
	if s != syscall.SIGTERM {
		return errors.New("this system has no signal for that; stop it and start it again")
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
