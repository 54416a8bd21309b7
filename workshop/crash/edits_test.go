package main

import (
	"testing"
)

func TestNoFileIsLostOrHalfWrittenBySIGKILL(t *testing.T) {
	for _, b := range backends {
		t.Run(b, func(t *testing.T) { trial(t, "edits", "-backend", b, "-n", "12") })
	}
}
