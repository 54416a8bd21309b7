package pages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// stateEvery is how often a stream looks for what changed, and stateLife how
	// long several streams of one person share an answer.
	stateEvery = 2 * time.Second
	stateLife  = time.Second
	// stateSessions is how many of the newest sessions are looked at: as many as a
	// list shows at once.
	stateSessions = 50
	// maxStates bounds for how many people an answer is kept.
	maxStates = 1000
)

// states are what pages were told last, by person.
type states struct {
	mu sync.Mutex
	of map[string]*keptState
}

type keptState struct {
	mu    sync.Mutex
	at    time.Time
	state web.State
}

func (s *states) get(name string) *keptState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= maxStates && s.of[name] == nil {
		s.of = make(map[string]*keptState)
	}
	if s.of[name] == nil {
		s.of[name] = &keptState{}
	}
	return s.of[name]
}

// stateOf is what waits for the caller, and versions of what lists show: a page
// that has another one is outdated. What cannot be read has none.
func (s *Site) stateOf(ctx context.Context) web.State {
	caller := request.CallerOf(ctx)
	kept := s.states.get(caller.Tenant + "/" + caller.User)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if now := s.o.Now(); now.Sub(kept.at) > stateLife || now.Before(kept.at) {
		var next web.State
		next.Asking = len(s.api.Asking(ctx))
		next.Sessions, _ = s.sessionsVersion(ctx)
		next.Waiting, next.Fleet, _ = s.fleetVersion(ctx)
		if ctx.Err() != nil {
			return kept.state
		}
		kept.state, kept.at = next, now
	}
	return kept.state
}

func (s *Site) sessionsVersion(ctx context.Context) (string, error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for i, err := range st.Sessions(ctx, store.Filter{Each: true, Limit: stateSessions}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return "", err
		}
		fmt.Fprintln(h, i.Name(), i.UpdatedAt.UnixNano(), i.Title, i.Tags, i.Pinned, i.OnHold, !i.Gone.IsZero())
	}
	leases, err := leasesOf(ctx, st)
	if err != nil {
		return "", err
	}
	var held []string
	for id, l := range leases {
		// Who holds it is told in the header, also when one hands it over to another.
		held = append(held, fmt.Sprintln(id, l.Held, l.Dead, l.Expired, l.Holder.String()))
	}
	slices.Sort(held)
	fmt.Fprintln(h, held, s.api.Asking(ctx))
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

func (s *Site) fleetVersion(ctx context.Context) (waiting int, version string, err error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return 0, "", err
	}
	running, err := st.Running(ctx, "")
	if err != nil {
		return 0, "", err
	}
	reviews, err := st.WaitingReviews(ctx, "")
	if err != nil {
		return 0, "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, running)
	for _, v := range reviews {
		if slices.Contains(running, v.Job) {
			waiting++
			fmt.Fprintln(h, v.Job, v.Call)
		}
	}
	for j, err := range st.JobsAfter(ctx, fleet.JobFilter{Limit: 1}, fleet.Mark{}) {
		if err == nil {
			fmt.Fprintln(h, j.ID, j.Status, j.Mark.At.UnixNano())
		}
	}
	return waiting, hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// tellState sends what changed until the stream ends.
func (s *Site) tellState(ctx context.Context, send func(routes.Event) error) error {
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	var told web.State
	for first := true; ; first = false {
		if now := s.stateOf(ctx); first || now != told {
			told = now
			if err := send(routes.Event{Name: "state", Data: now}); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stateStream is the stream of a page that has none of its own.
func (s *Site) stateStream(w http.ResponseWriter, r *http.Request) {
	if !request.CallerOf(r.Context()).Role.May(request.Reader) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	s.api.Stream(w, r, s.tellState)
}

// besides runs a stream and tells the state with it: a browser opens few streams
// to one server, so that a page has one.
func (s *Site) besides(follow func(context.Context, func(routes.Event) error) error) func(context.Context, func(routes.Event) error) error {
	return func(ctx context.Context, send func(routes.Event) error) error {
		ctx, stop := context.WithCancel(ctx)
		var over sync.WaitGroup
		over.Go(func() { _ = s.tellState(ctx, send) }) // it ends with the stream
		defer over.Wait()
		defer stop()
		return follow(ctx, send)
	}
}
