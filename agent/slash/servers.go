package slash

import (
	"context"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/mcpclient"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// clients are the MCP servers of the conversation, nil when there are none.
func (c *Conversation) clients() *mcpclient.Clients {
	s, _ := c.Chat.Source().(*mcpclient.Clients)
	return s
}

// prompts are the prompts of the MCP servers, as commands.
func (c *Conversation) prompts() (all []Command) {
	if c.Chat == nil || c.clients() == nil {
		return nil
	}
	for _, p := range c.clients().Prompts() {
		name := "/mcp__" + p.Server + "__" + p.Name
		if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			continue // nobody can type it
		}
		all = append(all, Command{Name: render.CleanLine(name), Args: render.CleanLine(strings.ToUpper(strings.Join(p.Arguments, " "))), Help: render.Phrase(p.Description),
			Run: func(c *Conversation, ctx context.Context, words string) error {
				message, err := c.clients().Message(ctx, p, words)
				if err != nil {
					return err
				}
				return c.say(ctx, message...)
			}})
	}
	return all
}

// startServerOf starts the server whose prompt a command names, if there is one
// that was not needed yet: its prompts are known once it runs.
func (c *Conversation) startServerOf(ctx context.Context, command string) (err error) {
	if c.Chat == nil || c.clients() == nil {
		return nil
	}
	for _, one := range c.clients().Status() {
		if one.State != mcpclient.StateIdle || !strings.HasPrefix(command, "/mcp__"+one.Name+"__") {
			continue
		}
		c.clients().Guard(c.Chat)
		start := func(ctx context.Context) error { err = c.clients().Restart(ctx, one.Name); return nil }
		if c.Front == nil {
			start(ctx)
		} else {
			c.Front.Turn(ctx, start)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// servers shows the MCP servers, starts one again, or approves the tools of
// one for this session.
func (c *Conversation) servers(ctx context.Context, arg string) error {
	s := c.clients()
	if s == nil && arg == "" {
		c.print("There are none. Add one with tidemark mcp add NAME -- COMMAND, or in %s.", mcpclient.ProjectFile)
		return nil
	}
	if s == nil {
		return hint.With(tidemark.NotFoundf("there are no MCP servers"), "add one with: tidemark mcp add NAME -- COMMAND, or in %s", mcpclient.ProjectFile)
	}
	what, name, _ := strings.Cut(arg, " ")
	name = strings.TrimSpace(name)
	s.Guard(c.Chat)
	switch what {
	case "":
		for _, one := range s.Status() {
			c.print("%-16s %-9s %3d tools  %s (%s)", one.Name, one.State, len(one.Tools), render.Phrase(one.What), render.CleanLine(one.File))
			if one.Problem != "" {
				c.print("    %s", render.CleanLine(one.Problem))
			}
		}
		return nil
	case "restart":
		if err := s.Restart(ctx, name); err != nil {
			return err
		}
		c.note("The MCP server %s runs.", name)
		return nil
	case "allow":
		return c.allowServer(ctx, name)
	}
	for _, one := range s.Status() {
		if one.Name == what {
			c.showServer(one)
			return nil
		}
	}
	return hint.With(tidemark.NotFoundf("there is no MCP server %.60q", what), "/mcp lists them; /mcp restart NAME and /mcp allow NAME do something with one")
}

// showServer prints all that is known of a server.
func (c *Conversation) showServer(one mcpclient.Status) {
	c.print("%s (%s): %s", one.Name, render.CleanLine(one.File), render.CleanLine(one.What))
	c.print("state      %s %s", one.State, render.CleanLine(one.Problem))
	for _, part := range []struct {
		name string
		all  []string
	}{{"tool", one.Tools}, {"prompt", one.Prompts}, {"resource", one.Resources}} {
		for _, name := range part.all {
			c.print("%-10s %s", part.name, render.CleanLine(name))
		}
	}
}

// allowServer approves all tools of a server for this session, as they are now.
func (c *Conversation) allowServer(ctx context.Context, name string) error {
	var given []store.Approval
	for _, t := range c.clients().Tools() {
		if strings.HasPrefix(t.Name, "mcp__"+name+"__") {
			given = append(given, store.Approval{Tool: t.Name, Scope: t.Scope(nil)})
		}
	}
	if len(given) == 0 {
		return hint.With(tidemark.NotFoundf("no tool of an MCP server %.60q is known", name), "start it with: /mcp restart NAME")
	}
	err := c.Chat.Change(ctx, func(s *store.Checkpoint) error {
		for _, a := range given {
			if !slices.Contains(s.Approvals, a) {
				s.Approvals = append(s.Approvals, a)
			}
		}
		return nil
	})
	if err == nil {
		c.note("%d tools of %s may be used in this session without asking; /approvals clear takes it back.", len(given), name)
	}
	return err
}
