package slash

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

func (c *Conversation) begin(ctx context.Context, _ string) error { return c.Front.New(ctx) }

func (c *Conversation) fork(ctx context.Context, title string) error {
	v, err := c.begun(ctx)
	if err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(title, "--worktree"); ok {
		dir, title, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(rest, "=")), " ")
		if dir == "" {
			return tidemark.Invalidf("/fork --worktree DIR [TITLE]: which folder?")
		}
		w, err := agent.ForkWorktree(ctx, v, 0, tidemark.Session{Title: strings.TrimSpace(title)}, dir, c.Setup.Environ)
		if err != nil {
			return err
		}
		for _, l := range w.Left {
			c.note("%s is not as the session had it: %s", l.Path, l.Why)
		}
		c.note("Forked into %s, with %d file(s) as this session had them. Go on there: cd there, then tidemark chat --resume %.8s", w.Dir, w.Files, w.Fork.ID)
		return nil
	}
	forked, err := c.Store.Fork(ctx, v.ID, 0, title)
	if err != nil {
		return err
	}
	return c.Front.Resume(ctx, string(forked.ID))
}

// retry sends the last message again, from where it was sent first.
func (c *Conversation) retry(ctx context.Context, _ string) error {
	v, err := c.begun(ctx)
	if err != nil {
		return err
	}
	head, err := v.Head(ctx)
	if err != nil {
		return err
	}
	said, err := lastSaid(ctx, v)
	if err != nil {
		return err
	}
	before, err := v.Up(ctx, head, 1)
	switch {
	case errors.Is(err, tidemark.ErrNotFound): // the first message has nothing before it
	case err != nil:
		return err
	default:
		if err := c.Chat.Branch(ctx, before); err != nil {
			return err
		}
	}
	c.note("Your last message is sent again.")
	return c.say(ctx, said...)
}

// retryEntries is how far back the last message is looked for: no turn has more
// entries.
const retryEntries = 1000

// lastSaid is the newest message of the user.
func lastSaid(ctx context.Context, v *store.View) (blocks []tidemark.Block, err error) {
	for e, err := range v.Tail(ctx, 0, retryEntries) {
		if err == nil && e.Role == tidemark.User && e.Kind == tidemark.KindMessage {
			blocks = e.Blocks
		} else if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
	}
	if len(blocks) == 0 {
		return nil, tidemark.NotFoundf("there is no message to send again")
	}
	return blocks, nil
}

// context says what the model is sent.
func (c *Conversation) context(context.Context, string) error {
	parts, all := c.Chat.Context(), 0
	for _, p := range parts {
		all += p.Tokens
	}
	_, name := c.Chat.ModelName()
	window := c.Chat.Window()
	c.print("%s takes %s tokens; the next request has about %s (%d%%).", render.CleanLine(name), render.Count(int64(window)), render.Count(int64(all)), all*100/max(window, 1))
	for _, p := range parts {
		c.print("  %-14s %8s tokens  %s", p.Name, render.Count(int64(p.Tokens)), bar(p.Tokens, window))
	}
	if u := c.Chat.LastUsage(); u != nil {
		sent := u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens
		c.print("Of the last request's %s tokens %s (%d%%) came from the provider's cache.", render.Count(sent), render.Count(u.CacheReadTokens), u.CacheReadTokens*100/max(sent, 1))
	}
	for _, line := range c.contextLines() {
		c.print("%s", line)
	}
	c.print("Above %s tokens old results of tools are left out first, then older messages are summarised: /compact does it now.", render.Count(int64(c.Chat.CompactAbove())))
	return nil
}

// barWidth is how long a bar is that stands for all of the window.
const barWidth = 30

func bar(part, whole int) string {
	n := min(part*barWidth/max(whole, 1), barWidth)
	if n == 0 && part > 0 {
		n = 1
	}
	return strings.Repeat("▇", n)
}

// costText is a cost, for people or for programs.
func (c *Conversation) costText(used store.Tally) string {
	if c.People {
		return render.Cost(used.Cost)
	}
	return render.ExactCost(used.Cost)
}

func (c *Conversation) cost(ctx context.Context, _ string) error {
	v, err := c.begun(ctx)
	if err != nil {
		return err
	}
	used, err := v.Used(ctx)
	if err != nil {
		return err
	}
	in := used.InputTokens + used.CacheReadTokens + used.CacheWriteTokens
	c.print("cost       %s", c.costText(used))
	c.print("in         %s tokens, of which %s (%d%%) came from the provider's cache", render.Count(in), render.Count(used.CacheReadTokens), used.CacheReadTokens*100/max(in, 1))
	c.print("out        %s tokens in %d answers and questions", render.Count(used.OutputTokens), used.Messages)
	for _, note := range render.CostNotes(used.Cost, time.Now()) {
		c.print("           %s", note)
	}
	return nil
}

// efforts are the tokens of thinking by name.
var efforts = []struct {
	name   string
	tokens int
}{{"off", 0}, {"low", 4_000}, {"medium", 16_000}, {"high", 32_000}}

func (c *Conversation) effort(_ context.Context, arg string) error {
	if arg == "" {
		now := c.Chat.Thinking()
		name := strconv.Itoa(now) + " tokens"
		for _, e := range efforts {
			if e.tokens == now {
				name = e.name
			}
		}
		c.print("The model thinks: %s. Change it with /effort off, low, medium, high or a number of tokens.", name)
		return nil
	}
	tokens, err := strconv.Atoi(arg)
	if err != nil || tokens < 0 {
		tokens = -1
		for _, e := range efforts {
			if e.name == strings.ToLower(arg) {
				tokens = e.tokens
			}
		}
	}
	if tokens < 0 {
		return tidemark.Invalidf("/effort %q: want off, low, medium, high or a number of tokens", arg)
	}
	c.Chat.SetThinking(tokens)
	c.note("From the next answer on, the model may think for %d tokens.", tokens)
	return nil
}

func (c *Conversation) permissions(_ context.Context, arg string) error {
	if arg == "" {
		how := "Shift-Tab goes through ask, edits, plan and auto"
		if c.Elsewhere != nil {
			how = "/permissions ask, edits, plan or auto changes it"
		}
		c.print("Now: %s. %s; /approvals lists what was approved.", c.Chat.Permission(), how)
		return nil
	}
	p, err := chat.ParsePermission(arg)
	if err == nil {
		err = c.Front.SetPermission(p)
	}
	if err != nil {
		return err
	}
	c.note("%s", PermissionText(p))
	return nil
}

// PermissionText says what a permission means, in one line.
func PermissionText(p chat.Permission) string {
	switch p {
	case chat.PermissionEdits:
		return "Files of the project are changed without a question; everything else is asked."
	case chat.PermissionPlan:
		return "The agent only looks, and ends with a plan that you approve."
	case chat.PermissionAuto:
		return "Inside the sandbox nothing is asked; what would leave it is."
	}
	return "Everything that was not approved is asked."
}

// diffCommand shows what differs from the last commit. It runs in the sandbox:
// the configuration of a repository can name programs.
const diffCommand = `if git rev-parse -q --verify HEAD >/dev/null 2>&1; then
  all=$(git --no-pager diff --no-ext-diff --no-color HEAD --; git ls-files --others --exclude-standard | sed 's/^/new, and not yet added: /')
  if [ -n "$all" ]; then printf '%s\n' "$all"; else echo 'Nothing differs from the last commit.'; fi
elif git rev-parse --git-dir >/dev/null 2>&1; then echo 'There is no commit yet.'
else echo 'This is no repository of git.'; fi`

func (c *Conversation) diff(ctx context.Context, _ string) error {
	var text string
	var err error
	c.Front.Turn(ctx, func(ctx context.Context) error { text, err = c.Chat.Peek(ctx, diffCommand); return nil })
	if err != nil {
		return err
	}
	c.pause()
	for _, row := range render.UnifiedForTerminal(text, c.Color) {
		c.print("%s", row)
	}
	return nil
}

func (c *Conversation) review(ctx context.Context, what string) error {
	what = cmp.Or(what, "the changes in the work tree since the last commit (git diff HEAD, and new files)")
	return c.say(ctx, tidemark.Text("Review "+what+". Look for mistakes, missing tests and unclear names. Change nothing. List what you found, the worst first, each with its file and line; say so if there is nothing."))
}

// Remember keeps a memory for the project, and tells the model with the next
// message.
func (c *Conversation) Remember(ctx context.Context, text string) error {
	if text == "" {
		return hint.With(tidemark.Invalidf("remember what?"), "/remember TEXT, or # TEXT")
	}
	m := store.Memory{Project: c.Options.Project, Text: text}
	if c.Chat.Exists() {
		m.Session = c.Chat.ID()
	}
	_, isNew, err := c.Store.Remember(ctx, m)
	if err != nil {
		return err
	}
	if !isNew {
		c.note("That was known already.")
		return nil
	}
	c.documents = append(c.documents, tidemark.Text("Remember from now on: "+text))
	c.note("Remembered for this project; see: tidemark memory ls")
	return nil
}
