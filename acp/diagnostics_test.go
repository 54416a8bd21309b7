package acp

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	sdk "github.com/coder/acp-go-sdk"
)

func TestAMessageThatIsTooLongIsSaidToBe(t *testing.T) {
	said := make(chan string, 1)
	w := newWire(strings.NewReader(strings.Repeat("a", 11<<20)), io.Discard)
	c := sdk.NewConnection(nil, w, w)
	c.SetLogger(slog.New(diagnostics{func(format string, args ...any) { said <- fmt.Sprintf(format, args...) }}))
	close(w.ready)
	if got := <-said; !strings.Contains(got, "more than 10 MB") {
		t.Errorf("it says %q", got)
	}
}
