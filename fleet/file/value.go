package file

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
	"github.com/tidemark-sessions/tidemark/redact"
)

// fields are the keys of a mapping with a reader for the value of each.
type fields map[string]func(*yaml.Node)

// mapping passes the values of a mapping to their readers, and reports keys
// without a reader. what says which mapping it is; it selects the hints for
// keys that belong elsewhere.
func (c *checker) mapping(n *yaml.Node, what string, f fields) bool {
	if n.Shape != yaml.Map {
		c.reportAt(n, fmt.Sprintf("%s is %s, and should be a mapping", what, n.Shape), exampleOf(what))
		return false
	}
	for _, e := range n.Entries {
		read, ok := f[e.Key]
		switch {
		case ok && e.Value.Shape != yaml.Null:
			read(e.Value)
		case ok || what == "the file" && strings.HasPrefix(e.Key, "x-"):
		case isSecretName(e.Key):
			c.hide(e.Line, e.Value.Line)
			c.reportKey(e, fmt.Sprintf("a secret does not belong into this file: %q", e.Key), secretHint(f))
		case c.full():
			c.more++
		default:
			c.reportKey(e, fmt.Sprintf("%.40q is not a key of %s", e.Key, what), keyHint(what, e.Key, f))
		}
	}
	return true
}

func secretHint(f fields) string {
	switch {
	case f["secret_env"] != nil:
		return "name the environment variable that has it: secret_env: NAME"
	case f["pass_env"] != nil:
		return "pass on the environment variable that has it: pass_env: [NAME]"
	}
	return "keep it in an environment variable"
}

// keyHint says what was most likely meant by an unknown key.
func keyHint(what, key string, f fields) string {
	if hint, ok := misplacedKeys(what)[key]; ok {
		return hint
	}
	known := make([]string, 0, len(f))
	for k := range f {
		known = append(known, k)
	}
	slices.Sort(known)
	if near := text.Nearest(key, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "there is " + choices(known)
}

// misplacedKeys returns hints for keys that belong to another part of the file, or
// that have another name in other programs.
func misplacedKeys(what string) map[string]string {
	switch what {
	case "the file":
		return map[string]string{
			"name": "it is in the section fleet", "description": "it is in the section fleet",
			"max_concurrent": "it is in the section limits", "schedules": "each agent has its own: put them into the agent",
		}
	case "an agent", "defaults":
		return map[string]string{
			"max_concurrent": "it is in the agent's limits", "max_turns": "it is in the agent's limits", "timeout": "it is in the agent's limits, or is session_timeout meant?",
			"tool_rounds": "it is in the agent's limits", "output_bytes": "it is in the agent's limits",
			"working_directory": `it is called "dir"`, "cwd": `it is called "dir"`, "workspace": `it is called "dir"`,
			"system_prompt": `it is called "system"`, "prompt": "it is in a schedule; what an agent always knows is called system",
			"runtime": `it is called "runner"`, "mode": `it is called "run_mode"`, "docker": `it is called "container"`, "environment": `it is called "env"`,
			"allowed_tools": "it is called allow, in permissions", "denied_tools": "it is called deny, in permissions",
			"after_run": "it is in the agent's hooks", "on_error": "it is in the agent's hooks", "cron": "it is in a schedule", "every": "it is in a schedule",
			"schedule": "an agent has a list: schedules", "name": "every agent has its own", "schedules": "every agent has its own; what they share is called schedule",
		}
	case "defaults.schedule":
		const own = "what a schedule is due by is its own"
		return map[string]string{"every": own, "cron": own, "type": own, "name": own, "secret_env": "the one for all is in the section webhooks"}
	case "a schedule":
		return map[string]string{
			"interval": `it is called "every"`, "expression": `it is called "cron"`, "timezone": `it is called "zone"`, "tz": `it is called "zone"`,
			"resume_session": `it is called "resume"`, "catch_up": `it is called "missed"`, "misfire": `it is called "missed"`, "concurrency": `it is called "overlap"`,
			"disabled": "it is called enabled: false", "message": `it is called "prompt"`,
			"timeout": "it is in the agent's limits",
		}
	}
	return nil
}

func exampleOf(what string) string {
	switch what {
	case "an agent":
		return "begin each agent with: - name: NAME"
	case "a schedule":
		return "begin each schedule with: - name: NAME"
	case "a hook":
		return `write - command: ["notify", "done"] or - webhook: https://host/path`
	}
	return ""
}

// list passes each item of a list to read.
func (c *checker) list(n *yaml.Node, what, hint string, read func(*yaml.Node)) {
	if n.Shape != yaml.List {
		c.reportAt(n, fmt.Sprintf("%s is %s, and should be a list", what, n.Shape), hint)
		return
	}
	for _, item := range n.Items {
		read(item)
	}
}

// text reads a text. Numbers and booleans are accepted, too: they are texts
// written without quotes.
func (c *checker) text(n *yaml.Node, what string) string {
	switch n.Shape {
	case yaml.Text, yaml.Number, yaml.Bool:
		if strings.Contains(n.Text, "\x00") {
			c.reportAt(n, what+" holds a NUL", "take it out: no program can be given one")
		}
		return n.Text
	}
	c.reportAt(n, fmt.Sprintf("%s is %s, and should be a text", what, n.Shape), "")
	return ""
}

// promptText reads a prompt for an agent. It is stored with jobs and schedules, so
// a secret in it is a mistake.
func (c *checker) promptText(n *yaml.Node, what string) string {
	if c.secret(n) {
		c.hide(n.Line)
		c.reportAt(n, what+" has something in it that looks like a secret", "keep it in the environment of the daemon and pass it on: pass_env: [NAME]")
	}
	return c.text(n, what)
}

func (c *checker) bool(n *yaml.Node, what string) bool {
	if n.Shape != yaml.Bool {
		c.reportAt(n, fmt.Sprintf("%s is %s, and should be true or false", what, described(n)), "")
		return false
	}
	return strings.EqualFold(n.Text, "true")
}

// secret reports whether a text looks like a secret.
func (c *checker) secret(n *yaml.Node) bool {
	found, ok := c.secrets[n]
	if !ok {
		found = len(redact.Find(n.Text)) > 0
		c.secrets[n] = found
	}
	return found
}

// described returns the content of a node if it is short and no secret, and
// otherwise its shape.
func described(n *yaml.Node) string {
	if n.Shape != yaml.Text && n.Shape != yaml.Number && n.Shape != yaml.Bool || len(n.Text) > 40 || len(redact.Find(n.Text)) > 0 {
		return string(n.Shape)
	}
	return strconv.Quote(n.Text)
}

// choice reads one of several words.
func (c *checker) choice(n *yaml.Node, what string, all ...string) string {
	if n.Shape == yaml.Text && slices.Contains(all, n.Text) {
		return n.Text
	}
	hint := "want " + choices(all)
	if near := text.Nearest(n.Text, all); near != "" {
		hint = fmt.Sprintf("did you mean %q? There is %s", near, choices(all))
	}
	c.reportAt(n, fmt.Sprintf("%s is %s", what, described(n)), hint)
	return ""
}

// number reads a whole number between least and most.
func (c *checker) number(n *yaml.Node, what string, least, most int) int {
	i, err := strconv.Atoi(strings.ReplaceAll(n.Text, "_", ""))
	if n.Shape != yaml.Number || err != nil || i < least || i > most {
		c.reportAt(n, fmt.Sprintf("%s is %s", what, described(n)), fmt.Sprintf("want a whole number from %d to %d", least, most))
		return 0
	}
	return i
}

// maxSpan keeps the sum of an instant and a duration within the years that can be
// written.
const maxSpan = 10 * 366 * 24 * time.Hour

// span reads a duration of at least least.
func (c *checker) span(n *yaml.Node, what string, least time.Duration) time.Duration {
	d, err := fleet.ParseSpan(n.Text)
	switch {
	case n.Shape == yaml.Number && err != nil:
		c.reportAt(n, fmt.Sprintf("%s is %s, without a unit", what, n.Text), fmt.Sprintf("for seconds write %ss; others: 90s, 5m, 1h30m, 2d, 1w", n.Text))
	case n.Shape != yaml.Text && n.Shape != yaml.Number || err != nil:
		c.reportAt(n, fmt.Sprintf("%s is %s, and should be a length of time", what, described(n)), "write it like 90s, 5m, 1h30m, 2d or 1w")
	case d < least:
		c.reportAt(n, fmt.Sprintf("%s is %s, and should be at least %s", what, n.Text, fleet.SpanText(least)), "")
	case d > maxSpan:
		c.reportAt(n, fmt.Sprintf("%s is longer than ten years", what), "")
	default:
		return d
	}
	return 0
}

// bytes reads a size: a number of bytes, or one with a unit.
func (c *checker) bytes(n *yaml.Node, what string) int64 {
	digits := strings.TrimRight(n.Text, "kKMGTiB ")
	units := map[string]int64{"": 1, "B": 1, "KB": 1e3, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	unit, ok := units[strings.TrimSpace(n.Text[len(digits):])]
	size, err := strconv.ParseInt(digits, 10, 64)
	if n.Shape != yaml.Text && n.Shape != yaml.Number || !ok || err != nil || size <= 0 || size > math.MaxInt64/unit {
		c.reportAt(n, fmt.Sprintf("%s is %s, and should be a size", what, described(n)), "write it like 500KB, 10MB or 1GiB, or as a number of bytes")
		return 0
	}
	return size * unit
}

// nameOf reads the name of the fleet or of a schedule.
func (c *checker) nameOf(n *yaml.Node, what string) string {
	name := c.text(n, what)
	if n.Shape == yaml.List || n.Shape == yaml.Map || fleet.IsName(name) {
		return name
	}
	c.reportAt(n, fmt.Sprintf("%s is %s", what, described(n)), nameRule(fleet.MaxName))
	return ""
}

// agentName reads the name of an agent. Dots in it name the fleet that the agent
// is part of: ops.auditor.
func (c *checker) agentName(n *yaml.Node) string {
	name := c.text(n, "the agent's name")
	if n.Shape == yaml.List || n.Shape == yaml.Map || fleet.IsAgentName(name) {
		return name
	}
	c.reportAt(n, "the agent's name is "+described(n), nameRule(fleet.MaxAgentName))
	return ""
}

func nameRule(most int) string {
	const rule = "a name has letters, digits, - and _, begins with a letter or a digit, and is at most %d long"
	if most == fleet.MaxName {
		return fmt.Sprintf(rule, most)
	}
	return fmt.Sprintf(rule+"; one of a fleet inside of the fleet has dots: ops.auditor", most)
}

// variable reads the name of an environment variable.
func (c *checker) variable(n *yaml.Node, what string) string {
	if n.Shape == yaml.Text && isVariable(n.Text) && len(redact.Find(n.Text)) == 0 {
		return n.Text
	}
	c.hide(n.Line) // what is there instead may be the secret
	c.reportAt(n, what+" is not the name of an environment variable", "name the variable that has the secret, like TIDEMARK_HOOK_SECRET, not the secret")
	return ""
}

func isVariable(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	return s != "" && len(s) <= 128 && strings.Trim(s, letters+"0123456789") == "" && strings.IndexByte(letters, s[0]) >= 0
}

// command reads a program and its arguments.
func (c *checker) command(n *yaml.Node, what string) []string {
	switch {
	case n.Shape == yaml.Text && n.Text != "" && !strings.ContainsAny(n.Text, " \t\n"):
		return []string{n.Text}
	case n.Shape == yaml.Text && n.Text != "":
		c.reportAt(n, what+" is one text, and should be a list of the program and its arguments", commandHint(n.Text))
		return nil
	}
	var words []string
	c.list(n, what, `write it like ["make", "test"]`, func(item *yaml.Node) {
		words = append(words, c.text(item, "a word of "+what))
		if c.secret(item) {
			c.hide(item.Line)
			c.reportAt(item, "this looks like a secret, and secrets do not belong into this file", "pass it by an environment variable: everybody on the machine sees arguments")
		}
	})
	if n.Shape == yaml.List && (len(words) == 0 || words[0] == "") {
		c.reportAt(n, what+" names no program", `write it like ["make", "test"]`)
	}
	return words
}

// commandHint shows how a command is written as a list.
func commandHint(text string) string {
	if len(text) > 60 || strings.ContainsAny(text, "\"'\\|&;<>()$`*?\n") || len(redact.Find(text)) > 0 {
		return `for a command of the shell write ["sh", "-c", "…"]`
	}
	words := strings.Fields(text)
	for i, w := range words {
		words[i] = strconv.Quote(w)
	}
	return "write [" + strings.Join(words, ", ") + "]"
}

// link reads an http or https URL without a password in it.
func (c *checker) link(n *yaml.Node, what string) string {
	u, err := url.Parse(n.Text)
	switch {
	case n.Shape != yaml.Text || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		c.reportAt(n, what+" is not a URL", "write it like https://host/path")
		return ""
	case u.User != nil:
		c.hide(n.Line)
		c.reportAt(n, what+" has a name or a password in it", "secrets do not belong into this file")
		return ""
	}
	return n.Text
}

// listen reads an address to listen on.
func (c *checker) listen(n *yaml.Node, what string) string {
	host, port, err := net.SplitHostPort(n.Text)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if n.Shape != yaml.Text || err != nil || portErr != nil || number == 0 || strings.ContainsAny(host, " /") {
		c.reportAt(n, fmt.Sprintf("%s is %s, and should be an address and a port", what, described(n)), "write it like 127.0.0.1:7434")
		return ""
	}
	return n.Text
}

// folder reads a folder, and resolves it.
func (c *checker) folder(n *yaml.Node, what string) string {
	written := c.text(n, what)
	switch {
	case n.Shape != yaml.Text:
		return ""
	case written == "":
		c.reportAt(n, what+" is empty", "leave it out for the folder of this file")
		return ""
	case written[0] == '~' || strings.Contains(written, "$"):
		c.reportAt(n, fmt.Sprintf("%s is %s: ~ and variables are not replaced", what, described(n)), "write the whole path, or one relative to the folder of this file")
		return ""
	}
	dir, err := c.resolve(written)
	if err != nil {
		c.reportAt(n, fmt.Sprintf("%s: %v", what, err), "write the whole path, or one relative to the folder of this file")
	}
	return dir
}

func (c *checker) resolve(written string) (string, error) {
	if c.o.Dir == nil {
		return written, nil
	}
	return c.o.Dir(written)
}
