//go:build unix

package main

import "syscall"

// narrowUmask keeps everything that this process creates to its owner, also
// what libraries create.
func narrowUmask() { syscall.Umask(0o077) }
