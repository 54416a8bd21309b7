package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

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
		a                    file.Agent
		environ              []string
		forget, write, hosts []string
	}{
		"a command": {a: file.Agent{Runner: fleet.RunnerCommand, Command: []string{"claude"}}},
		"claude": {a: file.Agent{Runner: fleet.RunnerClaude}, forget: below(".claude", ".claude.json"), write: below(".claude/projects", ".claude/.credentials.json"),
			hosts: []string{"api.anthropic.com", "platform.claude.com", "console.anthropic.com"}},
		"claude with another model": {a: file.Agent{Runner: fleet.RunnerClaude, BaseURL: "http://localhost:8080/v1"}, forget: below(".claude", ".claude.json"), write: below(".claude/projects", ".claude/.credentials.json"),
			hosts: []string{"localhost:8080", "platform.claude.com", "console.anthropic.com"}},
		"claude elsewhere": {a: file.Agent{Runner: fleet.RunnerClaude}, environ: []string{"CLAUDE_CONFIG_DIR=" + home + "/other", "ANTHROPIC_BASE_URL=https://models.example.org/x"},
			forget: below("other", ".claude.json"), write: below("other/projects"), hosts: []string{"models.example.org:443", "platform.claude.com", "console.anthropic.com"}},
		"codex": {a: file.Agent{Runner: fleet.RunnerCodex, Sandbox: file.Sandbox{Hosts: []string{"example.org"}, Write: []string{"/srv/more"}}}, forget: below(".codex"),
			write: append([]string{"/srv/more"}, below(".codex/sessions", ".codex/archived_sessions", ".codex/auth.json")...), hosts: []string{"example.org", "api.openai.com", "chatgpt.com", "auth.openai.com"}},
		"an adapter": {a: file.Agent{Runner: fleet.RunnerACP, Command: []string{"codex-acp"}}, forget: below(".codex"), write: below(".codex/sessions", ".codex/archived_sessions", ".codex/auth.json"),
			hosts: []string{"api.openai.com", "chatgpt.com", "auth.openai.com"}},
		"a program that is called like an adapter": {a: file.Agent{Runner: fleet.RunnerACP, Command: []string{"./codex-acp"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := confined(c.a, base, c.environ)
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
	f := &file.File{Agents: []file.Agent{
		{Name: "held", Dir: dir, Command: []string{"./held.sh"}, System: file.System{File: "prompts/a.md"}},
		{Name: "free", Dir: dir, Command: []string{"sh", "free.sh", "test"}, Sandbox: file.Sandbox{Off: true}, Hooks: file.Hooks{AfterRun: []file.Hook{{Command: []string{"./notify.sh"}}}}},
	}}
	got := guards(f, dir)
	slices.Sort(got)
	want := []string{dir + "/free.sh", dir + "/inbox", dir + "/notify.sh", dir + "/prompts/a.md"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
