package extension

import (
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/text"
)

// commandFolders are where a project has its commands. The first file of a name
// counts.
var commandFolders = []string{".tidemark/commands", ".claude/commands"}

const (
	maxHelp  = 200
	maxLines = 16 // shell lines of a command that are run
)

// Command is a message with a name.
type Command struct {
	Name string // without the slash; a file in a folder is FOLDER:FILE
	Help string // what it does, in one line
	Args string // what may follow the name, in one line
	File string // relative to the project, or absolute for the person's own
	Own  bool   // the person wrote it, and not the project's authors
	// Foreign means that the person wrote it for another tool: its shell lines were
	// not meant to run here.
	Foreign bool
	Text    string // the message, with places for arguments and shell lines
}

// Commands returns all commands, by name; the person's own count more than those
// of the project. What cannot be read is left out.
func Commands(o Options) []Command {
	return find(o, "commands", commandFolders, isMarkdown, func(f file) (c Command, name string) {
		base := strings.TrimSuffix(f.rel, ".md")
		if !nameOf().MatchString(path.Base(base)) {
			return c, ""
		}
		if c = ParseCommand(f.read()); c.Text == "" {
			return c, ""
		}
		c.Name, c.File, c.Own, c.Foreign = strings.ReplaceAll(base, "/", ":"), f.shown, f.own, f.foreign
		return c, c.Name
	})
}

// ParseCommand reads the content of a file: a head, of which description and
// argument-hint count, and the message.
func ParseCommand(content string) Command {
	head, body := split(content)
	c := Command{Text: body, Help: text.ShortLine(head["description"], maxHelp), Args: text.ShortLine(head["argument-hint"], maxHelp)}
	if c.Help == "" {
		first, _, _ := strings.Cut(body, "\n")
		c.Help = text.ShortLine(strings.TrimLeft(first, "# "), maxHelp)
	}
	return c
}

// place is where something is put into a message: what a shell line puts out, or
// arguments.
var place = expression.WhenNeeded("!`[^`\n]+`|\\$(?:ARGUMENTS|[1-9])\\b")

// ShellLines returns the commands in the text, written as !`COMMAND`, in their
// order. They are not run here.
func (c Command) ShellLines() (lines []string) {
	for _, p := range place().FindAllString(c.Text, -1) {
		if p[0] == '!' && len(lines) < maxLines {
			lines = append(lines, p[2:len(p)-1])
		}
	}
	return lines
}

// Script is a shell line with its arguments, for bash: they are variables of
// the line, and never a part of what is run.
func Script(line, args string) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	script := "(ARGUMENTS=" + quote(strings.TrimSpace(args)) + "; set --"
	for _, word := range strings.Fields(args) {
		script += " " + quote(word)
	}
	return script + "\n" + line + "\n)"
}

// Message is what the person says with the command. Arguments go where the text
// has $ARGUMENTS or $1 to $9, or else to its end; outputs are those of
// ShellLines, and a line without one stays as it is.
func (c Command) Message(args string, outputs ...string) string {
	args = strings.TrimSpace(args)
	words, taken := strings.Fields(args), false
	message := place().ReplaceAllStringFunc(c.Text, func(ref string) string {
		switch {
		case ref[0] == '!' && len(outputs) > 0:
			ref, outputs = outputs[0], outputs[1:]
			return ref
		case ref[0] == '!':
			return ref
		}
		taken = true
		if ref == "$ARGUMENTS" {
			return args
		}
		if n := int(ref[1] - '1'); n < len(words) {
			return words[n]
		}
		return ""
	})
	if !taken {
		message += "\n\n" + args
	}
	return strings.TrimSpace(message)
}
