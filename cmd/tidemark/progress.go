package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// progressEvery is how often progress is shown, so that showing it costs little.
const progressEvery = 100 * time.Millisecond

// progress shows the progress of long work, on a terminal only.
func (a *app) progress(format string, args ...any) {
	if a.quiet || a.wantsJSON() || time.Since(a.progressAt) < progressEvery || !term.IsTerminal(int(os.Stderr.Fd())) {
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

// pace says how fast something goes and, where it is known how much there is, how
// long the rest takes.
func pace(took time.Duration, n, of int) string {
	if n <= 0 || took < time.Second {
		return ""
	}
	text := fmt.Sprintf(", %.0f a second", float64(n)/took.Seconds())
	if of > n {
		text += fmt.Sprintf(", %s left", time.Duration(float64(took)*float64(of-n)/float64(n)).Round(time.Second))
	}
	return text
}
