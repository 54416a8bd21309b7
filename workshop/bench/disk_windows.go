package main

import (
	"math"
	"os"
)

// freeBytes does not check: a full disk is an error of the first write.
func freeBytes(string) (int64, error) { return math.MaxInt64, nil }

// peakBytes is not available on this system.
func peakBytes(*os.ProcessState) int64 { return 0 }
