package pages

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// surveyWait is how long the first page waits for a survey that is under way, which
// that of some sessions is done in: a person should see something first. The page
// gets the numbers when they are there.
const surveyWait = 30 * time.Millisecond

// quickSessions is how many sessions are surveyed in about that time. Who has more
// need not wait in vain for the next survey: they see the last one at once.
const quickSessions = 1000

// surveyStep is how many entries of a session a survey counts at once.
const surveyStep = 500

// survey is all sessions of somebody with what each of them used. What was
// counted once is not read again: the next one reads what is new.
type survey struct {
	sessions []surveyed
	byName   map[string]int
	damaged  int
	shared   bool      // some are of other owners
	begun    time.Time // when it began to read

	mu   sync.Mutex
	told map[string]*web.HomeView // what the first page told of it
}

// surveyed is a session of a survey.
type surveyed struct {
	store.Info
	used  web.Used
	tally *tally // by hour and model
}

// surveyName is the name of the caller's survey.
func surveyName(ctx context.Context) string {
	caller := request.CallerOf(ctx)
	name := TaskName(caller.Principal, "survey")
	for _, w := range caller.Workspaces {
		name += "/" + w
	}
	return name
}

// patience is how long a page waits for a count of all sessions: who has many would
// wait in vain, and sees the rest of the page at once.
func (s *Site) patience(ctx context.Context) time.Duration {
	if last := s.surveys.get(surveyName(ctx)); last != nil && len(last.sessions) > quickSessions {
		return surveyWait
	}
	return glance
}

// surveyOf returns the newest survey of the caller, nil if there is none yet, and
// the task that makes the next one, unless the newest is fresh.
func (s *Site) surveyOf(ctx context.Context, wait time.Duration) (*survey, *task) {
	name := surveyName(ctx)
	t := s.task(name)
	if t == nil || !t.fresh(s.o.Now()) {
		t = s.Begin(ctx, name, func(ctx context.Context, progress func(int64)) (any, error) {
			u, err := s.takeSurvey(ctx, s.surveys.get(name), progress)
			if err == nil {
				s.surveys.put(name, u)
			}
			return u, err
		})
	}
	last := s.surveys.get(name)
	if last != nil && len(last.sessions) > quickSessions {
		wait = 0
	}
	if t.wait(ctx, wait) {
		if u, err := taskResult[*survey](t); err == nil {
			return u, nil
		}
	}
	return last, t
}

// settledAfter is how long a session has to be left alone until nobody is expected to
// write to it, or to a worker of it, without the session itself changing.
const settledAfter = 24 * time.Hour

// takeSurvey looks at all sessions. Those that have settled since the last survey,
// which may be nil, are not looked into again.
func (s *Site) takeSurvey(ctx context.Context, last *survey, progress func(int64)) (*survey, error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, err
	}
	u := &survey{byName: make(map[string]int), begun: st.Records().Clock()}
	for i, err := range st.Sessions(ctx, store.Filter{Each: true}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			u.damaged++
			continue
		}
		if err != nil {
			return nil, err
		}
		u.shared = u.shared || i.Owner != ""
		row, settled := last.settled(i, u.begun)
		if !settled {
			var v *store.View
			if v, err = st.ViewOf(i); err == nil {
				row.used, err = s.usedInSteps(ctx, v)
				row.tally = s.tallies.get(request.CallerOf(ctx), i.Name())
			}
		}
		row.Extra = nil // of many sessions that is much
		switch {
		case errors.Is(err, tidemark.ErrNotFound): // removed meanwhile
			continue
		case errors.Is(err, tidemark.ErrCorrupt):
			u.damaged++
		case err != nil:
			return nil, err
		}
		u.byName[i.Name()] = len(u.sessions)
		u.sessions = append(u.sessions, row)
		if len(u.sessions)%16 == 0 {
			progress(int64(len(u.sessions)))
		}
	}
	return u, ctx.Err()
}

// settled is the row of a session, and whether it is what the survey had.
func (u *survey) settled(i store.Info, now time.Time) (surveyed, bool) {
	row := surveyed{Info: i}
	if u == nil || now.Sub(i.UpdatedAt) < settledAfter {
		return row, false
	}
	at, ok := u.byName[i.Name()]
	if !ok || !u.sessions[at].UpdatedAt.Equal(i.UpdatedAt) || u.sessions[at].Entries != i.Entries || u.sessions[at].used.Partial {
		return row, false
	}
	row.used, row.tally = u.sessions[at].used, u.sessions[at].tally
	return row, true
}

// usedInSteps counts all that a session used. A page that shows the session
// meanwhile waits for one step at most.
func (s *Site) usedInSteps(ctx context.Context, v *store.View) (web.Used, error) {
	for {
		budget := surveyStep
		if used, err := s.used(ctx, v, &budget); err != nil || !used.Partial {
			return used, err
		}
	}
}

// usedBy is what a session used, as far as the survey knows it.
func (u *survey) usedBy(i store.Info) web.Used {
	if u != nil {
		if at, ok := u.byName[i.Name()]; ok {
			return u.sessions[at].used
		}
	}
	return web.Used{Partial: true}
}

// costOf is the range that what a session cost is in, "" if that is not known.
func (u *survey) costOf(i store.Info) string {
	used := u.usedBy(i)
	if used.Partial || used.CostUSD == nil {
		return ""
	}
	return web.CostRange(used.USD())
}

// totals adds up sessions.
func (u *survey) totals(sessions []store.Info) web.Totals {
	var t web.Totals
	for _, i := range sessions {
		used := u.usedBy(i)
		t.Sessions++
		t.Turns += i.Nodes
		t.InputTokens = sum(t.InputTokens, used.InputTokens)
		t.OutputTokens = sum(t.OutputTokens, used.OutputTokens)
		t.CacheTokens = sum(t.CacheTokens, used.CacheTokens)
		t.Cost.Add(used.Cost)
		t.Partial = t.Partial || used.Partial
	}
	return t
}
