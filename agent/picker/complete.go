package picker

import (
	"context"
	"strings"

	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// maxCompletionTitle is how much of a title stands beside an id.
const maxCompletionTitle = 60

// maxCompletions is how many sessions a completion offers: more would not fit on a
// screen.
const maxCompletions = 50

// maxCompletionLook is how many of the newest sessions are searched by title. The
// shell waits for this each time.
const maxCompletionLook = 2000

// Completion is a session that a shell offers for what was typed, with a word about
// it.
type Completion struct{ Text, About string }

// Complete offers sessions for what was typed: by id among all of them, by title
// among the newest. For a title it offers the title, not the id, since shells drop
// completions that do not begin with what was typed. The typed part keeps its case,
// which does not matter in titles.
func Complete(ctx context.Context, s *store.Store, typed string) []Completion {
	found := byID(ctx, s, typed)
	if typed != "" {
		found = append(found, byTitle(ctx, s, typed)...)
	}
	return found
}

// byID offers the sessions whose id begins with what was typed; the newest ones if
// nothing was typed yet.
func byID(ctx context.Context, s *store.Store, typed string) (found []Completion) {
	offer := func(i store.Info) {
		id := string(i.ID[:max(8, len(typed))])
		found = append(found, Completion{id, render.Truncate(render.CleanLine(strings.TrimSpace(i.Title)), maxCompletionTitle)})
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

// byTitle offers the titles that begin with what was typed, each once.
func byTitle(ctx context.Context, s *store.Store, typed string) (found []Completion) {
	seen := make(map[string]bool)
	for i, err := range s.Sessions(ctx, store.Filter{Limit: maxCompletionLook}) {
		title := strings.ToLower(i.Title)
		if err != nil || !strings.HasPrefix(title, strings.ToLower(typed)) || seen[title] {
			continue
		}
		// Leave out titles with characters that a shell cannot show, and titles
		// whose length changes with their case: they cannot be cut after the typed part.
		if render.CleanLine(i.Title) != i.Title || len(title) != len(i.Title) || len(strings.ToLower(typed)) != len(typed) {
			continue
		}
		seen[title] = true
		found = append(found, Completion{typed + i.Title[len(typed):], string(i.ID[:8])})
		if len(found) == maxCompletions {
			break
		}
	}
	return found
}
