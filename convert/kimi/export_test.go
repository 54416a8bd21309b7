package kimi_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/kimi"
)

func TestWhatIsWrittenForKimiCodeIsReadBack(t *testing.T) {
	converttest.CheckWriter(t, kimi.Tool(), func() string { return "session_" + string(tidemark.NewSessionID()) })
}
