package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/tool"
)

// projectFiles are the files of a project that define hooks. All of them count.
var projectFiles = []string{".tidemark/hooks.json", ".claude/settings.json", ".claude/settings.local.json"}

// claudeFile is the person's file in their folder for Claude Code.
const claudeFile = "settings.json"

// OwnFile is the name of the person's file in their folder.
const OwnFile = "hooks.json"

const (
	maxFile  = 1 << 20
	maxHooks = 64 // in one file
	// defaultTimeout and maxTimeout bound how long a hook takes.
	defaultTimeout = 60 * time.Second
	maxTimeout     = 10 * time.Minute
)

// Definition is one hook as a file defines it.
type Definition struct {
	Event   chat.HookEvent
	Matcher string // of tools; "" is all
	Command string
	Timeout time.Duration
	// Unheld means that it runs with all that the person may do. It counts in the
	// person's own file only.
	Unheld bool

	matches func(tool string) bool
}

// definitions is a file with hooks.
type definitions struct {
	file string // relative to the project, or absolute for a file of the person
	own  bool   // the person wrote it for this program
	home string // the person's folder that it is in; "" for a file of the project
	all  []Definition
	raw  json.RawMessage // what defines them
	deny []denial
}

// read returns the files that define hooks or deny calls, and what is wrong with
// them.
func (o Options) read() (found []definitions, problems []string) {
	add := func(name string, b []byte, d definitions, err error) {
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		d.file = name
		own := d.own
		var wrong []string
		if err == nil {
			d.all, d.raw, wrong, err = Parse(b)
		}
		if err == nil {
			var unheeded []string
			d.deny, unheeded = parseDenials(b, d.home)
			wrong = append(wrong, unheeded...)
		}
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		for _, w := range wrong {
			problems = append(problems, name+": "+w)
		}
		for i := range d.all {
			d.all[i].Unheld = d.all[i].Unheld && own
		}
		if len(d.all)+len(d.deny) > 0 {
			found = append(found, d)
		}
	}
	if o.Own != "" {
		b, err := project.ReadOwn(o.Own, maxFile)
		add(o.Own, b, definitions{own: true, home: filepath.Dir(o.Own)}, err)
	}
	if o.Claude != "" {
		name := filepath.Join(o.Claude, claudeFile)
		b, err := project.ReadOwn(name, maxFile)
		add(name, b, definitions{home: o.Claude}, err)
	}
	if o.IsProject {
		for _, name := range projectFiles {
			b, err := project.ReadFile(o.Project, name, maxFile)
			add(name, b, definitions{}, err)
		}
	}
	return found, problems
}

// Parse reads the hooks of a file, in the form that Claude Code has: its part
// "hooks", which is also returned as it is written. What is not run here is
// named in left; a file that cannot be read is an error.
func Parse(b []byte) (all []Definition, raw json.RawMessage, left []string, err error) {
	var content struct {
		Hooks json.RawMessage `json:"hooks"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(b, []byte("\uFEFF")), &content); err != nil {
		return nil, nil, nil, err
	}
	if len(content.Hooks) == 0 {
		return nil, nil, nil, nil
	}
	var events map[string]json.RawMessage
	if err := json.Unmarshal(content.Hooks, &events); err != nil {
		return nil, nil, nil, fmt.Errorf(`hooks: want {"EVENT": [{"matcher": "TOOL", "hooks": [{"type": "command", "command": "…"}]}]}: %w`, err)
	}
	for _, name := range slices.Sorted(maps.Keys(events)) {
		event := chat.HookEvent(name)
		if !slices.Contains(chat.HookEvents, event) {
			left = append(left, fmt.Sprintf("hooks at %.40q are not run here", name))
			continue
		}
		some, wrong := parseEvent(event, events[name])
		all, left = append(all, some...), append(left, wrong...)
	}
	if len(all) > maxHooks {
		return nil, nil, nil, fmt.Errorf("%d hooks, at most %d are allowed", len(all), maxHooks)
	}
	return all, content.Hooks, left, nil
}

// parseEvent reads the hooks of one event.
func parseEvent(event chat.HookEvent, raw json.RawMessage) (all []Definition, left []string) {
	var groups []struct {
		Matcher string `json:"matcher"`
		Hooks   []struct {
			Type    string  `json:"type"`
			Command string  `json:"command"`
			Timeout float64 `json:"timeout"` // in seconds
			Sandbox struct {
				Off bool `json:"off"`
			} `json:"sandbox"`
		} `json:"hooks"`
	}
	wrong := func(format string, args ...any) {
		left = append(left, fmt.Sprintf("a hook at %s is not run: ", event)+fmt.Sprintf(format, args...))
	}
	if err := json.Unmarshal(raw, &groups); err != nil {
		wrong("%s", err)
		return nil, left
	}
	for _, g := range groups {
		matches, err := matcher(g.Matcher)
		if err != nil {
			wrong("matcher %.80q: %s", g.Matcher, err)
			continue
		}
		for _, h := range g.Hooks {
			switch {
			case h.Type != "command" && h.Type != "":
				wrong("its type is %.40q; only command is", h.Type)
				continue
			case strings.TrimSpace(h.Command) == "" || strings.ContainsRune(h.Command, 0):
				wrong("it has no command, or one with a NUL in it")
				continue
			}
			d := Definition{Event: event, Matcher: g.Matcher, Command: h.Command, Timeout: defaultTimeout, Unheld: h.Sandbox.Off, matches: matches}
			if h.Timeout > 0 {
				d.Timeout = max(time.Duration(min(h.Timeout, maxTimeout.Seconds())*float64(time.Second)), time.Millisecond)
			}
			all = append(all, d)
		}
	}
	return all, left
}

// simple is a matcher that names tools, and is no expression.
var simple = expression.WhenNeeded(`^[A-Za-z0-9_|]+$`)

// matcher returns which tools a matcher is for: "" and * for all, names with |
// between them, or a regular expression that a part of the name matches.
func matcher(text string) (func(string) bool, error) {
	if text == "" || text == "*" {
		return func(string) bool { return true }, nil
	}
	one := func(name string) bool { return slices.Contains(strings.Split(text, "|"), name) }
	if !simple().MatchString(text) {
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, err
		}
		one = re.MatchString
	}
	return func(named string) bool { return slices.ContainsFunc(tool.Names(named), one) }, nil
}

// variables are those of a command that name the project.
func variables(root string) map[string]string { return map[string]string{"CLAUDE_PROJECT_DIR": root} }

// words are the names of files that the commands of hooks may have.
func (d definitions) words(root string) (words []string) {
	named := variables(root)
	if d.home != "" {
		named["HOME"] = filepath.Dir(d.home)
	}
	for _, h := range d.all {
		for _, w := range chat.ShellWords(h.Command, named) {
			if rest, ok := strings.CutPrefix(w, "~/"); ok && d.home != "" {
				w = filepath.Join(filepath.Dir(d.home), rest)
			}
			words = append(words, w)
		}
	}
	return words
}

// scripts are the files in the person's folder that hooks name, by their paths,
// with their hashes.
func (d definitions) scripts(root string) map[string]string {
	all := make(map[string]string)
	if d.home == "" || d.own {
		return all
	}
	var absolute []string
	for _, w := range d.words(root) {
		if filepath.IsAbs(w) {
			absolute = append(absolute, w)
		}
	}
	for name, sum := range chat.PartsOf(d.home, absolute) {
		all[filepath.Join(d.home, filepath.FromSlash(name))] = sum
	}
	return all
}

// request is what a person has to approve before a file's hooks run: all of them,
// and the files of the project, or of the folder that it is in, that they name.
// What they wrote for another program is no exception: nobody meant it to run
// here.
func (d definitions) request(root string) chat.StartRequest {
	parts := chat.PartsOf(root, d.words(root))
	maps.Copy(parts, d.scripts(root))
	return chat.StartRequest{Name: "hooks", File: d.file, Own: d.own, Says: d.raw, Parts: parts}
}
