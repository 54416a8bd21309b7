package opencode_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/opencode"
)

func TestWhatIsWrittenForOpencodeAndKiloIsReadBack(t *testing.T) {
	for _, tool := range []convert.Tool{opencode.Tool(), opencode.Kilo()} {
		t.Run(tool.Name, func(t *testing.T) { converttest.CheckWriter(t, tool, tool.Handover.NewID) })
	}
}
