package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/repl"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// chatFlags are the flags of chat.
type chatFlags struct {
	choice    agent.Choice
	cont      bool
	anywhere  bool
	session   string
	resume    string
	branch    string
	prompt    string
	format    string
	system    string
	name      string
	compact   string
	hibernate float64
	yes       bool
	remote    bool
	sandbox   string
	mcp       []string
	noLoops   bool
	forceNew  bool
	takeOver  bool
	plain     bool
	permit    string
	rounds    int
	allowed   []string
}

// pickOne is the value of --resume without a session: let the user pick one.
const pickOne = "?"

func chatCommand(a *app) *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk with an agent, and go on with it later",
		Long: `Talks with an agent that can read and change files and run commands, after
asking. Every step is kept before the next one begins: kill it anywhere, and go
on with tidemark chat -c.

The session is created by the first message. Type /help for the commands, Ctrl-C
to stop an answer, Ctrl-D to leave. In a pipe, each line of stdin is a message.

The model is chosen by --provider and --model, by the environment
(TIDEMARK_PROVIDER, TIDEMARK_MODEL, TIDEMARK_BASE_URL), or by provider, model and
base_url in the configuration. Keys come from ANTHROPIC_API_KEY, OPENAI_API_KEY,
OPENROUTER_API_KEY and VLLM_API_KEY alone. A session that was begun with a model on this machine is
local-only: it does not reach out unless --remote allows it.

Programs that the agent starts run in a sandbox: they see the project and the
system's programs, and neither your other files nor the network. A call that needs
more asks for it, and says what it would get.`,
		Example: `  tidemark chat --provider demo
  tidemark chat -c
  tidemark chat --resume 7f3a --branch n1
  tidemark chat -p "What changed since yesterday?" --output-format json
  git diff | tidemark chat -p "Review this." --yes`,
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if f.resume != pickOne {
					return hint.With(tidemark.Invalidf("a session goes with --resume"), "tidemark chat --resume %s", args[0])
				}
				f.resume = args[0]
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			return (&chatRun{app: a, cmd: cmd, f: f}).run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.cont, "continue", "c", false, "the session that was updated last in this project")
	fl.BoolVarP(&f.anywhere, "all", "A", false, "with --continue: the newest anywhere")
	fl.StringVarP(&f.session, "session", "s", "", "go on with this `SESSION`")
	fl.StringVar(&f.resume, "resume", "", "go on with a `SESSION`; alone, pick one")
	fl.Lookup("resume").NoOptDefVal = pickOne
	fl.StringVar(&f.branch, "branch", "", "with a session: go on from an earlier `NODE`, such as n1")
	fl.StringVarP(&f.prompt, "prompt", "p", "", "one turn: print the answer and exit; what is piped in is added")
	fl.StringVar(&f.format, "output-format", "text", "with -p: text, json or stream-json")
	fl.StringVar(&f.name, "name", "", "the `TITLE` of a new session")
	fl.Float64Var(&f.hibernate, "hibernate-after", 0, "save and leave after so many `MINUTES` without a word")
	fl.BoolVar(&f.yes, "yes", false, "with -p: approve everything that the agent wants to do")
	fl.BoolVar(&f.noLoops, "no-loops", false, "leave the loops of the session off")
	fl.BoolVar(&f.forceNew, "force-new", false, "a fresh shell and interpreter")
	fl.BoolVar(&f.takeOver, "take-over", false, "ask whoever holds the session to hand it over")
	fl.BoolVar(&f.plain, "plain", false, "lines without colours, and nothing that moves: for screen readers and logs")
	fl.StringVar(&f.permit, "permission-mode", "", "what needs no question: ask (nothing), edits (of the project), plan (only looks), auto (inside the sandbox)")
	fl.IntVar(&f.rounds, "max-turns", 0, "with -p: ask the model at most so often; `N`")
	fl.StringSliceVar(&f.allowed, "allowed-tools", nil, "with -p: approve calls of these `TOOLS`, such as write,edit")
	f.agentFlags(cmd)
	completeFlag(cmd, "output-format", "text", "json", "stream-json")
	completeFlag(cmd, "permission-mode", "ask", "edits", "plan", "auto")
	return cmd
}

// agentFlags adds the flags that configure the agent, in chat and in editors.
func (f *chatFlags) agentFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.choice.Model, "model", "", "the `MODEL` to ask")
	fl.StringVar(&f.choice.Provider, "provider", "", providerUsage())
	fl.StringVar(&f.choice.BaseURL, "base-url", "", "where the provider is: `URL`")
	fl.StringVar(&f.system, "system", "", "a `FILE` with the system prompt of a new session")
	fl.StringVar(&f.compact, "compaction", "", "how a long conversation is made short: simple, code-aware, role-budget, model")
	fl.BoolVar(&f.remote, "remote", false, "allow remote models and network tools in a local-only session")
	fl.StringSliceVar(&f.mcp, "mcp", nil, "a `FILE` with MCP servers, beside those of the project and your own; again for more")
	fl.StringVar(&f.sandbox, "sandbox", "", "on: programs see the project and nothing else; off: they may do all that you may ($TIDEMARK_SANDBOX)")
	completeFlag(cmd, "sandbox", agent.SandboxOn, agent.SandboxOff)
	completeFlag(cmd, "provider", model.Providers...)
	completeFlag(cmd, "compaction", compact.Simple, compact.CodeAware, compact.RoleBudget, compact.Model)
}

// completeFlag lets the shell complete the values of a flag.
func completeFlag(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// check refuses flags that do not go together.
func (f *chatFlags) check(cmd *cobra.Command) error {
	named := 0
	for _, set := range []bool{f.cont, f.session != "", f.resume != ""} {
		if set {
			named++
		}
	}
	if err := agent.CheckSandboxMode("--sandbox", f.sandbox); err != nil {
		return err
	}
	if _, err := chat.ParsePermission(f.permit); err != nil {
		return err
	}
	oneShot := cmd.Flags().Changed("prompt")
	switch {
	case named > 1:
		return tidemark.Invalidf("--continue, --session and --resume exclude each other")
	case f.branch != "" && named == 0:
		return tidemark.Invalidf("--branch goes with --resume, --session or --continue")
	case f.yes && !oneShot:
		return tidemark.Invalidf("--yes goes with -p: in a conversation you are asked")
	case (f.rounds != 0 || len(f.allowed) > 0) && !oneShot:
		return tidemark.Invalidf("--max-turns and --allowed-tools go with -p")
	case f.rounds < 0:
		return tidemark.Invalidf("--max-turns %d: want a number of answers", f.rounds)
	case f.format != "text" && !oneShot:
		return tidemark.Invalidf("--output-format goes with -p")
	case f.format != "text" && f.format != "json" && f.format != "stream-json":
		return tidemark.Invalidf("--output-format %q: want text, json or stream-json", f.format)
	case f.hibernate < 0:
		return tidemark.Invalidf("--hibernate-after %g: want minutes", f.hibernate)
	}
	switch f.compact {
	case "", compact.Simple, compact.CodeAware, compact.RoleBudget, compact.Model:
		return nil
	}
	return tidemark.Invalidf("--compaction %q: want simple, code-aware, role-budget or model", f.compact)
}

// chatRun is one run of the command chat.
type chatRun struct {
	*app
	cmd *cobra.Command
	f   chatFlags
	s   *store.Store
}

// currentFolder returns the working directory by its real path; "" if it is not
// known.
func currentFolder() string {
	here, _ := os.Getwd()
	return project.Real(here)
}

func (t *chatRun) run(ctx context.Context) error {
	var err error
	how := open.Create
	if t.f.cont || t.f.session != "" || t.f.resume != "" {
		how = open.Write
	} else if _, err := t.setup(t.config).Choose(t.f.choice, agent.Choice{}); err != nil {
		return err // checked before a store and its key are created for nothing
	}
	if t.s, err = t.open(ctx, how); err != nil {
		return err
	}
	id, seq, err := t.findSession(ctx)
	if err != nil {
		return err
	}
	if id == "" && t.f.resume == pickOne {
		return nil // nothing was picked
	}
	o := repl.Options{Setup: t.setup(t.config), Agent: t.f.options(t.app, t.s, t.project(), currentFolder()), Session: id, From: seq, TakeOver: t.f.takeOver, Encrypted: t.opened.Sealed() != nil,
		Display: repl.Display{Out: t.out, Err: t.err, Terminal: t.terminal, Color: t.color, Quiet: t.quiet, Say: t.say}}
	o.Permission, o.Agent.Rounds = chat.Permission(t.f.permit), t.f.rounds
	if t.f.plain {
		o.Color = false
	}
	o.Agent.Holder = t.holder(t.cmd)
	defer t.attend(ctx, t.s, id)()
	if !t.cmd.Flags().Changed("prompt") {
		err = repl.Run(ctx, o, t.terminalOptions())
	} else if prompt, promptErr := t.fullPrompt(); promptErr != nil {
		return promptErr
	} else {
		t.notifyUnlessIgnored(syscall.SIGHUP) // so that no tool keeps running when the terminal closes
		p := repl.Prompt{Text: prompt, Typed: t.f.prompt, Format: t.f.format, Yes: t.f.yes, Allowed: t.f.allowed}
		if t.wantsJSON() && p.Format == repl.FormatText {
			p.Format = repl.FormatJSON
			p.Print = func(result any) error { return t.format().Print(t.out, result) }
		}
		err = repl.Once(ctx, o, p)
	}
	return chatError(err)
}

// chatError converts the error of a chat that a signal ended into a stopped.
func chatError(err error) error {
	var by *repl.Stopped
	if errors.As(err, &by) {
		return &stopped{signal: by.Signal, quiet: true}
	}
	return err
}

// fullPrompt returns the prompt of -p, with what was piped in.
func (t *chatRun) fullPrompt() (string, error) {
	var piped io.Reader
	if info, err := os.Stdin.Stat(); err == nil && (info.Mode()&os.ModeNamedPipe != 0 || info.Mode().IsRegular()) {
		piped = t.in
	}
	return repl.FullPrompt(t.f.prompt, piped)
}

// terminalOptions returns the terminal of this process, and what a chat uses of
// the other commands.
func (t *chatRun) terminalOptions() repl.TerminalOptions {
	return repl.TerminalOptions{
		In: t.in, NoInput: t.noInput, Person: t.terminal && !t.noInput && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
		ErrIsTerminal: term.IsTerminal(int(os.Stderr.Fd())), Plain: t.f.plain || os.Getenv("TERM") == "dumb",
		Raw: rawTerminal, Edit: editText, Size: terminalSize, Suspend: t.suspend, Listen: t.listen,
		Exit: func(err error) { os.Exit(exitOf(chatError(err))) },
		Pick: func(ctx context.Context, heading string) (string, error) { return t.pick(ctx, t.cmd, heading) },
		Export: func(_ context.Context, id tidemark.SessionID, format, file string) error {
			return t.exportOne(t.cmd, string(id), exportFlags{format: format, output: file})
		},
		Hint: agent.Hint, Branch: strings.TrimPrefix(t.f.branch, "@"), NoLoops: t.f.noLoops, HibernateMinutes: t.f.hibernate,
	}
}

// listen handles the signals during a conversation: most of them end it.
func (t *chatRun) listen(c repl.Control) {
	handle := func(s os.Signal) {
		switch s {
		case sigCont:
			c.Continue()
		case sigWinch:
			c.Resize()
		case sigStop:
			go c.Suspend()
		case sigQuit:
			c.GiveBack()
			quit()
		default:
			c.Leave(s)
		}
	}
	t.onSignal.Store(&handle)
	signal.Notify(t.signals, sigCont, sigWinch, sigQuit)
	t.notifyUnlessIgnored(syscall.SIGHUP, sigStop)
}

// suspend stops the process until it is continued.
func (t *chatRun) suspend() {
	signal.Reset(sigStop) // so that it has its default effect
	suspend()
	t.notifyUnlessIgnored(sigStop)
}

// notifyUnlessIgnored handles signals, except those that the program was started
// to ignore, as nohup does.
func (a *app) notifyUnlessIgnored(signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(a.signals, s)
		}
	}
}

// findSession returns the session to continue, "" for a new one, and the entry to
// branch from.
func (t *chatRun) findSession(ctx context.Context) (tidemark.SessionID, int64, error) {
	ref := cmp.Or(t.f.session, t.f.resume)
	if ref == pickOne {
		picked, err := t.pick(ctx, t.cmd, "Go on with")
		if err != nil || picked == "" {
			return "", 0, err
		}
		ref = picked
	}
	return repl.Wanted{Ref: ref, Newest: t.f.cont, Anywhere: t.f.anywhere, Branch: t.f.branch, Project: t.project(), Elsewhere: t.askElsewhere}.Find(ctx, t.s)
}

// options returns the options of a conversation from the command line. Its tools
// work in project and start in folder; the user's grants for the project apply.
func (f *chatFlags) options(a *app, s *store.Store, project, folder string) agent.Options {
	o := agent.Options{Store: s, Title: f.name, Choice: f.choice, AllowRemote: f.remote, Project: project, Folder: folder,
		Compaction: f.compact, SandboxMode: f.sandbox, Grants: a.grants().For(project), Source: a.serverFiles(f.mcp...).Source(version), Hooks: conversationHooks()}
	if f.system != "" {
		o.Instructions = func() (string, error) { return agent.ReadInstructions("--system", f.system) }
	}
	if f.forceNew {
		o.FreshInterpreter = "asked for with --force-new"
	}
	return o
}

// askElsewhere asks whether to continue a session of another project, because this
// one has none. If nobody can be asked, a new session begins.
func (t *chatRun) askElsewhere(ctx context.Context, i store.Info) (bool, error) {
	if t.cmd.Flags().Changed("prompt") || t.noInput || !t.terminal || !term.IsTerminal(int(os.Stdin.Fd())) {
		t.say("This project has no session: a new one begins. The newest from elsewhere: tidemark chat -c -A")
		return false, nil
	}
	return repl.AskElsewhere(ctx, os.Stdin, t.err, i)
}
