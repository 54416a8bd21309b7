package convert

import (
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// localProviders are the names that tools use for providers that run a model on
// the same machine.
var localProviders = []string{"ollama", "lmstudio", "lm-studio", "llamacpp", "llama.cpp", "llama-cpp", "llamafile", "llama-server",
	"oss", "local", "localai", "mlx", "gpt4all", "jan", "koboldcpp", "ramalama", "docker-model-runner"}

// ModeOf returns the mode of a session that used this provider; "": not known.
func ModeOf(provider string) string {
	switch provider = strings.ToLower(strings.TrimSpace(provider)); {
	case provider == "":
		return ""
	case slices.Contains(localProviders, provider):
		return tidemark.ModeLocal
	}
	return tidemark.ModeRemote
}
