package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// progressEvery is how often progress is shown, so that showing it costs little.
const progressEvery = 100 * time.Millisecond

// progressIsDue reports whether progress would be shown now.
func (a *app) progressIsDue() bool {
	return !a.quiet && !a.wantsJSON() && time.Since(a.progressAt) >= progressEvery && term.IsTerminal(int(os.Stderr.Fd()))
}

// progress shows the progress of long work, on a terminal only.
func (a *app) progress(format string, args ...any) {
	if !a.progressIsDue() {
		return
	}
	a.progressAt = time.Now()
	fmt.Fprintf(a.err, "\r\x1b[K"+format, args...)
}

// progressDone clears the line that progress wrote.
func (a *app) progressDone() {
	if !a.progressAt.IsZero() {
		fmt.Fprint(a.err, "\r\x1b[K")
	}
}
