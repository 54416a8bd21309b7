//go:build !linux

package process

// ReleasePages gives up the pages of the program in memory, where that is possible.
func ReleasePages() {}
