package slash

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/hook"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/extension"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/render"
)

// Commands lists the commands of this conversation: those of every one, then
// the files of the person and the project, and the prompts of its MCP servers.
// None takes the name of another.
func (c *Conversation) Commands() []Command {
	all := slices.DeleteFunc(Commands(), func(k Command) bool { _, not := c.Elsewhere[k.Name]; return not })
	for _, k := range append(c.userCommands(), c.prompts()...) {
		if _, not := c.Elsewhere[k.Name]; !not && !slices.ContainsFunc(all, func(o Command) bool { return o.Name == k.Name }) && !IsExit(k.Name) {
			all = append(all, k)
		}
	}
	return all
}

// userCommands are the commands that are files. The text of one is sent as the
// person's message.
func (c *Conversation) userCommands() (all []Command) {
	for _, u := range extension.Commands(c.Setup.Extensions(c.Options.Project)) {
		all = append(all, Command{Name: "/" + u.Name, Args: render.CleanLine(u.Args), Help: render.Phrase(u.Help + " (" + u.File + ")"),
			Run: func(c *Conversation, ctx context.Context, args string) error { return c.sayFile(ctx, u, args) }})
	}
	return all
}

// sayFile sends what a command that is a file says, after its shell lines were
// run.
func (c *Conversation) sayFile(ctx context.Context, u extension.Command, args string) error {
	lines := u.ShellLines()
	if len(lines) == 0 {
		return c.say(ctx, tidemark.Text(u.Message(args)))
	}
	says, err := json.Marshal(struct {
		Runs []string `json:"runs"`
		Text string   `json:"text"`
	}{lines, u.Text})
	if err != nil {
		return err
	}
	r := chat.StartRequest{Name: "the shell lines of /" + u.Name, File: u.File, Own: u.Own && !u.Foreign, Says: says,
		Parts: chat.PartsOf(c.Options.Project, chat.ShellWords(strings.Join(lines, "\n"), nil))}
	var scripts, outputs []string
	for _, line := range lines {
		scripts = append(scripts, extension.Script(line, args))
	}
	run := func(ctx context.Context) error { outputs, err = c.Chat.RunLines(ctx, r, scripts); return nil }
	if c.Front == nil {
		run(ctx)
	} else {
		c.Front.Turn(ctx, run)
	}
	if err != nil {
		return hint.With(err, "the message was not sent; look at %s, and at: tidemark grants ls", u.File)
	}
	return c.say(ctx, tidemark.Text(u.Message(args, outputs...)))
}

// hooks lists the programs that have a say in this conversation.
func (c *Conversation) hooks(context.Context, string) error {
	h, ok := c.Chat.Hooks().(*hook.Hooks)
	if !ok {
		return tidemark.Unsupportedf("there are no hooks here")
	}
	rows, problems := h.Rows(c.Options.Grants)
	for _, r := range rows {
		event := r.Event
		if r.Matcher != "" {
			event += "(" + r.Matcher + ")"
		}
		c.print("%-9s %-24s %s (%s)", r.State, render.CleanLine(event), render.Phrase(r.Command), render.CleanLine(r.File))
	}
	for _, p := range problems {
		c.print("%s", render.CleanLine(p))
	}
	if len(rows)+len(problems) == 0 {
		c.print("There are no hooks. They are defined in .tidemark/hooks.json or .claude/settings.json of a project, and in your own %s.", hook.OwnFile)
	}
	return nil
}

// agents lists the agents that files describe.
func (c *Conversation) agents(context.Context, string) error {
	all := extension.Agents(c.Setup.Extensions(c.Options.Project))
	for _, a := range all {
		tools := "the tools of every worker"
		if a.Tools != nil {
			tools = strings.Join(a.Tools, ", ")
		}
		c.print("%-20s %s (%s; %s)", a.Name, render.Phrase(a.Description), render.Phrase(tools), render.CleanLine(a.File))
	}
	if len(all) == 0 {
		c.print("There are none. They are files in .tidemark/agents or .claude/agents of a project, and in your own folder agents.")
	}
	return nil
}

// skills lists the skills that files have.
func (c *Conversation) skills(context.Context, string) error {
	all := extension.Skills(c.Setup.Extensions(c.Options.Project))
	for _, s := range all {
		c.print("%-20s %s (%s)", s.Name, render.Phrase(s.Description), render.CleanLine(s.File))
	}
	if len(all) == 0 {
		c.print("There are none. They are folders with a SKILL.md in .tidemark/skills or .claude/skills of a project, and in your own folder skills.")
	}
	return nil
}
