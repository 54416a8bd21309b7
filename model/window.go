package model

import "strings"

// DefaultWindow is the context window, in tokens, of a model that is not known,
// and of one that runs on somebody's own machine, where memory sets the limit
// and servers cut off silently what is longer.
const DefaultWindow = 16_000

// windows are the context windows of families of models, by how their names
// begin; the first that fits counts. They are the smallest of each family:
// asking too little costs a summary, asking too much an error.
var windows = []struct {
	begins string
	tokens int
}{
	{"claude-2.0", 100_000}, {"claude-instant", 100_000}, {"claude", 200_000},
	{"gpt-3.5", 16_000}, {"gpt-4.1", 1_000_000}, {"gpt-4o", 128_000}, {"gpt-4-turbo", 128_000}, {"gpt-4", 8_000}, {"chatgpt-4o", 128_000},
	{"gpt-5-chat", 128_000}, {"gpt-5", 272_000}, {"gpt-oss", 128_000}, {"o1-mini", 128_000}, {"o1", 200_000}, {"o3", 200_000}, {"o4", 200_000}, {"codex", 200_000},
	{"gemini-1.0", 32_000}, {"gemini", 1_000_000},
	{"mistral-large", 128_000}, {"mistral-medium", 128_000}, {"codestral", 128_000}, {"devstral", 128_000},
	{"deepseek", 64_000}, {"grok-4", 256_000}, {"grok", 131_000}, {"command-r", 128_000}, {"command-a", 256_000},
	{"kimi-k2", 128_000}, {"glm-4", 128_000}, {"qwen3-coder", 256_000}, {"qwen3", 32_000}, {"qwen2.5", 32_000},
	{"llama-4", 128_000}, {"llama-3.3", 128_000}, {"llama-3.2", 128_000}, {"llama-3.1", 128_000}, {"llama-3", 8_000},
}

// Window returns how many tokens a model can be sent, its answer included.
func Window(provider, name string) int {
	if provider == "ollama" {
		return DefaultWindow // its own setting counts, not what the model could take
	}
	name = strings.ToLower(name)
	// A router puts the maker in front: anthropic/claude-sonnet-5.
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	for _, w := range windows {
		if strings.HasPrefix(name, w.begins) {
			return w.tokens
		}
	}
	return DefaultWindow
}
