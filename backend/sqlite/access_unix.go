//go:build linux || darwin

package sqlite

import "golang.org/x/sys/unix"

// canWrite reports whether a file may be written, without opening it: closing it
// would release this process's locks on it.
func canWrite(path string) bool { return unix.Access(path, unix.W_OK) == nil }
