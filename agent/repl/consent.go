package repl

import (
	"context"
	"errors"
	"io"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
)

// unanswered are the proposals of a session that the person was not asked about
// yet.
func unanswered(c *chat.Chat) (open []chat.Proposal) {
	for _, p := range c.Proposals() {
		if !p.Declined {
			open = append(open, p)
		}
	}
	return open
}

// withheld says in one line what a session proposes and does not get,
// because nobody can be asked.
func (t *conversation) withheld() {
	if text := agent.Withheld(t.Chat); text != "" {
		t.o.Say("tidemark: %s", text)
	}
}

// consent asks the person, once and in one list, about what the session
// proposes and was not granted here.
func (r *repl) consent(ctx context.Context) error {
	open := unanswered(r.Chat)
	switch {
	case len(open) == 0:
		return nil
	case !r.t.Person:
		r.withheld()
		return nil
	}
	r.screen.note("This session brings %d thing(s) that were not granted on this machine, in %s:", len(open), render.CleanLine(r.Options.Project))
	for i, p := range open {
		r.screen.note("  %d. %s", i+1, slash.ProposalText(p))
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
			one, err := r.choose(ctx, "Grant: "+slash.ProposalText(p)+"?", terminal.Choice{Key: 'y', Text: "yes"}, terminal.Choice{Key: 'n', Text: "no"})
			if err != nil {
				return r.notNow(err)
			}
			if one == 'y' {
				yes = append(yes, p)
			}
		}
	}
	if err := r.Chat.Accept(ctx, yes); err != nil {
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

// choose asks the person who stays; io.EOF when they leave instead.
func (r *repl) choose(ctx context.Context, question string, choices ...terminal.Choice) (rune, error) {
	r.screen.pause()
	if r.interactive {
		r.read() // a line that leaves is heard meanwhile
	}
	ctx, stop := r.exits.whileStaying(ctx)
	defer stop()
	key, err := r.console.Ask(ctx, question, choices...)
	if errors.Is(err, errLeaving) {
		err = io.EOF
	}
	return key, err
}
