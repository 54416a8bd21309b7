package server

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// open paths need no caller: they tell nothing, or look after themselves.
var open = []string{"/healthz", "/readyz", "/openapi.json", "/openapi.yaml", "/openapi-3.0.json", "/openapi-3.0.yaml"}

// guarded lets through who is known, calls us by our name, and asks for no
// more than their tenant may.
func (s *Server) guarded(calls, pages http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	limits := newCallerLimits(s.o.Limits)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		r.Body = s.patient(w, r)
		if err := s.addressed(r); err != nil {
			answerProblem(w, err)
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
			answerProblem(w, tidemark.NotFoundf("%s: nothing is here; see /openapi.json", r.URL.Path))
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
				answerProblem(w, err)
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
			refuse(refused(err))
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
	return strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, tenantSpace) || r.URL.Path == "/metrics" || r.URL.Path == mcpPath
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
func (s *Server) serveCaller(w http.ResponseWriter, r *http.Request, next http.Handler, limits *callerLimits, caller Caller) {
	noteCaller(r.Context(), caller)
	leave, err := limits.enter(caller, isStream(r))
	if err != nil {
		answerProblem(w, err)
		return
	}
	defer leave()
	size := s.o.Limits.Body
	bulk := s.isBulk(r)
	if bulk {
		size = s.o.Limits.Import
	}
	if r.ContentLength > size {
		answerProblem(w, tooLarge(size))
		return
	}
	holds := limits.holding(caller)
	defer holds.release()
	r = r.WithContext(withHolding(withCaller(r.Context(), caller), holds))
	r.Body = http.MaxBytesReader(w, r.Body, size)
	if !bulk && r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := whole(r); err != nil {
			answerProblem(w, err)
			return
		}
	}
	if r.URL.Path != socketPath { // which asks again itself
		var end func()
		r, end = s.access.WhileAllowed(r, isStream(r) || r.URL.Path == mcpPath)
		defer end()
	}
	next.ServeHTTP(w, r)
}

// refused is the answer to somebody who is not known. It does not say why: who
// has a right to know finds it in the log.
func refused(err error) error {
	p := problem(err)
	if !errors.Is(err, tidemark.ErrDenied) {
		return p // the database is away: not the caller's fault
	}
	if known := new(api.Problem); errors.As(err, &known) {
		return p // who it is was found out, and what they may not do is said
	}
	return &api.Problem{Status: http.StatusUnauthorized, Title: "Unauthorized", Code: "denied", Detail: "no valid token was sent",
		Hint: "send Authorization: Bearer TOKEN"}
}

func tooMany(what string, after int) error {
	return &api.Problem{Status: http.StatusTooManyRequests, Title: "Too Many Requests", Code: "limited", Detail: what, RetryAfter: after}
}

func tooLarge(limit int64) *api.Problem {
	return &api.Problem{Status: http.StatusRequestEntityTooLarge, Title: "Request Entity Too Large", Code: "invalid",
		Detail: "the body is larger than this server takes", Errors: []api.FieldError{{Where: "body", What: "at most " + bytesText(limit)}}}
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

// callerLimits keep one tenant, and one user of a tenant, from taking what is
// there for all.
type callerLimits struct {
	l       Limits
	process *budget
	mu      sync.Mutex
	of      map[string]*callerLimit
}

func newCallerLimits(l Limits) *callerLimits {
	return &callerLimits{l: l, process: &budget{free: l.Memory}, of: make(map[string]*callerLimit)}
}

// callerLimit is what one tenant or one user has.
type callerLimit struct {
	rate              *rate.Limiter
	requests, streams chan struct{}
	memory            *budget
}

func (t *callerLimits) limit(name string, made func() *callerLimit) *callerLimit {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.of[name]
	if l == nil {
		l = made()
		t.of[name] = l
	}
	return l
}

// limits are those of a caller: the user's, and the tenant's. Tokens of the
// tenant itself are programs that know nothing of each other: each is a user.
func (t *callerLimits) limits(c Caller) []*callerLimit {
	user := c.Tenant + "/" + c.User
	if c.User == c.Tenant {
		user += "/" + c.Token
	}
	return []*callerLimit{
		t.limit(user, func() *callerLimit {
			u := t.l.User
			return newCallerLimit(u.Rate, u.Burst, u.Concurrent, u.Streams, t.l.Memory/2)
		}),
		t.limit(c.Tenant, func() *callerLimit {
			return newCallerLimit(t.l.Rate, t.l.Burst, t.l.Concurrent, t.l.Streams, t.l.Memory/4*3)
		}),
	}
}

func newCallerLimit(each float64, burst, concurrent, streams int, memory int64) *callerLimit {
	return &callerLimit{rate: rate.NewLimiter(rate.Limit(each), burst), requests: make(chan struct{}, concurrent), streams: make(chan struct{}, streams), memory: &budget{free: memory}}
}

// enter takes a place for a request. The user is asked first: what they may not
// do takes nothing from the tenant.
func (t *callerLimits) enter(c Caller, stream bool) (leave func(), err error) {
	var taken []chan struct{}
	leave = func() {
		for _, slots := range taken {
			<-slots
		}
	}
	for _, l := range t.limits(c) {
		slots := l.requests
		if stream {
			slots = l.streams
		}
		if !l.rate.Allow() {
			leave()
			return nil, tooMany("too many requests", 1)
		}
		select {
		case slots <- struct{}{}:
			taken = append(taken, slots)
		default:
			leave()
			return nil, tooMany("too many requests at the same time", 1)
		}
	}
	return leave, nil
}

// holding is for what a request of a caller makes the server hold.
func (t *callerLimits) holding(c Caller) *holding {
	h := &holding{most: t.l.Memory / 2}
	for _, l := range t.limits(c) {
		h.of = append(h.of, l.memory)
	}
	h.of = append(h.of, t.process)
	return h
}
