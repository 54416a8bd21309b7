package hook

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/tool"
)

// maxDenials bounds how many rules of a file count.
const maxDenials = 256

// denial is one rule of permissions.deny, in the form that Claude Code has: TOOL,
// or TOOL(WHAT). It only narrows, so a repository may have it unasked. It guards
// against mistakes: what a command does in the end is up to the sandbox.
type denial struct {
	rule    string
	meant   func(name string) bool
	matches func(m chat.Moment, project string) bool
}

// parseDenials reads permissions.deny of a file. home is the folder that the file
// is in, "" for one of the project. unheeded names the rules that mean nothing
// here: whoever relies on one has to know.
func parseDenials(b []byte, home string) (all []denial, unheeded []string) {
	var content struct {
		Permissions struct {
			Deny []string `json:"deny"`
		} `json:"permissions"`
	}
	if err := json.Unmarshal(b, &content); err != nil {
		return nil, []string{"permissions are not heeded: " + err.Error()}
	}
	rules := content.Permissions.Deny
	if len(rules) > maxDenials {
		unheeded = append(unheeded, fmt.Sprintf("permissions.deny: only the first %d of %d rules are heeded", maxDenials, len(rules)))
		rules = rules[:maxDenials]
	}
	for _, rule := range rules {
		if d, ok := parseDenial(rule, home); ok {
			all = append(all, d)
		} else {
			unheeded = append(unheeded, fmt.Sprintf("permissions.deny: %.80q is not heeded here", rule))
		}
	}
	return all, unheeded
}

// readers and writers are the tools that a rule about reading or changing files
// is about, shells those that run any program.
var (
	readers = []string{"read", "grep", "glob", "ls"}
	writers = []string{"write", "edit"}
	shells  = []string{"bash", "python"}
)

func parseDenial(rule, home string) (denial, bool) {
	d := denial{rule: rule, matches: func(chat.Moment, string) bool { return true }}
	named, what, narrowed := strings.Cut(strings.TrimSpace(rule), "(")
	one := tool.Known(named)
	among := func(names []string) func(string) bool {
		return func(name string) bool { return slices.Contains(names, name) }
	}
	d.meant = func(name string) bool { return name == one }
	if named == "" || narrowed && !strings.HasSuffix(what, ")") {
		return d, false
	}
	what = strings.TrimSuffix(what, ")")
	if !narrowed || what == "" || what == "*" {
		switch {
		case strings.HasPrefix(named, "mcp__"):
			server := strings.TrimSuffix(named, "__*")
			d.meant = func(name string) bool { return name == server || strings.HasPrefix(name, server+"__") }
		case one == "bash":
			d.meant = among(shells)
		}
		return d, true
	}
	switch {
	case one == "bash":
		d.matches = func(m chat.Moment, _ string) bool { return deniesCommand(what, argument(m, "command")) }
	case one == "fetch":
		host, ok := strings.CutPrefix(what, "domain:")
		d.matches = func(m chat.Moment, _ string) bool { return isAt(argument(m, "url"), host) }
		return d, ok
	case slices.Contains(readers, one), slices.Contains(writers, one):
		if d.meant = among(writers); slices.Contains(readers, one) {
			d.meant = among(readers)
		}
		if _, err := tool.Glob(strings.TrimLeft(strings.TrimPrefix(what, "~"), "/")); err != nil {
			return d, false
		}
		d.matches = func(m chat.Moment, project string) bool { return deniesPath(what, argument(m, "path"), project, home) }
	default:
		return d, false
	}
	return d, true
}

// denies returns the rule of a file that is against a call, "" if none is.
func (d definitions) denies(m chat.Moment, project string) string {
	if m.Event != chat.HookBefore {
		return ""
	}
	for _, r := range d.deny {
		if r.meant(m.Tool) && r.matches(m, project) {
			return r.rule
		}
	}
	return ""
}

// argument is one of the texts in the input of a call.
func argument(m chat.Moment, name string) (text string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(m.Input, &fields) != nil || json.Unmarshal(fields[name], &text) != nil {
		return ""
	}
	return text
}

// deniesCommand reports whether a rule is against a command or one that it is
// made of: git push:* is everything that begins so, * stands for anything.
func deniesCommand(what, command string) bool {
	begins, isPrefix := strings.CutSuffix(what, ":*")
	parts := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(";|&\n(){}`", r) })
	for _, part := range append(parts, command) {
		part = strings.Join(strings.Fields(strings.TrimLeft(part, "$ \t")), " ")
		switch {
		case isPrefix && (part == begins || strings.HasPrefix(part, begins+" ")):
			return true
		case !isPrefix && wild(what, part):
			return true
		}
	}
	return false
}

// wild reports whether a text is what a pattern says, in which * stands for
// anything.
func wild(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, p)
		if at < 0 {
			return false
		}
		rest = rest[at+len(p):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// isAt reports whether an address is at a host or below it.
func isAt(address, host string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	name := strings.ToLower(u.Hostname())
	host = strings.ToLower(strings.TrimPrefix(host, "*."))
	return name == host || strings.HasSuffix(name, "."+host)
}

// deniesPath reports whether a rule is against a path, or against what it leads
// to. //x is from the root, ~/x from home, /x from the folder of the file that
// has the rule, anything else from the project; a folder means all that is in it.
func deniesPath(what, path, project, home string) bool {
	base := project
	switch {
	case strings.HasPrefix(what, "//"):
		base, what = "/", strings.TrimLeft(what, "/")
	case strings.HasPrefix(what, "~/"):
		if base = filepath.Dir(home); home == "" {
			return false
		}
		what = strings.TrimPrefix(what, "~/")
	case strings.HasPrefix(what, "/"):
		if home != "" {
			base = home
		}
		what = strings.TrimLeft(what, "/")
	}
	what = strings.TrimSuffix(what, "/")
	if !filepath.IsAbs(path) {
		path = filepath.Join(project, path)
	}
	paths := []string{filepath.Clean(path)}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		paths = append(paths, real)
	}
	bases := []string{base}
	if real, err := filepath.EvalSymlinks(base); err == nil && real != base {
		bases = append(bases, real)
	}
	for _, base := range bases {
		for _, p := range paths {
			rel, err := filepath.Rel(base, p)
			if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
				continue
			}
			if below(what, filepath.ToSlash(rel)) {
				return true
			}
		}
	}
	return false
}

// below reports whether a pattern matches a path or a folder that it is in.
func below(pattern, path string) bool {
	re, err := tool.Glob(pattern)
	if err != nil {
		return false
	}
	for {
		if re.MatchString(path) {
			return true
		}
		cut := strings.LastIndexByte(path, '/')
		if cut < 0 {
			return false
		}
		path = path[:cut]
	}
}
