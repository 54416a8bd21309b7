//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/model/standin"
)

// TestRealAgentsGoOnWithWhatIsNamed has Claude Code and Codex themselves go on
// with sessions that a fleet gives them, in their sandboxes, and asks what their
// model was sent.
func TestRealAgentsGoOnWithWhatIsNamed(t *testing.T) {
	claudePath, codexPath := standin.RealAgents(t, os.Getenv(standin.RealVariable))
	f := &realFleet{T: t, dir: t.TempDir(), url: standin.Start(t)}
	f.write(".codex/config.toml", "model_provider = \"fake\"\n[model_providers.fake]\nname = \"fake\"\nbase_url = \""+f.url+"/v1\"\nenv_key = \"FAKE_KEY\"\nwire_api = \"responses\"\n")
	f.write("work/README", "Here they work.\n")
	f.write("fleet.yaml", `version: 1
defaults: {dir: work}
agents:
  - {name: mine, provider: demo}
  - {name: claude, runner: claude, model: claude-sonnet-4-5, command: [`+claudePath+`], base_url: "`+f.url+`", pass_env: [ANTHROPIC_API_KEY, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC], permissions: {allow: [Bash]}}
  - {name: codex, runner: codex, model: gpt-5, command: [`+codexPath+`], pass_env: [FAKE_KEY], permissions: {allow: ["*"]}, sandbox: {allow_hosts: ["`+strings.TrimPrefix(f.url, "http://")+`"]}}
`)
	f.up()
	f.ok("run", "mine", "-p", "An apple", "--wait")
	mine := f.ok("jobs", "--agent", "mine", "--jq", ".[0].session_id")
	f.ok("retry", f.ok("jobs", "--agent", "mine", "--jq", ".[0].id"), "-p", "A pear", "--wait")
	f.write(".ssh/id_ed25519", "hunter2\n")
	for _, agent := range []string{"claude", "codex"} {
		f.usesItsShell(agent)
		f.said(agent, "apple pear", "--resume", mine)
		f.said(agent, "apple", "--resume", mine+"@n0")
		f.said(agent, "apple", "--fork", mine+"@n0")
		f.ok("run", agent, "-p", "A fig", "--wait")
		job, theirs := f.ok("jobs", "--agent", agent, "--jq", ".[0].id"), f.ok("jobs", "--agent", agent, "--jq", ".[0].session_id")
		f.ok("import", filepath.Join(f.dir, "."+agent))
		here := f.ok("ls", "-A", "-n", "0", "--jq", `.[] | select(.foreign_id == "`+theirs+`").id`)
		f.said(agent, "fig", "--resume", here)
		if got := f.ok("jobs", "--agent", agent, "--jq", ".[0].session_id"); got != theirs {
			t.Errorf("%s went on with %s, not with its session %s", agent, got, theirs)
		}
		f.said(agent, "fig", "--fork", here)
		f.forget()
		f.said(agent, "fig", "--resume", here) // given back
		f.ok("purge", "--yes", here)
		f.forget()
		for _, again := range []string{"retry", "fork-job"} {
			if out, err := f.tidemark(again, job, "--wait").CombinedOutput(); err == nil || !strings.Contains(string(out), "the session cannot be gone on with") {
				t.Errorf("%s %s of a session that nobody knows: %v\n%s", agent, again, err, out)
			}
		}
	}
}

// realFleet is a fleet with agents of others, in a home of its own.
type realFleet struct {
	*testing.T
	dir, url string
}

func (f *realFleet) write(name, text string) {
	f.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

func (f *realFleet) tidemark(args ...string) *exec.Cmd {
	cmd := tidemarkIn(f.dir, args...)
	cmd.Env = append(cmd.Env, "ANTHROPIC_API_KEY=fake", "FAKE_KEY=fake", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	return cmd
}

func (f *realFleet) ok(args ...string) string {
	f.Helper()
	out, err := f.tidemark(args...).Output()
	if err != nil {
		var said []byte
		if exit, ok := err.(*exec.ExitError); ok {
			said = exit.Stderr
		}
		f.Fatalf("%q: %v\n%s%s", args, err, out, said)
	}
	return strings.TrimSpace(string(out))
}

// up runs the fleet in the background until the test ends.
func (f *realFleet) up() {
	f.Helper()
	// What a detached fleet says goes into a file: a pipe would be held open.
	if err := f.tidemark("fleet", "up", "--detach").Run(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { f.tidemark("fleet", "down").Run() })
}

// said has an agent tell what it was sent.
func (f *realFleet) said(agent, want string, args ...string) {
	f.Helper()
	f.ok(append([]string{"run", agent, "-p", "What have I said so far?", "--wait"}, args...)...)
	told := f.ok("jobs", "--agent", agent, "--jq", ".[0].summary")
	if got := strings.Join(regexp.MustCompile("apple|pear|fig").FindAllString(told, -1), " "); got != want {
		f.Errorf("%s %q: its model was sent %q, want %q\n%s", agent, args, got, want, told)
	}
}

// usesItsShell has an agent run a command, which works in its folder and finds
// nothing else.
func (f *realFleet) usesItsShell(agent string) {
	f.Helper()
	f.ok("run", agent, "-p", `[[fake op bash {"cmd":"(cat `+f.dir+`/.ssh/id_ed25519; echo harbour-$((40+2))) >made-by-`+agent+`"}]] [[fake say Done.]]`, "--wait")
	if b, err := os.ReadFile(filepath.Join(f.dir, "work", "made-by-"+agent)); err != nil || string(b) != "harbour-42\n" {
		f.Errorf("%s made %q, %v", agent, b, err)
	}
}

// forget takes away what the agents keep.
func (f *realFleet) forget() {
	f.Helper()
	kept, _ := filepath.Glob(filepath.Join(f.dir, ".codex", "*.sqlite*"))
	kept = append(kept, filepath.Join(f.dir, ".claude", "projects"), filepath.Join(f.dir, ".codex", "sessions"))
	for _, path := range kept {
		if err := os.RemoveAll(path); err != nil {
			f.Fatal(err)
		}
	}
}
