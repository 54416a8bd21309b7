package extension

import (
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/text"
)

// agentFolders are where a project has its agents.
var agentFolders = []string{".tidemark/agents", ".claude/agents"}

// maxTools bounds how many tools an agent names.
const maxTools = 128

// Agent is a worker that somebody described: what it is told, and which tools it
// has.
type Agent struct {
	Name        string
	Description string // when to use it, in one line
	File        string // relative to the project, or absolute for the person's own
	Own         bool   // the person wrote it, and not the project's authors
	// Tools are the names of its tools as the file has them; nil: those of every
	// worker. They are never more than those.
	Tools []string
	// Without are the names of tools that it does not have.
	Without []string
	Model   string // the model that it asks for; "": that of the conversation
	Text    string // what it is told
}

// Agents returns all agents, by name; the person's own count more than those of
// the project. What cannot be read is left out.
func Agents(o Options) []Agent {
	return find(o, "agents", agentFolders, isMarkdown, func(f file) (Agent, string) {
		a := ParseAgent(f.read())
		if !nameOf().MatchString(a.Name) {
			a.Name = strings.TrimSuffix(path.Base(f.rel), ".md")
		}
		if a.Text == "" || !nameOf().MatchString(a.Name) {
			a.Name = ""
		}
		a.File, a.Own = f.shown, f.own
		return a, a.Name
	})
}

// ParseAgent reads the content of a file: a head, of which name, description,
// tools, disallowedTools and model count, and what the agent is told.
func ParseAgent(content string) Agent {
	head, body := split(content)
	a := Agent{Name: head["name"], Description: text.ShortLine(head["description"], maxDescription), Text: body}
	tools, narrowed := head["tools"]
	a.Tools, a.Without = toolNames(tools), toolNames(head["disallowedTools"])
	if narrowed && len(a.Tools) == 0 {
		a.Tools = []string{noTool}
	}
	if m := unquoted(head["model"]); m != "inherit" {
		a.Model = text.ShortLine(m, maxModel)
	}
	return a
}

// toolNames reads a list of tools: Read, Grep, or [Read, "Grep"].
func toolNames(list string) (names []string) {
	for _, name := range strings.Split(strings.Trim(list, "[]"), ",") {
		if name = unquoted(name); name != "" && len(names) < maxTools {
			names = append(names, name)
		}
	}
	return names
}

// maxModel is longer than the name of any model.
const maxModel = 120

// noTool stands for an empty list of tools, which is not the same as none.
const noTool = "none"
