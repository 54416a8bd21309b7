package pi_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/pi"
)

func TestWhatIsWrittenForPiIsReadBack(t *testing.T) {
	converttest.CheckWriter(t, pi.Tool(), func() string { return string(tidemark.NewSessionID()) })
}
