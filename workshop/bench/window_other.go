//go:build !linux

package main

import (
	"errors"
	"os"
	"os/exec"
)

func startInTerminal(*exec.Cmd) (*os.File, error) { return nil, errors.ErrUnsupported }

func residentBytes(int) int64 { return 0 }
