package hint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/hint"
)

func TestTheFirstHintStays(t *testing.T) {
	cause := errors.New("no such session")
	err := hint.With(cause, "see them with: tidemark %s", "ls")
	err = hint.With(fmt.Errorf("show: %w", err), "something vaguer")
	if got := hint.Of(err); got != "see them with: tidemark ls" {
		t.Errorf("hint %q", got)
	}
	if !errors.Is(err, cause) || err.Error() != "show: no such session" {
		t.Errorf("the error is %v", err)
	}
	if hint.With(nil, "none") != nil || hint.Of(cause) != "" {
		t.Error("a hint came from nowhere")
	}
}
