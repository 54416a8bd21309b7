package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// maxCompletions is how many sessions a completion offers: more than a screen
// holds help nobody.
const maxCompletions = 50

// maxCompletionLook is how many of the newest sessions are looked at for a
// title. A shell waits for this at every key.
const maxCompletionLook = 2000

// completeSession offers sessions for what was typed: by id among all of them,
// by title among the newest. A title is offered as such, since shells drop what
// does not begin with what was typed; it begins as it was typed, and means the
// same, because the case of titles does not matter.
func completeSession(a *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		a.noInput = true // nobody expects a question while typing
		if err := a.prepare(); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := a.open(cmd.Context(), open.Read)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := byID(cmd.Context(), s, typed)
		if typed != "" {
			found = append(found, byTitle(cmd.Context(), s, typed)...)
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// byID offers the sessions whose id begins as typed; the newest, when nothing
// was typed yet.
func byID(ctx context.Context, s *store.Store, typed string) (found []string) {
	offer := func(i store.Info) {
		id := string(i.ID[:max(8, len(typed))])
		found = append(found, cobra.CompletionWithDesc(id, oneLine(i.Title)))
	}
	if typed == "" {
		for i, err := range s.Sessions(ctx, store.Filter{Limit: maxCompletions}) {
			if err == nil {
				offer(i)
			}
		}
		return found
	}
	if strings.Trim(typed, "0123456789abcdef-") != "" {
		return nil
	}
	for i, err := range s.SessionsWithPrefix(ctx, typed, maxCompletions) {
		if err == nil {
			offer(i)
		}
	}
	return found
}

// byTitle offers the titles that begin as typed, each once.
func byTitle(ctx context.Context, s *store.Store, typed string) (found []string) {
	seen := make(map[string]bool)
	for i, err := range s.Sessions(ctx, store.Filter{Limit: maxCompletionLook}) {
		title := strings.ToLower(i.Title)
		if err != nil || !strings.HasPrefix(title, strings.ToLower(typed)) || seen[title] {
			continue
		}
		// A title that a shell cannot show cannot be typed either, and one whose
		// length changes with its case cannot be cut where the typed part ends.
		if render.CleanLine(i.Title) != i.Title || len(title) != len(i.Title) || len(strings.ToLower(typed)) != len(typed) {
			continue
		}
		seen[title] = true
		found = append(found, cobra.CompletionWithDesc(typed+i.Title[len(typed):], string(i.ID[:8])))
		if len(found) == maxCompletions {
			break
		}
	}
	return found
}
