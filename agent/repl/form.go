package repl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
)

// fill asks the person for the fields of a form, one after the other, and
// whether the answers may be sent.
func (r *repl) fill(ctx context.Context, f chat.Form) (map[string]any, error) {
	r.screen.pause()
	r.screen.hide(true)
	defer r.screen.hide(false)
	ctx, stop := r.exits.whileStaying(ctx)
	defer stop()
	answers, err := r.answers(ctx, f)
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		return nil, tidemark.Deniedf("the user declined to answer")
	case errors.Is(err, io.EOF), errors.Is(err, errLeaving):
		return nil, tidemark.Deniedf("there is nobody to ask")
	}
	return answers, err
}

func (r *repl) answers(ctx context.Context, f chat.Form) (map[string]any, error) {
	r.print("%s asks: %s", render.CleanLine(f.From), render.CleanLine(f.Message))
	answers := make(map[string]any)
	for _, field := range f.Fields {
		value, err := r.answer(ctx, field)
		if err != nil {
			return nil, err
		}
		if value != nil {
			answers[field.Name] = value
		}
	}
	said, err := json.Marshal(answers)
	if err != nil {
		return nil, err
	}
	r.print("%s", render.CleanLine(string(said)))
	key, err := r.console.Ask(ctx, fmt.Sprintf("Send this to %s?", render.CleanLine(f.From)), terminal.Choice{Key: 'y', Text: "send"}, terminal.Choice{Key: 'n', Text: "decline"})
	switch {
	case err != nil:
		return nil, err
	case key != 'y':
		return nil, tidemark.Deniedf("the user declined to answer")
	}
	return answers, nil
}

// answer asks for one field until the answer fits.
func (r *repl) answer(ctx context.Context, f chat.FormField) (any, error) {
	question := render.CleanLine(f.Label())
	if f.Description != "" {
		question += ": " + render.CleanLine(f.Description)
	}
	for i, o := range f.Choices {
		question += fmt.Sprintf("\n  %d. %s", i+1, render.CleanLine(o.Title))
	}
	question += "\n" + wants(f)
	for {
		typed, err := r.console.AskText(ctx, question)
		if err != nil {
			return nil, err
		}
		value, err := f.Parse(typed)
		if err == nil {
			return value, nil
		}
		question = render.CleanLine(err.Error())
	}
}

// wants says what a field takes.
func wants(f chat.FormField) string {
	text := "(" + string(f.Kind)
	if f.Kind == chat.FieldChoices {
		text += ", with commas between them"
	}
	switch {
	case f.Default != nil:
		text += fmt.Sprintf(", empty for %s", render.CleanLine(fmt.Sprint(f.Default)))
	case !f.Required:
		text += ", may be empty"
	}
	return text + ")"
}
