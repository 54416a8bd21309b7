package server

import (
	"net/http"
	"strings"

	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/wire"
)

// placed lets a request that only reads be answered by a replica that has what the caller has
// seen and written before, and has the answer say how far it is. What stays open, and
// what writes, is for the primary.
func (s *Server) placed(w http.ResponseWriter, r *http.Request) *http.Request {
	out, ok := w.(*request.Recorder)
	waits := r.URL.Path == api.BackendPath+"wait"
	if s.o.Reading == nil || !ok || isStream(r) && !waits || r.URL.Path == request.MCPPath {
		return r
	}
	at, sent := r.Header.Get(api.PositionHeader), ""
	if c, err := r.Cookie(api.PositionCookie); err == nil {
		sent = c.Value
	}
	if at == "" {
		at = sent
	}
	ctx, position := s.o.Reading(r.Context(), at, waits || !onlyReads(r))
	out.Before(func(int) {
		now := position(ctx)
		if now == "" {
			return
		}
		out.Header().Set(api.PositionHeader, now)
		if r.Header.Get("Authorization") == "" && now != sent { // a browser
			http.SetCookie(out, &http.Cookie{Name: api.PositionCookie, Value: now, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
		}
	})
	return r.WithContext(ctx)
}

// onlyReads reports whether a request changes nothing. Some that read have a body.
func onlyReads(r *http.Request) bool {
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return true
	case strings.HasPrefix(r.URL.Path, api.BackendPath):
		return !wire.Writes(r)
	}
	return false
}
