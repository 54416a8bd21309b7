package qwen_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/qwen"
)

func TestWhatIsWrittenForQwenCodeIsReadBack(t *testing.T) {
	converttest.CheckWriter(t, qwen.Tool(), func() string { return string(tidemark.NewSessionID()) })
}
