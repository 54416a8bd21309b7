package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// unanswered are the proposals of a session that the person was not asked about.
func unanswered(c *chat.Chat) (open []chat.Proposal) {
	for _, p := range c.Proposals() {
		if !p.Declined {
			open = append(open, p)
		}
	}
	return open
}

// withheld says in one line what a session has no leave to, where nobody is
// there who could be asked.
func (t *talk) withheld() {
	if n := len(unanswered(t.c)); n > 0 {
		t.say("tidemark: %d thing(s) that this session brings were not granted on this machine and are left off; grant them in: tidemark chat --resume %.8s", n, t.c.ID())
	}
}

// consent asks the person, once and in one list, about what the session brings
// and was not granted here.
func (r *repl) consent(ctx context.Context) error {
	open := unanswered(r.c)
	switch {
	case len(open) == 0:
		return nil
	case !r.onTerminal:
		r.withheld()
		return nil
	}
	r.screen.note("This session brings %d thing(s) that were not granted on this machine, in %s:", len(open), render.CleanLine(r.root()))
	for i, p := range open {
		r.screen.note("  %d. %s", i+1, proposalText(p))
	}
	key, err := r.choose(ctx, "Grant them to this session?", terminal.Choice{Key: 'a', Text: "all"}, terminal.Choice{Key: 's', Text: "some"}, terminal.Choice{Key: 'n', Text: "none"})
	if err != nil {
		return r.notNow(err)
	}
	var yes []chat.Proposal
	for _, p := range open {
		switch key {
		case 'a':
			yes = append(yes, p)
		case 's':
			one, err := r.choose(ctx, "Grant: "+proposalText(p)+"?", terminal.Choice{Key: 'y', Text: "yes"}, terminal.Choice{Key: 'n', Text: "no"})
			if err != nil {
				return r.notNow(err)
			}
			if one == 'y' {
				yes = append(yes, p)
			}
		}
	}
	if err := r.c.Accept(ctx, yes); err != nil {
		return err
	}
	r.screen.note("%d of %d granted; see them with: tidemark grants ls", len(yes), len(open))
	return nil
}

// notNow leaves everything off when the question got no answer.
func (r *repl) notNow(err error) error {
	if errors.Is(err, terminal.ErrInterrupted) || errors.Is(err, io.EOF) {
		r.screen.note("Nothing was granted; you are asked again the next time.")
		return nil
	}
	return err
}

func (r *repl) choose(ctx context.Context, question string, choices ...terminal.Choice) (rune, error) {
	r.screen.pause()
	return r.console.Ask(ctx, question, choices...)
}

// proposalText is a proposal in one line, harmless, and whole: what cannot be
// seen cannot be granted.
func proposalText(p chat.Proposal) string {
	return fmt.Sprintf("%s: %s", p.Kind, render.CleanLine(strings.ReplaceAll(p.Text, "\n", " ⏎ ")))
}

// goesElsewhere asks whether to go on with a session of another project, where
// this one has none. Where nobody can be asked, a new one begins.
func (t *talk) goesElsewhere(ctx context.Context, i store.Info) (bool, error) {
	if t.cmd.Flags().Changed("prompt") || t.noInput || !t.terminal || !term.IsTerminal(int(os.Stdin.Fd())) {
		t.say("This project has no session: a new one begins. The newest from elsewhere: tidemark chat -c -A")
		return false, nil
	}
	where := i.Project
	if where == "" {
		where = "no project"
	}
	fmt.Fprintf(t.err, "This project has no session. Go on with the newest from elsewhere, %q in %s? [y/N] ", render.CleanLine(i.Title), render.CleanLine(where))
	var line string
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		line, err = bufio.NewReader(io.LimitReader(os.Stdin, 256)).ReadString('\n')
	}()
	select {
	case <-answered:
	case <-ctx.Done(): // Ctrl-C is an answer, too; who reads ends with the program
		fmt.Fprintln(t.err)
		return false, context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, tidemark.Invalidf("stdin: %w", err)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}
