package pages

import (
	"context"
	"errors"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// countBudget is how many entries a page reads to know what sessions used. The
// store keeps no sums, and a page should not wait for a long session: the rest
// is counted by later pages.
const countBudget = 4000

// tallies caches what sessions used, and how far that was counted. Logs only
// grow, so a count stays valid.
type tallies struct {
	mu sync.Mutex
	of map[string]*tally
}

type tally struct {
	mu   sync.Mutex
	upTo map[string]int64 // by worker, "" for the session itself
	used web.Used
}

// maxTallies bounds the cache.
const maxTallies = 10_000

func (t *tallies) get(caller request.Caller, session string) *tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := caller.Tenant + "/" + caller.User + "/" + session
	if t.of == nil || len(t.of) >= maxTallies {
		t.of = make(map[string]*tally)
	}
	if t.of[name] == nil {
		t.of[name] = &tally{upTo: make(map[string]int64)}
	}
	return t.of[name]
}

// used is what a session and its workers used, as far as the budget allows
// counting. Of a fork it is what came after the shared past.
func (s *Site) used(ctx context.Context, v *store.View, budget *int) (web.Used, error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return web.Used{}, err
	}
	t := s.tallies.get(request.CallerOf(ctx), v.Name())
	t.mu.Lock()
	defer t.mu.Unlock()
	whole := true
	if _, begun := t.upTo[""]; !begun && v.Base != nil {
		t.upTo[""] = v.Base.Seq
	}
	done, err := t.count(ctx, st, v, "", budget)
	if err != nil {
		return t.used, err
	}
	whole = whole && done
	workers, err := v.Workers(ctx)
	if err != nil {
		return t.used, err
	}
	for _, name := range workers {
		w, err := v.Worker(ctx, name)
		if errors.Is(err, tidemark.ErrNotFound) {
			continue
		}
		if err != nil {
			return t.used, err
		}
		if done, err = t.count(ctx, st, w, name, budget); err != nil {
			return t.used, err
		}
		whole = whole && done
	}
	out := t.used
	out.Partial = !whole
	return out, nil
}

// count continues with one log, and reports whether it reached the end.
func (t *tally) count(ctx context.Context, st *store.Store, v *store.View, worker string, budget *int) (bool, error) {
	for t.upTo[worker] < v.Entries {
		if *budget <= 0 {
			return false, nil
		}
		to := min(v.Entries, t.upTo[worker]+int64(*budget))
		for e, err := range v.LogRange(ctx, t.upTo[worker]+1, to) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return false, err
			}
			*budget--
			t.upTo[worker] = max(t.upTo[worker], e.Seq)
			if u := e.Usage; err == nil && u != nil {
				t.used.InputTokens += u.InputTokens
				t.used.OutputTokens += u.OutputTokens
				t.used.CacheTokens += u.CacheReadTokens + u.CacheWriteTokens
				st.AddCost(&t.used.Cost, v.Session, e)
			}
		}
		t.upTo[worker] = max(t.upTo[worker], to)
	}
	return true, nil
}
