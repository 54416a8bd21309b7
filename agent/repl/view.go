package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
)

// prompt stands before what the person types.
const prompt = "you> "

// painted is how many entries a resumed session shows at once.
const painted = 50

// greet says what was resumed, and shows its end.
func (r *repl) greet(ctx context.Context, id tidemark.SessionID, seq int64) {
	r.meter.begin(r.Chat.ID())
	r.counted = id == ""
	if r.fence.Says != "" {
		r.screen.note("%s", r.fence.Says)
	}
	if id == "" {
		if r.Model.Provider == "demo" {
			r.screen.note("This is the demo model: it needs no network and knows little. Type /help for the commands.")
		}
		return
	}
	messages, err := r.Chat.Messages(ctx)
	if err != nil {
		r.fail(err)
		return
	}
	if seq == 0 {
		r.paint(ctx, 0)
	}
	r.fail(r.consent(ctx))
	state := r.Chat.State()
	r.screen.note("Resumed session %s (%d messages, %d approvals)", id, messages, len(state.Approvals))
	if seq != 0 {
		r.screen.note("Branched from %s (%d messages)", strings.TrimPrefix(r.t.Branch, "@"), messages)
	}
	if r.Options.FreshInterpreter != "" {
		r.screen.note("A fresh shell and interpreter, because --force-new asked for it; the history stays.")
	}
	switch {
	case len(state.Loops) == 0:
		return
	case r.NoLoops:
		r.screen.note("%d loop(s) are kept and stay off, because --no-loops asked for it.", len(state.Loops))
		return
	}
	loops, err := r.Chat.Rearm(ctx)
	r.fail(err)
	r.screen.note("%d loop(s) go on; see /loops, end one with /cancel.", len(loops))
}

// paint shows entries of the current thread: the newest, or those before
// one.
func (r *repl) paint(ctx context.Context, before int64) {
	v, err := r.Chat.View(ctx)
	if err == nil && r.screen.view != "" {
		v, err = v.Worker(ctx, r.screen.view)
	}
	if errors.Is(err, tidemark.ErrNotFound) {
		r.screen.note("Nothing was said yet.")
		return
	}
	if err != nil {
		r.fail(err)
		return
	}
	entries := v.Tail(ctx, 0, painted)
	if before > 0 {
		entries = v.Before(ctx, before, painted)
	}
	show := func(e tidemark.Entry) error {
		err := render.Entry(r.console, e, &render.Options{Color: r.o.Color, Width: r.console.Columns()})
		if !e.Context() {
			fmt.Fprintln(r.console)
		}
		return err
	}
	if r.interactive && before == 0 {
		old := past{r.screen, make(map[string]*running)}
		show = func(e tidemark.Entry) error { old.show(e); return nil }
	}
	n := 0
	r.screen.pause()
	for e, err := range entries {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			r.fail(err)
			return
		}
		if n++; n == 1 {
			r.oldest = e.Seq
		}
		if before == 0 && r.screen.view == "" {
			r.meter.shown(e)
		}
		if err != nil {
			r.screen.note("%d [damaged: %s]", e.Seq, err)
			continue
		}
		if e.Empty() || e.Kind != tidemark.KindMessage && e.Kind != tidemark.KindContext && e.Kind != tidemark.KindCompaction {
			continue
		}
		if err := show(e); err != nil {
			r.fail(err)
			return
		}
	}
	if n == 0 {
		r.screen.note("There is nothing before that.")
	}
}

// history shows earlier entries.
func (r *repl) history(ctx context.Context) {
	if r.oldest == 0 {
		r.paint(ctx, 0)
		return
	}
	r.paint(ctx, r.oldest)
}

// look switches to another thread, and shows its end.
func (r *repl) look(ctx context.Context, name string) {
	r.screen.look(name)
	r.oldest = 0
	prompt := prompt
	if name != "" {
		r.screen.note("── worker %s ── (Esc or /view goes back)", name)
		prompt = "you → " + name + "> "
	} else {
		r.screen.note("── the conversation ──")
	}
	r.console.SetPrompt(prompt)
	r.paint(ctx, 0)
}

// switchView goes to the next or previous worker, or back.
func (r *repl) switchView(ctx context.Context, kind terminal.Kind) {
	if kind == terminal.LeaveView {
		if r.screen.view != "" {
			r.look(ctx, "")
		}
		return
	}
	all, err := r.Chat.Workers(ctx)
	if err != nil || len(all) == 0 {
		r.fail(err)
		return
	}
	views := []string{""}
	for _, w := range all {
		views = append(views, w.Name)
	}
	i := slices.Index(views, r.screen.view)
	step := 1
	if kind == terminal.PreviousView {
		step = len(views) - 1
	}
	r.look(ctx, views[(max(i, 0)+step)%len(views)])
}
