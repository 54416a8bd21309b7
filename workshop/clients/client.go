package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// client is an agent of others, and how it is run without a person.
type client struct {
	tool, title, program string
	// npm are the packages to install, the first that npm has all of: a new version
	// may be there before the packages that it needs are.
	npm []string
	// setUp writes the settings by which it asks the model at a URL, and returns its
	// environment.
	setUp func(home, url string) (environ []string, err error)
	// begin are the arguments for one prompt, to begin a session with or to go on
	// with one behind `tidemark resume --`, and again those that go on with the
	// newest.
	begin, again func(prompt string) []string
	// list are the arguments that list the sessions of a folder, and screen those
	// that do so on a screen.
	list, screen []string
	// rewrites says that it writes messages again that it wrote before.
	rewrites bool
}

// clients are the agents that sessions go on in. A further one joins by a row.
var clients = []client{
	{tool: "claude-code", title: "Claude Code", program: "claude", npm: []string{"@anthropic-ai/claude-code"}, setUp: setUpClaude, screen: []string{"--resume"},
		begin: words("-p", "PROMPT", "--allowedTools", "Bash"), again: words("-c", "-p", "PROMPT", "--allowedTools", "Bash")},
	{tool: "codex", title: "Codex", program: "codex", npm: []string{"@openai/codex"}, setUp: setUpCodex, screen: []string{"resume"},
		begin: words("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "PROMPT"),
		again: words("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "resume", "--last", "PROMPT")},
	{tool: "opencode", title: "opencode", program: "opencode", npm: []string{"opencode-ai"}, setUp: setUpOpencode(".config/opencode/opencode.json"), list: []string{"session", "list"},
		begin: words("run", "-m", "fake/fake-1", "PROMPT"), again: words("run", "-c", "-m", "fake/fake-1", "PROMPT")},
	{tool: "kilo-cli", title: "Kilo CLI", program: "kilo", npm: []string{"@kilocode/cli", "@kilocode/cli-linux-x64"}, setUp: setUpOpencode(".config/kilo/config.json"), list: []string{"session", "list"},
		begin: words("run", "--auto", "-m", "fake/fake-1", "PROMPT"), again: words("run", "--auto", "-c", "-m", "fake/fake-1", "PROMPT")},
	{tool: "pi", title: "pi", program: "pi", npm: []string{"@earendil-works/pi-coding-agent", "@earendil-works/pi-coding-agent@1.4", "@earendil-works/pi-coding-agent@1.3", "@earendil-works/pi-coding-agent@1.0", "@earendil-works/pi-coding-agent@0.87"},
		setUp: setUpPi, screen: []string{"--resume"},
		begin: words("--provider", "fake", "--model", "fake-1", "--mode", "json", "-p", "PROMPT"), again: words("--provider", "fake", "--model", "fake-1", "--mode", "json", "-c", "-p", "PROMPT")},
	{tool: "qwen-code", title: "Qwen Code", program: "qwen", npm: []string{"@qwen-code/qwen-code"}, setUp: setUpQwen, screen: []string{"--resume"},
		begin: words("-y", "-o", "json", "-p", "PROMPT"), again: words("-y", "-o", "json", "--continue", "-p", "PROMPT")},
	{tool: "kimi-code", title: "Kimi Code", program: "kimi", npm: []string{"@moonshot-ai/kimi-code"}, setUp: setUpKimi, list: []string{"session", "list"},
		begin: words("-m", "fake-1", "-p", "PROMPT"), again: words("-c", "-m", "fake-1", "-p", "PROMPT")},
	{tool: "gemini-cli", title: "Gemini CLI", program: "gemini", npm: []string{"@google/gemini-cli"}, setUp: setUpGemini, list: []string{"--list-sessions"}, rewrites: true,
		begin: words("-m", "gemini-2.5-flash", "-o", "json", "--approval-mode", "yolo", "-p", "PROMPT"), again: words("-m", "gemini-2.5-flash", "-o", "json", "--approval-mode", "yolo", "--resume", "latest", "-p", "PROMPT")},
}

// words are arguments with a prompt among them.
func words(all ...string) func(string) []string {
	return func(prompt string) []string {
		args := make([]string, len(all))
		for i, word := range all {
			if args[i] = word; word == "PROMPT" {
				args[i] = prompt
			}
		}
		return args
	}
}

// put writes a settings file.
func put(home, name, text string) error {
	file := filepath.Join(home, filepath.FromSlash(name))
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600))
}

// setUpClaude says that what Claude Code asks people first was answered: it would ask
// its vendor then.
func setUpClaude(home, url string) ([]string, error) {
	return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=fake", "ANTHROPIC_MODEL=model-1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"},
		put(home, ".claude.json", fmt.Sprintf(`{"hasCompletedOnboarding":true,"theme":"dark","customApiKeyResponses":{"approved":["fake"],"rejected":[]},"projects":{%q:{"hasTrustDialogAccepted":true}}}`, filepath.Dir(home)))
}

// setUpCodex has Codex ask the scripted model by the name of one for which it offers
// tools that are called by JSON.
func setUpCodex(home, url string) ([]string, error) {
	return []string{"FAKE_KEY=fake"}, put(home, ".codex/config.toml", codexSettings(url))
}

func codexSettings(url string) string {
	return fmt.Sprintf("model = \"gpt-5\"\nmodel_provider = \"fake\"\ncheck_for_update_on_startup = false\n[model_providers.fake]\nname = \"fake\"\nbase_url = %q\nenv_key = \"FAKE_KEY\"\nwire_api = \"responses\"\n", url+"/v1")
}

// setUpOpencode sets up opencode or its fork.
func setUpOpencode(settings string) func(home, url string) ([]string, error) {
	return func(home, url string) ([]string, error) {
		return []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
				"KILO_DISABLE_AUTOUPDATE=1", "KILO_DISABLE_MODELS_FETCH=1", "KILO_DISABLE_DEFAULT_PLUGINS=1", "KILO_DISABLE_LSP_DOWNLOAD=1",
				"KILO_TELEMETRY_LEVEL=off", "KILO_DISABLE_PRESENCE=1", "KILO_DISABLE_SESSION_INGEST=1", "KILO_NO_DAEMON=1", "KILO_DISABLE_CODEBASE_INDEXING=1", "DO_NOT_TRACK=1"},
			put(home, settings, fmt.Sprintf(`{"autoupdate":false,"share":"disabled","permission":"allow","provider":{"fake":{"npm":"@ai-sdk/openai-compatible","name":"fake",`+
				`"options":{"baseURL":%q,"apiKey":"k"},"models":{"fake-1":{"name":"fake-1","attachment":true,"reasoning":true,"tool_call":true,`+
				`"modalities":{"input":["text","image"],"output":["text"]},"limit":{"context":2000000,"output":1000}}}}},"model":"fake/fake-1","small_model":"fake/fake-1"}`, url+"/v1"))
	}
}

func setUpPi(home, url string) ([]string, error) {
	return []string{"PI_OFFLINE=1"}, put(home, ".pi/agent/models.json", fmt.Sprintf(`{"providers":{"fake":{"baseUrl":%q,"api":"openai-completions","apiKey":"k",`+
		`"models":[{"id":"fake-1","name":"fake-1","input":["text","image"],"contextWindow":2000000,"maxTokens":1000}]}}}`, url+"/v1"))
}

func setUpQwen(home, url string) ([]string, error) {
	return []string{"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=k", "OPENAI_MODEL=qwen3-vl-plus"},
		put(home, ".qwen/settings.json", `{"security":{"auth":{"selectedType":"openai"}},"model":{"name":"qwen3-vl-plus"}}`)
}

func setUpKimi(home, url string) ([]string, error) {
	return nil, put(home, ".kimi-code/config.toml", fmt.Sprintf("default_model = \"fake-1\"\n[providers.fake]\ntype = \"openai\"\nbase_url = %q\napi_key = \"k\"\n"+
		"[models.fake-1]\nprovider = \"fake\"\nmodel = \"fake-1\"\nmax_context_size = 2000000\ncapabilities = [\"thinking\", \"image_in\"]\n", url+"/v1"))
}

func setUpGemini(home, url string) ([]string, error) {
	return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=k", "GEMINI_CLI_TRUST_WORKSPACE=true"},
		put(home, ".gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}},"general":{"disableAutoUpdate":true}}`)
}

func clientOf(tool string) (client, bool) {
	for _, c := range clients {
		if c.tool == tool {
			return c, true
		}
	}
	return client{}, false
}

// path is where the programs of the agents are.
func (w *workshop) path() string { return filepath.Join(w.agents, "bin") }

// nodePackage is the Node.js that agents run with: some need a newer one than a
// machine has.
const nodePackage = "node@24"

// install has npm install the newest of each agent that is wanted and missing, each
// into a folder of its own: where one cannot be installed, the others are tried.
func (w *workshop) install(ctx context.Context) error {
	if !slices.ContainsFunc(clients, func(c client) bool { return w.tool.MatchString(c.tool) }) {
		return nil
	}
	if err := os.MkdirAll(w.path(), 0o700); err != nil {
		return err
	}
	if err := w.installOne(ctx, "node", "node", nodePackage); err != nil {
		return err
	}
	for _, c := range clients {
		if !w.tool.MatchString(c.tool) {
			continue
		}
		if err := w.installOne(ctx, c.tool, c.program, c.npm...); err != nil {
			fmt.Fprintln(w.log, err)
			continue
		}
		cmd := exec.CommandContext(ctx, filepath.Join(w.path(), c.program), "--version")
		cmd.Env = []string{"HOME=" + w.scratch, "PATH=" + w.path() + string(os.PathListSeparator) + os.Getenv("PATH")}
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", c.program, err)
		}
		w.versions[c.tool] = version.FindString(string(out))
	}
	return nil
}

var version = regexp.MustCompile(`\d+\.\d+\.\d+[-.+\w]*`)

// installOne installs the first of some packages that npm can, unless the program is
// there.
func (w *workshop) installOne(ctx context.Context, folder, program string, packages ...string) error {
	link := filepath.Join(w.path(), program)
	if _, err := os.Stat(link); err == nil {
		return nil
	}
	var said []byte
	for _, p := range packages {
		if strings.LastIndex(p, "@") <= 0 {
			p += "@latest"
		}
		dir := filepath.Join(w.agents, folder)
		_ = os.RemoveAll(dir) // what another package left
		cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", p)
		cmd.Env = append(os.Environ(), "PATH="+w.path()+string(os.PathListSeparator)+os.Getenv("PATH"))
		fmt.Fprintln(w.log, strings.Join(cmd.Args, " "))
		var err error
		if said, err = cmd.CombinedOutput(); err != nil {
			continue
		}
		for _, at := range []string{"node_modules/.bin/" + program, "node_modules/*/bin/" + program, "node_modules/*/*/bin/" + program} {
			if found, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(at))); len(found) > 0 { // the pattern is ours
				return os.Symlink(found[0], link)
			}
		}
	}
	return fmt.Errorf("npm cannot install %s:\n%s", folder, said)
}
