package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// What is built in.
const (
	defaultReviewTimeout  = 24 * time.Hour
	defaultSessionTimeout = 24 * time.Hour
	defaultBackoff        = 30 * time.Second
	defaultHookTimeout    = time.Minute
	defaultMinInterval    = time.Minute
)

const (
	// most bounds what is counted: more is a slip of the finger.
	most = 100_000
	// maxPrompt bounds a file with a system prompt: a longer one leaves no room
	// for a conversation.
	maxPrompt = 256 << 10
)

// file makes a File of the root of a file; nil when there is none.
func (c *checker) file(root *node) *File {
	if root == nil {
		return nil
	}
	f := &File{Version: 1, defaults: root.get("defaults")}
	var agents *node
	c.mapping(root, "the file", fields{
		"version": func(n *node) {
			if n.text != "1" {
				c.at(n, fmt.Sprintf("version is %s, and this program reads version 1", described(n)), "")
			}
		},
		"fleet": func(n *node) {
			c.mapping(n, "fleet", fields{
				"name":        func(n *node) { f.Fleet.Name = c.nameOf(n, "the fleet's name") },
				"description": func(n *node) { f.Fleet.Description = c.text(n, "description") },
			})
		},
		"limits": func(n *node) {
			c.mapping(n, "the fleet's limits", fields{
				"max_concurrent": func(n *node) { f.Limits.MaxConcurrent = c.number(n, "max_concurrent", 1, most) },
				"abandon_after":  func(n *node) { f.Limits.AbandonAfter = c.span(n, "abandon_after", time.Second) },
			})
		},
		"webhooks": func(n *node) {
			c.mapping(n, "webhooks", fields{
				"listen":     func(n *node) { f.Webhooks.Listen = c.listen(n, "listen") },
				"secret_env": func(n *node) { f.Webhooks.SecretEnv = c.variable(n, "secret_env") },
			})
		},
		"mirror": func(n *node) {
			c.mapping(n, "mirror", fields{"dir": func(n *node) { f.Mirror.Dir = c.folder(n, "dir") }})
		},
		"metrics": func(n *node) {
			c.mapping(n, "metrics", fields{"listen": func(n *node) { f.Metrics.Listen = c.listen(n, "listen") }})
		},
		"keep":     func(n *node) { f.Keep = c.keep(n) },
		"defaults": func(n *node) { c.defaults(n) },
		"agents":   func(n *node) { agents = n },
	})
	if agents == nil {
		c.report(root.line, root.column, "the file has no agents", "add: agents: [{name: helper}]")
		return f
	}
	f.Agents = c.agents(agents, f)
	return f
}

// defaults checks the defaults by themselves: there may be no agent to see
// them.
func (c *checker) defaults(n *node) {
	var a Agent
	f := c.agentFields(&a)
	delete(f, "name")
	delete(f, "schedules")
	f["schedule"] = func(n *node) {
		var s Schedule
		f := c.scheduleFields(&s)
		for _, key := range []string{"name", "type", "every", "cron", "secret_env"} {
			delete(f, key)
		}
		c.mapping(n, "defaults.schedule", f)
	}
	c.mapping(n, "defaults", f)
}

func (c *checker) agents(n *node, f *File) []Agent {
	var all []Agent
	lines := map[string]int{}
	defaults := agentDefaults(f.defaults)
	c.list(n, "agents", "begin each agent with: - name: NAME", func(item *node) {
		a, ok := c.agent(item, defaults, f)
		if !ok {
			return
		}
		c.once(lines, item, "agent", a.Name)
		all = append(all, a)
	})
	if n.shape == isList && len(n.items) == 0 {
		c.at(n, "the file has no agents", "begin each agent with: - name: NAME")
	}
	return all
}

// agentDefaults returns the defaults without those of schedules.
func agentDefaults(n *node) *node {
	if n == nil || n.shape != isMap {
		return nil
	}
	out := *n
	out.entries = slices.DeleteFunc(slices.Clone(n.entries), func(e entry) bool { return e.key == "schedule" || e.key == "name" || e.key == "schedules" })
	return &out
}

// fill merges defaults into a value, until that is too much: a long section of
// defaults and many short agents are a short file.
func (c *checker) fill(own, defaults *node) *node {
	if defaults == nil {
		return own
	}
	if c.filled > maxFilled {
		return own
	}
	if c.filled += defaults.size; c.filled > maxFilled {
		c.at(own, "the file is too large when its defaults are filled in", "")
	}
	return merged(own, defaults)
}

// once reports a name that is there a second time. Case tells no names apart:
// some disks do not.
func (c *checker) once(lines map[string]int, n *node, what, name string) {
	if name == "" {
		return
	}
	e, _ := n.find("name")
	if line, ok := lines[strings.ToLower(name)]; ok {
		c.at(e.value, fmt.Sprintf("a second %s %q", what, name), fmt.Sprintf("the first one is in line %d", line))
		return
	}
	lines[strings.ToLower(name)] = e.value.line
}

func (c *checker) agent(item, defaults *node, f *File) (Agent, bool) {
	n := c.fill(item, defaults)
	var a Agent
	if !c.mapping(n, "an agent", c.agentFields(&a)) {
		return a, false
	}
	if n.get("name") == nil {
		c.at(n, "an agent without a name", "add: name: NAME")
	}
	a.Runner = cmp.Or(a.Runner, RunnerBuiltin)
	a.RunMode = cmp.Or(a.RunMode, RunAutonomous)
	c.runner(&a, n, defaults)
	c.builtIn(&a, n)
	c.permitted(&a, n)
	if !n.says("keep") {
		a.Keep = f.Keep
	}
	lines := map[string]int{}
	if schedules := n.get("schedules"); schedules != nil {
		c.list(schedules, "schedules", "begin each schedule with: - name: NAME", func(item *node) {
			if item.shape != isMap {
				c.mapping(item, "a schedule", nil)
				return
			}
			s := c.schedule(c.fill(item, f.defaults.get("schedule")), &a, f.Webhooks.SecretEnv)
			c.once(lines, item, "schedule of this agent", s.Name)
			a.Schedules = append(a.Schedules, s)
		})
	}
	return a, true
}

func (c *checker) agentFields(a *Agent) fields {
	return fields{
		"name":        func(n *node) { a.Name = c.nameOf(n, "the agent's name") },
		"description": func(n *node) { a.Description = c.text(n, "description") },
		"runner": func(n *node) {
			a.Runner = c.choice(n, "runner", RunnerBuiltin, RunnerClaude, RunnerCodex, RunnerACP, RunnerCommand)
		},
		"command":     func(n *node) { a.Command = c.command(n, "command") },
		"provider":    func(n *node) { a.Provider = c.choice(n, "provider", "anthropic", "openai", "ollama", "demo") },
		"model":       func(n *node) { a.Model = c.text(n, "model") },
		"base_url":    func(n *node) { a.BaseURL = c.link(n, "base_url") },
		"system":      func(n *node) { a.System = c.system(n) },
		"dir":         func(n *node) { a.Dir = c.folder(n, "dir") },
		"env":         func(n *node) { a.Env = c.env(n) },
		"pass_env":    func(n *node) { a.PassEnv = c.passEnv(n) },
		"permissions": func(n *node) { a.Permissions = c.permissions(n) },
		"limits":      func(n *node) { a.Limits = c.limits(n) },
		"run_mode": func(n *node) {
			a.RunMode = c.choice(n, "run_mode", RunAutonomous, RunInteractive, RunReview)
		},
		"review_timeout":  func(n *node) { a.ReviewTimeout = c.span(n, "review_timeout", time.Second) },
		"session_timeout": func(n *node) { a.SessionTimeout = c.span(n, "session_timeout", time.Second) },
		"retries": func(n *node) {
			c.mapping(n, "retries", fields{
				"attempts": func(n *node) { a.Retries.Attempts = c.number(n, "attempts", 1, 100) },
				"backoff":  func(n *node) { a.Retries.Backoff = c.span(n, "backoff", time.Second) },
			})
		},
		"hooks": func(n *node) {
			c.mapping(n, "hooks", fields{
				"after_run": func(n *node) { a.Hooks.AfterRun = c.hooks(n, "after_run") },
				"on_error":  func(n *node) { a.Hooks.OnError = c.hooks(n, "on_error") },
			})
		},
		"container": func(n *node) { a.Container = c.container(n) },
		"keep":      func(n *node) { a.Keep = c.keep(n) },
		"self_schedule": func(n *node) {
			c.mapping(n, "self_schedule", fields{
				"max":          func(n *node) { a.SelfSchedule.Max = c.number(n, "max", 0, 1000) },
				"min_interval": func(n *node) { a.SelfSchedule.MinInterval = c.span(n, "min_interval", time.Second) },
			})
		},
		"schedules": func(*node) {}, // read when the rest of the agent is known
	}
}

// runner checks what goes with the agent's runner, and leaves out defaults
// that do not.
func (c *checker) runner(a *Agent, n, defaults *node) {
	command, found := n.find("command")
	if command.inherited && a.Runner != cmp.Or(textOf(defaults.get("runner")), RunnerBuiltin) {
		a.Command, found = nil, false // it starts another runner
	}
	for _, rule := range []struct {
		key, why string
		fits     bool
		clear    func()
	}{
		{"command", "for runner builtin, which starts nothing", a.Runner != RunnerBuiltin, func() { a.Command = nil }},
		{"provider", "for runner " + a.Runner + ", which chooses its own", a.Runner == RunnerBuiltin, func() { a.Provider = "" }},
		{"base_url", "for runner " + a.Runner + ", which asks no model that is known of here", a.Runner != RunnerACP && a.Runner != RunnerCommand, func() { a.BaseURL = "" }},
		{"review_timeout", "without run_mode: review", a.RunMode == RunReview, func() { a.ReviewTimeout = 0 }},
	} {
		if rule.fits {
			continue
		}
		if e, ok := n.own(rule.key); ok {
			c.key(e, rule.key+" means nothing "+rule.why, "take it out")
		}
		rule.clear()
	}
	if (a.Runner == RunnerACP || a.Runner == RunnerCommand) && !found {
		at := n
		if runner := n.get("runner"); runner != nil {
			at = runner
		}
		c.at(at, "runner "+a.Runner+" needs a command", `add: command: ["program", "argument"]`)
	}
}

func textOf(n *node) string {
	if n == nil {
		return ""
	}
	return n.text
}

// builtIn fills in what neither the agent nor the defaults say.
func (c *checker) builtIn(a *Agent, n *node) {
	a.Limits.MaxConcurrent = cmp.Or(a.Limits.MaxConcurrent, 1)
	a.SessionTimeout = cmp.Or(a.SessionTimeout, defaultSessionTimeout)
	a.Retries.Attempts = cmp.Or(a.Retries.Attempts, 1)
	a.Retries.Backoff = cmp.Or(a.Retries.Backoff, defaultBackoff)
	a.SelfSchedule.MinInterval = cmp.Or(a.SelfSchedule.MinInterval, defaultMinInterval)
	if a.RunMode == RunReview {
		a.ReviewTimeout = cmp.Or(a.ReviewTimeout, defaultReviewTimeout)
	}
	if n.get("dir") == nil {
		dir, err := c.resolve(".")
		if err != nil {
			c.at(n, fmt.Sprintf("dir: %v", err), "")
		}
		a.Dir = dir
	}
	if box := n.get("container"); a.Container != nil {
		a.Container.Engine = cmp.Or(a.Container.Engine, "docker")
		if box.get("image") == nil {
			c.at(box, "container without an image", "add: image: NAME")
		}
	}
}

// system reads a system prompt: its text, or the file that has it.
func (c *checker) system(n *node) (s System) {
	if n.shape != isMap {
		s.Text = c.told(n, "system")
		return s
	}
	c.mapping(n, "system", fields{"file": func(n *node) { s.File = c.text(n, "file"); s.Text = c.prompt(n, s.File) }})
	if n.get("file") == nil && len(n.entries) == 0 {
		c.at(n, "system says nothing", "write a text, or file: prompts/agent.md")
	}
	return s
}

// prompt reads a file of the fleet file's folder.
func (c *checker) prompt(n *node, name string) string {
	if n.shape != isText || name == "" || path.IsAbs(name) || !fs.ValidPath(path.Clean(name)) || strings.Contains(name, `\`) {
		c.at(n, "file is no file in the folder of this file", "write a path relative to it, like prompts/agent.md")
		return ""
	}
	if c.o.Files == nil {
		return ""
	}
	p, ok := c.prompts[name]
	if !ok {
		p.text, p.err = readPrompt(c.o.Files, path.Clean(name))
		c.prompts[name] = p
	}
	if p.err != nil {
		c.at(n, fmt.Sprintf("file %s: %v", described(n), p.err), "")
	}
	return p.text
}

func readPrompt(files fs.FS, name string) (string, error) {
	info, err := fs.Stat(files, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("there is none")
	case err != nil:
		return "", reason(err)
	case !info.Mode().IsRegular(): // a pipe would be waited for
		return "", errors.New("is not a plain file")
	}
	f, err := files.Open(name)
	if err != nil {
		return "", reason(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPrompt+1))
	switch {
	case err != nil:
		return "", reason(err)
	case len(b) > maxPrompt:
		return "", fmt.Errorf("is larger than %d bytes", maxPrompt)
	case !utf8.Valid(b):
		return "", errors.New("is not UTF-8")
	}
	return string(b), nil
}

// reason is an error without the path, which the problem has already.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (c *checker) env(n *node) map[string]string {
	if n.shape != isMap {
		c.at(n, fmt.Sprintf("env is %s, and should be a mapping", n.shape), "write NAME: value, each on a line of its own")
		return nil
	}
	env := make(map[string]string, len(n.entries))
	for _, e := range n.entries {
		switch {
		case !isVariable(e.key):
			c.key(e, fmt.Sprintf("%.40q is not the name of an environment variable", e.key), "it has letters, digits and _")
		case e.value.shape == isNull:
		case e.value.text != "" && isSecretName(e.key) || c.secret(e.value):
			c.hide(e.line, e.value.line)
			c.key(e, fmt.Sprintf("a secret does not belong into this file: %q", e.key), "keep it in the environment of the daemon and pass it on: pass_env: ["+e.key+"]")
		default:
			env[e.key] = c.text(e.value, e.key)
		}
	}
	return env
}

func (c *checker) passEnv(n *node) (names []string) {
	c.list(n, "pass_env", "write it like [ANTHROPIC_API_KEY]", func(item *node) {
		if name := c.variable(item, "this"); name != "" {
			names = append(names, name)
		}
	})
	return names
}

func (c *checker) permissions(n *node) (p Permissions) {
	c.mapping(n, "permissions", fields{
		"allow": func(n *node) { p.Allow = c.tools(n, "allow") },
		"deny":  func(n *node) { p.Deny = c.tools(n, "deny") },
	})
	return p
}

// tools reads a list of tools, each with the part that is meant in brackets:
// bash, bash(git), fetch(example.org).
func (c *checker) tools(n *node, what string) (all []Permission) {
	const hint = `write it like [read, "bash(git)", "fetch(example.org)"]`
	c.list(n, what, hint, func(item *node) {
		tool, scope, scoped := strings.Cut(item.text, "(")
		inner, closed := strings.CutSuffix(scope, ")")
		if item.shape != isText || tool == "" || strings.ContainsAny(tool, " ,)") || scoped && (!closed || inner == "") {
			c.at(item, fmt.Sprintf("%s is not a tool", described(item)), hint)
			return
		}
		all = append(all, Permission{Tool: tool, Scope: inner})
	})
	return all
}

func (c *checker) limits(n *node) (l Limits) {
	c.mapping(n, "limits", fields{
		"max_concurrent": func(n *node) { l.MaxConcurrent = c.number(n, "max_concurrent", 1, most) },
		"max_turns":      func(n *node) { l.MaxTurns = c.number(n, "max_turns", 1, most) },
		"timeout":        func(n *node) { l.Timeout = c.span(n, "timeout", time.Second) },
		"tool_rounds":    func(n *node) { l.ToolRounds = c.number(n, "tool_rounds", 1, most) },
		"output_bytes":   func(n *node) { l.OutputBytes = c.bytes(n, "output_bytes") },
	})
	return l
}

// maxDays is a century: more is a slip of the finger.
const maxDays = 36525

// keep reads how many jobs are kept. What says nothing would remove nothing, and
// is a mistake.
func (c *checker) keep(n *node) (k Keep) {
	ok := c.mapping(n, "keep", fields{
		"jobs": func(n *node) { k.Jobs = c.number(n, "jobs", 1, 10*most) },
		"days": func(n *node) { k.Days = c.number(n, "days", 1, maxDays) },
	})
	if ok && n.get("jobs") == nil && n.get("days") == nil {
		c.at(n, "keep says nothing", "write it like {jobs: 1000, days: 90}; without keep all jobs are kept")
	}
	return k
}

func (c *checker) hooks(n *node, what string) (all []Hook) {
	c.list(n, what, exampleOf("a hook"), func(item *node) {
		h := Hook{Timeout: defaultHookTimeout}
		ok := c.mapping(item, "a hook", fields{
			"command":    func(n *node) { h.Command = c.command(n, "command") },
			"webhook":    func(n *node) { h.Webhook = c.link(n, "webhook") },
			"secret_env": func(n *node) { h.SecretEnv = c.variable(n, "secret_env") },
			"timeout":    func(n *node) { h.Timeout = c.span(n, "timeout", time.Second) },
		})
		_, isCommand := item.find("command")
		_, isWebhook := item.find("webhook")
		switch secret, signed := item.find("secret_env"); {
		case !ok:
			return
		case isCommand == isWebhook:
			c.at(item, "a hook is a command or a webhook, one of the two", exampleOf("a hook"))
		case isCommand && signed:
			c.key(secret, "secret_env signs webhooks, and this hook is a command", "take it out")
		}
		all = append(all, h)
	})
	return all
}

func (c *checker) container(n *node) *Container {
	var box Container
	ok := c.mapping(n, "container", fields{
		"engine":  func(n *node) { box.Engine = c.choice(n, "engine", "docker", "podman") },
		"image":   func(n *node) { box.Image = c.word(n, "image") },
		"mounts":  func(n *node) { box.Mounts = c.mounts(n) },
		"network": func(n *node) { box.Network = c.word(n, "network") },
		"memory":  func(n *node) { box.Memory = c.bytes(n, "memory") },
		"cpus": func(n *node) {
			cpus, err := strconv.ParseFloat(n.text, 64)
			if n.shape != isNumber || err != nil || !(cpus > 0 && cpus <= 1024) {
				c.at(n, fmt.Sprintf("cpus is %s", described(n)), "want a number like 1.5")
			}
			box.CPUs = cpus
		},
	})
	if !ok {
		return nil
	}
	return &box
}

// word reads a text that becomes one argument of the engine: it may not be
// taken for a flag.
func (c *checker) word(n *node, what string) string {
	text := c.text(n, what)
	if n.shape == isText && (text == "" || text[0] == '-' || strings.ContainsAny(text, " \t\n\x00")) {
		c.at(n, fmt.Sprintf("%s is %s", what, described(n)), "want one word that does not begin with -")
	}
	return text
}

// mounts reads SOURCE:TARGET and SOURCE:TARGET:ro.
func (c *checker) mounts(n *node) (all []Mount) {
	const hint = "write it like ./src:/work or ./src:/work:ro"
	c.list(n, "mounts", hint, func(item *node) {
		text, readOnly := strings.CutSuffix(item.text, ":ro")
		i := strings.LastIndex(text, ":/")
		if item.shape != isText || i <= 0 || strings.ContainsAny(text[i+1:], ":,") {
			c.at(item, fmt.Sprintf("%s is not a mount", described(item)), hint)
			return
		}
		source := *item
		source.text = text[:i]
		all = append(all, Mount{Source: c.folder(&source, "the mount's folder"), Target: text[i+1:], ReadOnly: readOnly})
	})
	return all
}
