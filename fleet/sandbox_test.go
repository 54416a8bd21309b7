package fleet

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

func TestAFileSaysWhatHoldsItsAgents(t *testing.T) {
	f, err := Parse("f", []byte(`
defaults:
  runner: command
  command: ["true"]
  sandbox: {allow_hosts: [example.org], allow_read: [/srv/data]}
agents:
  - name: as-all
  - {name: off, sandbox: off}
  - {name: on, sandbox: on}
  - {name: more, sandbox: {allow_hosts: ["localhost:8080"], allow_write: [../shared]}}
  - {name: none, sandbox: null}
  - {name: boxed, container: {image: i}}
`), inFolder())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Sandbox{
		"as-all": {Hosts: []string{"example.org"}, Read: []string{"/srv/data"}},
		"off":    {Off: true},
		"on":     {},
		"more":   {Hosts: []string{"localhost:8080"}, Write: []string{"/srv/shared"}, Read: []string{"/srv/data"}},
		"none":   {},
		"boxed":  {},
	}
	for _, a := range f.Agents {
		if diff := cmp.Diff(want[a.Name], a.Sandbox); diff != "" {
			t.Errorf("%s (-want +got):\n%s", a.Name, diff)
		}
	}
	again, err := Parse("f", f.YAML(), inFolder())
	if err != nil {
		t.Fatalf("%v\n%s", err, f.YAML())
	}
	if diff := cmp.Diff(f, again, cmpopts.IgnoreUnexported(File{})); diff != "" {
		t.Errorf("what is written is read as something else (-want +got):\n%s", diff)
	}
}

func TestMistakesAboutTheSandbox(t *testing.T) {
	for line, want := range map[string]string{
		"sandbox: of":                                              `3:14: sandbox is "of" -> ` + sandboxHint,
		"sandbox: [off]":                                           `3:14: sandbox is a list -> ` + sandboxHint,
		"sandbox: {allow_host: [a.b]}":                             `3:15: "allow_host" is not a key of sandbox -> did you mean "allow_hosts"?`,
		"sandbox: {allow_hosts: a.b}":                              `3:28: allow_hosts is a text, and should be a list -> write it like [modules.example.org, "*.example.org", "localhost:8080"]`,
		`sandbox: {allow_hosts: ["*"]}`:                            `3:29: "*" is not a host -> write it like [modules.example.org, "*.example.org", "localhost:8080"]`,
		`sandbox: {allow_hosts: ["10.0.0.1"]}`:                     `3:29: "10.0.0.1" is not a host -> write it like [modules.example.org, "*.example.org", "localhost:8080"]`,
		"sandbox: {allow_write: [/]}":                              `3:29: allow_write is "/": everything would be in it -> name the folder that is needed`,
		"sandbox: {allow_read: [~/.ssh]}":                          `3:28: allow_read is "~/.ssh": ~ and variables are not replaced -> write the whole path, or one relative to the folder of this file`,
		"sandbox: {allow_hosts: [a.b]}\n    container: {image: i}": `3:5: sandbox means nothing in a container, which holds the agent already -> take it out`,
	} {
		text := agentWith(line + "\n    runner: claude")
		if got := problemsOf(t, text); len(got) != 1 || got[0] != want {
			t.Errorf("%s:\n got %q\nwant %q", line, got, want)
		}
	}
}

// TestVendorsGetWhatIsTheirsAndNothingElse: configuration, which they run things
// from, is never among what they may change.
func TestVendorsGetWhatIsTheirsAndNothingElse(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{".claude/.credentials.json", ".claude/settings.json", ".claude.json", ".codex/auth.json", ".codex/config.toml", ".gemini/settings.json", "other/.claude.json"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	below := func(names ...string) (all []string) {
		for _, n := range names {
			all = append(all, filepath.Join(home, n))
		}
		return all
	}
	base := sandbox.Policy{Root: "/srv/work", Home: home}
	for name, c := range map[string]struct {
		a                    Agent
		environ              []string
		forget, write, hosts []string
	}{
		"a command": {a: Agent{Runner: RunnerCommand, Command: []string{"claude"}}},
		"claude": {a: Agent{Runner: RunnerClaude}, forget: below(".claude", ".claude.json"), write: below(".claude/projects", ".claude/.credentials.json"),
			hosts: []string{"api.anthropic.com", "platform.claude.com", "console.anthropic.com"}},
		"claude with another model": {a: Agent{Runner: RunnerClaude, BaseURL: "http://localhost:8080/v1"}, forget: below(".claude", ".claude.json"), write: below(".claude/projects", ".claude/.credentials.json"),
			hosts: []string{"localhost:8080", "platform.claude.com", "console.anthropic.com"}},
		"claude elsewhere": {a: Agent{Runner: RunnerClaude}, environ: []string{"CLAUDE_CONFIG_DIR=" + home + "/other", "ANTHROPIC_BASE_URL=https://models.example.org/x"},
			forget: below("other", ".claude.json"), write: below("other/projects"), hosts: []string{"models.example.org:443", "platform.claude.com", "console.anthropic.com"}},
		"codex": {a: Agent{Runner: RunnerCodex, Sandbox: Sandbox{Hosts: []string{"example.org"}, Write: []string{"/srv/more"}}}, forget: below(".codex"),
			write: append([]string{"/srv/more"}, below(".codex/sessions", ".codex/archived_sessions", ".codex/auth.json")...), hosts: []string{"example.org", "api.openai.com", "chatgpt.com", "auth.openai.com"}},
		"an adapter": {a: Agent{Runner: RunnerACP, Command: []string{"codex-acp"}}, forget: below(".codex"), write: below(".codex/sessions", ".codex/archived_sessions", ".codex/auth.json"),
			hosts: []string{"api.openai.com", "chatgpt.com", "auth.openai.com"}},
		"a program that is called like an adapter": {a: Agent{Runner: RunnerACP, Command: []string{"./codex-acp"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := c.a.confined(base, c.environ)
			if err != nil {
				t.Fatal(err)
			}
			want := base
			want.Forget, want.Write, want.Hosts = c.forget, c.write, c.hosts
			if diff := cmp.Diff(want, p, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatTheFleetTakesItsOrdersFromIsGuarded(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"inbox/a/x", "prompts/a.md", "free.sh", "notify.sh", "held.sh", "test/x"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f := &File{Agents: []Agent{
		{Name: "held", Dir: dir, Command: []string{"./held.sh"}, System: System{File: "prompts/a.md"}},
		{Name: "free", Dir: dir, Command: []string{"sh", "free.sh", "test"}, Sandbox: Sandbox{Off: true}, Hooks: Hooks{AfterRun: []Hook{{Command: []string{"./notify.sh"}}}}},
	}}
	got := f.guards(dir)
	slices.Sort(got)
	want := []string{dir + "/free.sh", dir + "/inbox", dir + "/notify.sh", dir + "/prompts/a.md"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
