package slash

import (
	"context"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/usercommand"
	"github.com/tidemark-sessions/tidemark/render"
)

// Commands lists the commands of this conversation: those of every one, then
// the files of the person and the project, and the prompts of its MCP servers.
// None takes the name of another.
func (c *Conversation) Commands() []Command {
	all := Commands()
	for _, k := range append(c.userCommands(), c.prompts()...) {
		if !slices.ContainsFunc(all, func(o Command) bool { return o.Name == k.Name }) && !IsExit(k.Name) {
			all = append(all, k)
		}
	}
	return all
}

// userCommands are the commands that are files. The text of one is sent as the
// person's message.
func (c *Conversation) userCommands() (all []Command) {
	o := usercommand.Options{Own: c.Setup.OwnCommands}
	if c.Setup.IsProject(c.Options.Project) {
		o.Project = c.Options.Project
	}
	for _, u := range usercommand.Read(o) {
		all = append(all, Command{Name: "/" + u.Name, Args: render.CleanLine(u.Args), Help: render.Phrase(u.Help + " (" + u.File + ")"),
			Run: func(c *Conversation, ctx context.Context, args string) error {
				return c.say(ctx, tidemark.Text(u.Message(args)))
			}})
	}
	return all
}
