package file

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// problemsOf returns what Parse finds wrong, each as LINE:COLUMN: MESSAGE and
// the hint behind an arrow.
func problemsOf(t *testing.T, text string) []string {
	t.Helper()
	f, err := Parse("fleet.yaml", []byte(text), inFolder())
	var p *Problems
	if !errors.As(err, &p) || !errors.Is(err, tidemark.ErrInvalid) || f != nil {
		t.Fatalf("Parse = %v, %v, want Problems", f, err)
	}
	var all []string
	for _, problem := range p.List {
		all = append(all, fmt.Sprintf("%d:%d: %s -> %s", problem.Line, problem.Column, problem.Message, problem.Hint))
	}
	return all
}

// agentWith and scheduleWith put a line into an otherwise good file, at 3:5 and
// at 6:9.
func agentWith(line string) string { return "agents:\n  - name: a\n    " + line + "\n" }
func scheduleWith(line string) string {
	return "agents:\n  - name: a\n    schedules:\n      - name: s\n        prompt: p\n        " + line + "\n"
}

const (
	spanHint      = "write it like 90s, 5m, 1h30m, 2d or 1w"
	cronHint      = `write minute, hour, day, month and weekday, like "30 3 * * MON-FRI", with seconds before them if needed, or a name like "@daily"`
	nameHint      = "a name has letters, digits, - and _, begins with a letter or a digit, and is at most 48 long"
	qualifiedHint = "a name has letters, digits, - and _, begins with a letter or a digit, and is at most 64 long; one of a fleet inside of the fleet has dots: ops.auditor"
	varHint       = "name the variable that has the secret, like TIDEMARK_HOOK_SECRET, not the secret"
)

// ghToken looks like one of GitHub.
const ghToken = "gh" + "p_x7Kq2LmZ9vRt4WbN8sYc3JhF6pDgA1eUoQ5i"

func TestMistakesAreFoundWhereTheyAreWithAWayOut(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		// The file.
		{"empty", "", "1:1: the file is empty -> tidemark fleet init writes one to begin with"},
		{"comments alone", "# hello\n\n", "1:1: the file is empty -> tidemark fleet init writes one to begin with"},
		{"list", "- a\n", "1:1: the file is a list, and should be a mapping -> begin with: agents:"},
		{"no agents", "version: 1\n", "1:1: the file has no agents -> add: agents: [{name: helper}]"},
		{"empty agents", "agents: []\n", "1:9: the file has no agents -> begin each agent with: - name: NAME"},
		{"two documents", "agents: [{name: a}]\n---\nagents: [{name: b}]\n", "2:1: a second document begins here -> take out the line ---"},
		{"other version", "version: 2\nagents: [{name: a}]\n", `1:10: version is "2", and this program reads version 1 -> `},
		{"unknown section", "agent: []\nagents: [{name: a}]\n", `1:1: "agent" is not a key of the file -> did you mean "agents"?`},
		{"far from all", "zzzzzz: 1\nagents: [{name: a}]\n", `1:1: "zzzzzz" is not a key of the file -> there is agents, defaults, fleet, keep, limits, metrics, mirror, version or webhooks`},
		{"key twice", "agents:\n  - name: a\n    model: m\n    model: n\n", `4:5: key "model" is there twice -> the first one is in line 3`},
		{"not UTF-8", "agents:\n  - name: \xff\n", "2:11: the file is not UTF-8 -> save it as UTF-8"},
		{"control character", "agents:\n  - name: \x1b[1m\n", `2:11: a control character, U+001B -> take it out; in double quotes it can be written as \x1b`},
		{"listen", "agents: [{name: a}]\nmetrics: {listen: 9464}\n", `2:19: listen is "9464", and should be an address and a port -> write it like 127.0.0.1:7434`},
		{"mirror in home", "agents: [{name: a}]\nmirror: {dir: ~/x}\n", `2:15: dir is "~/x": ~ and variables are not replaced -> write the whole path, or one relative to the folder of this file`},
		{"fleet limit", "agents: [{name: a}]\nlimits: {max_concurrent: 0}\n", `2:26: max_concurrent is "0" -> want a whole number from 1 to 100000`},
		{"section is text", "agents: [{name: a}]\nfleet: x\n", "2:8: fleet is a text, and should be a mapping -> "},

		// YAML.
		{"tab", "agents:\n\t- name: a\n", "2:1: a tab at the beginning of a line -> indent with spaces: YAML allows no tabs there"},
		{"open quote", "agents:\n  - name: \"a\n", "2:11: a quote that is not closed -> "},
		{"open bracket", "agents: [{name: a}\n", "1:9: a bracket [ that is not closed -> "},
		{"open brace", "fleet: {name: a\n", "1:8: a bracket { that is not closed -> "},
		{"two colons", "agents:\n  - name: a\n    description: look: here\n", `3:22: a second colon in this line -> put a text that holds ": " into quotes`},
		{"indent", "agents:\n  - name: a\n   model: m\n", "3:4: this does not belong to what is above it -> look at the indent: keys of one mapping begin in one column"},
		{"bare cron", scheduleWith("cron: */5 * * * *"), `6:15: cron begins with a character of YAML's own -> put it into quotes, like cron: "*/5 * * * *" or cron: "@daily"`},
		{"bare name", scheduleWith("cron: @daily"), `6:15: cron begins with a character of YAML's own -> put it into quotes, like cron: "*/5 * * * *" or cron: "@daily"`},
		{"no anchor", agentWith("model: *m"), "3:12: alias *m: there is no anchor &m before it -> "},
		{"tag", agentWith("model: !!binary aGk="), "3:12: tag !!binary has no meaning here -> take it out"},
		{"merge of a text", agentWith("<<: text"), "3:9: << takes mappings, and this is a text -> name one by an alias: <<: *name"},

		// Agents.
		{"agents by name", "agents:\n  helper:\n    model: m\n", "2:3: agents is a mapping, and should be a list -> begin each agent with: - name: NAME"},
		{"agent is text", "agents: [helper]\n", "1:10: an agent is a text, and should be a mapping -> begin each agent with: - name: NAME"},
		{"no name", "agents:\n  - model: m\n", "2:5: an agent without a name -> add: name: NAME"},
		{"a dot last", "agents: [{name: a.}]\n", `1:17: the agent's name is "a." -> ` + qualifiedHint},
		{"nothing between dots", "agents: [{name: a..b}]\n", `1:17: the agent's name is "a..b" -> ` + qualifiedHint},
		{"a session first", "agents: [{name: 01930000-0000-7000-8000-000000000001.b}]\n", `1:17: the agent's name is "01930000-0000-7000-8000-000000000001.b" -> ` + qualifiedHint},
		{"dash first", "agents: [{name: -a}]\n", `1:17: the agent's name is "-a" -> ` + qualifiedHint},
		{"dots in a schedule's name", agentWith("schedules: [{name: a.b, every: 1h, prompt: p}]"), `3:24: the schedule's name is "a.b" -> ` + nameHint},
		{"name twice", "agents:\n  - name: a\n  - name: A\n", `3:11: a second agent "A" -> the first one is in line 2`},
		{"typo", agentWith("descripton: d"), `3:5: "descripton" is not a key of an agent -> did you mean "description"?`},
		{"swapped letters", agentWith("modle: m"), `3:5: "modle" is not a key of an agent -> did you mean "model"?`},
		{"word of others", agentWith("working_directory: d"), `3:5: "working_directory" is not a key of an agent -> it is called "dir"`},
		{"wrong place", agentWith("max_turns: 3"), `3:5: "max_turns" is not a key of an agent -> it is in the agent's limits`},
		{"runner", agentWith("runner: claud"), `3:13: runner is "claud" -> did you mean "claude"? There is builtin, claude, codex, acp or command`},
		{"far runner", agentWith("runner: gemini"), `3:13: runner is "gemini" -> want builtin, claude, codex, acp or command`},
		{"runner without command", agentWith("runner: acp"), `3:13: runner acp needs a command -> add: command: ["program", "argument"]`},
		{"command of builtin", agentWith("command: [x]"), "3:5: command means nothing for runner builtin, which starts nothing -> take it out"},
		{"provider of claude", agentWith("runner: claude\n    provider: demo"), "4:5: provider means nothing for runner claude, which chooses its own -> take it out"},
		{"command line", agentWith("runner: command\n    command: make all"), `4:14: command is one text, and should be a list of the program and its arguments -> write ["make", "all"]`},
		{"shell line", agentWith("runner: command\n    command: make | tail"), `4:14: command is one text, and should be a list of the program and its arguments -> for a command of the shell write ["sh", "-c", "…"]`},
		{"empty command", agentWith("runner: command\n    command: []"), `4:14: command names no program -> write it like ["make", "test"]`},
		{"run mode", agentWith("run_mode: reviewed"), `3:15: run_mode is "reviewed" -> did you mean "review"? There is autonomous, interactive or review`},
		{"review timeout", agentWith("review_timeout: 1h"), "3:5: review_timeout means nothing without run_mode: review -> take it out"},
		{"no unit", agentWith("limits: {timeout: 90}"), "3:23: timeout is 90, without a unit -> for seconds write 90s; others: 90s, 5m, 1h30m, 2d, 1w"},
		{"long unit", agentWith("limits: {timeout: 5 minutes}"), `3:23: timeout is "5 minutes", and should be a length of time -> ` + spanHint},
		{"units upside down", agentWith("limits: {timeout: 5m1h}"), `3:23: timeout is "5m1h", and should be a length of time -> ` + spanHint},
		{"list of time", agentWith("limits: {timeout: [1h]}"), "3:23: timeout is a list, and should be a length of time -> " + spanHint},
		{"long timeout", agentWith("limits: {timeout: 9999w}"), "3:23: timeout is longer than ten years -> "},
		{"turns", agentWith("limits: {max_turns: many}"), `3:25: max_turns is "many" -> want a whole number from 1 to 100000`},
		{"size", agentWith("limits: {output_bytes: 10 bananas}"), `3:28: output_bytes is "10 bananas", and should be a size -> write it like 500KB, 10MB or 1GiB, or as a number of bytes`},
		{"attempts", agentWith("retries: {attempts: 1000}"), `3:25: attempts is "1000" -> want a whole number from 1 to 100`},
		{"hook of both", agentWith("hooks: {on_error: [{command: [x], webhook: 'https://h/p'}]}"), `3:24: a hook is a command or a webhook, one of the two -> write - command: ["notify", "done"] or - webhook: https://host/path`},
		{"hook is text", agentWith("hooks: {after_run: notify}"), `3:24: after_run is a text, and should be a list -> write - command: ["notify", "done"] or - webhook: https://host/path`},
		{"hook elsewhere", agentWith("hooks: {on_error: [{webhook: 'ftp://h'}]}"), "3:34: webhook is not a URL -> write it like https://host/path"},
		{"signed command", agentWith("hooks: {on_error: [{command: [x], secret_env: X}]}"), "3:39: secret_env signs webhooks, and this hook is a command -> take it out"},
		{"no image", agentWith("container: {engine: podman}"), "3:16: container without an image -> add: image: NAME"},
		{"image that is a flag", agentWith("container: {image: --privileged}"), `3:24: image is "--privileged" -> want one word that does not begin with -`},
		{"mount", agentWith("container: {image: i, mounts: ['src']}"), `3:36: "src" is not a mount -> write it like ./src:/work or ./src:/work:ro`},
		{"cpus", agentWith("container: {image: i, cpus: .nan}"), `3:33: cpus is ".nan" -> want a number like 1.5`},
		{"tool", agentWith("permissions: {allow: ['bash(git']}"), `3:27: "bash(git" is not a tool -> write it like [read, "bash(git)", "fetch(example.org)"]`},
		{"permissions of a command", agentWith("runner: command\n    command: [x]\n    permissions: {deny: [bash]}"),
			"5:5: permissions mean nothing for runner command, which does whatever its program does -> take them out; what it may do is bounded by sandbox:, or by container:"},
		{"tool of another runner", agentWith("permissions: {allow: [Read]}"), `3:27: the built-in agent has no tool Read -> did you mean "read"?`},
		{"tool of codex", agentWith("runner: codex\n    permissions: {allow: [read, bash]}"),
			"4:33: bash cannot be allowed to codex, which has a sandbox and no permissions for tools -> want read, write, edit, fetch or *"},
		{"part of codex", agentWith("runner: codex\n    permissions: {deny: [write(src)]}"),
			"4:26: write(src) cannot be denied to codex, which has a sandbox and no permissions for tools -> want write, edit or fetch"},
		{"network of codex", agentWith("runner: codex\n    permissions: {allow: [fetch]}"), "4:26: codex reaches the network only where it may write -> allow write, too, or take fetch out"},
		{"part of an ACP tool", agentWith("runner: acp\n    command: [x]\n    permissions: {allow: [a(b)]}"),
			"5:27: a(b) cannot be kept to: an ACP agent does not say which part of a tool it means to use -> write a, which is all of it, or leave it to run_mode: interactive"},
		{"keep nothing", agentWith("keep: {}"), "3:11: keep says nothing -> write it like {jobs: 1000, days: 90}; without keep all jobs are kept"},
		{"keep none", agentWith("keep: {jobs: 0}"), `3:18: jobs is "0" -> want a whole number from 1 to 1000000`},
		{"keep for how long", "keep: {days: 1w}\nagents: [{name: a}]\n", `1:14: days is "1w" -> want a whole number from 1 to 36525`},
		{"system nothing", agentWith("system: {}"), "3:13: system says nothing -> write a text, or file: prompts/agent.md"},
		{"system file", agentWith("system: {file: prompts/x.md}"), `3:20: file "prompts/x.md": there is none -> `},
		{"variable", agentWith("env: {A-B: x}"), `3:11: "A-B" is not the name of an environment variable -> it has letters, digits and _`},
		{"NUL", agentWith(`description: "a\0b"`), "3:18: description holds a NUL -> take it out: no program can be given one"},

		// Secrets.
		{"key in env", agentWith("env: {API_KEY: hello}"), `3:11: a secret does not belong into this file: "API_KEY" -> keep it in the environment of the daemon and pass it on: pass_env: [API_KEY]`},
		{"secret in env by its looks", agentWith("env: {GH: " + ghToken + "}"), `3:11: a secret does not belong into this file: "GH" -> keep it in the environment of the daemon and pass it on: pass_env: [GH]`},
		{"api key", agentWith("api_key: hello"), `3:5: a secret does not belong into this file: "api_key" -> pass on the environment variable that has it: pass_env: [NAME]`},
		{"secret in a prompt", agentWith("system: use " + ghToken), "3:13: system has something in it that looks like a secret -> keep it in the environment of the daemon and pass it on: pass_env: [NAME]"},
		{"secret of webhooks", "agents: [{name: a}]\nwebhooks: {secret: hello}\n", `2:12: a secret does not belong into this file: "secret" -> name the environment variable that has it: secret_env: NAME`},
		{"secret as a variable", "agents: [{name: a}]\nwebhooks: {secret_env: hello-world}\n", "2:24: secret_env is not the name of an environment variable -> " + varHint},
		{"password in a URL", agentWith("base_url: https://me:pw@host/v1"), "3:15: base_url has a name or a password in it -> secrets do not belong into this file"},
		{"token in a command", agentWith("runner: command\n    command: [curl, " + ghToken + "]"), "4:21: this looks like a secret, and secrets do not belong into this file -> pass it by an environment variable: everybody on the machine sees arguments"},

		// Schedules.
		{"no schedule name", agentWith("schedules: [{every: 1h, prompt: p}]"), "3:17: a schedule without a name -> add: name: NAME"},
		{"schedule is text", agentWith("schedules: [daily]"), "3:17: a schedule is a text, and should be a mapping -> begin each schedule with: - name: NAME"},
		{"schedule twice", agentWith("schedules: [{name: s, every: 1h, prompt: p}, {name: s, every: 2h, prompt: p}]"), `3:57: a second schedule of this agent "s" -> the first one is in line 3`},
		{"no time", scheduleWith("resume: true"), `4:9: the schedule does not say when -> add one of: every: 1h, cron: "0 3 * * *", type: webhook, type: chat`},
		{"both", scheduleWith("every: 1h\n        cron: '@daily'"), "7:9: a schedule has every or cron, one of the two -> make two schedules of it"},
		{"type", scheduleWith("type: intervall"), `6:15: type is "intervall" -> did you mean "interval"? There is interval, cron, webhook or chat`},
		{"interval without every", scheduleWith("type: interval"), "4:9: type interval needs every -> add: every: 1h"},
		{"cron without cron", scheduleWith("type: cron"), `4:9: type cron needs cron -> add: cron: "0 3 * * *"`},
		{"word of herdctl", scheduleWith("every: 1h\n        resume_session: true"), `7:9: "resume_session" is not a key of a schedule -> it is called "resume"`},
		{"half a second", scheduleWith("every: 500ms"), `6:16: every is "500ms", and should be a length of time -> ` + spanHint},
		{"below a second", scheduleWith("every: 0s"), "6:16: every is 0s, and should be at least 1s -> "},
		{"cron fields", scheduleWith(`cron: "0 3 *"`), `6:15: cron "0 3 *": expected 5 to 6 fields, found 3: [0 3 *] -> ` + cronHint},
		{"30 February", scheduleWith(`cron: "0 0 30 2 *"`), `6:15: cron "0 0 30 2 *": never fires: there is no such date -> look at the day and the month`},
		{"31 April", scheduleWith(`cron: "0 0 31 4,6 *"`), `6:15: cron "0 0 31 4,6 *": never fires: there is no such date -> look at the day and the month`},
		{"every in cron", scheduleWith(`cron: "@every 5m"`), "6:15: cron is @every -> write it as every: 5m"},
		{"zone in cron", scheduleWith(`cron: "TZ=UTC 0 3 * * *"`), "6:15: cron has a zone in it -> write it as zone: Europe/Berlin"},
		{"zone", scheduleWith("cron: '@daily'\n        zone: Mars/Olympus"), `7:15: there is no time zone "Mars/Olympus" -> write it like Europe/Berlin or UTC`},
		{"zone in words", scheduleWith("cron: '@daily'\n        zone: america/new york"), `7:15: there is no time zone "america/new york" -> did you mean "America/New_York"?`},
		{"local zone", scheduleWith("cron: '@daily'\n        zone: Local"), `7:15: there is no time zone "Local" -> name it, like Europe/Berlin: two machines may have different ones`},
		{"zone of a file", scheduleWith("cron: '@daily'\n        zone: ../../etc/passwd"), `7:15: there is no time zone "../../etc/passwd" -> write it like Europe/Berlin or UTC`},
		{"zone of an interval", scheduleWith("every: 1h\n        zone: UTC"), "7:9: zone means nothing for type interval -> take it out"},
		{"from of cron", scheduleWith("cron: '@daily'\n        from: completion"), "7:9: from means nothing for type cron -> take it out"},
		{"jitter", scheduleWith("every: 1h\n        jitter: 60m"), "7:17: jitter is as long as the interval -> make it shorter than 1h"},
		{"missed", scheduleWith("every: 1h\n        missed: run"), `7:17: missed is "run" -> want skip, once or all`},
		{"overlap", scheduleWith("every: 1h\n        overlap: que"), `7:18: overlap is "que" -> want skip, queue or replace`},
		{"enabled", scheduleWith("every: 1h\n        enabled: yes"), `7:18: enabled is "yes", and should be true or false -> `},
		{"no prompt", agentWith("schedules: [{name: s, every: 1h}]"), "3:17: the schedule has no prompt -> add: prompt: what the agent should do"},
		{"webhook without a secret", scheduleWith("type: webhook"), "4:9: a webhook needs a secret that its callers sign with -> add secret_env: NAME here, or in the section webhooks for all"},
		{"inline secret", scheduleWith("type: chat\n        secret: hello"), `7:9: a secret does not belong into this file: "secret" -> name the environment variable that has it: secret_env: NAME`},

		// Defaults, which are looked at once, whether or not there are agents.
		{"default name", "defaults: {name: a}\nagents: [{name: a}, {name: b}]\n", `1:12: "name" is not a key of defaults -> every agent has its own`},
		{"default limit", "defaults: {limits: {timeout: x}}\nagents: [{name: a}, {name: b}]\n", `1:30: timeout is "x", and should be a length of time -> ` + spanHint},
		{"default time", "defaults: {schedule: {every: 1h}}\nagents: [{name: a}]\n", `1:23: "every" is not a key of defaults.schedule -> what a schedule is due by is its own`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff([]string{c.want}, problemsOf(t, c.text)); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", c.text, diff)
			}
		})
	}
}

func TestAllProblemsAreReportedInTheOrderOfTheFile(t *testing.T) {
	_, err := Parse("fleet.yaml", []byte(`version: 3
agents:
  - name: a
    promt: x
    runner: nothing
    schedules:
      - {name: s, evry: 1h, prompt: p, zone: Nowhere}
`), nil)
	want := `fleet.yaml:1:10: version is "3", and this program reads version 1
    version: 3
             ^
fleet.yaml:4:5: "promt" is not a key of an agent
    promt: x
    ^
    hint: there is base_url, command, container, description, dir, env, hooks, keep, limits, model, name, pass_env, permissions, provider, retries, review_timeout, run_mode, runner, sandbox, schedules, self_schedule, session_timeout or system
fleet.yaml:5:13: runner is "nothing"
    runner: nothing
            ^
    hint: want builtin, claude, codex, acp or command
fleet.yaml:7:9: the schedule does not say when
    - {name: s, evry: 1h, prompt: p, zone: Nowhere}
      ^
    hint: add one of: every: 1h, cron: "0 3 * * *", type: webhook, type: chat
fleet.yaml:7:19: "evry" is not a key of a schedule
    - {name: s, evry: 1h, prompt: p, zone: Nowhere}
                ^
    hint: did you mean "every"?
fleet.yaml:7:46: there is no time zone "Nowhere"
    - {name: s, evry: 1h, prompt: p, zone: Nowhere}
                                           ^
    hint: write it like Europe/Berlin or UTC`
	if err == nil {
		t.Fatal("Parse takes it")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("Error (-want +got):\n%s", diff)
	}
}

func TestNoErrorTellsASecret(t *testing.T) {
	for _, secret := range []string{"hunter2hunter2", ghToken} {
		for _, text := range []string{
			agentWith("env: {API_TOKEN: " + secret + ", a-b: c}"), agentWith("api_key: " + secret), agentWith("- {password: " + secret + "}"),
			"agents: [{name: a}]\nwebhooks: {secret: " + secret + "}\n", "agents: [{name: a}]\nwebhooks: {listen: 1, secret: '" + secret + "'}\n",
			"agents: [{name: a}]\nwebhooks: {secret_env: '" + secret + "-x'}\n", scheduleWith("type: webhook\n        token: " + secret), agentWith("secret: [" + secret),
			agentWith("base_url: http://me:" + secret + "@h/"),
		} {
			_, err := Parse("fleet.yaml", []byte(text), nil)
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("%s\nParse = %v", text, err)
			}
		}
	}
}

func TestLongAndManyProblemsStayReadable(t *testing.T) {
	text := "agents:\n" + strings.Repeat("  - {bad: 1}\n", 5000)
	_, err := Parse("f", []byte(text), nil)
	var p *Problems
	if !errors.As(err, &p) || len(p.List) != maxProblems || p.More != 10_000-maxProblems {
		t.Errorf("%d problems and %d more", len(p.List), p.More)
	}
	if !strings.HasSuffix(p.Error(), "\nf: and 9900 more") {
		t.Errorf("Error ends with %q", p.Error()[len(p.Error())-40:])
	}
	_, err = Parse("f", []byte("agents: [{name: "+strings.Repeat("é", 500)+"}]"), nil)
	if err == nil || len(err.Error()) > 300 || strings.Contains(err.Error(), "^") {
		t.Errorf("Parse = %v", err)
	}
}

func TestLinesOfWindowsCountLikeOthers(t *testing.T) {
	got := problemsOf(t, "\ufeffagents:\r\n  - name: a\r\n    modle: m\r\n")
	if want := []string{`3:5: "modle" is not a key of an agent -> did you mean "model"?`}; !cmp.Equal(got, want) {
		t.Errorf("problems = %q, want %q", got, want)
	}
}

func TestLengthsOfTimeAreWrittenAndRead(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1w": 168 * time.Hour, "1w2d3h4m5s": 788645 * time.Second, "0": 0, "0s": 0,
	} {
		if got, err := fleet.ParseSpan(text); got != want || err != nil {
			t.Errorf("parseSpan(%s) = %v, %v", text, got, err)
		}
		if again, err := fleet.ParseSpan(fleet.SpanText(want)); again != want || err != nil {
			t.Errorf("%v is written as %s, which is %v, %v", want, fleet.SpanText(want), again, err)
		}
	}
	for _, text := range []string{"", "s", "1", "-1s", "1.5h", "1ms", "1h1h", "1s1m", "1 h", "9999999999s", "1x", "٣s"} {
		if got, err := fleet.ParseSpan(text); err == nil {
			t.Errorf("parseSpan(%q) = %v", text, got)
		}
	}
}
