package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// marked returns the processes that a chat started, in its process group or
// not: they have its mark in their environment.
func marked(mark string) (found []int) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil // the pattern is sound
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil && isMarked(pid, mark) {
			found = append(found, pid)
		}
	}
	return found
}

// isMarked reports whether a running process has a mark with this prefix. A
// process that has ended has no environment any more.
func isMarked(pid int, mark string) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(data, []byte(markOfChat+"="+mark))
}
