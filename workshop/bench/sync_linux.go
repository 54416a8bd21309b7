package main

import (
	"os"
	"syscall"
)

const syncName = "fdatasync"

// syncData makes what was written durable, and no more than that.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
