package repl

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/store"
)

// front is the screen and keyboard for the commands of the conversation.
type front struct{ r *repl }

func (f front) Turn(ctx context.Context, work func(context.Context) error) { f.r.turn(ctx, work) }

func (f front) History(ctx context.Context) { f.r.history(ctx) }

func (f front) View(ctx context.Context, worker string) { f.r.look(ctx, worker) }

func (f front) Export(ctx context.Context, format, file string) error {
	return f.r.t.Export(ctx, f.r.Chat.ID(), format, file)
}

func (f front) Say(ctx context.Context, blocks ...tidemark.Block) { f.r.say(ctx, blocks...) }

func (f front) Choose(ctx context.Context, question string, choices ...slash.Choice) (rune, error) {
	if !f.r.interactive {
		return 0, tidemark.Errorf(tidemark.ErrUnsupported, "nobody can be asked")
	}
	keys := make([]terminal.Choice, len(choices))
	for i, c := range choices {
		keys[i] = terminal.Choice(c)
	}
	key, err := f.r.choose(ctx, question, keys...)
	if errors.Is(err, terminal.ErrInterrupted) || errors.Is(err, io.EOF) {
		return 0, nil
	}
	return key, err
}

func (f front) Unfold() { f.r.screen.unfold() }

func (f front) SetPermission(p chat.Permission) error { return f.r.setPermission(p) }

func (f front) Offer(line string) bool {
	if f.r.interactive {
		f.r.console.Offer(line)
	}
	return f.r.interactive
}

func (f front) Leave() { f.r.leaving = &leaving{} }

// Resume leaves this session for another one. Everything of the old one (its
// shell, its interpreter, its memory) is gone before the new one is attached.
func (f front) Resume(ctx context.Context, ref string) error {
	r := f.r
	if ref == "" {
		if !r.interactive {
			return tidemark.Invalidf("which session?")
		}
		err := r.console.Lend(func() error {
			var err error
			ref, err = r.t.Pick(ctx, "Go on with")
			return err
		})
		if err != nil || ref == "" {
			return err
		}
	}
	p, err := r.Store.Resolve(ctx, ref, r.Options.Project)
	if err != nil {
		return hint.With(err, "see them with /sessions")
	}
	if p.ID == r.Chat.ID() {
		return tidemark.Invalidf("this is that session")
	}
	l, err := r.Store.Lease(ctx, p.ID)
	if err != nil {
		return err
	}
	if l.Held && !l.Dead && !l.Expired {
		return &store.HeldError{Lease: l, Now: time.Now()}
	}
	return r.switchTo(ctx, p.ID, p.Seq)
}

// New leaves this session for a new one.
func (f front) New(ctx context.Context) error { return f.r.switchTo(ctx, "", 0) }

// switchTo leaves this session for another one, "" for a new one.
func (r *repl) switchTo(ctx context.Context, id tidemark.SessionID, seq int64) error {
	old := r.Chat
	if err := old.Close(ctx); err != nil {
		return err
	}
	if old.Exists() {
		r.saved()
	}
	r.oldest, r.screen.view = 0, ""
	r.Documents() // those of the old session
	if err := r.attach(ctx, id, seq); err != nil {
		// The old session cannot be restored: a new one begins.
		if again := r.attach(ctx, "", 0); again != nil {
			r.leaving = &leaving{err: errors.Join(err, again)}
			return err
		}
		r.greet(ctx, "", 0)
		return err
	}
	r.greet(ctx, id, seq)
	return nil
}
