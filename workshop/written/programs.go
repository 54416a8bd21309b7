package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// program is how a tool is started without a person.
type program struct {
	tool, bin string
	// setUp writes the settings that a tool needs to ask the model at a URL, and
	// returns its environment.
	setUp  func(home, url string) []string
	list   []string
	resume func(id, prompt string) []string
}

// put writes a settings file. A program that proves things stops when it cannot.
func put(home, name, text string) {
	file := filepath.Join(home, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		panic(err)
	}
}

func programs() []program {
	return []program{
		{tool: "pi", bin: "*/node_modules/.bin/pi",
			setUp: func(home, url string) []string {
				put(home, ".pi/agent/models.json", fmt.Sprintf(`{"providers":{"fake":{"baseUrl":%q,"api":"openai-completions","apiKey":"k",`+
					`"models":[{"id":"fake-1","name":"fake-1","input":["text","image"],"contextWindow":2000000,"maxTokens":1000}]}}}`, url+"/v1"))
				return []string{"PI_OFFLINE=1"}
			},
			resume: func(id, prompt string) []string {
				return []string{"--provider", "fake", "--model", "fake-1", "--mode", "json", "--session", id, "-p", prompt}
			}},
		{tool: "qwen-code", bin: "*/node_modules/.bin/qwen",
			setUp: func(home, url string) []string {
				put(home, ".qwen/settings.json", `{"security":{"auth":{"selectedType":"openai"}},"model":{"name":"qwen3-vl-plus"}}`)
				return []string{"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=k", "OPENAI_MODEL=qwen3-vl-plus"}
			},
			resume: func(id, prompt string) []string { return []string{"-y", "-o", "json", "--resume", id, "-p", prompt} }},
		{tool: "kimi-code", bin: "*/node_modules/.bin/kimi",
			setUp: func(home, url string) []string {
				put(home, ".kimi-code/config.toml", fmt.Sprintf("default_model = \"fake-1\"\n[providers.fake]\ntype = \"openai\"\nbase_url = %q\napi_key = \"k\"\n"+
					"[models.fake-1]\nprovider = \"fake\"\nmodel = \"fake-1\"\nmax_context_size = 2000000\ncapabilities = [\"thinking\", \"image_in\"]\n", url+"/v1"))
				return nil
			},
			list:   []string{"session", "list"},
			resume: func(id, prompt string) []string { return []string{"-S", id, "-m", "fake-1", "-p", prompt} }},
		{tool: "gemini-cli", bin: "*/node_modules/.bin/gemini",
			setUp: func(home, url string) []string {
				put(home, ".gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}},"general":{"disableAutoUpdate":true}}`)
				return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=k", "GEMINI_CLI_TRUST_WORKSPACE=true"}
			},
			list: []string{"--list-sessions"},
			resume: func(id, prompt string) []string {
				return []string{"--resume", id, "-p", prompt, "-o", "json", "--approval-mode", "yolo"}
			}},
		ofOpencode("opencode", "*/node_modules/.bin/opencode", ".config/opencode/opencode.json"),
		ofOpencode("kilo-cli", "*/node_modules/@kilocode/cli-linux-x64/bin/kilo", ".config/kilo/config.json"),
	}
}

// ofOpencode is opencode or its fork.
func ofOpencode(tool, bin, settings string) program {
	return program{tool: tool, bin: bin,
		setUp: func(home, url string) []string {
			put(home, settings, fmt.Sprintf(`{"autoupdate":false,"share":"disabled","provider":{"fake":{"npm":"@ai-sdk/openai-compatible","name":"fake",`+
				`"options":{"baseURL":%q,"apiKey":"k"},"models":{"fake-1":{"name":"fake-1","attachment":true,"reasoning":true,"tool_call":true,`+
				`"modalities":{"input":["text","image"],"output":["text"]},"limit":{"context":2000000,"output":1000}}}}},"model":"fake/fake-1"}`, url+"/v1"))
			return []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"}
		},
		list:   []string{"session", "list"},
		resume: func(id, prompt string) []string { return []string{"run", "-s", id, "-m", "fake/fake-1", prompt} }}
}
