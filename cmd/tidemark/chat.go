package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// chatSettings is what a configuration file may say of chat.
type chatSettings struct {
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
}

// chatFlags are the flags of chat.
type chatFlags struct {
	modelChoice
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
	noLoops   bool
	forceNew  bool
	takeOver  bool
}

// pickOne stands for a --resume without a session.
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
base_url in the configuration. Keys come from ANTHROPIC_API_KEY and
OPENAI_API_KEY alone. A session that was begun with a model on this machine is
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
					return withHint(tidemark.Invalidf("a session goes with --resume"), "tidemark chat --resume %s", args[0])
				}
				f.resume = args[0]
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			t := &talk{app: a, cmd: cmd, f: f, person: true}
			return t.run(cmd.Context())
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
	f.agentFlags(cmd)
	completeFlag(cmd, "output-format", "text", "json", "stream-json")
	return cmd
}

// agentFlags adds the flags that say what the agent is, wherever it is talked
// to.
func (f *chatFlags) agentFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.model, "model", "", "the `MODEL` to ask")
	fl.StringVar(&f.provider, "provider", "", "anthropic, openai (or what speaks like it), ollama, demo")
	fl.StringVar(&f.baseURL, "base-url", "", "where the provider is: `URL`")
	fl.StringVar(&f.system, "system", "", "a `FILE` with the system prompt of a new session")
	fl.StringVar(&f.compact, "compaction", "", "how a long conversation is made short: simple, code-aware, role-budget, model")
	fl.BoolVar(&f.remote, "remote", false, "allow remote models and network tools in a local-only session")
	fl.StringVar(&f.sandbox, "sandbox", "", "on: programs see the project and nothing else; off: they may do all that you may ($TIDEMARK_SANDBOX)")
	completeFlag(cmd, "sandbox", sandboxOn, sandboxOff)
	completeFlag(cmd, "provider", "anthropic", "openai", "ollama", "demo")
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
	if err := checkMode("--sandbox", f.sandbox); err != nil {
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

// talk is a chat under way.
type talk struct {
	*app
	cmd    *cobra.Command
	f      chatFlags
	folder string // where its tools work, when that is not where we are
	person bool   // somebody at this machine's terminal or editor, who makes grants
	// unattended says that nobody sees what is asked.
	unattended bool
	fence      fence // what holds its programs
	s          *store.Store
	provider   provider
	c          *chat.Chat
	attached   atomic.Pointer[chat.Chat] // c, for whoever is in a hurry
	screen     *chatScreen
	approve    func(context.Context, chat.ApprovalRequest) (chat.Decision, error)
}

// project is what the chat belongs to.
func (t *talk) project() string {
	if t.folder != "" {
		return projectAt(t.folder)
	}
	return t.app.project()
}

// root is the workspace of its tools.
func (t *talk) root() string { return t.project() }

// start is the folder that they start in: the one that the person stands in,
// or that the editor has open.
func (t *talk) start() string {
	here := t.folder
	if here == "" {
		here, _ = os.Getwd()
	}
	if real, err := filepath.EvalSymlinks(here); err == nil {
		here = real
	}
	return here
}

func (t *talk) run(ctx context.Context) error {
	var err error
	how := creates
	if t.f.cont || t.f.session != "" || t.f.resume != "" {
		how = writes
	} else if _, err := t.model(t.f.modelChoice, modelChoice{}); err != nil {
		return err // before a store and its key are made for nothing
	}
	if t.s, err = t.open(ctx, how); err != nil {
		return err
	}
	id, seq, err := t.which(ctx)
	if err != nil {
		return err
	}
	if id == "" && t.f.resume == pickOne {
		return nil // nothing was picked
	}
	if t.cmd.Flags().Changed("prompt") {
		return t.once(ctx, id, seq)
	}
	return t.converse(ctx, id, seq)
}

// which returns the session to go on with, "" for a new one, and the entry to
// branch from.
func (t *talk) which(ctx context.Context) (tidemark.SessionID, int64, error) {
	ref, project, elsewhere := cmp.Or(t.f.session, t.f.resume), t.project(), false
	switch {
	case ref == pickOne:
		picked, err := t.pick(ctx, t.cmd, "Go on with")
		if err != nil || picked == "" {
			return "", 0, err
		}
		ref = picked
	case t.f.cont:
		if ref = "last"; t.f.anywhere {
			project = ""
		} else if here, err := hasSessions(ctx, t.s, project); err != nil {
			return "", 0, err
		} else {
			elsewhere = !here
		}
	case ref == "":
		return "", 0, nil
	}
	if t.f.branch != "" {
		if strings.Contains(ref, "@") && !strings.HasPrefix(ref, "@-") {
			return "", 0, tidemark.Invalidf("--branch and a point in %q exclude each other", ref)
		}
		ref += "@" + strings.TrimPrefix(t.f.branch, "@")
	}
	p, err := t.s.Resolve(ctx, ref, project)
	if err != nil && p.View != nil {
		err = withHint(err, "see its nodes with: tidemark tree %.8s", p.ID)
	}
	if err != nil {
		return "", 0, err
	}
	if elsewhere {
		yes, err := t.goesElsewhere(ctx, p.Info)
		if err != nil || !yes {
			return "", 0, err
		}
	}
	return p.ID, p.Seq, nil
}

// attach begins a conversation, or goes on with one.
func (t *talk) attach(ctx context.Context, id tidemark.SessionID, seq int64) error {
	err := t.begin(ctx, id, seq)
	t.attached.Store(t.c)
	return err
}

func (t *talk) begin(ctx context.Context, id tidemark.SessionID, seq int64) error {
	var last modelChoice
	if id != "" {
		if c, err := t.s.Checkpoint(ctx, id, ""); err == nil {
			last.provider, last.model = chat.ModelOf(c)
		}
	}
	var err error
	if t.provider, err = t.model(t.f.modelChoice, last); err != nil {
		return err
	}
	o, err := t.chatOptions(ctx)
	if err != nil {
		return err
	}
	if id == "" {
		t.c, err = chat.New(o)
		return err
	}
	t.c, err = chat.Resume(ctx, o, id)
	if errors.Is(err, tidemark.ErrHeld) && t.f.takeOver {
		t.c, err = t.takeOver(ctx, o, id, err)
	}
	var holder *store.HeldError
	if errors.As(err, &holder) {
		err = withHint(err, "read along with: tidemark tail -f %.8s, or ask for it: tidemark chat --resume %.8s --take-over", id, id)
	}
	if err == nil && seq != 0 {
		err = t.c.Branch(ctx, seq)
	}
	if err != nil && strings.Contains(err.Error(), "local-only") {
		err = withHint(err, "allow it with --remote, or say with --base-url where it is on this machine")
	}
	return err
}

// takeOverPatience is how long whoever holds a session has to hand it over.
const takeOverPatience = 30 * time.Second

// takeOver asks whoever holds a session for it and waits.
func (t *talk) takeOver(ctx context.Context, o chat.Options, id tidemark.SessionID, held error) (*chat.Chat, error) {
	t.say("Asking for the session: %s", held)
	if err := t.s.RequestHandover(ctx, id, o.Holder); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, takeOverPatience)
	defer stop()
	for {
		c, err := chat.Resume(ctx, o, id)
		if !errors.Is(err, tidemark.ErrHeld) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// chatOptions are what the conversation gets from the configuration and the
// command line.
func (t *talk) chatOptions(ctx context.Context) (chat.Options, error) {
	t.fence = t.howFenced()
	environ := toolEnviron()
	if t.fence.sandbox != nil {
		environ = sandbox.Environ(environ)
	}
	o := t.app.chatOptions(surroundings{store: t.s, holder: t.holder(t.cmd), provider: t.provider, root: t.root(), start: t.start(), environ: environ, fence: t.fence})
	o.Allow, o.Approve, o.Show = t.f.remote, t.approve, t.screen.show
	o.Session = tidemark.Session{Title: t.f.name, Agent: "tidemark", Project: t.project()}
	o.Compact.Strategy = cmp.Or(t.f.compact, o.Compact.Strategy)
	o.Grants, o.Unattended = t.granted(), t.unattended
	if t.f.remote {
		o.Session.Mode = tidemark.ModeRemote
	}
	if t.f.forceNew {
		o.FreshInterpreter = "asked for with --force-new"
	}
	var err error
	o.System, err = t.systemPrompt(ctx)
	return o, err
}

// maxLearned is how many things that were learned in a project a new session
// is told, and maxSystemBytes how long a system prompt may be.
const (
	maxLearned     = 20
	maxSystemBytes = 1 << 20
)

const defaultSystem = `You are a careful agent in a person's terminal. You work in the folder of their project with the tools you have. Look before you change something, keep changes small, and say in plain words what you did and what is left. When you are not sure what is wanted, ask.`

// systemPrompt is that of a new session: what the user gave, where we are, and
// what was learned in the project.
func (t *talk) systemPrompt(ctx context.Context) (string, error) {
	text := defaultSystem
	if t.f.system != "" {
		f, err := os.Open(t.f.system)
		if err != nil {
			return "", tidemark.NotFoundf("--system: %w", err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxSystemBytes+1))
		if err != nil || len(b) > maxSystemBytes {
			return "", tidemark.Invalidf("--system %s: cannot be read, or is over %d bytes", t.f.system, maxSystemBytes)
		}
		text = strings.ToValidUTF8(strings.TrimSpace(string(b)), "\uFFFD")
	}
	text += fmt.Sprintf("\n\nThe project is in %s.", t.root())
	if start := t.start(); start != "" && start != t.root() {
		text += fmt.Sprintf(" The shell starts in %s.", start)
	}
	text += fmt.Sprintf(" Today is %s.", time.Now().Format("2006-01-02"))
	n := 0
	for m, err := range t.s.Memories(ctx, t.project()) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil || m.Project == "" {
			break // what cannot be read is not told
		}
		if n == 0 {
			text += "\n\nLearned in earlier sessions of this project:"
		}
		if n++; n > maxLearned {
			break
		}
		text += "\n- " + render.CleanLine(m.Text)
	}
	return text, nil
}

// encrypted says how the session is kept.
func (t *talk) encrypted() string {
	if _, sealed := t.opened.Backend.(*seal.Backend); sealed {
		return "encrypted"
	}
	return "not encrypted"
}
