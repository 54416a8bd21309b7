package auth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// An answer that stays open is checked again like a new request: when somebody
// changes here who may do what, and every few seconds for changes at another
// server.

// Access says whether an admitted caller may continue, and notifies waiters
// when somebody may do more or less than before.
type Access struct {
	auth    request.Authenticator
	recheck time.Duration // how often open answers are checked again

	mu   sync.Mutex
	next chan struct{}
}

// NewAccess returns the Access for callers that auth knows, who are checked
// again after each recheck.
func NewAccess(auth request.Authenticator, recheck time.Duration) *Access {
	return &Access{auth: auth, recheck: recheck}
}

// Wait returns a channel that is closed at the next change.
func (a *Access) Wait() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == nil {
		a.next = make(chan struct{})
	}
	return a.next
}

// Waiting reports whether anything waits for a change.
func (a *Access) Waiting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next != nil
}

func (a *Access) tell() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next != nil {
		close(a.next)
		a.next = nil
	}
}

// forgetter is an Authenticator that caches callers for a while.
type forgetter interface{ Forget() }

// Changed makes every open answer check its caller again.
func (a *Access) Changed() {
	if f, ok := a.auth.(forgetter); ok {
		f.Forget()
	}
	a.tell()
}

// WhileAllowed returns the request with a context that ends when its caller may
// not continue, with the reason as its cause. A request that stays open is
// watched from the start; any other once it takes longer than the recheck
// interval, for example while a large answer is read slowly.
func (a *Access) WhileAllowed(r *http.Request, staysOpen bool) (_ *http.Request, end func()) {
	ctx, stop := context.WithCancelCause(r.Context())
	watch := func() {
		every := time.NewTicker(a.recheck)
		defer every.Stop()
		for first := !staysOpen; ; first = false {
			changed := a.Wait()
			if !first {
				select {
				case <-ctx.Done():
					return
				case <-changed:
				case <-every.C:
				}
			}
			if err := a.Recheck(r, request.CallerOf(ctx), request.Reader); err != nil {
				stop(err)
				return
			}
		}
	}
	later := a.recheck
	if staysOpen {
		later = 0
	}
	begin := time.AfterFunc(later, watch)
	return r.WithContext(ctx), func() {
		begin.Stop()
		stop(nil)
	}
}

// recheckTimeout bounds one check of a caller.
const recheckTimeout = 30 * time.Second

// Recheck checks again who made a request. If the token was revoked, its
// tenant or user suspended, or the user removed from a workspace, what was
// begun with it ends. If the check is not possible just now, nothing ends.
func (a *Access) Recheck(r *http.Request, was request.Caller, need request.Role) error {
	ctx, stop := context.WithTimeout(r.Context(), recheckTimeout)
	defer stop()
	now, err := a.auth.Authenticate(r.WithContext(ctx))
	if was.User == was.Tenant {
		now.User = now.Tenant // it concerns what the tenant itself owns
	}
	switch {
	case errors.Is(err, tidemark.ErrDenied):
		return err
	case err != nil:
		request.Note(ctx, "error", err.Error())
		return nil
	case now.Tenant != was.Tenant || now.User != was.User || !now.Role.May(need):
		return tidemark.ErrDenied
	case !now.Role.May(was.Role) || slices.ContainsFunc(was.Workspaces, func(w string) bool { return !slices.Contains(now.Workspaces, w) }):
		return request.ErrOtherRights
	}
	return nil
}
