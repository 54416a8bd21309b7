// Package usercommand reads the slash commands that a person or a project wrote
// as Markdown files: a command is a message that the person sends by its name.
// The files are those that Claude Code reads, too.
//
// A project's files are written by anybody. So a command is text that the
// person sends, and nothing more: what its head says about tools that are
// allowed is not heeded, and shell lines in it are not run; the model sees them
// and asks for what it runs. Nothing is written.
//
//	for _, c := range usercommand.Read(usercommand.Options{Project: dir}) { … }
package usercommand

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/text"
)

// Folders are where a project has its commands. The first file of a name
// counts.
var Folders = []string{".tidemark/commands", ".claude/commands"}

const (
	maxFile  = 64 << 10
	maxFiles = 256
	maxDepth = 3 // folders below the one with the commands
	maxHelp  = 200
)

// Command is a message with a name.
type Command struct {
	Name string // without the slash; a file in a folder is FOLDER:FILE
	Help string // what it does, in one line
	Args string // what may follow the name, in one line
	File string // relative to the project, or absolute for the person's own
	text string
}

// Options say where to look. An empty path is not looked at.
type Options struct {
	Project string // the root of the project
	Own     string // the person's folder with commands, for all projects
}

// Read returns all commands, by name; the person's own count more than those of
// the project. What cannot be read is left out.
func Read(o Options) []Command {
	var all []Command
	add := func(c Command) {
		if len(all) < maxFiles && !slices.ContainsFunc(all, func(o Command) bool { return o.Name == c.Name }) {
			all = append(all, c)
		}
	}
	if o.Own != "" {
		in(o.Own, ".", func(c Command) {
			c.File = filepath.Join(o.Own, filepath.FromSlash(c.File))
			add(c)
		})
	}
	if o.Project != "" {
		for _, folder := range Folders {
			in(o.Project, folder, add)
		}
	}
	slices.SortFunc(all, func(a, b Command) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// name is what a file or folder may be called to be part of a command.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// in calls add with the commands in a folder of a tree that nothing leads out
// of.
func in(root, folder string, add func(Command)) {
	w, err := durable.OpenWorkspace(root)
	if err != nil {
		return
	}
	defer w.Close()
	files, seen := w.ReadOnly(), 0
	err = fs.WalkDir(files, folder, func(at string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(strings.TrimPrefix(at, folder), "/")
		switch {
		case err != nil && at == folder:
			return fs.SkipAll
		case err != nil || at == folder:
			return nil
		case seen == maxFiles:
			return fs.SkipAll
		case d.IsDir() && (strings.Count(rel, "/") >= maxDepth || !name.MatchString(path.Base(at))):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		base, isMarkdown := strings.CutSuffix(rel, ".md")
		if !isMarkdown || !name.MatchString(path.Base(base)) {
			return nil
		}
		seen++
		content, err := read(files, at)
		if err != nil {
			return nil
		}
		c := Parse(content)
		c.Name, c.File = strings.ReplaceAll(base, "/", ":"), at
		if strings.TrimSpace(c.text) != "" {
			add(c)
		}
		return nil
	})
	if err != nil {
		return // WalkDir returns what the function returns, which is nothing else
	}
}

func read(files fs.FS, at string) (string, error) {
	info, err := fs.Stat(files, at)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return "", errors.Join(err, fs.ErrInvalid)
	}
	f, err := files.Open(at)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err == nil && strings.ContainsRune(string(b), 0) {
		err = fs.ErrInvalid
	}
	return strings.ToValidUTF8(strings.TrimPrefix(string(b), "\uFEFF"), "\uFFFD"), err
}

// Parse reads the content of a file: a head between lines of ---, of which
// description and argument-hint count, and the message.
func Parse(content string) Command {
	var c Command
	c.text = strings.ReplaceAll(content, "\r\n", "\n")
	if rest, ok := strings.CutPrefix(c.text, "---\n"); ok {
		if head, body, ok := strings.Cut("\n"+rest, "\n---\n"); ok {
			c.text = body
			for line := range strings.Lines(head) {
				key, value, _ := strings.Cut(line, ":")
				value = strings.Trim(strings.TrimSpace(value), `"'`)
				switch strings.TrimSpace(key) {
				case "description":
					c.Help = text.ShortLine(value, maxHelp)
				case "argument-hint":
					c.Args = text.ShortLine(value, maxHelp)
				}
			}
		}
	}
	if c.text = strings.TrimSpace(c.text); c.Help == "" {
		first, _, _ := strings.Cut(c.text, "\n")
		c.Help = text.ShortLine(strings.TrimLeft(first, "# "), maxHelp)
	}
	return c
}

// argument is a place in a message that arguments go to.
var argument = regexp.MustCompile(`\$(ARGUMENTS|[1-9])\b`)

// Message is what the person says with the command. Arguments go where the text
// has $ARGUMENTS or $1 to $9, or else to its end.
func (c Command) Message(args string) string {
	args = strings.TrimSpace(args)
	words := strings.Fields(args)
	if !argument.MatchString(c.text) {
		return strings.TrimSpace(c.text + "\n\n" + args)
	}
	return argument.ReplaceAllStringFunc(c.text, func(ref string) string {
		if ref == "$ARGUMENTS" {
			return args
		}
		if n := int(ref[1] - '1'); n < len(words) {
			return words[n]
		}
		return ""
	})
}
