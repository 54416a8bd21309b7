// Package server is Tidemark over HTTP: the sessions and the fleet of a
// person or of many tenants, for programs and browsers. It decides who calls,
// what they may do and how much, and leaves the rules to package store.
//
// It never reads the environment, opens no store and runs no model itself:
// whoever makes a Server gives it what it needs as functions.
//
//	h, err := server.New(server.Options{Open: open, Auth: auth})
//	http.Serve(listener, h)
package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// Options are what a Server needs. Open and Auth are required.
type Options struct {
	// Open returns the store of a principal. It may return the same one for
	// every call, and is asked once for each principal that is at work.
	Open func(context.Context, tidemark.Principal) (*store.Store, error)
	// Auth says who makes a request.
	Auth request.Authenticator
	// Holder is this server as the holder of leases.
	Holder tidemark.Holder
	// Hosts are the names under which the server may be called, besides
	// loopback ones; nil: any, when Origins are not needed.
	Hosts []string
	// Ready reports what keeps the server from working; nil: nothing does.
	Ready func(context.Context) error
	// Export writes a session in a format and returns its media type first.
	// Formats lists those that there are. Import takes what a client sent.
	Export  func(ctx context.Context, s *store.Store, at store.Point, format string) (mediaType string, write func(io.Writer) error, err error)
	Formats []string
	Import  func(ctx context.Context, s *store.Store, name string, content io.Reader) ([]Imported, error)
	// Chat opens conversations for the WebSocket; nil: there is none.
	Chat func(ctx context.Context, s *store.Store, o ChatOptions) (Conversation, error)
	// SignIn lets browsers in; nil: there are no pages.
	SignIn auth.SignIn
	// Backend returns what is kept for a principal as it is kept, for clients
	// that bring their own rules and keys; nil: none can.
	Backend func(context.Context, tidemark.Principal) (tidemark.Backend, error)
	// Acts returns the places where it is written down who did what in a tenant;
	// nil: the stores that were opened.
	Acts func(ctx context.Context, tenant string) ([]tidemark.Backend, error)
	// Together says that what all principals of a tenant do is written down in
	// one place, and not in a store of each.
	Together bool
	// NoAudit says that the store cannot keep an audit log.
	NoAudit bool
	// Inspect tells what the pages say of where things are kept: how large that
	// is, by which keys it opens, what copies there are; nil: nothing is known.
	Inspect func(context.Context, tidemark.Principal) (Inspection, error)
	// MCP makes what answers other agents at /mcp; nil: nothing does.
	MCP func(MCP) http.Handler
	// Hooks takes webhooks, which prove themselves; nil: there are none.
	Hooks http.Handler
	// Tracer is told what each request took; nil: nobody is.
	Tracer trace.Tracer
	// Log gets one line a request, without content. The default is none.
	Log *slog.Logger
	// Limits bound what callers may do.
	Limits request.Limits
	// CursorKey makes cursors that nobody else can; servers that share it take
	// each other's. The default is a random one.
	CursorKey []byte
	// Version is what the server says it is.
	Version string
	// Now tells the time. The default is time.Now.
	Now func() time.Time
}

// Imported is one session that came in.
type Imported struct {
	ID      tidemark.SessionID `json:"id"`
	Title   string             `json:"title,omitempty"`
	Entries int64              `json:"entries"`
	Known   bool               `json:"known"` // it was there already
	Lost    []string           `json:"lost,omitempty"`
}

// ChatOptions say which conversation to open.
type ChatOptions struct {
	Session  tidemark.SessionID // "": a new one
	ForceNew bool               // with fresh interpreters and buffers
	Model    string
	// Emit is told what happens between turns. A value that is emitted becomes
	// one JSON message.
	Emit func(any) error
}

// Conversation is a session that a client talks to. Nothing of it is left
// after Close.
type Conversation interface {
	ID() tidemark.SessionID
	// Send takes what the user says, and tells what happens until the turn is
	// over. A value that is emitted becomes one JSON message.
	Send(ctx context.Context, text string, emit func(any) error) error
	// Answer is the answer to a question that was emitted.
	Answer(call string, allow bool) error
	Close(ctx context.Context) error
}

// Server is an http.Handler.
type Server struct {
	o       Options
	api     huma.API
	mux     *http.ServeMux // the API
	pages   *http.ServeMux
	handler http.Handler
	metrics *metrics

	mu     sync.Mutex
	stores map[string]*opened

	work    sessionWork // what is under way with single sessions
	sources sources     // what is followed

	tallies tallies // what sessions used

	audits auditQueue  // what is not in the audit log yet
	boots  boots       // what is written down with each change
	reads  auth.Seldom // who read the audit log

	access *auth.Access // who may do what

	tasks tasks // what pages began and do not wait for

	shutdown *request.Shutdown
}

// New returns a Server.
func New(o Options) (*Server, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.CursorKey == nil {
		o.CursorKey = newCursorKey()
	}
	o.Limits = o.Limits.WithDefaults()
	s := &Server{o: o, mux: http.NewServeMux(), pages: http.NewServeMux(), stores: make(map[string]*opened), shutdown: request.NewShutdown(), access: auth.NewAccess(o.Auth, o.Limits.Recheck), metrics: newMetrics(o.Version)}
	s.api = humago.New(s.mux, config(o.Version))
	s.sessionRoutes()
	s.entryRoutes()
	s.leaseRoutes()
	s.fleetRoutes()
	s.itemRoutes()
	s.adminRoutes()
	s.socketRoutes()
	s.mcpRoutes()
	s.plainRoutes()
	s.pageRoutes()
	s.handler = s.watched(s.guarded(s.audited(s.mux, s.mux), s.audited(s.pages, http.HandlerFunc(s.servePages))))
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// OpenAPI returns the description of everything that the server answers.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.api.OpenAPI() }

// principalName tells principals apart, and what each of them may read.
func principalName(p tidemark.Principal) string {
	return strings.Join(append([]string{p.Tenant, p.User}, p.Workspaces...), "/")
}

// storeOf returns the store of a principal.
func (s *Server) storeOf(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
	name := principalName(p)
	s.mu.Lock()
	o := s.stores[name]
	if o == nil {
		o = new(opened)
		s.stores[name] = o
	}
	s.mu.Unlock()
	// One that takes long to open keeps nobody else waiting.
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.store != nil {
		// Its owner may have sealed it since, from elsewhere.
		err := o.store.Standing(ctx)
		if !errors.Is(err, tidemark.ErrSealed) {
			return o.store, err
		}
		o.store = nil
	}
	st, err := s.o.Open(ctx, p)
	if err == nil {
		o.given.Store(st)
		st = st.With(s.writtenDown(p, false))
		o.store = st
	}
	return st, err
}

// opened is the store of a principal, once it is open.
type opened struct {
	mu    sync.Mutex
	store *store.Store
	given atomic.Pointer[store.Store] // the same, as it was opened
}

// store returns the caller's store.
func (s *Server) store(ctx context.Context) (*store.Store, error) {
	return s.storeOf(ctx, request.CallerOf(ctx).Principal)
}

// fleet returns the store of the caller's tenant, which owns the fleet.
func (s *Server) fleet(ctx context.Context) (*store.Store, error) {
	p := request.CallerOf(ctx).Principal
	return s.storeOf(ctx, tidemark.Principal{Tenant: p.Tenant, User: p.Tenant})
}
