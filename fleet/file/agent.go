package file

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

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
	"github.com/tidemark-sessions/tidemark/model"
)

// Built-in values.
const (
	DefaultReviewTimeout  = 24 * time.Hour
	defaultSessionTimeout = 24 * time.Hour
	defaultBackoff        = 30 * time.Second
	// A fence leaves a daemon time to renew its leases after a short failure.
	defaultFence       = 2 * time.Minute
	leastFence         = 30 * time.Second
	DefaultHookTimeout = time.Minute
	defaultMinInterval = time.Minute
)

const (
	// maxCount bounds counts: more is a typing error.
	maxCount = 100_000
	// maxPrompt bounds a file with a system prompt: a longer one leaves no room
	// for a conversation.
	maxPrompt = 256 << 10
)

// file builds a File from the root of a file; nil when there is none.
func (c *checker) file(root *yaml.Node) *File {
	if root == nil {
		return nil
	}
	f := &File{Version: 1, defaults: root.Get("defaults")}
	var agents *yaml.Node
	c.mapping(root, "the file", fields{
		"version": func(n *yaml.Node) {
			if n.Text != "1" {
				c.reportAt(n, fmt.Sprintf("version is %s, and this program reads version 1", described(n)), "")
			}
		},
		"fleet": func(n *yaml.Node) {
			c.mapping(n, "fleet", fields{
				"name":        func(n *yaml.Node) { f.Fleet.Name = c.nameOf(n, "the fleet's name") },
				"description": func(n *yaml.Node) { f.Fleet.Description = c.text(n, "description") },
			})
		},
		"limits": func(n *yaml.Node) {
			c.mapping(n, "the fleet's limits", fields{
				"max_concurrent": func(n *yaml.Node) { f.Limits.MaxConcurrent = c.number(n, "max_concurrent", 1, maxCount) },
				"abandon_after":  func(n *yaml.Node) { f.Limits.AbandonAfter = c.span(n, "abandon_after", time.Second) },
			})
		},
		"webhooks": func(n *yaml.Node) {
			c.mapping(n, "webhooks", fields{
				"listen":     func(n *yaml.Node) { f.Webhooks.Listen = c.listen(n, "listen") },
				"secret_env": func(n *yaml.Node) { f.Webhooks.SecretEnv = c.variable(n, "secret_env") },
			})
		},
		"mirror": func(n *yaml.Node) {
			c.mapping(n, "mirror", fields{"dir": func(n *yaml.Node) { f.Mirror.Dir = c.folder(n, "dir") }})
		},
		"metrics": func(n *yaml.Node) {
			c.mapping(n, "metrics", fields{"listen": func(n *yaml.Node) { f.Metrics.Listen = c.listen(n, "listen") }})
		},
		"keep":     func(n *yaml.Node) { f.Keep = c.keep(n) },
		"defaults": func(n *yaml.Node) { c.defaults(n) },
		"agents":   func(n *yaml.Node) { agents = n },
	})
	if agents == nil {
		c.report(root.Line, root.Column, "the file has no agents", "add: agents: [{name: helper}]")
		return f
	}
	f.Agents = c.agents(agents, f)
	return f
}

// keysWithoutDefault are the keys of a schedule that cannot have a default.
var keysWithoutDefault = []string{"name", "type", "every", "cron", "secret_env"}

// defaults checks the defaults by themselves: there may be no agent that
// uses them.
func (c *checker) defaults(n *yaml.Node) {
	var a Agent
	f := c.agentFields(&a)
	delete(f, "name")
	delete(f, "schedules")
	f["schedule"] = func(n *yaml.Node) {
		var s Schedule
		f := c.scheduleFields(&s)
		for _, key := range keysWithoutDefault {
			delete(f, key)
		}
		c.mapping(n, "defaults.schedule", f)
	}
	c.mapping(n, "defaults", f)
}

func (c *checker) agents(n *yaml.Node, f *File) []Agent {
	var all []Agent
	lines := map[string]int{}
	defaults := agentDefaults(f.defaults)
	c.list(n, "agents", "begin each agent with: - name: NAME", func(item *yaml.Node) {
		a, ok := c.agent(item, defaults, f)
		if !ok {
			return
		}
		c.checkUnique(lines, item, "agent", a.Name)
		all = append(all, a)
	})
	if n.Shape == yaml.List && len(n.Items) == 0 {
		c.reportAt(n, "the file has no agents", "begin each agent with: - name: NAME")
	}
	return all
}

// agentDefaults returns the defaults without those of schedules.
func agentDefaults(n *yaml.Node) *yaml.Node {
	if n == nil || n.Shape != yaml.Map {
		return nil
	}
	out := *n
	out.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e yaml.Entry) bool { return e.Key == "schedule" || e.Key == "name" || e.Key == "schedules" })
	return &out
}

// fill merges defaults into a value, up to a limit: a long section of defaults
// and many short agents are still a short file.
func (c *checker) fill(own, defaults *yaml.Node) *yaml.Node {
	if defaults == nil {
		return own
	}
	if c.filled > maxFilled {
		return own
	}
	if c.filled += defaults.Size; c.filled > maxFilled {
		c.reportAt(own, "the file is too large when its defaults are filled in", "")
	}
	return yaml.Merged(own, defaults)
}

// checkUnique reports a duplicate name. Case is ignored, as on some disks.
func (c *checker) checkUnique(lines map[string]int, n *yaml.Node, what, name string) {
	if name == "" {
		return
	}
	e, _ := n.Find("name")
	if line, ok := lines[strings.ToLower(name)]; ok {
		c.reportAt(e.Value, fmt.Sprintf("a second %s %q", what, name), fmt.Sprintf("the first one is in line %d", line))
		return
	}
	lines[strings.ToLower(name)] = e.Value.Line
}

func (c *checker) agent(item, defaults *yaml.Node, f *File) (Agent, bool) {
	n := c.fill(item, defaults)
	var a Agent
	if !c.mapping(n, "an agent", c.agentFields(&a)) {
		return a, false
	}
	if n.Get("name") == nil {
		c.reportAt(n, "an agent without a name", "add: name: NAME")
	}
	a.Runner = cmp.Or(a.Runner, fleet.RunnerBuiltin)
	a.RunMode = cmp.Or(a.RunMode, fleet.RunAutonomous)
	c.runner(&a, n, defaults)
	c.fillBuiltIn(&a, n)
	c.checkPermissions(&a, n)
	if !n.Says("keep") {
		a.Keep = f.Keep
	}
	lines := map[string]int{}
	if schedules := n.Get("schedules"); schedules != nil {
		c.list(schedules, "schedules", "begin each schedule with: - name: NAME", func(item *yaml.Node) {
			if item.Shape != yaml.Map {
				c.mapping(item, "a schedule", nil)
				return
			}
			s := c.schedule(c.fill(item, f.defaults.Get("schedule")), &a, f.Webhooks.SecretEnv)
			c.checkUnique(lines, item, "schedule of this agent", s.Name)
			a.Schedules = append(a.Schedules, s)
		})
	}
	return a, true
}

func (c *checker) agentFields(a *Agent) fields {
	return fields{
		"name":        func(n *yaml.Node) { a.Name = c.agentName(n) },
		"description": func(n *yaml.Node) { a.Description = c.text(n, "description") },
		"runner": func(n *yaml.Node) {
			a.Runner = c.choice(n, "runner", fleet.RunnerBuiltin, fleet.RunnerClaude, fleet.RunnerCodex, fleet.RunnerACP, fleet.RunnerCommand)
		},
		"command":     func(n *yaml.Node) { a.Command = c.command(n, "command") },
		"provider":    func(n *yaml.Node) { a.Provider = c.choice(n, "provider", model.Providers...) },
		"model":       func(n *yaml.Node) { a.Model = c.text(n, "model") },
		"base_url":    func(n *yaml.Node) { a.BaseURL = c.link(n, "base_url") },
		"system":      func(n *yaml.Node) { a.System = c.system(n) },
		"dir":         func(n *yaml.Node) { a.Dir = c.folder(n, "dir") },
		"env":         func(n *yaml.Node) { a.Env = c.env(n) },
		"pass_env":    func(n *yaml.Node) { a.PassEnv = c.passEnv(n) },
		"permissions": func(n *yaml.Node) { a.Permissions = c.permissions(n) },
		"limits":      func(n *yaml.Node) { a.Limits = c.limits(n) },
		"run_mode": func(n *yaml.Node) {
			a.RunMode = c.choice(n, "run_mode", fleet.RunAutonomous, fleet.RunInteractive, fleet.RunReview)
		},
		"review_timeout":  func(n *yaml.Node) { a.ReviewTimeout = c.span(n, "review_timeout", time.Second) },
		"session_timeout": func(n *yaml.Node) { a.SessionTimeout = c.span(n, "session_timeout", time.Second) },
		"retries": func(n *yaml.Node) {
			c.mapping(n, "retries", fields{
				"attempts":    func(n *yaml.Node) { a.Retries.Attempts = c.number(n, "attempts", 1, 100) },
				"backoff":     func(n *yaml.Node) { a.Retries.Backoff = c.span(n, "backoff", time.Second) },
				"interrupted": func(n *yaml.Node) { a.Retries.Interrupted = c.bool(n, "interrupted") },
				"fence":       func(n *yaml.Node) { a.Retries.Fence = c.span(n, "fence", leastFence) },
			})
		},
		"hooks": func(n *yaml.Node) {
			c.mapping(n, "hooks", fields{
				"after_run": func(n *yaml.Node) { a.Hooks.AfterRun = c.hooks(n, "after_run") },
				"on_error":  func(n *yaml.Node) { a.Hooks.OnError = c.hooks(n, "on_error") },
			})
		},
		"container": func(n *yaml.Node) { a.Container = c.container(n) },
		"sandbox":   func(n *yaml.Node) { a.Sandbox = c.sandbox(n) },
		"keep":      func(n *yaml.Node) { a.Keep = c.keep(n) },
		"self_schedule": func(n *yaml.Node) {
			c.mapping(n, "self_schedule", fields{
				"max":          func(n *yaml.Node) { a.SelfSchedule.Max = c.number(n, "max", 0, 1000) },
				"min_interval": func(n *yaml.Node) { a.SelfSchedule.MinInterval = c.span(n, "min_interval", time.Second) },
			})
		},
		"schedules": func(*yaml.Node) {}, // read when the rest of the agent is known
	}
}

// runner checks what depends on the agent's runner, and leaves out
// defaults for other runners.
func (c *checker) runner(a *Agent, n, defaults *yaml.Node) {
	command, found := n.Find("command")
	if command.Inherited && a.Runner != cmp.Or(textOf(defaults.Get("runner")), fleet.RunnerBuiltin) {
		a.Command, found = nil, false // the default command is for the default runner
	}
	for _, rule := range []struct {
		key, why string
		fits     bool
		clear    func()
	}{
		{"command", "for runner builtin, which starts nothing", a.Runner != fleet.RunnerBuiltin, func() { a.Command = nil }},
		{"provider", "for runner " + a.Runner + ", which chooses its own", a.Runner == fleet.RunnerBuiltin, func() { a.Provider = "" }},
		{"base_url", "for runner " + a.Runner + ", which asks no model that is known of here", a.Runner != fleet.RunnerACP && a.Runner != fleet.RunnerCommand, func() { a.BaseURL = "" }},
		{"sandbox", "in a container, which holds the agent already", a.Container == nil, func() { a.Sandbox = Sandbox{} }},
		{"review_timeout", "without run_mode: review", a.RunMode == fleet.RunReview, func() { a.ReviewTimeout = 0 }},
	} {
		if rule.fits {
			continue
		}
		if e, ok := n.Own(rule.key); ok {
			c.reportKey(e, rule.key+" means nothing "+rule.why, "take it out")
		}
		rule.clear()
	}
	if (a.Runner == fleet.RunnerACP || a.Runner == fleet.RunnerCommand) && !found {
		at := n
		if runner := n.Get("runner"); runner != nil {
			at = runner
		}
		c.reportAt(at, "runner "+a.Runner+" needs a command", `add: command: ["program", "argument"]`)
	}
}

func textOf(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Text
}

// fillBuiltIn fills in what neither the agent nor the defaults set.
func (c *checker) fillBuiltIn(a *Agent, n *yaml.Node) {
	a.Limits.MaxConcurrent = cmp.Or(a.Limits.MaxConcurrent, 1)
	a.SessionTimeout = cmp.Or(a.SessionTimeout, defaultSessionTimeout)
	a.Retries.Attempts = cmp.Or(a.Retries.Attempts, 1)
	a.Retries.Backoff = cmp.Or(a.Retries.Backoff, defaultBackoff)
	if a.Retries.Interrupted {
		a.Retries.Fence = cmp.Or(a.Retries.Fence, defaultFence)
	}
	a.SelfSchedule.MinInterval = cmp.Or(a.SelfSchedule.MinInterval, defaultMinInterval)
	if a.RunMode == fleet.RunReview {
		a.ReviewTimeout = cmp.Or(a.ReviewTimeout, DefaultReviewTimeout)
	}
	if n.Get("dir") == nil {
		dir, err := c.resolve(".")
		if err != nil {
			c.reportAt(n, fmt.Sprintf("dir: %v", err), "")
		}
		a.Dir = dir
	}
	if box := n.Get("container"); a.Container != nil {
		a.Container.Engine = cmp.Or(a.Container.Engine, "docker")
		if box.Get("image") == nil {
			c.reportAt(box, "container without an image", "add: image: NAME")
		}
	}
}

// system reads a system prompt: its text, or the file that has it.
func (c *checker) system(n *yaml.Node) (s System) {
	if n.Shape != yaml.Map {
		s.Text = c.promptText(n, "system")
		return s
	}
	c.mapping(n, "system", fields{"file": func(n *yaml.Node) { s.File = c.text(n, "file"); s.Text = c.prompt(n, s.File) }})
	if n.Get("file") == nil && len(n.Entries) == 0 {
		c.reportAt(n, "system says nothing", "write a text, or file: prompts/agent.md")
	}
	return s
}

// prompt reads a file of the fleet file's folder.
func (c *checker) prompt(n *yaml.Node, name string) string {
	if n.Shape != yaml.Text || name == "" || path.IsAbs(name) || !fs.ValidPath(path.Clean(name)) || strings.Contains(name, `\`) {
		c.reportAt(n, "file is no file in the folder of this file", "write a path relative to it, like prompts/agent.md")
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
		c.reportAt(n, fmt.Sprintf("file %s: %v", described(n), p.err), "")
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
	case !info.Mode().IsRegular(): // a pipe would block
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

// reason returns an error without its path, which the problem names already.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (c *checker) env(n *yaml.Node) map[string]string {
	if n.Shape != yaml.Map {
		c.reportAt(n, fmt.Sprintf("env is %s, and should be a mapping", n.Shape), "write NAME: value, each on a line of its own")
		return nil
	}
	env := make(map[string]string, len(n.Entries))
	for _, e := range n.Entries {
		switch {
		case !isVariable(e.Key):
			c.reportKey(e, fmt.Sprintf("%.40q is not the name of an environment variable", e.Key), "it has letters, digits and _")
		case e.Value.Shape == yaml.Null:
		case e.Value.Text != "" && isSecretName(e.Key) || c.secret(e.Value):
			c.hide(e.Line, e.Value.Line)
			c.reportKey(e, fmt.Sprintf("a secret does not belong into this file: %q", e.Key), "keep it in the environment of the daemon and pass it on: pass_env: ["+e.Key+"]")
		default:
			env[e.Key] = c.text(e.Value, e.Key)
		}
	}
	return env
}

func (c *checker) passEnv(n *yaml.Node) (names []string) {
	c.list(n, "pass_env", "write it like [ANTHROPIC_API_KEY]", func(item *yaml.Node) {
		if name := c.variable(item, "this"); name != "" {
			names = append(names, name)
		}
	})
	return names
}

func (c *checker) permissions(n *yaml.Node) (p Permissions) {
	c.mapping(n, "permissions", fields{
		"allow": func(n *yaml.Node) { p.Allow = c.tools(n, "allow") },
		"deny":  func(n *yaml.Node) { p.Deny = c.tools(n, "deny") },
	})
	return p
}

// tools reads a list of tools, each optionally with a scope in brackets:
// bash, bash(git), fetch(example.org).
func (c *checker) tools(n *yaml.Node, what string) (all []Permission) {
	const hint = `write it like [read, "bash(git)", "fetch(example.org)"]`
	c.list(n, what, hint, func(item *yaml.Node) {
		tool, scope, scoped := strings.Cut(item.Text, "(")
		inner, closed := strings.CutSuffix(scope, ")")
		if item.Shape != yaml.Text || tool == "" || strings.ContainsAny(tool, " ,)") || scoped && (!closed || inner == "") {
			c.reportAt(item, fmt.Sprintf("%s is not a tool", described(item)), hint)
			return
		}
		all = append(all, Permission{Tool: tool, Scope: inner})
	})
	return all
}

func (c *checker) limits(n *yaml.Node) (l Limits) {
	c.mapping(n, "limits", fields{
		"max_concurrent": func(n *yaml.Node) { l.MaxConcurrent = c.number(n, "max_concurrent", 1, maxCount) },
		"max_turns":      func(n *yaml.Node) { l.MaxTurns = c.number(n, "max_turns", 1, maxCount) },
		"timeout":        func(n *yaml.Node) { l.Timeout = c.span(n, "timeout", time.Second) },
		"tool_rounds":    func(n *yaml.Node) { l.ToolRounds = c.number(n, "tool_rounds", 1, maxCount) },
		"output_bytes":   func(n *yaml.Node) { l.OutputBytes = c.bytes(n, "output_bytes") },
	})
	return l
}

// maxDays is a century: more is a typing error.
const maxDays = 36525

// keep reads how many jobs are kept. An empty section would have no effect, so it
// is a mistake.
func (c *checker) keep(n *yaml.Node) (k Keep) {
	ok := c.mapping(n, "keep", fields{
		"jobs": func(n *yaml.Node) { k.Jobs = c.number(n, "jobs", 1, 10*maxCount) },
		"days": func(n *yaml.Node) { k.Days = c.number(n, "days", 1, maxDays) },
	})
	if ok && n.Get("jobs") == nil && n.Get("days") == nil {
		c.reportAt(n, "keep says nothing", "write it like {jobs: 1000, days: 90}; without keep all jobs are kept")
	}
	return k
}

func (c *checker) hooks(n *yaml.Node, what string) (all []Hook) {
	c.list(n, what, exampleOf("a hook"), func(item *yaml.Node) {
		h := Hook{Timeout: DefaultHookTimeout}
		ok := c.mapping(item, "a hook", fields{
			"command":    func(n *yaml.Node) { h.Command = c.command(n, "command") },
			"webhook":    func(n *yaml.Node) { h.Webhook = c.link(n, "webhook") },
			"secret_env": func(n *yaml.Node) { h.SecretEnv = c.variable(n, "secret_env") },
			"timeout":    func(n *yaml.Node) { h.Timeout = c.span(n, "timeout", time.Second) },
		})
		_, isCommand := item.Find("command")
		_, isWebhook := item.Find("webhook")
		switch secret, signed := item.Find("secret_env"); {
		case !ok:
			return
		case isCommand == isWebhook:
			c.reportAt(item, "a hook is a command or a webhook, one of the two", exampleOf("a hook"))
		case isCommand && signed:
			c.reportKey(secret, "secret_env signs webhooks, and this hook is a command", "take it out")
		}
		all = append(all, h)
	})
	return all
}

func (c *checker) container(n *yaml.Node) *Container {
	var box Container
	ok := c.mapping(n, "container", fields{
		"engine":  func(n *yaml.Node) { box.Engine = c.choice(n, "engine", "docker", "podman") },
		"image":   func(n *yaml.Node) { box.Image = c.word(n, "image") },
		"mounts":  func(n *yaml.Node) { box.Mounts = c.mounts(n) },
		"network": func(n *yaml.Node) { box.Network = c.word(n, "network") },
		"memory":  func(n *yaml.Node) { box.Memory = c.bytes(n, "memory") },
		"cpus": func(n *yaml.Node) {
			cpus, err := strconv.ParseFloat(n.Text, 64)
			if n.Shape != yaml.Number || err != nil || !(cpus > 0 && cpus <= 1024) {
				c.reportAt(n, fmt.Sprintf("cpus is %s", described(n)), "want a number like 1.5")
			}
			box.CPUs = cpus
		},
	})
	if !ok {
		return nil
	}
	return &box
}

// word reads a text that becomes one argument of the engine: it must not
// be taken for a flag.
func (c *checker) word(n *yaml.Node, what string) string {
	text := c.text(n, what)
	if n.Shape == yaml.Text && (text == "" || text[0] == '-' || strings.ContainsAny(text, " \t\n\x00")) {
		c.reportAt(n, fmt.Sprintf("%s is %s", what, described(n)), "want one word that does not begin with -")
	}
	return text
}

// mounts reads SOURCE:TARGET and SOURCE:TARGET:ro.
func (c *checker) mounts(n *yaml.Node) (all []Mount) {
	const hint = "write it like ./src:/work or ./src:/work:ro"
	c.list(n, "mounts", hint, func(item *yaml.Node) {
		text, readOnly := strings.CutSuffix(item.Text, ":ro")
		i := strings.LastIndex(text, ":/")
		if item.Shape != yaml.Text || i <= 0 || strings.ContainsAny(text[i+1:], ":,") {
			c.reportAt(item, fmt.Sprintf("%s is not a mount", described(item)), hint)
			return
		}
		source := *item
		source.Text = text[:i]
		all = append(all, Mount{Source: c.folder(&source, "the mount's folder"), Target: text[i+1:], ReadOnly: readOnly})
	})
	return all
}
