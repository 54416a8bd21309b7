package sync

import (
	"context"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// CheckElsewhere adds to a checkup when each remote was last met, and how many
// sessions are at none of them as they are here. It asks no remote.
func CheckElsewhere(ctx context.Context, c *open.Checkup, s *store.Store) error {
	remotes := Of(s.Records(), "", nil)
	all, err := remotes.List(ctx)
	if err != nil {
		return err
	}
	const what = "sessions elsewhere"
	if len(all) == 0 {
		c.Add(what, open.Healthy, "no remote: what is here is on this machine alone").Fix = "share it by: tidemark remote add NAME URL"
		return nil
	}
	var alone map[tidemark.SessionID]bool
	for _, r := range all {
		missing, err := remotes.missing(ctx, s, r.Name)
		if err != nil {
			return err
		}
		for id := range alone {
			if !missing[id] {
				delete(alone, id)
			}
		}
		if alone == nil {
			alone = missing
		}
		met := "never met"
		if !r.MetAt.IsZero() {
			met = "last met at " + r.MetAt.UTC().Format(time.RFC3339)
		}
		c.Add("remote "+r.Name, open.Healthy, "%s, %s", r.URL, met)
	}
	if len(alone) == 0 {
		c.Add(what, open.Healthy, "each is at a remote as it is here, but for those with the tag %s", Private)
		return nil
	}
	c.Add(what, open.Warning, "%d are at no remote as they are here", len(alone)).Fix = "tidemark push"
	return nil
}

// missing returns the sessions that are not at a remote as they are here, by what was
// last pushed there.
func (r *Remotes) missing(ctx context.Context, s *store.Store, name string) (map[tidemark.SessionID]bool, error) {
	y := &syncer{s: s, k: r.k, o: Options{DryRun: true}, remotes: r, report: &Report{}, machines: make(map[string]bool), states: make(map[int]*shardState)}
	var err error
	if y.c, err = r.load(ctx, name); err != nil {
		return nil, err
	}
	todo, err := y.changed(ctx)
	if err != nil {
		return nil, err
	}
	missing := make(map[tidemark.SessionID]bool)
	for _, ids := range todo {
		for _, id := range ids {
			if has, err := r.k.Has(ctx, store.LogKey(id, "")); err != nil {
				return nil, err
			} else if has { // what was purged is nowhere
				missing[id] = true
			}
		}
	}
	return missing, nil
}
