package convert_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

func TestWhatAsksAModelOfThisMachineIsLocal(t *testing.T) {
	for provider, want := range map[string]string{
		"": "", "anthropic": tidemark.ModeRemote, "openai": tidemark.ModeRemote, "openai-compatible": tidemark.ModeRemote, "my-proxy": tidemark.ModeRemote,
		"ollama": tidemark.ModeLocal, "Ollama ": tidemark.ModeLocal, "lmstudio": tidemark.ModeLocal, "oss": tidemark.ModeLocal, "llama.cpp": tidemark.ModeLocal,
	} {
		if got := convert.ModeOf(provider); got != want {
			t.Errorf("ModeOf(%q) = %q, want %q", provider, got, want)
		}
	}
}
