//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
	"runtime"
	"syscall"
)

func dieWithMe() *syscall.SysProcAttr { return nil }

const helperMark = "TIDEMARK_CRASH_HELPER"

func isApart() bool { return false }

func runApart(context.Context, []string, io.Writer, io.Writer) (int, error) {
	return 0, errors.ErrUnsupported
}

func power(context.Context, options) ([]row, error) {
	return nil, &skipped{"cutting the power of a file system needs Linux, not " + runtime.GOOS}
}

func full(context.Context, options) ([]row, error) {
	return nil, &skipped{"mounting a small file system needs Linux, not " + runtime.GOOS}
}

func reusePids(context.Context, options, string) (int, error) {
	return 0, &skipped{"choosing a pid needs Linux, not " + runtime.GOOS}
}

func reuse(context.Context, []string, io.Reader, io.Writer) error { return errors.ErrUnsupported }

// Without /proc the leftovers of a killed chat cannot be found.
func marked(string) []int { return nil }

func isMarked(int, string) bool { return false }
