package hint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/hint"
)

func TestTheFirstHintStays(t *testing.T) {
	cause := errors.New("no")
	err := hint.With(fmt.Errorf("file: %w", hint.With(cause, "chmod %d", 600)), "another")
	if got := hint.Of(err); got != "chmod 600" {
		t.Errorf("hint %q", got)
	}
	if err.Error() != "file: no" || !errors.Is(err, cause) {
		t.Errorf("the error became %v", err)
	}
	if hint.With(nil, "x") != nil || hint.Of(nil) != "" || hint.Of(cause) != "" {
		t.Error("a hint without an error, or the other way round")
	}
	var public interface{ Hint() string }
	if !errors.As(err, &public) || public.Hint() != "chmod 600" {
		t.Error("other programs cannot find it")
	}
}
