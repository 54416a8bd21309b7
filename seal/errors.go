package seal

import (
	"errors"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
)

// sealedError answers to ErrSealed with its own text.
type sealedError struct{ text string }

func (e *sealedError) Error() string        { return e.text }
func (e *sealedError) Is(target error) bool { return target == tidemark.ErrSealed }

func sealedf(format string, args ...any) error { return &sealedError{fmt.Sprintf(format, args...)} }

// damaged says what is wrong with a record.
func damaged(key tidemark.Key, format string, args ...any) error {
	return &tidemark.Damage{Key: key, What: fmt.Sprintf(format, args...)}
}

// damageText returns what is wrong, without the name of the thing, when err is damage;
// the caller names the thing that it needed.
func damageText(err error) string {
	var d *tidemark.Damage
	if errors.As(err, &d) {
		return d.What
	}
	return err.Error()
}
