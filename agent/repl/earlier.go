package repl

import (
	"context"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// earlierSessions is from how many of the newest sessions lines come back
	// with Up and Ctrl-R, earlierEntries how much of each is read for that, and
	// maxEarlier how long such a line may be.
	earlierSessions = 30
	earlierEntries  = 60
	maxEarlier      = 4 << 10
)

// earlier is what the person said in the newest sessions, of this project and of
// others, oldest first. It is read from the store, so that no second copy of it
// lies anywhere, and what is purged there is gone here.
func (r *repl) earlier(ctx context.Context) []string {
	var sessions []store.Info
	for i, err := range r.Store.Sessions(ctx, store.Filter{Tool: store.Native, Limit: earlierSessions}) {
		if err == nil {
			sessions = append(sessions, i)
		}
	}
	// Those of this project are the nearest.
	slices.SortStableFunc(sessions, func(a, b store.Info) int {
		return here(b, r.Options.Project) - here(a, r.Options.Project)
	})
	slices.Reverse(sessions)
	var lines []string
	for _, i := range sessions {
		v, err := r.Store.View(ctx, i.ID)
		if err != nil {
			continue
		}
		for e, err := range v.Tail(ctx, 0, earlierEntries) {
			if err == nil && e.Role == tidemark.User && e.Kind == tidemark.KindMessage {
				if line := typed(e); line != "" && len(line) <= maxEarlier {
					lines = append(lines, line)
				}
			}
		}
	}
	return lines
}

func here(i store.Info, project string) int {
	if i.Project == project {
		return 1
	}
	return 0
}

// typed is what the person typed in a message: neither the documents before it
// nor what was added after it.
func typed(e tidemark.Entry) (line string) {
	for _, b := range e.Blocks {
		if b.Type == tidemark.BlockText && b.Text != slash.PlanFirst {
			line = b.Text
		}
	}
	return line
}
