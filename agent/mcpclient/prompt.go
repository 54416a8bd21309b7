package mcpclient

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/chat"
)

// Source returns the servers of conversations whose files are these, for
// agent.Options. Own and Named are taken from f, everything else from the
// conversation. version is that of this program.
func (f Files) Source(version string) func(agent.Programs) chat.ToolSource {
	return func(p agent.Programs) chat.ToolSource {
		f := f
		if f.Project = ""; p.IsProject {
			f.Project = p.Project
		}
		servers, err := f.Read()
		if len(servers) == 0 && err == nil {
			return nil
		}
		return New(Options{Servers: servers, Problem: err, Project: p.Project, Environ: p.Environ, Variables: p.Variables,
			Sandbox: p.Fence.Sandbox, Unfenced: p.Fence.Unfenced, Version: version})
	}
}

// Prompt is a message that a server has ready.
type Prompt struct {
	Server, Name, Description string
	Arguments                 []string // the names, in the order in which they are given
	Required                  int      // how many of them are needed
}

// Prompts returns the prompts of the servers that run.
func (s *Clients) Prompts() []Prompt {
	var all []Prompt
	for _, k := range s.all {
		k.mu.Lock()
		known := k.known
		k.mu.Unlock()
		if known == nil {
			continue
		}
		for _, p := range known.prompts {
			one := Prompt{Server: k.server.Name, Name: p.Name, Description: described(p.Description)}
			for _, a := range p.Arguments {
				if one.Arguments = append(one.Arguments, a.Name); a.Required {
					one.Required = len(one.Arguments)
				}
			}
			all = append(all, one)
		}
	}
	return all
}

// Message returns the message of a prompt with arguments: what the person who
// named it says. The last argument takes all that is left of the words.
func (s *Clients) Message(ctx context.Context, p Prompt, words string) ([]tidemark.Block, error) {
	k, err := s.find(p.Server)
	if err != nil {
		return nil, err
	}
	given := make(map[string]string)
	for i, name := range p.Arguments {
		word, rest, _ := strings.Cut(strings.TrimSpace(words), " ")
		if i == len(p.Arguments)-1 {
			word, rest = strings.TrimSpace(words), ""
		}
		if words = rest; word != "" {
			given[name] = word
		}
	}
	if len(given) < p.Required {
		return nil, tidemark.Invalidf("%s wants: %s", p.Name, strings.Join(p.Arguments, " "))
	}
	if err := s.mayStart(ctx, k.server); err != nil {
		return nil, err
	}
	session, err := k.running(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := session.GetPrompt(ctx, &sdk.GetPromptParams{Name: p.Name, Arguments: given})
	if err != nil {
		return nil, fmt.Errorf("MCP server %s: %w", p.Server, err)
	}
	var c content
	for _, m := range answer.Messages {
		c.add(m.Content)
	}
	r := c.result(false)
	if r.Text == "" && len(r.Blocks) == 0 {
		return nil, tidemark.NotFoundf("the prompt %s of the MCP server %s says nothing", p.Name, p.Server)
	}
	return append([]tidemark.Block{tidemark.Text(r.Text)}, r.Blocks...), nil
}
