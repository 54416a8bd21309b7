package sqlite

import (
	"os"
	"syscall"
)

func syncPlain(f *os.File) { syscall.Fdatasync(int(f.Fd())) }
