package transfer

import (
	"context"
	"errors"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// A tool that deletes sessions may keep their prompts. They are imported as
// sessions with a tag that says so, unless the session itself is or was here; and
// when it turns up after all, it takes the place of its prompts.

// promptsTag marks sessions of which only the prompts are left.
const promptsTag = "prompts only"

// keptWhole reports whether the session is what is left of one that is here, or
// that was purged here.
func (g *sessionImport) keptWhole(ctx context.Context) (bool, error) {
	if g.from.PromptsOf == "" {
		return false, nil
	}
	marked := *g.from
	marked.Tags = []string{promptsTag}
	g.from = &marked
	if g.s == nil {
		return false, nil
	}
	i, _, err := g.imported(ctx, g.from.PromptsOf)
	if err != nil || i.ID != "" {
		return i.ID != "", err
	}
	return g.s.Purged(ctx, tidemark.Session{ID: g.idOf(g.from.PromptsOf), Tool: g.tool.Name, ForeignID: g.from.PromptsOf})
}

// dropPrompts removes what is left of a session once the session itself is here.
// What somebody went on with stays.
func (g *sessionImport) dropPrompts(ctx context.Context) error {
	if !g.tool.Salvages || g.from.PromptsOf != "" || g.under != "" || g.s == nil || g.DryRun || g.result.Session == "" {
		return nil
	}
	left, _, err := g.imported(ctx, g.from.ForeignID+convert.PromptsOnly)
	if err != nil || left.ID == "" || left.Pinned || left.OnHold || left.Handed {
		return err
	}
	v, err := g.s.View(ctx, left.ID)
	if err != nil {
		return err
	}
	for e, err := range v.Log(ctx) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if err == nil && e.Key == "" {
			return nil
		}
	}
	if err = g.s.Discard(ctx, left.ID, g.Holder); errors.Is(err, tidemark.ErrHeld) || errors.Is(err, tidemark.ErrNotFound) {
		return nil
	}
	return err
}
