package chat

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/tool"
)

// ToolSource has tools that become known while a conversation runs, such as
// those of servers that have to be started first. Its methods may be called
// concurrently.
type ToolSource interface {
	// Ready is called before each turn of the conversation itself, with the
	// tools that the model was offered so far. It may wait a while for new ones,
	// and report to people.
	Ready(ctx context.Context, c *Chat, offered []model.Tool)
	// Tools returns the tools that are known now, always in the same order.
	Tools() []tool.Tool
	// Close ends what was started.
	Close() error
}

// Source returns Options.More.
func (c *Chat) Source() ToolSource { return c.o.More }

// StartRequest is something that a file of the project would start: the person
// decides about it, for exactly this content and this project.
type StartRequest struct {
	Name string // what it is, in a few words
	File string // the file of the project that says so
	// Says is all of it, as JSON or text, for the person to read. Two requests
	// are the same when Says is, and Parts are.
	Says json.RawMessage
	// Parts are the hashes of the project's files that it names, by their paths.
	Parts map[string]string
	// Remote means that it leads to another machine.
	Remote bool
	// Own means that the person wrote the file: nothing is asked.
	Own bool
}

// maxPart bounds a file of the project whose content belongs to what is
// approved. About a longer one somebody is
// asked each time.
const maxPart = 256 << 20

// PartsOf returns the hashes of those files of a project that words name, by
// their paths in it: StartRequest.Parts.
func PartsOf(root string, words []string) map[string]string {
	parts := make(map[string]string)
	for _, word := range words {
		name := word
		if filepath.IsAbs(word) {
			rel, err := filepath.Rel(root, word)
			if err != nil {
				continue
			}
			name = rel
		}
		if name = filepath.ToSlash(filepath.Clean(name)); word == "" || !fs.ValidPath(name) {
			continue
		}
		sum, err := project.Sum(root, name, maxPart)
		switch {
		case err == nil:
			parts[name] = sum
		case errors.Is(err, project.ErrLong):
			// What cannot be told apart is approved for no second time.
			parts[name] = fmt.Sprintf("longer than %d bytes, now %s", maxPart, rand.Text())
		}
	}
	return parts
}

// ShellWords returns what in a command may be the name of a file, for PartsOf:
// rather too many than too few. The variables stand for values.
func ShellWords(command string, variables map[string]string) []string {
	for name, value := range variables {
		command = strings.NewReplacer("${"+name+"}", value, "$"+name, value).Replace(command)
	}
	between := func(signs string) func(rune) bool {
		return func(r rune) bool { return strings.ContainsRune(signs, r) }
	}
	const blank, control, quotes = " \t\n\r", ";|&()<>{}=,`$", "\"'"
	words := strings.FieldsFunc(strings.NewReplacer(`"`, "", "'", "").Replace(command), between(blank+control))
	return append(words, strings.FieldsFunc(command, between(quotes))...) // names with blanks
}

// thing is what is granted.
func (r StartRequest) thing() grant.Thing {
	return grant.Of(grant.Program, map[string]any{"name": r.Name, "file": r.File, "says": r.Says, "parts": r.Parts})
}

// Granted reports whether the person let the request start in a project, and
// whether they were asked at all.
func (r StartRequest) Granted(s *grant.Scope) (yes, answered bool) {
	said, err := s.Of("")
	if err != nil {
		return false, false
	}
	yes, answered = said[r.thing()]
	return yes, answered
}

// lines are what the person decides by.
func (r StartRequest) lines() []render.ApprovalLine {
	lines := render.ApprovalLines(r.File+" starts "+r.Name+":", r.Says, nil)
	for _, name := range slices.Sorted(maps.Keys(r.Parts)) {
		lines = append(lines, render.ApprovalLine{Kind: render.MarkerLine, Text: fmt.Sprintf("with %s as it is now (sha256 %.12s)", render.CleanLine(name), r.Parts[name])})
	}
	return lines
}

// MayStart reports whether something that a file of the project names may be
// started here. A person is asked once: "always" holds for this project as
// long as nothing of it changes, "once" for this conversation, and a denial is
// remembered like "always". Where nobody can be asked it is denied.
//
// ErrDenied says why not; another error means that there was no answer.
func (c *Chat) MayStart(ctx context.Context, r StartRequest) error {
	denied := func(why string) error { return tidemark.Deniedf("%s of %s is not started: %s", r.Name, r.File, why) }
	if r.Remote && !c.mayReachOut() {
		return tidemark.Errorf(tidemark.ErrLocalOnly, "%s of %s is on another machine, and this session is local-only; the user can allow it with --remote", r.Name, r.File)
	}
	if r.Own {
		return nil
	}
	select {
	case c.asking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.asking }()
	thing := r.thing()
	yes, answered := r.Granted(c.o.Grants)
	if !answered {
		yes, answered = c.started[thing]
	}
	switch {
	case yes:
		return nil
	case answered:
		return denied("you declined it")
	case c.o.Unattended:
		return denied("it was not approved in this project, and nobody is there to ask")
	}
	d, err := c.o.Approve(ctx, ApprovalRequest{Call: Call{Tool: "start", Input: r.Says}, Effect: tool.Runs, Lines: r.lines(), Whole: true})
	if err != nil {
		return err
	}
	yes = d == Once || d == Always
	if d != Always || c.o.Grants == nil {
		c.started[thing] = yes
	}
	switch {
	case d == Always:
		err = c.o.Grants.AddProgram(context.WithoutCancel(ctx), thing, r.label())
	case !yes:
		err = c.o.Grants.DeclineProgram(context.WithoutCancel(ctx), thing, r.label())
	}
	if err == nil && !yes {
		err = denied("you declined it")
	}
	return err
}

// label is what the list of grants says.
func (r StartRequest) label() string { return render.CleanLine(r.File + " may start " + r.Name) }

// mayReachOut reports whether the session may contact other machines.
func (c *Chat) mayReachOut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.Mode != tidemark.ModeLocal || c.o.Allow
}

// Notify reports something to people, in one line, for a ToolSource.
func (c *Chat) Notify(text string) { c.notice(render.CleanLine(text)) }
