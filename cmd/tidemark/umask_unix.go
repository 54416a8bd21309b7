//go:build unix

package main

import "syscall"

// narrowUmask makes every file that this process creates private to the user, also
// those that libraries create.
func narrowUmask() { syscall.Umask(0o077) }
