package file

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/convert/herdctl"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
	"github.com/tidemark-sessions/tidemark/redact"
)

// HerdctlOptions say how a configuration of herdctl becomes a fleet file.
type HerdctlOptions struct {
	Zone string                  // herdctl's zone: it reads cron in the time of its host
	Dir  func(abs string) string // how to write a folder in the file
}

// FromHerdctl converts a configuration of herdctl into a fleet file. What
// has no counterpart, or would be a secret in the file, is left out and
// returned.
func FromHerdctl(c *herdctl.Config, name string, o HerdctlOptions) (*File, []herdctl.Left) {
	h := &fromHerdctl{HerdctlOptions: o, file: &File{Version: 1}, left: c.Left, at: herdctl.Left{File: name}}
	h.fleet(c.Fleet)
	for _, a := range c.Agents {
		h.at = herdctl.Left{File: a.File, Agent: a.Name}
		h.agent(a)
	}
	return h.file, h.left
}

type fromHerdctl struct {
	HerdctlOptions
	file *File
	left []herdctl.Left
	at   herdctl.Left // what is being converted
}

// Reasons for leaving something out.
const (
	noCounterpart = "has no counterpart"
	noMeaning     = "is not what herdctl takes there"
)

func (h *fromHerdctl) leaveOut(key, why string) {
	l := h.at
	l.Key, l.Why = key, why
	h.left = append(h.left, l)
}

// each passes the entries of a mapping to their readers, and leaves the rest
// out.
func (h *fromHerdctl) each(under string, n *yaml.Node, read map[string]func(*yaml.Node)) {
	if n == nil {
		return
	}
	for _, e := range n.Entries {
		take, ok := read[e.Key]
		switch {
		case e.Value.Shape == yaml.Null:
		case !ok:
			h.leaveOut(under+e.Key, noCounterpart)
		default:
			take(e.Value)
		}
	}
}

// text sets a text, and leaves anything else out.
func (h *fromHerdctl) text(key string, to *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if h.fits(key, func(c *checker) { c.promptText(n, key) }) {
			*to = n.Text
		}
	}
}

// fits reports whether a fleet file accepts a value, and leaves it out if not.
func (h *fromHerdctl) fits(key string, look func(c *checker)) bool {
	c := newChecker("", nil)
	look(c)
	if len(c.problems) > 0 {
		h.leaveOut(key, c.problems[0].Message)
		return false
	}
	return true
}

func (h *fromHerdctl) number(key string, to *int) func(*yaml.Node) {
	return func(n *yaml.Node) {
		i, err := strconv.Atoi(n.Text)
		if err != nil || n.Shape != yaml.Number || i < 1 || i > maxCount {
			h.leaveOut(key, noMeaning)
			return
		}
		*to = i
	}
}

// span sets a duration like 5m or 1.5h.
func (h *fromHerdctl) span(key string, to *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		text := strings.TrimSpace(n.Text)
		value, err := strconv.ParseFloat(strings.TrimRight(text, "smhdw"), 64)
		unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[strings.TrimLeft(text, "0123456789.")]
		d := time.Duration(value * float64(unit)).Truncate(time.Second)
		if err != nil || unit == 0 || d < time.Second || value > 1e6 {
			h.leaveOut(key, noMeaning)
			return
		}
		*to = d
	}
}

// ignore is for values that are the default here, or are read elsewhere.
func ignore(*yaml.Node) {}

func (h *fromHerdctl) fleet(n *yaml.Node) {
	f := h.file
	h.each("", n, map[string]func(*yaml.Node){
		"version": ignore, "agents": ignore, "fleets": ignore, "defaults": ignore,
		"fleet": func(n *yaml.Node) {
			h.each("fleet.", n, map[string]func(*yaml.Node){"name": h.text("fleet.name", &f.Fleet.Name), "description": h.text("fleet.description", &f.Fleet.Description)})
		},
		"webhooks": func(n *yaml.Node) {
			port, enabled := 8081, false
			h.each("webhooks.", n, map[string]func(*yaml.Node){
				"enabled":    func(n *yaml.Node) { enabled = isTrue(n) },
				"port":       h.number("webhooks.port", &port),
				"secret_env": h.variable("webhooks.secret_env", &f.Webhooks.SecretEnv),
			})
			if enabled && port < 1<<16 {
				f.Webhooks.Listen = fmt.Sprintf("127.0.0.1:%d", port)
			}
		},
	})
	if f.Fleet.Name != "" && !fleet.IsName(f.Fleet.Name) {
		h.leaveOut("fleet.name", fmt.Sprintf("%.60q cannot be a fleet's name here", f.Fleet.Name))
		f.Fleet.Name = ""
	}
}

func (h *fromHerdctl) variable(key string, to *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Shape != yaml.Text || !isVariable(n.Text) || len(redact.Find(n.Text)) > 0 {
			h.leaveOut(key, noMeaning)
			return
		}
		*to = n.Text
	}
}

func isTrue(n *yaml.Node) bool { return n.Shape == yaml.Bool && strings.EqualFold(n.Text, "true") }

func (h *fromHerdctl) agent(from herdctl.ConfigAgent) {
	if !fleet.IsAgentName(from.Name) {
		h.leaveOut("", fmt.Sprintf("its name cannot be one here: %s", nameRule(fleet.MaxAgentName)))
		return
	}
	a := Agent{Name: from.Name, Runner: fleet.RunnerClaude, Dir: h.Dir(from.Dir)}
	if !h.fits("working_directory", func(c *checker) { c.folder(&yaml.Node{Shape: yaml.Text, Text: a.Dir}, "it") }) {
		a.Dir = ""
	}
	var schedules *yaml.Node
	var prompt string
	var turns int
	var model string
	var tools, allowed []Permission
	h.each("", from.Node, map[string]func(*yaml.Node){
		"name": ignore, "runtime": ignore,
		"working_directory": func(n *yaml.Node) {
			if n.Shape == yaml.Map {
				h.each("working_directory.", n, map[string]func(*yaml.Node){"root": ignore})
			}
		},
		"description":    h.text("description", &a.Description),
		"system_prompt":  h.text("system_prompt", &a.System.Text),
		"default_prompt": h.text("default_prompt", &prompt),
		"model":          h.text("model", &a.Model),
		"max_turns":      h.number("max_turns", &a.Limits.MaxTurns),
		"session": func(n *yaml.Node) {
			h.each("session.", n, map[string]func(*yaml.Node){
				"max_turns": h.number("session.max_turns", &turns),
				"model":     h.text("session.model", &model),
				"timeout":   h.span("session.timeout", &a.SessionTimeout),
			})
		},
		"instances": func(n *yaml.Node) {
			h.each("instances.", n, map[string]func(*yaml.Node){"max_concurrent": h.number("instances.max_concurrent", &a.Limits.MaxConcurrent)})
		},
		"permission_mode": func(n *yaml.Node) { h.mode(n, &a) },
		"tools":           func(n *yaml.Node) { tools = h.permissions("tools", n) },
		"allowed_tools":   func(n *yaml.Node) { allowed = h.permissions("allowed_tools", n) },
		"denied_tools":    func(n *yaml.Node) { a.Permissions.Deny = h.permissions("denied_tools", n) },
		"hooks":           func(n *yaml.Node) { a.Hooks = h.hooks(n) },
		"docker":          func(n *yaml.Node) { h.docker(n, &a) },
		"schedules":       func(n *yaml.Node) { schedules = n },
	})
	a.Model = cmp.Or(a.Model, model)
	a.Limits.MaxTurns = cmp.Or(a.Limits.MaxTurns, turns)
	if a.Permissions.Allow = append(a.Permissions.Allow, allowed...); len(a.Permissions.Allow) == 0 {
		a.Permissions.Allow = tools
	} else if len(tools) > 0 {
		h.leaveOut("tools", "allowed_tools says what it may use")
	}
	if schedules != nil {
		for _, e := range schedules.Entries {
			h.schedule(&a, e.Key, e.Value, cmp.Or(prompt, "Execute your configured task"))
		}
	}
	if prompt != "" {
		h.leaveOut("default_prompt", "is taken for schedules that have no prompt; tidemark run names its own")
	}
	alone := File{Version: 1, Webhooks: h.file.Webhooks, Agents: []Agent{a}}
	if _, err := Parse("", alone.YAML(), nil); err != nil {
		var p *Problems
		if errors.As(err, &p) {
			h.leaveOut("", "the whole agent: "+p.List[0].Message)
		}
		return
	}
	h.file.Agents = append(h.file.Agents, a)
}

// mode reads a permission mode of Claude Code. Agents of herdctl run unattended,
// so only modes that work without asking a person have a meaning.
func (h *fromHerdctl) mode(n *yaml.Node, a *Agent) {
	switch n.Text {
	case "bypassPermissions":
		a.Permissions.Allow = append(a.Permissions.Allow, Permission{Tool: "*"})
	case "acceptEdits":
		a.Permissions.Allow = append(a.Permissions.Allow, Permission{Tool: "Edit"}, Permission{Tool: "Write"})
	case "default", "dontAsk": // what is not allowed is denied, as here
	default:
		h.leaveOut("permission_mode", fmt.Sprintf("%.40q %s; run_mode: review comes near", n.Text, noCounterpart))
	}
}

func (h *fromHerdctl) permissions(key string, n *yaml.Node) (all []Permission) {
	for _, item := range n.Items {
		tool, scope, scoped := strings.Cut(item.Text, "(")
		inner, closed := strings.CutSuffix(scope, ")")
		if item.Shape != yaml.Text || tool == "" || strings.ContainsAny(tool, " ,)") || scoped && (!closed || inner == "") {
			h.leaveOut(key, fmt.Sprintf("%.60q is not a tool", item.Text))
			continue
		}
		all = append(all, Permission{Tool: tool, Scope: inner})
	}
	return all
}

func (h *fromHerdctl) schedule(a *Agent, name string, n *yaml.Node, prompt string) {
	under := "schedules." + name + "."
	s := Schedule{Name: name}
	var old string
	h.each(under, n, map[string]func(*yaml.Node){
		"type":           h.text(under+"type", &s.Type),
		"interval":       h.span(under+"interval", &s.Every),
		"cron":           h.text(under+"cron", &s.Cron),
		"expression":     h.text(under+"expression", &old),
		"prompt":         h.text(under+"prompt", &s.Prompt),
		"resume_session": func(n *yaml.Node) { s.Resume = isTrue(n) },
		"outputToFile":   ignore, // all output is kept
		"enabled": func(n *yaml.Node) {
			if enabled := isTrue(n); !enabled {
				s.Enabled = &enabled
			}
		},
	})
	s.Cron = cmp.Or(s.Cron, old)
	why := ""
	switch {
	case !fleet.IsName(name):
		why = "its name cannot be one here: " + nameRule(fleet.MaxName)
	case s.Type == fleet.TypeInterval && s.Every == 0, s.Type == fleet.TypeCron && s.Cron == "":
		why = "does not say when it is due"
	case s.Type == fleet.TypeInterval:
		s.Cron = ""
	case s.Type == fleet.TypeCron:
		s.Every, s.Zone = 0, h.Zone
		if err := s.Timing(time.Unix(0, 0)).Check(); err != nil {
			why = err.Error()
		}
	case s.Type == fleet.TypeWebhook || s.Type == fleet.TypeChat:
		s.Every, s.Cron = 0, ""
		if s.Type == fleet.TypeWebhook && h.file.Webhooks.SecretEnv == "" {
			h.file.Webhooks.SecretEnv = "TIDEMARK_HOOK_SECRET"
			h.leaveOut(under+"type", "a webhook needs a secret here: put one into the environment of fleet up as TIDEMARK_HOOK_SECRET")
		}
	default:
		why = fmt.Sprintf("type %.40q %s", s.Type, noMeaning)
	}
	if why != "" {
		h.leaveOut(strings.TrimSuffix(under, "."), why)
		return
	}
	if s.Prompt == "" && (s.Type == fleet.TypeInterval || s.Type == fleet.TypeCron) {
		s.Prompt = prompt
	}
	a.Schedules = append(a.Schedules, s)
}

func (h *fromHerdctl) hooks(n *yaml.Node) (all Hooks) {
	h.each("hooks.", n, map[string]func(*yaml.Node){
		"after_run": func(n *yaml.Node) { all.AfterRun = h.hookList("hooks.after_run", n) },
		"on_error":  func(n *yaml.Node) { all.OnError = h.hookList("hooks.on_error", n) },
	})
	return all
}

func (h *fromHerdctl) hookList(key string, n *yaml.Node) (all []Hook) {
	for i, item := range n.Items {
		under := fmt.Sprintf("%s[%d].", key, i)
		var kind, command string
		var hook Hook
		milliseconds := 0
		switch t := item.Get("type"); {
		case t == nil || t.Text != "shell" && t.Text != "webhook":
			h.leaveOut(strings.TrimSuffix(under, "."), fmt.Sprintf("a hook of type %.40s %s", typeOf(t), noCounterpart))
			continue
		}
		h.each(under, item, map[string]func(*yaml.Node){
			"type":    h.text(under+"type", &kind),
			"name":    ignore,
			"command": h.text(under+"command", &command),
			"url": func(n *yaml.Node) {
				if h.fits(under+"url", func(c *checker) { c.link(n, "it") }) {
					hook.Webhook = n.Text
				}
			},
			"timeout": h.number(under+"timeout", &milliseconds),
			"method": func(n *yaml.Node) {
				if n.Text != "POST" {
					h.leaveOut(under+"method", "webhooks are posted")
				}
			},
			"continue_on_error": func(n *yaml.Node) {
				if !isTrue(n) {
					h.leaveOut(under+"continue_on_error", "the other hooks are run in any case")
				}
			},
		})
		if kind == "shell" {
			hook.Webhook, hook.Command = "", []string{"sh", "-c", command}
			milliseconds = cmp.Or(milliseconds, 30_000)
		}
		milliseconds = cmp.Or(milliseconds, 10_000)
		hook.Timeout = max(time.Second, (time.Duration(milliseconds) * time.Millisecond).Truncate(time.Second))
		if kind == "shell" && command == "" || kind == "webhook" && !strings.HasPrefix(hook.Webhook, "http://") && !strings.HasPrefix(hook.Webhook, "https://") {
			h.leaveOut(strings.TrimSuffix(under, "."), "names no command and no http or https address")
			continue
		}
		all = append(all, hook)
	}
	return all
}

func typeOf(n *yaml.Node) string {
	if n == nil {
		return "nothing"
	}
	return n.Text
}

// docker reads the container of an agent. Its environment becomes the agent's.
func (h *fromHerdctl) docker(n *yaml.Node, a *Agent) {
	if on := n.Get("enabled"); on == nil || !isTrue(on) {
		return
	}
	box := Container{Engine: "docker", Memory: 2 << 30}
	var image, old, memory string
	period, quota := 100_000, 0
	h.each("docker.", n, map[string]func(*yaml.Node){
		"enabled":    ignore,
		"image":      h.text("docker.image", &image),
		"base_image": h.text("docker.base_image", &old),
		"network":    h.text("docker.network", &box.Network),
		"memory":     h.text("docker.memory", &memory),
		"cpu_period": h.count("docker.cpu_period", &period),
		"cpu_quota":  h.count("docker.cpu_quota", &quota),
		"volumes":    func(n *yaml.Node) { box.Mounts = h.mounts(n) },
		"env":        func(n *yaml.Node) { h.environment(n, a) },
		"ephemeral": func(n *yaml.Node) {
			if !isTrue(n) {
				h.leaveOut("docker.ephemeral", "each run has a container of its own")
			}
		},
		"workspace_mode": func(n *yaml.Node) {
			if n.Text != "rw" {
				h.leaveOut("docker.workspace_mode", noCounterpart)
			}
		},
	})
	box.Image = cmp.Or(image, old, "anthropic/claude-code:latest")
	if memory != "" {
		size, ok := dockerBytes(memory)
		if !ok {
			h.leaveOut("docker.memory", noMeaning)
		}
		box.Memory = cmp.Or(size, box.Memory)
	}
	if quota > 0 {
		box.CPUs = min(1024, float64(quota)/float64(period))
	}
	for key, word := range map[string]*string{"docker.image": &box.Image, "docker.network": &box.Network} {
		if *word != "" && ((*word)[0] == '-' || strings.ContainsAny(*word, " \t\n")) {
			h.leaveOut(key, noMeaning)
			*word = ""
		}
	}
	if box.Image == "" {
		return
	}
	a.Container = &box
}

// count is number without an upper bound.
func (h *fromHerdctl) count(key string, to *int) func(*yaml.Node) {
	return func(n *yaml.Node) {
		i, err := strconv.Atoi(n.Text)
		if err != nil || i < 1 {
			h.leaveOut(key, noMeaning)
			return
		}
		*to = i
	}
}

// dockerBytes reads sizes like 2g, 512m and 2048.
func dockerBytes(s string) (int64, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	digits := strings.TrimRight(s, "bkmgt ")
	unit, known := map[string]float64{"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[strings.TrimSpace(s[len(digits):])]
	value, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || value <= 0 || value > 1e15 || value*unit > 1<<50 {
		return 0, false
	}
	return int64(value * unit), true
}

func (h *fromHerdctl) mounts(n *yaml.Node) (all []Mount) {
	for _, item := range n.Items {
		text, readOnly := strings.CutSuffix(item.Text, ":ro")
		text = strings.TrimSuffix(text, ":rw")
		i := strings.LastIndex(text, ":/")
		if item.Shape != yaml.Text || i <= 0 || strings.ContainsAny(text[i+1:], ":,") || strings.ContainsAny(text[:i], "~$,") {
			h.leaveOut("docker.volumes", fmt.Sprintf("%.80q is not a mount here", item.Text))
			continue
		}
		all = append(all, Mount{Source: text[:i], Target: text[i+1:], ReadOnly: readOnly})
	}
	return all
}

// environment reads variables; one that contains a secret is passed on from
// the environment of the daemon instead of being written to the file.
func (h *fromHerdctl) environment(n *yaml.Node, a *Agent) {
	for _, e := range n.Entries {
		key := "docker.env." + e.Key
		scalar := e.Value.Shape != yaml.List && e.Value.Shape != yaml.Map && e.Value.Shape != yaml.Null
		switch {
		case !isVariable(e.Key) || !scalar || strings.Contains(e.Value.Text, "\x00"):
			h.leaveOut(key, noMeaning)
		case e.Value.Text == "${"+e.Key+"}":
			a.PassEnv = append(a.PassEnv, e.Key)
		case strings.Contains(e.Value.Text, "${"):
			h.leaveOut(key, "is made of a variable that is not written down")
		case isSecretName(e.Key) || len(redact.Find(e.Value.Text)) > 0:
			a.PassEnv = append(a.PassEnv, e.Key)
			h.leaveOut(key, "its value may be a secret: it is taken from the environment of fleet up")
		default:
			if a.Env == nil {
				a.Env = map[string]string{}
			}
			a.Env[e.Key] = e.Value.Text
		}
	}
}

// PlainVariable returns look without variables that are or contain secrets:
// the result is written into a file.
func PlainVariable(look func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := look(name)
		if !ok || isSecretName(name) || len(redact.Find(value)) > 0 {
			return "", false
		}
		return value, true
	}
}
