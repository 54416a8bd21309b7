//go:build !linux && !darwin

package terminal

// typedAhead would return how many bytes were typed before the terminal was
// opened. Where that is not known, an Enter among them is a new line of the
// text, and the next one sends it.
func typedAhead(uintptr) int { return 0 }
