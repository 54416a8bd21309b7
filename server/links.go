package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/transfer/link"
)

const (
	// maxOpenings bounds the copies that are in memory at the same time.
	maxOpenings = 16
	// openingTimeout bounds how long a stranger takes to receive one.
	openingTimeout = 2 * time.Minute
)

// serveLink answers to a stranger who has a link: SharedPath NAME is a page, which
// asks for NAME/sealed, the copy. Neither says whose it is.
func (s *Server) serveLink(w http.ResponseWriter, r *http.Request) {
	name, sealed := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, request.SharedPath), "/sealed")
	h := w.Header()
	h.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", link.Policy()+"; frame-ancestors 'none'")
	refuse := func(status int, says string) {
		h.Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		w.Write(link.Ended(says))
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		refuse(http.StatusMethodNotAllowed, "A link can only be opened.")
		return
	}
	if !s.visitors.Enter(r) {
		h.Set("Retry-After", "5")
		refuse(http.StatusTooManyRequests, "Too many links were opened from your address. Load the page again later.")
		return
	}
	var l tenant.Link
	var copied []byte
	err := error(tidemark.Storagef("too many links are being opened"))
	if leave := s.opening(r.Context(), sealed); leave != nil {
		defer leave()
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(openingTimeout))
		l, copied, err = s.openLink(r.Context(), name, sealed)
	}
	switch {
	case errors.Is(err, tidemark.ErrNotFound):
		refuse(http.StatusNotFound, "There is no such link. It may have ended long ago, or a part of it is missing.")
	case err != nil:
		request.Note(r.Context(), "error", err.Error())
		h.Set("Retry-After", "5")
		refuse(http.StatusServiceUnavailable, "The server cannot open the link now. Load the page again later.")
	case l.State == tenant.Expired:
		refuse(http.StatusGone, "This link has expired, and the copy that it led to was removed.")
	case l.State != tenant.Active:
		refuse(http.StatusGone, "This link was revoked, and the copy that it led to was removed.")
	case sealed:
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Length", strconv.Itoa(len(copied)))
		w.Write(copied)
	default:
		h.Set("Content-Type", "text/html; charset=utf-8")
		w.Write(link.Page())
	}
}

// opening takes a place for a copy; nil: there is none for a while.
func (s *Server) opening(ctx context.Context, sealed bool) (leave func()) {
	if !sealed {
		return func() {}
	}
	ctx, stop := context.WithTimeout(ctx, openingTimeout/10)
	defer stop()
	select {
	case s.openings <- struct{}{}:
		return func() { <-s.openings }
	case <-ctx.Done():
		return nil
	}
}

// openLink returns a link and, if it is asked for, its copy. A link of somebody who
// was suspended is not found.
func (s *Server) openLink(ctx context.Context, name string, sealed bool) (l tenant.Link, copied []byte, err error) {
	users, err := s.stores.Operators(ctx)
	if err != nil {
		return l, nil, err
	}
	if l, err = users.Link(ctx, name); err != nil {
		return l, nil, err
	}
	missing := tidemark.NotFoundf("no such link")
	if t, err := users.Tenant(ctx, l.Tenant); err == nil && t.State != tenant.Active {
		return l, nil, missing
	} else if err != nil && !errors.Is(err, tidemark.ErrNotFound) { // the one user of a machine has no tenant
		return l, nil, err
	}
	if u, err := users.User(ctx, l.Tenant, l.User); err == nil && u.State != tenant.Active {
		return l, nil, missing
	} else if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return l, nil, err
	}
	if !sealed || l.State != tenant.Active {
		return l, nil, nil
	}
	return users.OpenLink(ctx, name)
}
