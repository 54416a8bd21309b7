package slash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/instructions"
	"github.com/tidemark-sessions/tidemark/render"
)

// initPrompt asks for a draft of the instructions of a project.
const initPrompt = `Write %s at the root of this project: instructions for coding agents that work here.

Find out first, by reading: what the project is, how it is laid out, how it is built, tested and linted (also one test alone), which conventions its code follows that a newcomer would get wrong, and what must not be done. Look at the README, the build files, the configuration of linters and CI, and a few typical source and test files.%s

Write at most 60 lines of Markdown: commands as they are typed, rules in one line each, paths where they help. Leave out what is obvious, what a tool enforces anyway, and everything that you did not see. Invent nothing. Show me the file in the end.`

// init_ has the agent draft instructions for the project.
func (c *Conversation) init_(ctx context.Context, _ string) error {
	if !c.Setup.IsProject(c.Options.Project) {
		return hint.With(tidemark.Invalidf("%s is no project", c.Options.Project), "start tidemark chat in the folder of a project")
	}
	more := ""
	for _, name := range instructions.Names {
		if _, err := os.Lstat(filepath.Join(c.Options.Project, name)); err == nil {
			more += fmt.Sprintf(" There is a %s: keep what is still true of it.", name)
		}
	}
	return c.say(ctx, tidemark.Text(fmt.Sprintf(initPrompt, instructions.Names[0], more)))
}

// say sends a message of the user, with the images that stand in it, for commands
// that end in one.
func (c *Conversation) say(ctx context.Context, blocks ...tidemark.Block) error {
	blocks = append(c.Pasted(tidemark.Entry{Blocks: blocks}.Text()), blocks...)
	if c.Front == nil {
		_, err := c.Chat.Send(ctx, blocks...) // the caller knows how to stop it
		return err
	}
	c.Front.Say(ctx, blocks...)
	return nil
}

// contextLines says, a line each, which files with instructions the model was
// told, and what changes with the next message.
func (c *Conversation) contextLines() []string {
	told, now := c.Chat.Instructions(), c.Chat.InstructionsNow()
	var lines []string
	for _, s := range told {
		line := fmt.Sprintf("instructions  %s, %s bytes", render.CleanLine(s.Path), render.Count(int64(s.Bytes)))
		if s.By != "" {
			line += ", included by " + render.CleanLine(s.By)
		}
		if s.Note != "" {
			line += ": " + s.Note
		}
		lines = append(lines, line)
	}
	if len(told) == 0 {
		lines = append(lines, "instructions  none; /init drafts "+instructions.Names[0])
	}
	if changed := instructions.Difference(told, now.Sources()); changed != "" {
		lines = append(lines, "with your next message: "+render.CleanLine(changed))
	}
	for _, left := range now.Left {
		lines = append(lines, "left out      "+render.CleanLine(left))
	}
	return lines
}
