package server

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// open paths need no caller: they tell nothing, or look after themselves.
var open = []string{"/healthz", "/readyz", "/openapi.json", "/openapi.yaml", "/openapi-3.0.json", "/openapi-3.0.yaml"}

// guarded lets through who is known, calls us by our name, and asks for no
// more than their tenant may.
func (s *Server) guarded(calls, pages http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	limits := request.NewQuotas(s.o.Limits)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		r.Body = s.patient(w, r)
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
			s.o.Hooks.ServeHTTP(w, r.WithContext(doing(r.Context(), r.Method+" /hooks", r.URL.Path)))
			return
		case s.o.SignIn == nil && !isCall(r):
			request.AnswerProblem(w, tidemark.NotFoundf("%s: nothing is here; see /openapi.json", r.URL.Path))
			return
		case strings.HasPrefix(r.URL.Path, "/assets/"):
			s.servePages(w, r)
			return
		case r.URL.Path == "/signin" || strings.HasPrefix(r.URL.Path, "/signin/"):
			r.Body = http.MaxBytesReader(w, r.Body, smallBody)
			s.o.SignIn.ServeSignIn(w, r, showSignIn)
			return
		}
		refuse := func(err error) {
			if isCall(r) {
				request.AnswerProblem(w, err)
			} else {
				s.pageTrouble(w, r, err)
			}
		}
		if err := cross.Check(r); err != nil {
			refuse(&api.Problem{Status: http.StatusForbidden, Title: "Forbidden", Code: "denied", Detail: "a page of another origin may not do this"})
			return
		}
		r, tenants := s.spaceOf(liftToken(r))
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
			to = pages
		}
		s.serveCaller(w, r, to, limits, caller)
	})
}

// smallBody bounds what a form of ours may be.
const smallBody = 64 << 10

// isCall reports whether a request is for a program, not for a browser.
func isCall(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, tenantSpace) || r.URL.Path == "/metrics" || r.URL.Path == request.MCPPath
}

// tenantSpace is what stands before the calls of a Backend for what the tenant
// itself owns: a store URL https://HOST/tenant.
const tenantSpace = "/tenant" + api.BackendPath

// spaceOf says whether a request is for what the tenant itself owns, and
// returns it as it is otherwise.
func (s *Server) spaceOf(r *http.Request) (*http.Request, bool) {
	call, ok := strings.CutPrefix(r.URL.Path, tenantSpace)
	if !ok {
		return r, false
	}
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = api.BackendPath+call, ""
	return r, true
}

// serveCaller answers somebody who is known, within the limits of the user and
// of the tenant.
func (s *Server) serveCaller(w http.ResponseWriter, r *http.Request, next http.Handler, limits *request.Quotas, caller request.Caller) {
	request.NoteCaller(r.Context(), caller)
	leave, err := limits.Enter(caller, isStream(r))
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
	holds := limits.Holding(caller)
	defer holds.Release()
	r = r.WithContext(request.WithHolding(request.WithCaller(r.Context(), caller), holds))
	r.Body = http.MaxBytesReader(w, r.Body, size)
	if !bulk && r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := request.ReadBody(r); err != nil {
			request.AnswerProblem(w, err)
			return
		}
	}
	if r.URL.Path != request.SocketPath { // which asks again itself
		var end func()
		r, end = s.access.WhileAllowed(r, isStream(r) || r.URL.Path == request.MCPPath)
		defer end()
	}
	next.ServeHTTP(w, r)
}

// addressed refuses requests that were meant for somebody else: a page that
// made its own name point at this server finds nobody at home.
func (s *Server) addressed(r *http.Request) error {
	if s.o.Hosts == nil || s.ours(r.Host) {
		return nil
	}
	return &api.Problem{Status: http.StatusMisdirectedRequest, Title: "Misdirected Request", Code: "denied", Detail: "this server has another name",
		Hint: "name it with --host"}
}

// ours reports whether a host is one that this server answers to.
func (s *Server) ours(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if name == "localhost" {
		return true
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(s.o.Hosts, func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, host) })
}

// ourOrigin reports whether a page may open a WebSocket: it came from here, or
// no browser asks.
func (s *Server) ourOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (s.o.Hosts == nil || s.ours(u.Host))
}

// isStream reports whether an answer stays open.
func isStream(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/stream") || strings.HasSuffix(r.URL.Path, "/live") || r.URL.Path == "/api/v1/ws" || r.URL.Path == "/api/v1/backend/wait"
}

// isBulk reports whether a request may be large. The route decides: what is in
// a path is the client's, and any id could be called files.
func (s *Server) isBulk(r *http.Request) bool {
	_, route := s.mux.Handler(r)
	return strings.HasSuffix(route, " /api/v1/import") || route == api.BackendPath || strings.Contains(route, "/{id}/files/{name")
}
