package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// An answer that stays open is checked again like a new request: when somebody
// changes here who may do what, and every few seconds for what was changed at
// another server.

// accessChanges tells those who wait that somebody may do more or less than
// before.
type accessChanges struct {
	mu   sync.Mutex
	next chan struct{}
}

// wait returns a channel that is closed with the next change.
func (a *accessChanges) wait() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == nil {
		a.next = make(chan struct{})
	}
	return a.next
}

func (a *accessChanges) tell() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next != nil {
		close(a.next)
		a.next = nil
	}
}

// forgetter is an Authenticator that remembers who somebody is for a while.
type forgetter interface{ Forget() }

// accessChanged makes everything that is open prove itself again.
func (s *Server) accessChanged() {
	if f, ok := s.o.Auth.(forgetter); ok {
		f.Forget()
	}
	s.access.tell()
}

// changesAccess reports whether a call that was done may have changed who may
// do what.
func changesAccess(r *http.Request) bool {
	return auditsItself(r) || r.URL.Path == "/signout"
}

// errOtherRights says that a caller may do other things than when an answer
// began: whoever asks again is told what is right now.
var errOtherRights = away("what the caller may do has changed; ask again")

// whileAllowed returns the request with a context that ends when its caller may
// not go on, with the reason as its cause. One that stays open is watched from
// the first; any other once it takes longer than a look is due: whoever reads a
// large answer slowly reads what there is now.
func (s *Server) whileAllowed(r *http.Request, staysOpen bool) (_ *http.Request, end func()) {
	ctx, stop := context.WithCancelCause(r.Context())
	watch := func() {
		every := time.NewTicker(s.o.Limits.Recheck)
		defer every.Stop()
		for first := !staysOpen; ; first = false {
			changed := s.access.wait()
			if !first {
				select {
				case <-ctx.Done():
					return
				case <-changed:
				case <-every.C:
				}
			}
			if err := s.mayGoOn(r, CallerOf(ctx), Reader); err != nil {
				stop(err)
				return
			}
		}
	}
	later := s.o.Limits.Recheck
	if staysOpen {
		later = 0
	}
	begin := time.AfterFunc(later, watch)
	return r.WithContext(ctx), func() {
		begin.Stop()
		stop(nil)
	}
}

// mayGoOn asks again who made a request. A token that was revoked, or whose
// tenant or user was suspended, ends what was begun with it, and so does a
// workspace that somebody is not in any more: what is open was opened with it.
// That nobody can be asked just now ends nothing.
func (s *Server) mayGoOn(r *http.Request, was Caller, need Role) error {
	ctx, stop := context.WithTimeout(r.Context(), closePatience)
	defer stop()
	now, err := s.o.Auth.Authenticate(r.WithContext(ctx))
	if was.User == was.Tenant {
		now.User = now.Tenant // it is about what the tenant itself owns
	}
	switch {
	case errors.Is(err, tidemark.ErrDenied):
		return err
	case err != nil:
		note(ctx, "error", err.Error())
		return nil
	case now.Tenant != was.Tenant || now.User != was.User || !now.Role.May(need):
		return tidemark.ErrDenied
	case !now.Role.May(was.Role) || slices.ContainsFunc(was.Workspaces, func(w string) bool { return !slices.Contains(now.Workspaces, w) }):
		return errOtherRights
	}
	return nil
}

// refusedSince is the problem of a caller who may not go on, nil when that is
// not why ctx ended.
func refusedSince(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errOtherRights) || errors.Is(cause, tidemark.ErrDenied) {
		return refused(cause)
	}
	return nil
}
