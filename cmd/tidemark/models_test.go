//go:build !windows

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/model/standin"
)

// TestModelsListsWhatEachKindOfServerHasAndChatTalksToIt runs the real program
// before a stand-in for each kind of server.
func TestModelsListsWhatEachKindOfServerHasAndChatTalksToIt(t *testing.T) {
	t.Parallel()
	url := standin.Start(t)
	for provider, window := range map[string]int{"anthropic": standin.ListedWindow, "openai": standin.ListedWindow, "openai-responses": standin.ListedWindow,
		"ollama": standin.OllamaWindow, "llamacpp": standin.SlotWindow, "vllm": standin.ListedWindow, "openrouter": standin.ListedWindow} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out, err := tidemarkIn(dir, "models", "--provider", provider, "--base-url", url, "--json").Output()
			var got []agent.Offer
			if err != nil || json.Unmarshal(out, &got) != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if diff := cmp.Diff([]agent.Offer{{Name: standin.Model, Window: window, From: agent.FromEndpoint}}, got); diff != "" {
				t.Error(diff)
			}
			out, err = tidemarkIn(dir, "chat", "--provider", provider, "--base-url", url, "--model", standin.Model, "--yes", "--sandbox", "off", "-p",
				`[[fake think Let me see]] [[fake call bash {"command":"echo $((6*7))"}]] [[fake say It is done]]`, "--output-format", "stream-json").Output()
			if err != nil || !strings.Contains(string(out), "It is done") || !strings.Contains(string(out), "42") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
