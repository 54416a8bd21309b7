package acp

import (
	"context"
	"io"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
)

// Agent is the agent of tidemark chat, for an editor.
type Agent struct {
	Setup *agent.Setup
	// Options are those of every conversation in a folder of the editor.
	Options func(folder string) agent.Options
	// Holder is this process as the holder of sessions; editor is the editor's
	// name for itself, "" if unknown.
	Holder func(editor string) tidemark.Holder
	// Encrypted means that the store is encrypted.
	Encrypted bool
	// People means that output is for people at a terminal.
	People bool
	// Note receives what was learned in a conversation that ended; it may be
	// nil.
	Note func(format string, args ...any)
}

// maxEditorName bounds the shown name of an editor.
const maxEditorName = 40

// With returns options for serving the agent to an editor. ctx is that of Serve;
// what is learned at the end of a conversation is kept even after ctx ended.
func (o Options) With(ctx context.Context, a Agent) Options {
	o.Models, o.Commands = a.Setup.Models(), func(c *chat.Chat, folder string) []Command { return a.commands(o, c, folder) }
	o.Chat = func(ctx context.Context, to Opening) (chat.Options, error) {
		all := a.Options(to.Folder)
		all.Session = to.Session
		all.Holder = a.Holder(render.Truncate(render.CleanLine(to.Client), maxEditorName))
		set, err := a.Setup.Assemble(ctx, all)
		if set.Fence.Says != "" && o.Log != nil {
			o.Log("%s", set.Fence.Says)
		}
		return set.Chat, err
	}
	o.Model = func(c *chat.Chat, name string) (agent.Model, error) {
		provider, _ := c.ModelName()
		return a.Setup.Another(provider, a.Options("").Choice.AddressFor(provider), name)
	}
	o.Left = func(c *chat.Chat) {
		if !c.Exists() || a.Setup.Chat.Learn == agent.LearnOff {
			return
		}
		note := a.Note
		if note == nil {
			note = func(string, ...any) {}
		}
		agent.Learn(context.WithoutCancel(ctx), c, agent.Learning{Note: note})
	}
	return o
}

// commands are the slash commands for an editor: those of every conversation, and
// those that are files of the person and the project, or prompts of MCP servers.
func (a Agent) commands(o Options, c *chat.Chat, folder string) (all []Command) {
	known := slash.Commands()
	if c != nil {
		known = (&slash.Conversation{Chat: c, Setup: a.Setup, Options: a.Options(folder)}).Commands()
	}
	for _, k := range known {
		if k.NeedsFront {
			continue
		}
		all = append(all, Command{Name: strings.TrimPrefix(k.Name, "/"), Input: k.Args, Help: k.Help,
			Run: func(ctx context.Context, c *chat.Chat, folder, input string, out io.Writer) error {
				talk := &slash.Conversation{Chat: c, Store: o.Store, Setup: a.Setup, Options: a.Options(folder), Encrypted: a.Encrypted, People: a.People, Out: out}
				talk.Model = slash.ModelOf(c, talk.Options)
				return k.Run(talk, ctx, input)
			}})
	}
	return all
}
