package pages

import (
	"cmp"
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

// countAtOnce is how many entries the page of a session reads for that before it is
// shown: the others are counted while somebody looks at it.
const countAtOnce = 500

// usedByNow is what a session used, as far as that is known soon. The rest is counted
// meanwhile, for whoever asks again.
func (s *Site) usedByNow(ctx context.Context, v *store.View) (web.Used, error) {
	budget := countAtOnce
	used, err := s.used(ctx, v, &budget)
	if errors.Is(err, tidemark.ErrColdAway) {
		used.Partial = true // a later page counts it
		return used, nil
	}
	if err == nil && used.Partial {
		s.Begin(ctx, TaskName(request.CallerOf(ctx).Principal, "count")+"/"+v.Name(), func(ctx context.Context, _ func(int64)) (any, error) {
			return s.usedInSteps(ctx, v)
		})
	}
	return used, err
}

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
	in   map[slot]*hourly
}

// slot is an hour, since 1970, and who answered in it: any time zone's days and
// hours can be told from them.
type slot struct {
	hour  int64
	model string
}

// hourly is what was said and used in a slot.
type hourly struct {
	prompts, messages, tokens int64
	cost                      tidemark.Cost
}

// maxTallies bounds the cache, and maxSlots what is kept of one session: beyond
// it, the hours of a day are counted as one.
const (
	maxTallies = 50_000
	maxSlots   = 5000
)

// surveys are the newest ones, by their names.
type surveys struct {
	mu sync.Mutex
	of map[string]*survey
}

// maxSurveys bounds for how many people they are kept.
const maxSurveys = 64

func (s *surveys) get(name string) *survey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[name]
}

func (s *surveys) put(name string, u *survey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string]*survey)
	}
	for other := range s.of {
		if len(s.of) < maxSurveys {
			break
		}
		delete(s.of, other)
	}
	s.of[name] = u
}

func (t *tallies) get(caller request.Caller, session string) *tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := caller.Tenant + "/" + caller.User + "/" + session
	if t.of == nil {
		t.of = make(map[string]*tally)
	}
	if t.of[name] == nil {
		for other := range t.of {
			if len(t.of) < maxTallies {
				break
			}
			delete(t.of, other)
		}
		t.of[name] = &tally{upTo: make(map[string]int64), in: make(map[slot]*hourly)}
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
	if err := t.mended(ctx, v); err != nil {
		return t.used, err
	}
	out := t.used
	out.Partial = !whole
	return out, nil
}

// mended forgets a damaged entry that can be read by now. What it used is not counted, as
// a part of what was lost.
func (t *tally) mended(ctx context.Context, v *store.View) (err error) {
	if t.used.Damaged == 0 {
		return nil
	}
	if t.used.DamagedIn != "" {
		if v, err = v.Worker(ctx, t.used.DamagedIn); err != nil {
			return err
		}
	}
	if _, err = entryAt(ctx, v, t.used.Damaged); err == nil {
		t.used.Damaged, t.used.DamagedIn = 0, ""
	}
	if errors.Is(err, tidemark.ErrCorrupt) {
		err = nil
	}
	return err
}

// count continues with one log, and reports whether it reached the end.
func (t *tally) count(ctx context.Context, st *store.Store, v *store.View, worker string, budget *int) (bool, error) {
	for t.upTo[worker] < v.Entries {
		if *budget <= 0 {
			return false, nil
		}
		to := t.upTo[worker] + min(v.Entries-t.upTo[worker], int64(*budget))
		for e, err := range v.LogRange(ctx, t.upTo[worker]+1, to) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return false, err
			}
			*budget--
			t.upTo[worker] = max(t.upTo[worker], e.Seq)
			switch {
			case err == nil:
				t.add(st, v.Session, e)
			case t.used.Damaged == 0:
				t.used.Damaged, t.used.DamagedIn = e.Seq, worker
			}
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

// add counts an entry in its hour.
func (t *tally) add(st *store.Store, of tidemark.Session, e tidemark.Entry) {
	if e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap || e.At.IsZero() {
		return
	}
	at := slot{e.At.Unix() / 3600, cmp.Or(e.Model, of.Model)}
	h := t.in[at]
	if h == nil && len(t.in) >= maxSlots {
		at.hour -= at.hour % 24
		h = t.in[at]
	}
	if h == nil {
		h = &hourly{}
		t.in[at] = h
	}
	if e.Kind == tidemark.KindMessage {
		h.messages++
	}
	if isPrompt(e) {
		h.prompts++
	}
	if u := e.Usage; u != nil {
		h.tokens = sum(h.tokens, sum(sum(u.InputTokens, u.OutputTokens), sum(u.CacheReadTokens, u.CacheWriteTokens)))
		st.AddCost(&h.cost, of, e)
	}
}

// each calls do with every hour that something was said in; nil has none.
func (t *tally) each(do func(slot, hourly)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, of := range t.in {
		do(at, *of)
	}
}
