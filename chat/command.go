package chat

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store/rewind"
	"github.com/tidemark-sessions/tidemark/tool"
)

// RunCommand runs a command that the person typed, in the shell of the session
// and in its sandbox. That it begins is kept before it does, and its output
// afterwards, as messages that the model reads with the next one. Nobody is
// asked: the person gave the command.
//
// A command that fails is no error. Where there is no shell it is ErrUnsupported.
func (c *Chat) RunCommand(ctx context.Context, command string) error {
	t := c.main
	t.turning.Lock()
	defer t.turning.Unlock()
	bash := t.find("bash")
	if bash == nil {
		return tidemark.Errorf(tidemark.ErrUnsupported, "there is no shell here")
	}
	c.refresh()
	c.extend()
	c.nameAfter("! " + command)
	keeping := context.WithoutCancel(ctx)
	if err := t.ready(keeping); err != nil {
		return err
	}
	if err := t.keepMessage(keeping, rewind.Typed(command)); err != nil {
		return err
	}
	r, err := c.runShell(ctx, *bash, command)
	if lost(err) {
		return err
	}
	output := asData(tidemark.Block{Text: bound(r.Text, c.limits().OutputBytes)}).Text
	if _, err := t.append(keeping, rewind.PutOut(output, r.IsError)); err != nil {
		return err
	}
	return c.save(keeping)
}

// Peek runs a command as RunCommand does, and keeps nothing: what it puts out is
// for the person alone.
func (c *Chat) Peek(ctx context.Context, command string) (string, error) {
	c.main.turning.Lock()
	defer c.main.turning.Unlock()
	bash := c.main.find("bash")
	if bash == nil {
		return "", tidemark.Errorf(tidemark.ErrUnsupported, "there is no shell here")
	}
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return "", err
	}
	r, err := bash.Run(tool.WithSeen(ctx, tool.Seen{Scope: bash.Scope(input)}), input)
	return r.Text, err
}

// RunLines runs commands that a file names, one after the other, as RunCommand
// does, and returns what each put out, marked as data. What the project's
// authors wrote runs when MayStart allows it, and in the sandbox only: where that
// cannot be had it is ErrDenied. Nothing is kept.
func (c *Chat) RunLines(ctx context.Context, r StartRequest, commands []string) ([]string, error) {
	if bash := c.main.find("bash"); bash != nil && bash.EachTime != nil && !r.Own {
		if why := bash.EachTime(nil); why != "" {
			return nil, tidemark.Deniedf("%s of %s: not run: %s", r.Name, r.File, why)
		}
	}
	if err := c.MayStart(ctx, r); err != nil {
		return nil, err
	}
	var outputs []string
	for _, command := range commands {
		out, err := c.Peek(ctx, command)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, asData(tidemark.Block{Text: bound(out, c.limits().OutputBytes)}).Text)
	}
	return outputs, nil
}

// runShell runs a command of the person, and shows it as a call.
func (c *Chat) runShell(ctx context.Context, bash tool.Tool, command string) (tool.Result, error) {
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return tool.Result{}, err
	}
	const id = "typed"
	scope := bash.Scope(input)
	c.emit(Event{Call: &Call{ID: id, Tool: bash.Name, Scope: scope, Input: input}})
	r, err := bash.Run(tool.WithSeen(ctx, tool.Seen{Scope: scope}), input)
	if err != nil {
		r.IsError = true
		why := "interrupted: " + err.Error()
		if ctx.Err() != nil {
			why = "interrupted"
		}
		r.Text = strings.TrimSpace(r.Text + "\n" + why)
	}
	c.emit(Event{Result: &tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: id, Text: r.Text, IsError: r.IsError}})
	c.emit(Event{Ended: &Turn{}})
	return r, err
}
