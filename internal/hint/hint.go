// Package hint adds the way out to an error: what a person can type or change
// so that it does not happen again. The text of the error stays what it was;
// whoever shows it asks for the hint and shows that beside it.
//
// It never prints anything, and it never replaces a hint that is there: the
// room that is nearest to what went wrong knows best.
//
//	return hint.With(err, "chmod 600 %s", name)
package hint

import (
	"errors"
	"fmt"
)

// hinted is an error with a way out.
type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// Hint returns the way out. Other programs find it by
// errors.As(err, &h) with an h of type interface{ Hint() string }.
func (h *hinted) Hint() string { return h.hint }

// With adds a way out to an error that has none yet. Nil stays nil.
func With(err error, format string, args ...any) error {
	if err == nil || Of(err) != "" {
		return err
	}
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// Of returns the way out of an error, "" when it has none.
func Of(err error) string {
	var have *hinted
	if !errors.As(err, &have) {
		return ""
	}
	return have.hint
}
