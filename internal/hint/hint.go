// Package hint adds the way out to an error: what a person can do about it, in
// one line that is not part of the error's text. It prints nothing; whoever
// shows an error asks Of for its hint and puts it where it belongs.
//
//	return hint.With(err, "see its nodes with: tidemark tree %.8s", id)
package hint

import (
	"errors"
	"fmt"
)

type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// With adds a hint to an error that has none yet. The error that With returns
// has the text of err and unwraps to it; nil stays nil.
func With(err error, format string, args ...any) error {
	if err == nil || Of(err) != "" {
		return err
	}
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// Of returns the hint of an error, "" when it has none.
func Of(err error) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
