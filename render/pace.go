package render

import (
	"fmt"
	"time"
)

// Pace says how fast something goes and, where it is known how much there is, how
// long the rest takes.
func Pace(took time.Duration, n, of int) string {
	if n <= 0 || took < time.Second {
		return ""
	}
	text := fmt.Sprintf(", %.0f a second", float64(n)/took.Seconds())
	if of > n {
		text += fmt.Sprintf(", %s left", time.Duration(float64(took)*float64(of-n)/float64(n)).Round(time.Second))
	}
	return text
}

// Progress says how much of something is done, as Pace does how fast it goes.
func Progress(took time.Duration, n, of int, what string) string {
	about := ""
	if of > n {
		about = fmt.Sprintf(" of about %d", of)
	}
	return fmt.Sprintf("%d%s %s%s", n, about, what, Pace(took, n, of))
}
