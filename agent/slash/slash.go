// Package slash has the commands of a conversation: what a person types after a
// slash, in a terminal or in an editor, to examine the session or to change it.
//
// A command writes its output to Conversation.Out, as text that was made
// harmless, and returns errors with a hint; it knows no terminal. Whatever needs
// a screen and keys (leave, show another worker, page through the history) is
// done by a Front.
//
//	c := &slash.Conversation{Chat: talk, Store: s, Setup: setup, Out: w}
//	err := c.Run(ctx, "/tree")
package slash

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// Conversation is what commands work on. Chat, Store, Setup and Out are
// required.
type Conversation struct {
	Chat    *chat.Chat
	Store   *store.Store
	Setup   *agent.Setup
	Options agent.Options // that the conversation was assembled with
	Model   agent.Model   // the model that answers; /model changes it

	Encrypted bool // the store is
	NoLoops   bool // loops are kept but do not run
	People    bool // numbers are formatted for people, not for programs
	Color     bool // Out shows colours

	Out io.Writer
	// Note prints a message besides the requested output; nil: to Out, too.
	Note func(format string, args ...any)
	// Pause is called before something is written to Out; it may be nil.
	Pause func()
	// Columns is how wide Out is; nil: 80.
	Columns func() int
	// Terminal means that Out is one: lines that are too long are broken between
	// words.
	Terminal bool
	// Front is nil where there is no screen and keyboard of ours. The commands
	// that need one must not be run then.
	Front Front
	// Elsewhere are the commands that this place does not have, each with what to
	// do instead.
	Elsewhere map[string]string

	// documents are sent with the next message.
	documents []tidemark.Block
	files     projectFiles
	pasted    pastedImages
	offered   offeredModels
}

// Front shows the conversation and reads the person's input.
type Front interface {
	// Turn runs something that takes a while, so that the person can stop it.
	Turn(ctx context.Context, work func(context.Context) error)
	// History shows earlier entries.
	History(ctx context.Context)
	// View shows a worker, "" for the conversation.
	View(ctx context.Context, worker string)
	// Resume leaves this session for another one, "" for one that is picked.
	Resume(ctx context.Context, ref string) error
	// Export writes the session to a file.
	Export(ctx context.Context, format, file string) error
	// New leaves this session for a new one.
	New(ctx context.Context) error
	// Say sends a message of the person and waits for the end of the turn.
	Say(ctx context.Context, blocks ...tidemark.Block)
	// Choose asks a question with several answers and returns the key of one, 0
	// for none. ErrUnsupported: nobody can be asked.
	Choose(ctx context.Context, question string, choices ...Choice) (rune, error)
	// Unfold shows the whole of a call that was shown in short.
	Unfold()
	// SetPermission changes how much needs no question.
	SetPermission(chat.Permission) error
	// Offer puts text into the line and offers what it can go on with. false:
	// nobody types there.
	Offer(line string) bool
	// Leave ends the conversation.
	Leave()
}

// Command is a slash command.
type Command struct {
	Name, Args, Help string // with the slash; what follows it, "" for nothing
	Run              func(*Conversation, context.Context, string) error
	// Anytime means that it concerns what happens now, and does not wait for
	// the end of a turn.
	Anytime bool
	// NeedsFront means that it works only with a Front, or makes sense only in
	// ours: an editor has its own list of sessions, history and way to leave.
	NeedsFront bool
}

// Commands lists all commands, in the order of the help.
func Commands() []Command {
	const anytime, front = true, true
	return []Command{
		{"/tree", "", "the branches of this session", (*Conversation).tree, false, false},
		{"/branch", "NODE", "go on from an earlier node, such as n1", (*Conversation).branch, false, false},
		{"/rewind", "[N|NODE] [conversation|files|both] [--force]", "go back N turns (1), or to a node", (*Conversation).rewind, false, false},
		{"/undo", "[N] [conversation|files|both] [--force]", "take the last turn back, also what it did to files", (*Conversation).undo, false, false},
		{"/label", "TEXT", "name the current node", (*Conversation).label, false, false},
		{"/checkpoint", "[NAME]", "keep the state of the session", (*Conversation).checkpoint, false, false},
		{"/compact", "[STRATEGY]", "make the context shorter now", (*Conversation).compact, false, false},
		{"/history", "", "what was before (PageUp)", func(c *Conversation, ctx context.Context, _ string) error { c.Front.History(ctx); return nil }, anytime, front},
		{"/search", "TEXT", "find something in all sessions", (*Conversation).search, false, false},
		{"/export", "[FORMAT] [FILE]", "write the session to a file", (*Conversation).export, false, front},
		{"/sessions", "", "the sessions of this project", (*Conversation).sessions, false, false},
		{"/resume", "[SESSION]", "go on with another session", func(c *Conversation, ctx context.Context, ref string) error { return c.Front.Resume(ctx, ref) }, false, front},
		{"/name", "TITLE", "give the session a title", (*Conversation).rename, false, false},
		{"/model", "[MODEL]", "choose the model, or take [PROVIDER/]NAME", (*Conversation).model, false, false},
		{"/tools", "", "what the agent can do", (*Conversation).tools, false, false},
		{"/approvals", "[clear]", "what may be done without asking", (*Conversation).approvals, false, false},
		{"/memory", "[KEY TEXT]", "core memory of this session", (*Conversation).memory, false, false},
		{"/doc", "[PATH]", "a document, sent with your next message", (*Conversation).document, false, front},
		{"/workers", "", "the helper agents", (*Conversation).workers, anytime, false},
		{"/spawn", "NAME PROMPT", "start a helper agent", (*Conversation).spawn, anytime, front},
		{"/view", "[WORKER]", "look at a worker, or back (Ctrl-], Ctrl-\\)", (*Conversation).view, anytime, front},
		{"/send", "WORKER TEXT", "say something to a worker", (*Conversation).send, anytime, front},
		{"/stop", "WORKER", "stop a worker", (*Conversation).stop, anytime, front},
		{"/task", "add TEXT|done N|ls", "the task list", (*Conversation).task, anytime, false},
		{"/start", "", "work through the task list, every 5 minutes", (*Conversation).start, false, front},
		{"/loop", `"GOAL" INTERVAL`, "repeat a goal", (*Conversation).loop, false, front},
		{"/loop-target", `INTERVAL ["GOAL"]`, "repeat a goal, or work through the task list", (*Conversation).loop, false, front},
		{"/loops", "", "what is repeated", (*Conversation).loops, anytime, front},
		{"/cancel", "LOOP", "end a loop", (*Conversation).cancelLoop, anytime, front},
		{"/wake", "AFTER", "wake this session after a time", (*Conversation).wake, false, front},
		{"/mcp", "[NAME|restart NAME|allow NAME]", "the MCP servers of this conversation", (*Conversation).servers, false, false},
		{"/agents", "", "the helper agents that files describe (/spawn starts one)", (*Conversation).agents, anytime, false},
		{"/skills", "", "the texts that the agent loads when it needs them", (*Conversation).skills, anytime, false},
		{"/hooks", "", "the programs that have a say in what happens", (*Conversation).hooks, anytime, false},
		{"/init", "", "draft AGENTS.md, the instructions of this project", (*Conversation).init_, false, false},
		{"/status", "", "what this session is", (*Conversation).status, anytime, false},
		{"/doctor", "", "look for damage in this session", (*Conversation).check, false, false},
		{"/new", "", "begin a new session; this one is kept (/clear)", (*Conversation).begin, false, front},
		{"/clear", "", "begin a new session; this one is kept (/new)", (*Conversation).begin, false, front},
		{"/fork", "[--worktree DIR] [TITLE]", "go on in a copy of this session, also with a work tree of its own", (*Conversation).fork, false, front},
		{"/retry", "", "send your last message again, on a branch of its own", (*Conversation).retry, false, front},
		{"/context", "", "what the model is sent, and how much of its window that takes", (*Conversation).context, false, false},
		{"/cost", "", "what this session used, and how much came from the provider's cache", (*Conversation).cost, anytime, false},
		{"/effort", "[off|low|medium|high|TOKENS]", "how much the model thinks", (*Conversation).effort, anytime, false},
		{"/permissions", "[ask|edits|plan|auto]", "what needs no question (Shift-Tab)", (*Conversation).permissions, anytime, front},
		{"/diff", "", "what differs from the last commit", (*Conversation).diff, false, front},
		{"/review", "[WHAT]", "have the changes reviewed", (*Conversation).review, false, front},
		{"/remember", "TEXT", "a memory for this project (# TEXT)", (*Conversation).Remember, anytime, false},
		{"/tasks", "", "the task list", (*Conversation).task, anytime, false},
		{"/unfold", "", "the whole of the last call that was shown in short (Ctrl-O)", func(c *Conversation, _ context.Context, _ string) error { c.Front.Unfold(); return nil }, anytime, front},
		{"/help", "[WORD]", "this list, or what it says about something", (*Conversation).help, anytime, front},
		{"/exit", "", "save and leave (/quit, /q, Ctrl-D)", func(c *Conversation, _ context.Context, _ string) error { c.Front.Leave(); return nil }, false, front},
	}
}

// Is reports whether a line is a command, and not a message: a message that
// begins with a slash is typed with two.
func Is(line string) bool { return strings.HasPrefix(line, "/") && !strings.HasPrefix(line, "//") }

// Shell returns the command in a line that the person wants to run themselves: it
// begins with an exclamation mark.
func Shell(line string) (command string, ok bool) { return after(line, "!") }

// Memory returns the text in a line that is to be remembered: it begins with a
// number sign. More than one line is a message, such as one in Markdown.
func Memory(line string) (text string, ok bool) {
	if strings.Contains(line, "\n") {
		return "", false
	}
	return after(line, "#")
}

func after(line, sign string) (string, bool) {
	rest, ok := strings.CutPrefix(line, sign)
	rest = strings.TrimSpace(rest)
	return rest, ok && rest != ""
}

// IsAside reports whether a line is none that the conversation keeps: a command, or
// a memory.
func IsAside(line string) bool {
	_, remembers := Memory(line)
	return Is(line) || remembers
}

// IsExit reports whether a line is the command to leave.
func IsExit(line string) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	return name == "/exit" || name == "/quit" || name == "/q"
}

// IsAnytime reports whether a line is a command that is about what happens now.
func IsAnytime(line string) bool {
	name, _, _ := strings.Cut(line, " ")
	for _, k := range Commands() {
		if k.Name == name {
			return k.Anytime
		}
	}
	return false
}

// Run runs the command in a line, or returns ErrInvalid when there is none.
func (c *Conversation) Run(ctx context.Context, line string) error {
	name, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	if IsExit(name) {
		name = "/exit"
	}
	find := func() *Command {
		all := c.Commands()
		if i := slices.IndexFunc(all, func(k Command) bool { return k.Name == name }); i >= 0 {
			return &all[i]
		}
		return nil
	}
	k := find()
	if k == nil {
		if err := c.startServerOf(ctx, name); err != nil {
			return err
		}
		k = find()
	}
	if k != nil {
		return k.Run(c, ctx, strings.TrimSpace(arg))
	}
	if instead, ok := c.Elsewhere[name]; ok {
		return hint.With(tidemark.Unsupportedf("%s works in a terminal", name), "%s", instead)
	}
	return hint.With(tidemark.Invalidf("there is no command %s", name), "see /help; a message that begins with a slash begins with two")
}

// Message is what a person says with a line that is no command: the text, after
// the documents and images that go with it.
func (c *Conversation) Message(line string) []tidemark.Block {
	text := strings.TrimPrefix(line, "/")
	return slices.Concat(c.Documents(), c.Mentioned(text), c.Pasted(text), []tidemark.Block{tidemark.Text(text)})
}

// PlanFirst is added to a message of a person who wants a plan.
const PlanFirst = "(Plan first: look at what you need, change nothing, and end with a plan that I can approve.)"

// Planned is a message of a person, which asks for a plan first if they want one.
func (c *Conversation) Planned(blocks []tidemark.Block) []tidemark.Block {
	if c.Chat.Permission() == chat.PermissionPlan {
		return append(blocks, tidemark.Text(PlanFirst))
	}
	return blocks
}

// Documents returns what was loaded since the last call. It is sent with the
// next message.
func (c *Conversation) Documents() []tidemark.Block {
	loaded := c.documents
	c.documents = nil
	return loaded
}

// print shows text that is ours or was made harmless.
func (c *Conversation) print(format string, args ...any) {
	c.pause()
	for _, row := range c.rows(fmt.Sprintf(format, args...)) {
		fmt.Fprintln(c.Out, row)
	}
}

// rows breaks a line that is wider than the terminal between words. What follows
// the first row stands below the last column of its table.
func (c *Conversation) rows(line string) []string {
	columns := c.columns() - 1
	if !c.Terminal || columns < 1 || strings.ContainsAny(line, "\n\x1b") || render.Width(line) <= columns {
		return []string{line}
	}
	indent := 0
	for i := 0; i < len(line) && i <= columns/2; i++ {
		if line[i] != ' ' && (i == 0 || i >= 2 && line[i-2:i] == "  ") {
			indent = i
		}
	}
	head, text := line[:indent], line[indent:]
	rows := render.Wrap(text, columns-indent)
	for i := range rows {
		rows[i] = head + rows[i]
		head = strings.Repeat(" ", indent)
	}
	return rows
}

func (c *Conversation) pause() {
	if c.Pause != nil {
		c.Pause()
	}
}

// note prints one line besides the requested output.
func (c *Conversation) note(format string, args ...any) {
	if c.Note != nil {
		c.Note(format, args...)
		return
	}
	fmt.Fprintln(c.Out, render.CleanLine(fmt.Sprintf(format, args...)))
}

// defaultColumns is the width where it is unknown.
const defaultColumns = 80

func (c *Conversation) columns() int {
	if c.Columns == nil {
		return defaultColumns
	}
	return c.Columns()
}

// EncryptionText says how the session is kept.
func (c *Conversation) EncryptionText() string {
	if c.Encrypted {
		return "encrypted"
	}
	return "not encrypted"
}

// begun is the stored session, for commands that need one.
func (c *Conversation) begun(ctx context.Context) (*store.View, error) {
	if !c.Chat.Exists() {
		return nil, tidemark.Invalidf("nothing was said yet")
	}
	return c.Chat.View(ctx)
}
