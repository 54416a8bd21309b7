package serve

import (
	"context"
	"errors"
	"os/user"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/transfer/watch"
)

// Watched returns what the one user of this machine has watched, as tidemark watch status
// tells it; nil for the users of a team, whose watchers run elsewhere.
func (t *Opener) Watched(ctx context.Context, _ tidemark.Principal) (*web.Watch, error) {
	if !t.single || t.own == nil {
		return nil, nil
	}
	o := watch.Options{Opened: t.own, Holder: process.Self("tidemark serve")}
	if u, err := user.Current(); err == nil {
		o.User = u.Uid
	}
	c := watch.ControlOf(o)
	who, since, running, err := c.Watching(ctx)
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return nil, err
	}
	settings, err := c.Settings(ctx)
	if err != nil {
		return nil, err
	}
	report, err := c.Report(ctx)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) && !errors.Is(err, tidemark.ErrNotFound) {
		return nil, err
	}
	w := &web.Watch{Running: running, PausedUntil: settings.PausedUntil, Sources: []web.WatchedSource{}}
	if running {
		w.Watcher, w.Since = render.CleanLine(who.String()), since
	}
	for _, h := range report.Homes {
		s := web.WatchedSource{Tool: h.Tool, Path: render.CleanLine(h.Path), State: h.State, At: h.At, Sessions: h.Sessions, Failing: h.State == watch.Silent || len(h.Problems) > 0}
		for _, problem := range h.Problems {
			s.Problems = append(s.Problems, render.CleanLine(problem))
		}
		w.Sources = append(w.Sources, s)
	}
	return w, nil
}
