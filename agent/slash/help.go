package slash

import (
	"context"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/render"
)

// groups are the commands by what they are about, for a help that fits on one
// screen. A command that is in none is listed at the end.
var groups = []struct{ name, commands string }{
	{"talk", "/new /clear /retry /compact /context /cost /model /effort /init /mcp /skills /hooks /doc"},
	{"look", "/diff /review /unfold /history /status /tools /search"},
	{"go back", "/tree /branch /rewind /undo /label /checkpoint"},
	{"sessions", "/resume /fork /sessions /name /export"},
	{"allow", "/permissions /approvals"},
	{"remember", "/remember /memory /tasks /task"},
	{"helpers", "/workers /agents /spawn /view /send /stop"},
	{"repeat", "/start /loop /loop-target /loops /cancel /wake"},
	{"program", "/doctor /help /exit"},
}

// keys are what keys do at the prompt.
var keys = [][2]string{
	{"@FILE", "send a file with the message"},
	{"!COMMAND", "run it yourself"},
	{"#TEXT", "remember it"},
	{"Esc, Ctrl-C", "stop the turn"},
	{"Shift-Tab", "ask, accept edits, plan, auto"},
	{"Ctrl-O", "unfold the last call"},
	{"Up, Ctrl-R", "what you said before"},
	{"Ctrl-G", "your editor"},
	{"Ctrl-V", "paste an image"},
	{"Ctrl-D", "save and leave"},
}

// keys are those of a terminal: another place has its own, and says so itself.
func (c *Conversation) keys() [][2]string {
	if c.Elsewhere != nil {
		return nil
	}
	return keys
}

// help shows all commands on one screen, or what there is about a word.
func (c *Conversation) help(_ context.Context, word string) error {
	if word != "" {
		return c.helpAbout(word)
	}
	known := make(map[string]bool)
	var rest []string
	for _, k := range c.Commands() {
		known[k.Name] = true
	}
	for _, g := range groups {
		var names []string
		for _, name := range strings.Fields(g.commands) {
			if known[name] {
				names = append(names, name)
				delete(known, name)
			}
		}
		c.wrapped(g.name, names)
	}
	for _, k := range c.Commands() {
		if known[k.Name] {
			rest = append(rest, k.Name)
		}
	}
	if len(rest) > 0 {
		c.wrapped("more", rest)
	}
	var pairs []string
	for _, k := range c.keys() {
		pairs = append(pairs, k[0]+" "+k[1])
	}
	if len(pairs) > 0 {
		c.wrapped("keys", pairs)
	}
	c.print("/help WORD says more about a command, a key, or anything else.")
	return nil
}

// helpIndent is where the commands of a group begin.
const helpIndent = 10

// wrapped prints words after a heading, in as many rows as they need.
func (c *Conversation) wrapped(heading string, words []string) {
	row, begun := heading+strings.Repeat(" ", max(helpIndent-len(heading), 1)), false
	for _, w := range words {
		if begun && len(row)+2+len(w) > c.columns()-1 {
			c.print("%s", row)
			row, begun = strings.Repeat(" ", helpIndent), false
		}
		if begun {
			row += "  "
		}
		parts := render.Wrap(w, max(c.columns()-1-helpIndent, helpIndent))
		for _, part := range parts[:len(parts)-1] {
			c.print("%s", row+part)
			row = strings.Repeat(" ", helpIndent)
		}
		row, begun = row+parts[len(parts)-1], true
	}
	c.print("%s", row)
}

// helpAbout lists commands and keys that have a word in their name or help.
func (c *Conversation) helpAbout(word string) error {
	word = strings.ToLower(word)
	found := false
	has := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(strings.ToLower(s), word) })
	}
	for _, k := range c.Commands() {
		if has(k.Name, k.Help) {
			found = true
			c.print("  %-32s %s", k.Name+" "+k.Args, k.Help)
		}
	}
	for _, k := range c.keys() {
		if has(k[0], k[1]) {
			found = true
			c.print("  %-32s %s", k[0], k[1])
		}
	}
	if !found {
		return hint.With(tidemark.NotFoundf("nothing in the help about %q", word), "see all of it with /help")
	}
	return nil
}
