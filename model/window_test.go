package model_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark/model"
)

func TestTheWindowOfAModelIsThatOfItsFamily(t *testing.T) {
	for name, want := range map[string]int{
		"claude-sonnet-5-5": 200_000, "anthropic/claude-opus-4.1": 200_000, "gpt-5.1": 272_000, "GPT-4o-mini": 128_000, "gpt-4.1-nano": 1_000_000,
		"gemini-2.5-pro": 1_000_000, "demo": model.DefaultWindow, "": model.DefaultWindow, "something-new": model.DefaultWindow,
	} {
		if got := model.Window("openai", name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if got := model.Window("ollama", "llama-3.3"); got != model.DefaultWindow {
		t.Errorf("on this machine: %d", got)
	}
}
