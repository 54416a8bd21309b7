package model

import (
	"cmp"
	"slices"
	"strings"
)

// DefaultWindow is the context window, in tokens, of an unknown model, and of
// one on the user's own machine, where memory sets the limit and servers
// silently truncate what is longer.
const DefaultWindow = 16_000

// windows are the context windows of families of models, by how their names
// begin; the first that fits counts. They are the smallest of each family:
// sending too little costs a summary, sending too much an error. They are those
// of the public table of the project LiteLLM on 2026-08-08.
var windows = []struct {
	begins string
	tokens int
}{
	{"claude-fable-5", 1_000_000}, {"claude-opus-5", 1_000_000}, {"claude-opus-4-6", 1_000_000}, {"claude-opus-4-7", 1_000_000}, {"claude-opus-4-8", 1_000_000},
	{"claude-sonnet-5", 1_000_000}, {"claude-sonnet-4-6", 1_000_000}, {"claude-2.0", 100_000}, {"claude-instant", 100_000}, {"claude", 200_000},
	{"gpt-3.5", 16_000}, {"gpt-4.1", 1_000_000}, {"gpt-4o", 128_000}, {"gpt-4-turbo", 128_000}, {"gpt-4", 8_000}, {"chatgpt-4o", 128_000},
	{"gpt-5.4-mini", 272_000}, {"gpt-5.4-nano", 272_000}, {"gpt-5.4", 1_050_000}, {"gpt-5.5", 1_050_000}, {"gpt-5.6", 1_050_000},
	{"gpt-5-chat", 128_000}, {"gpt-5.1-chat", 128_000}, {"gpt-5.2-chat", 128_000}, {"gpt-5.3-chat", 128_000}, {"gpt-5", 272_000},
	{"gpt-oss", 128_000}, {"o1-mini", 128_000}, {"o1", 200_000}, {"o3", 200_000}, {"o4", 200_000}, {"codex", 200_000},
	{"gemini-1.0", 32_000}, {"gemini", 1_000_000},
	{"mistral-large-3", 256_000}, {"mistral-large-2512", 256_000}, {"mistral-large-latest", 256_000}, {"mistral-large-2402", 32_000}, {"mistral-large", 128_000},
	{"mistral-medium-3-5", 256_000}, {"mistral-medium-2604", 256_000}, {"mistral-medium-latest", 256_000}, {"mistral-medium", 128_000},
	{"codestral-2508", 256_000}, {"codestral", 32_000}, {"devstral-2512", 256_000}, {"devstral", 128_000}, {"magistral", 40_000},
	{"deepseek-v4", 1_000_000}, {"deepseek-chat", 131_000}, {"deepseek-reasoner", 131_000}, {"deepseek-v3.2", 131_000}, {"deepseek", 64_000},
	{"grok-4-fast", 2_000_000}, {"grok-4-1-fast", 2_000_000}, {"grok-4.20", 2_000_000}, {"grok-4.3", 1_000_000}, {"grok-4.5", 500_000},
	{"grok-4", 256_000}, {"grok-code", 256_000}, {"grok-2-vision", 32_000}, {"grok", 131_000}, {"command-r", 128_000}, {"command-a", 256_000},
	{"kimi-k2.", 262_000}, {"kimi-k2-0905", 262_000}, {"kimi-k2-thinking", 262_000}, {"kimi-k2-turbo", 262_000}, {"kimi-k2", 128_000},
	{"glm-4.6", 200_000}, {"glm-4.7", 200_000}, {"glm-5", 200_000}, {"glm-4", 128_000}, {"minimax-m2", 200_000},
	{"qwen3-coder-plus", 997_000}, {"qwen3-coder-flash", 997_000}, {"qwen3-coder", 256_000}, {"qwen3-max", 258_000}, {"qwen3-next", 262_000},
	{"qwen3.5-plus", 991_000}, {"qwen3.7", 991_000}, {"qwen3", 32_000}, {"qwen2.5", 32_000}, {"qwen-plus", 129_000}, {"qwen-max", 30_000},
	{"llama-4", 128_000}, {"llama-3.3", 128_000}, {"llama-3.2", 128_000}, {"llama-3.1", 128_000}, {"llama-3", 8_000},
}

// Window returns how many tokens a model can be sent, its answer included, as
// far as that is known without asking the server.
func Window(provider, name string) int {
	switch provider {
	case "ollama", "llamacpp", "vllm":
		return DefaultWindow // its configuration counts, not what the model could accept
	}
	return cmp.Or(TableWindow(name), DefaultWindow)
}

// textOnly are families of models that refuse a request with an image, by how
// their names begin.
var textOnly = []string{"gpt-3.5", "gpt-oss", "o1-mini", "o3-mini", "claude-2", "claude-instant", "codestral"}

// TextOnly reports whether a model is known to take no images without asking
// its server.
func TextOnly(name string) bool {
	name = family(name)
	return slices.ContainsFunc(textOnly, func(begins string) bool { return strings.HasPrefix(name, begins) })
}

// family is the name of a model without its vendor, which a router puts in
// front: anthropic/claude-sonnet-5.
func family(name string) string {
	name = strings.ToLower(name)
	return name[strings.LastIndexByte(name, '/')+1:]
}

// TableWindow returns how many tokens a model can be sent by the table of
// families, 0 when it is not known.
func TableWindow(name string) int {
	name = family(name)
	if strings.HasPrefix(name, "claude-opus") || strings.HasPrefix(name, "claude-sonnet") {
		name = strings.ReplaceAll(name, ".", "-") // some write claude-opus-4.6
	}
	for _, w := range windows {
		if strings.HasPrefix(name, w.begins) {
			return w.tokens
		}
	}
	return 0
}
