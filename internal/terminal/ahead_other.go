//go:build !linux && !darwin

package terminal

// typedAhead would return how many bytes were typed and not read yet. Where
// that is not known, an Enter among them is a new line of the text, and the
// next one sends it.
func typedAhead(uintptr) int { return 0 }
