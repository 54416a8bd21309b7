// Package agent puts conversations together: which model answers, which tools
// it has and what confines their programs, what the system prompt says, what
// the person granted, and when the context is compacted. Everything that talks
// to the built-in agent (a terminal, one turn of a script, an editor, a client
// of the server, a job of a fleet, a session that is woken) is assembled here,
// so that all of them are the same agent.
//
// It reads no environment, no configuration file and no terminal, and prints
// nothing: what the person configured comes in as a Setup, the settings of
// one conversation as Options, and approvals and display are functions. It
// keeps nothing besides what package chat keeps.
//
//	setup := &agent.Setup{Getenv: os.Getenv, Environ: os.Environ(), Home: os.UserHomeDir, IsProject: isProject}
//	a, err := setup.Assemble(ctx, agent.Options{Store: s, Holder: who, Project: dir})
//	c, err := a.Begin(ctx, nil)
//	turn, err := c.Send(ctx, tidemark.Text("hello"))
package agent

import (
	"context"
	"os/exec"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/store"
)

// Setup is what all conversations of one person on one machine have in common.
type Setup struct {
	// Default is the model that the person configured; empty fields are left to
	// the environment and to the session.
	Default Choice
	Chat    Settings

	// Getenv looks up a variable, such as ANTHROPIC_API_KEY. Environ is the
	// environment for programs, from which keys and our own variables are
	// removed.
	Getenv  func(string) string
	Environ []string

	// IsProject reports whether a folder may be a workspace. In any other
	// folder reading needs approval, and it gets no sandbox.
	IsProject func(dir string) bool
	// Home is the person's home folder.
	Home func() (string, error)
	// PrivateDirs and PrivateFiles are ours: programs of a project can neither
	// see nor create them, wherever they are. An empty path is ignored.
	PrivateDirs, PrivateFiles []string

	// OwnInstructions is the person's file with instructions for all projects,
	// by its absolute path. It need not exist.
	OwnInstructions string

	// OwnFolder is the person's folder with what extends the agent in all
	// projects, such as slash commands. It need not exist.
	OwnFolder string
	// ClaudeFolder is the person's folder for Claude Code, which has the same for
	// all projects. It need not exist.
	ClaudeFolder string

	// SandboxOffBy says who turned the sandbox off for all conversations that
	// do not say themselves; "": it is on.
	SandboxOffBy string
	// Widening is what the person configured for programs beyond the sandbox.
	Widening sandbox.Widening
	// Confine puts a command into a sandbox; nil: sandbox.Confine.
	Confine func(sandbox.Policy, *exec.Cmd) (*sandbox.Fence, error)
}

// Settings are configured for all conversations. A zero value leaves it to the
// default of the package concerned.
type Settings struct {
	Compaction     string `yaml:"compaction"`
	MaxMessages    int    `yaml:"max_messages"`
	MaxBytes       int    `yaml:"max_bytes"`
	MaxTokens      int    `yaml:"max_tokens"`
	Keep           int    `yaml:"keep"`
	ToolBudget     int    `yaml:"tool_budget"`
	UserBudget     int    `yaml:"user_budget"`
	AnswerBudget   int    `yaml:"assistant_budget"`
	ToolRounds     int    `yaml:"tool_rounds"`
	OutputBytes    int    `yaml:"output_bytes"`
	ToolsInContext int    `yaml:"tools_in_context"`
	Workers        int    `yaml:"workers"`
	Thinking       int    `yaml:"thinking"`
	Learn          string `yaml:"learn"` // LearnOff, or "" to learn
	// The most bytes that a session keeps of one file, and of all of them, before
	// its tools change them.
	SnapshotFile    int64 `yaml:"snapshot_file_bytes"`
	SnapshotSession int64 `yaml:"snapshot_session_bytes"`
}

// Programs is how a conversation starts programs.
type Programs struct {
	Fence Fence
	// Project is the folder that they start in; IsProject is false for a folder
	// that is none, such as a home folder.
	Project   string
	IsProject bool
	// Environ is the environment of programs in the sandbox. Variables is the
	// person's, without the keys of models and our own variables.
	Environ, Variables []string
}

// Options are the settings of one conversation. Store, Holder and Project are
// required.
type Options struct {
	Store  *store.Store
	Holder tidemark.Holder
	// Session is the session to resume, "" for a new one: unless somebody says
	// otherwise, the model that it was last used with answers.
	Session tidemark.SessionID
	Title   string // of a new session; "": made from the first message
	Agent   string // the agent of a new session; "": tidemark

	// Choice is the model that somebody asked for; Model is a given one,
	// which makes any choice unnecessary.
	Choice Choice
	Model  *Model
	// AllowRemote lets a session that is local-only use remote models and tools.
	AllowRemote bool

	// Project is the folder that the session belongs to and that its tools work
	// in; Folder is the one below it that they start in, "" for Project.
	Project, Folder string
	// Instructions replace DefaultInstructions at the head of the system prompt,
	// which continues with the project, what was learned in it, and what its
	// files tell agents. System replaces all of that. Either is for new sessions,
	// which keep it.
	Instructions func() (string, error)
	System       string
	Compaction   string // a strategy of package compact; "": as configured

	// Environ and Fence replace what Setup derives from the environment and for
	// the sandbox. SandboxMode is SandboxOn, SandboxOff, or "" for what Setup
	// says.
	Environ     []string
	Fence       *Fence
	SandboxMode string

	// Source makes the tools that become known while the conversation runs, such
	// as those of MCP servers; nil: there are none.
	Source func(Programs) chat.ToolSource

	// Hooks makes what has a say in the conversation; nil: there is nothing.
	Hooks func(Programs) chat.Hooks

	// Grants, Rounds, Unattended, Approve, AskForm, Show and FreshInterpreter are
	// those of chat.Options.
	Grants           *grant.Scope
	Rounds           int
	Unattended       bool
	Approve          func(context.Context, chat.ApprovalRequest) (chat.Decision, error)
	AskForm          func(context.Context, chat.Form) (map[string]any, error)
	Show             func(chat.Event)
	FreshInterpreter string
}
