package gemini_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/gemini"
)

func TestWhatIsWrittenForGeminiCLIIsReadBack(t *testing.T) {
	converttest.CheckWriter(t, gemini.Tool(), func() string { return string(tidemark.NewSessionID()) })
}
