package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
)

// ask asks the person about a call.
func (r *repl) ask(ctx context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
	if err := a.Readable(); err != nil {
		return chat.Deny, err
	}
	question := "Allow " + askText(a) + "?"
	choices := []terminal.Choice{{Key: 'y', Text: "once"}}
	if always := a.AlwaysText(); always != "" {
		choices = append(choices, terminal.Choice{Key: 'a', Text: always})
	}
	choices = append(choices, terminal.Choice{Key: 'n', Text: "deny"})
	r.screen.pause()
	r.screen.hide(true)
	defer r.screen.hide(false)
	ctx, stop := r.exits.whileStaying(ctx)
	defer stop()
	key, err := r.lookThrough(ctx, a.Lines)
	if err == nil && key != 'n' {
		key, err = r.console.Ask(ctx, question, choices...)
	}
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		r.pressed(terminal.Input{Kind: terminal.Interrupt})
		return chat.Deny, errors.New("the user cancelled the turn")
	case errors.Is(err, io.EOF), errors.Is(err, errLeaving):
		return chat.Deny, errors.New("there is nobody to ask")
	case err != nil:
		return chat.Deny, err
	case key == 'y':
		r.screen.allowed(a.ID)
		return chat.Once, nil
	case key == 'a':
		r.screen.allowed(a.ID)
		return chat.Always, nil
	}
	return chat.Deny, nil
}

// promptRows is how many rows the question itself takes.
const promptRows = 4

// lookThrough shows all lines of a call, a screen at a time: one key shows the
// next screen, another all the rest. The call cannot be allowed before its end
// was shown. The key is 'n' when it was denied on the way.
func (r *repl) lookThrough(ctx context.Context, lines []render.ApprovalLine) (rune, error) {
	columns, rows := max(r.console.Columns(), 1), max(r.console.Rows()-promptRows, 1)
	if r.o.Terminal {
		lines = noLongerThan(lines, max(rows*columns/4, columns))
	} else {
		rows = math.MaxInt // nothing scrolls away
	}
	for len(lines) > 0 {
		for used := 0; len(lines) > 0; lines = lines[1:] {
			need := 1 + (render.Width(render.ApprovalForTerminal(lines[0], false))-1)/columns
			if used > 0 && used+need > rows {
				break
			}
			r.print("%s", render.ApprovalForTerminal(lines[0], r.o.Color))
			used += need
		}
		if len(lines) == 0 {
			break
		}
		key, err := r.console.Ask(ctx, fmt.Sprintf("%d more lines", len(lines)), terminal.Choice{Key: 'm', Text: "more"}, terminal.Choice{Key: 'e', Text: "everything"}, terminal.Choice{Key: 'n', Text: "deny"})
		if err != nil || key == 'n' {
			return key, err
		}
		if key == 'e' {
			rows = math.MaxInt
		}
	}
	return 0, nil
}

// noLongerThan splits lines that take more than a part of the screen, so that
// no part of one scrolls away unseen.
func noLongerThan(lines []render.ApprovalLine, cells int) (all []render.ApprovalLine) {
	for _, l := range lines {
		begin, width := 0, 0
		for i, c := range l.Text {
			if width += max(render.Width(string(c)), 1); width > cells-len("+ ") {
				all = append(all, render.ApprovalLine{Kind: l.Kind, Text: l.Text[begin:i]}, render.ApprovalLine{Kind: render.MarkerLine, Text: "the same line goes on"})
				begin, width = i, 1
			}
		}
		all = append(all, render.ApprovalLine{Kind: l.Kind, Text: l.Text[begin:]})
	}
	return all
}

// askText is what a call wants to do, in one line.
func askText(a chat.ApprovalRequest) string {
	return agent.WithWorker(a.Worker, render.Call(a.Tool, a.Input))
}
