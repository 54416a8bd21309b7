//go:build !linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

func startInTerminal(*exec.Cmd) (*os.File, error) { return nil, errors.ErrUnsupported }

func residentBytes(int) int64 { return 0 }

func cpuOf(int) time.Duration { return 0 }
