package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/stores"
)

// open are the paths that need no caller: they reveal nothing, or protect
// themselves.
var open = []string{"/healthz", "/readyz", "/openapi.json", "/openapi.yaml", "/openapi-3.0.json", "/openapi-3.0.yaml"}

// guarded admits known callers that use one of our names and stay within
// the limits of their tenant.
func (s *Server) guarded(calls, site http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	limits := s.stores.Quotas()
	s.metrics.limited = limits.Limited()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		r.Body = s.timed(w, r)
		if err := s.addressed(r); err != nil {
			request.AnswerProblem(w, err)
			return
		}
		switch {
		case slices.Contains(open, r.URL.Path):
			calls.ServeHTTP(w, r)
			return
		case s.o.Hooks != nil && strings.HasPrefix(r.URL.Path, "/hooks/"):
			r.Body = http.MaxBytesReader(w, r.Body, s.o.Limits.Body)
			s.o.Hooks.ServeHTTP(w, r.WithContext(stores.Doing(r.Context(), r.Method+" /hooks", r.URL.Path)))
			return
		case strings.HasPrefix(r.URL.Path, request.SharedPath):
			s.serveLink(w, r)
			return
		case s.o.SignIn == nil && !isCall(r):
			request.AnswerProblem(w, tidemark.NotFoundf("%s: nothing is here; see /openapi.json", r.URL.Path))
			return
		case strings.HasPrefix(r.URL.Path, "/assets/"):
			s.pages.ServeHTTP(w, r)
			return
		case r.URL.Path == "/signin" || strings.HasPrefix(r.URL.Path, "/signin/"):
			r.Body = http.MaxBytesReader(w, r.Body, smallBody)
			pages.KeepNext(w, r)
			s.o.SignIn.ServeSignIn(w, r, pages.ShowSignIn)
			return
		}
		refuse := func(err error) {
			if isCall(r) {
				request.AnswerProblem(w, err)
			} else {
				s.pages.Trouble(w, r, err)
			}
		}
		if err := cross.Check(r); err != nil {
			refuse(&api.Problem{Status: http.StatusForbidden, Title: "Forbidden", Code: "denied", Detail: "a page of another origin may not do this"})
			return
		}
		r, tenants := s.spaceOf(routes.LiftToken(r))
		caller, err := s.o.Auth.Authenticate(r)
		if err != nil {
			refuse(request.Refused(err))
			return
		}
		if tenants {
			caller.User = caller.Tenant
		}
		to := calls
		if !isCall(r) {
			to = site
		}
		s.serveCaller(w, r, to, limits, caller)
	})
}

// smallBody bounds the body of a form.
const smallBody = 64 << 10

// isCall reports whether a request comes from a program, not from a browser.
func isCall(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, tenantSpace) || r.URL.Path == "/metrics" || r.URL.Path == request.MCPPath
}

// tenantSpace is the path prefix of the Backend calls for what the tenant
// itself owns: a store URL https://HOST/tenant.
const tenantSpace = "/tenant" + api.BackendPath

// spaceOf reports whether a request is for what the tenant itself owns,
// and returns it without that prefix.
func (s *Server) spaceOf(r *http.Request) (*http.Request, bool) {
	call, ok := strings.CutPrefix(r.URL.Path, tenantSpace)
	if !ok {
		return r, false
	}
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = api.BackendPath+call, ""
	_, route := s.mux.Handler(r)
	request.NoteRoute(r.Context(), route)
	return r, true
}

// serveCaller serves a known caller, within the limits of the user and of the
// tenant.
func (s *Server) serveCaller(w http.ResponseWriter, r *http.Request, next http.Handler, limits *request.Quotas, caller request.Caller) {
	request.NoteCaller(r.Context(), caller)
	ctx := r.Context()
	leave, err := limits.Enter(ctx, caller, isStream(r))
	kept, _ := s.stores.Kept(ctx, caller.Principal, false) // it asks nobody
	limits.Tell(ctx, w.Header(), caller, kept)
	if err != nil {
		request.AnswerProblem(w, err)
		return
	}
	defer leave()
	size := s.o.Limits.Body
	bulk := s.isBulk(r)
	if bulk {
		size = s.o.Limits.Import
	}
	if r.ContentLength > size {
		request.AnswerProblem(w, request.TooLarge(size))
		return
	}
	if count := limits.Count(ctx, caller); count != nil {
		r.Body = request.Counted(r.Body, count)
		if out, ok := w.(*request.Recorder); ok {
			out.Wrote = count
		}
	}
	holds := limits.Holding(ctx, caller)
	defer holds.Release()
	r = r.WithContext(request.WithHolding(request.WithCaller(r.Context(), caller), holds))
	r.Body = http.MaxBytesReader(w, r.Body, size)
	if !bulk && r.Method != http.MethodGet && r.Method != http.MethodHead {
		by := request.JSONWeights
		if !isCall(r) && strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
			by = request.FormWeights // nothing of it is read as JSON
		}
		if err := request.ReadBody(r, by); err != nil {
			request.AnswerProblem(w, err)
			return
		}
	}
	if r.URL.Path != request.SocketPath { // the WebSocket checks again itself
		var end func()
		r, end = s.access.WhileAllowed(r, isStream(r) || r.URL.Path == request.MCPPath)
		defer end()
	}
	next.ServeHTTP(w, s.placed(w, r))
}

// addressed refuses requests that were meant for another host: a page whose
// own name was made to point at this server gets nothing.
func (s *Server) addressed(r *http.Request) error {
	if s.o.Hosts == nil || request.Hosts(s.o.Hosts).Ours(r.Host) {
		return nil
	}
	return &api.Problem{Status: http.StatusMisdirectedRequest, Title: "Misdirected Request", Code: "denied", Detail: "this server has another name",
		Hint: "name it with --host"}
}

// isStream reports whether an answer stays open.
func isStream(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/stream") || strings.HasSuffix(r.URL.Path, "/live") || r.URL.Path == "/api/v1/ws" || r.URL.Path == "/api/v1/backend/wait"
}

// isBulk reports whether a request may be large. The route decides: paths
// contain the client's values, and any id could be called files.
func (s *Server) isBulk(r *http.Request) bool {
	route := request.Route(r.Context())
	return strings.HasSuffix(route, " /api/v1/import") || route == api.BackendPath || strings.HasSuffix(route, " "+request.LinksPath+"/{name}") || strings.Contains(route, "/{id}/files/{name")
}
