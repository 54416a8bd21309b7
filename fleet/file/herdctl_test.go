package file

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert/herdctl"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// converted makes a fleet file of a herdctl.yaml with one agent.
func converted(t testing.TB, fleet, agent string) (*File, []string) {
	t.Helper()
	files := fstest.MapFS{"herdctl.yaml": {Data: []byte(fleet)}, "a.yaml": {Data: []byte(agent)}}
	c, err := herdctl.ReadConfig(files, "herdctl.yaml", herdctl.ConfigOptions{Root: "/srv/p", Env: PlainVariable(func(name string) (string, bool) {
		v, ok := map[string]string{"MODEL": "opus", "API_KEY": "hello", "TOKEN": ghToken}[name]
		return v, ok
	})})
	if err != nil {
		return &File{}, nil // it cannot be read at all
	}
	f, left := FromHerdctl(c, "herdctl.yaml", HerdctlOptions{Zone: "Europe/Berlin", Dir: func(abs string) string { return strings.TrimPrefix(abs, "/srv/p/") }})
	var said []string
	for _, l := range left {
		said = append(said, l.String())
	}
	return f, said
}

const herdctlAgent = `
name: coder
description: codes
working_directory: ../ws
repo: me/it
identity: {name: C, role: dev}
system_prompt: |
  Be brief.
  And kind.
default_prompt: Do it
model: ${MODEL:-none}
permission_mode: acceptEdits
allowed_tools: [Read, "Bash(git *)", "not a tool"]
denied_tools: [WebFetch]
session: {max_turns: 7, timeout: 1.5h, model: other}
instances: {max_concurrent: 2}
work_source: {type: github, repo: a/b}
mcp_servers: {x: {command: y}}
chat: {discord: {bot_token_env: D}}
hooks:
  after_run:
    - {type: shell, command: "echo done", timeout: 5000, name: n}
    - {type: webhook, url: "https://example.org/h", method: PUT, headers: {A: b}}
    - {type: discord, channel_id: "1", bot_token_env: T}
  on_error:
    - {type: slack, channel_id: "1"}
docker: {enabled: true, image: i:1, memory: 512m, cpu_quota: 150000, pids_limit: 5, volumes: ["/data:/data:ro", "~/x:/y"], env: {PLAIN: "1", API_KEY: "${API_KEY}", T: "${TOKEN}", PASSWORD: hunter2}}
schedules:
  often: {type: interval, interval: 5m, enabled: false, resume_session: true}
  nightly: {type: cron, expression: "0 3 * * *", prompt: Sleep}
  hook: {type: webhook, prompt: Look}
  talk: {type: chat}
  broken: {type: cron, cron: "every day"}
  "a b": {type: interval, interval: 1m}
  vague: {type: interval}
`

func TestAnAgentOfHerdctlBecomesOneOfTheFile(t *testing.T) {
	f, left := converted(t, "fleet: {name: f}\nweb: {enabled: true}\nwebhooks: {enabled: true, port: 9000, secret_env: HOOK}\nagents: [{path: a.yaml}]\n", herdctlAgent)
	no := false
	want := Agent{
		Name: "coder", Description: "codes", Runner: fleet.RunnerClaude, Dir: "/srv/ws", System: System{Text: "Be brief.\nAnd kind.\n"}, Model: "opus",
		Permissions:    Permissions{Allow: []Permission{{Tool: "Edit"}, {Tool: "Write"}, {Tool: "Read"}, {Tool: "Bash", Scope: "git *"}}, Deny: []Permission{{Tool: "WebFetch"}}},
		Limits:         Limits{MaxTurns: 7, MaxConcurrent: 2},
		SessionTimeout: 90 * time.Minute,
		Hooks:          Hooks{AfterRun: []Hook{{Command: []string{"sh", "-c", "echo done"}, Timeout: 5 * time.Second}, {Webhook: "https://example.org/h", Timeout: 10 * time.Second}}},
		Container:      &Container{Engine: "docker", Image: "i:1", Memory: 512 << 20, CPUs: 1.5, Mounts: []Mount{{"/data", "/data", true}}},
		Env:            map[string]string{"PLAIN": "1"}, PassEnv: []string{"API_KEY", "PASSWORD"},
		Schedules: []Schedule{
			{Name: "often", Type: fleet.TypeInterval, Every: 5 * time.Minute, Prompt: "Do it", Resume: true, Enabled: &no},
			{Name: "nightly", Type: fleet.TypeCron, Cron: "0 3 * * *", Zone: "Europe/Berlin", Prompt: "Sleep"},
			{Name: "hook", Type: fleet.TypeWebhook, Prompt: "Look"}, {Name: "talk", Type: fleet.TypeChat},
		},
	}
	got := f.Agents[0]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f.Webhooks != (Webhooks{Listen: "127.0.0.1:9000", SecretEnv: "HOOK"}) || f.Fleet.Name != "f" {
		t.Errorf("%+v", f)
	}
	for _, key := range []string{"herdctl.yaml: web", "repo", "identity", "default_prompt", `"not a tool"`, "work_source", "mcp_servers", "chat", "hooks.after_run[1].method", "hooks.after_run[1].headers",
		"hooks.after_run[2]: a hook of type discord", "hooks.on_error[0]: a hook of type slack", "docker.pids_limit", `docker.volumes: "~/x:/y"`, "docker.env.PASSWORD", "docker.env.T", "${API_KEY}", "${TOKEN}",
		"schedules.broken", "schedules.a b", "schedules.vague"} {
		if !slices.ContainsFunc(left, func(l string) bool { return strings.Contains(l, key) }) {
			t.Errorf("nothing is said of %s:\n%s", key, strings.Join(left, "\n"))
		}
	}
	text := string(f.YAML())
	if _, err := Parse("f", []byte(text), nil); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	for _, secret := range []string{ghToken, "hunter2"} {
		if strings.Contains(text, secret) {
			t.Errorf("a secret is in the file:\n%s", text)
		}
	}
}

// Whatever herdctl is told, what comes of it is a fleet file.
func FuzzWhatIsConvertedIsValid(f *testing.F) {
	f.Add("agents: [{path: a.yaml}]", herdctlAgent)
	f.Add("fleet: {name: 'a b'}\nagents: [{path: a.yaml}]", "name: a\nsystem_prompt: ''\nallowed_tools: []\nschedules: {s: ~}\n")
	f.Add("webhooks: {enabled: true, port: 70000}\nagents: [{path: a.yaml}]", "name: a\nhooks: {after_run: [{type: webhook, url: 'https://u:p@h/'}, 1]}\ndocker: {enabled: true, network: '-x', memory: 1e9t, volumes: [a, 'b:/c:rw', ':/']}\n")
	f.Add("agents: [{path: a.yaml}]", "name: a\nmodel: \"\\x00\"\ndescription: \"\\x1b[1m\"\ndocker: {enabled: true, env: {A: \"\\0\", B: [1]}}\nsession: {timeout: 0s}\n")
	f.Fuzz(func(t *testing.T, fleet, agent string) {
		file, _ := converted(t, fleet, agent)
		if len(file.Agents) == 0 {
			return
		}
		if _, err := Parse("f", file.YAML(), nil); err != nil {
			t.Errorf("%v\n%s", err, file.YAML())
		}
	})
}
