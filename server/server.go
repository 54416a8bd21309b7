// Package server is Tidemark over HTTP: the sessions and the fleet of a
// person or of many tenants, for programs and browsers. It decides who calls,
// what they may do and how much, and leaves the rules to package store.
//
// It never reads the environment, opens no store and runs no model itself:
// the caller of New supplies these as functions.
//
//	h, err := server.New(server.Options{Open: open, Auth: auth})
//	http.Serve(listener, h)
package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/forward"
	"github.com/tidemark-sessions/tidemark/server/pages"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/stores"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// Options configure a Server. Open and Auth are required.
type Options struct {
	// Open returns the store of a principal. It may return the same one for
	// every call, and is called once for each active principal.
	Open func(context.Context, tidemark.Principal) (*store.Store, error)
	// Auth determines who makes a request.
	Auth request.Authenticator
	// Holder is this server as the holder of leases.
	Holder tidemark.Holder
	// Hosts are the names by which the server may be called, besides
	// loopback ones; nil: any.
	Hosts []string
	// Reading begins what one request reads and changes, at a position that an earlier
	// answer had ("": none is known). It returns the context for it, and a function for the
	// position of its answer ("": none). nil: there is one database, and no position.
	Reading func(ctx context.Context, at string, changes bool) (context.Context, func(context.Context) string)
	// Ready reports what keeps the server from working; nil: it is always
	// ready.
	Ready func(context.Context) error
	// Export writes a session in a format and returns its media type first.
	// Formats lists the available ones. Import imports what a client sent.
	Export  func(ctx context.Context, s *store.Store, at store.Point, format string) (mediaType string, write func(io.Writer) error, err error)
	Formats []string
	Import  func(ctx context.Context, s *store.Store, name string, content io.Reader) ([]routes.Imported, error)
	// Chat opens conversations for the WebSocket and for the person at this
	// machine; nil: none. Folder says which folder the latter work in; nil: unknown.
	Chat   func(ctx context.Context, s *store.Store, o routes.ChatOptions) (routes.Conversation, error)
	Folder func(tidemark.Session) string
	// Commands are what the person can type after a slash there; nil: unknown.
	Commands func(tidemark.Session) []slash.Command
	// SignIn lets browsers sign in; nil: there are no pages.
	SignIn auth.SignIn
	// Backend returns the raw storage of a principal, for clients that have
	// their own rules and keys; nil: not available.
	Backend func(context.Context, tidemark.Principal) (tidemark.Backend, error)
	// Acts returns the places where it is recorded who did what in a tenant;
	// nil: the stores that were opened.
	Acts func(ctx context.Context, tenant string) ([]tidemark.Backend, error)
	// Together means that the acts of all principals of a tenant are recorded
	// in one place, and not in a store of each.
	Together bool
	// NoAudit means that the store cannot keep an audit log.
	NoAudit bool
	// AuditKeep is how long lines of the audit log are kept; 0: for ever. Forward sends
	// them to these places as well.
	AuditKeep time.Duration
	Forward   []forward.Sink
	// Inspect returns what the pages say about the storage: its size, its keys,
	// its copies; nil: nothing is known.
	Inspect func(context.Context, tidemark.Principal) (pages.Inspection, error)
	// Watched returns what a watcher follows for a principal on this machine; nil, or
	// without an answer: that is not known.
	Watched func(context.Context, tidemark.Principal) (*web.Watch, error)
	// MCP returns the handler for other agents at /mcp; nil: none.
	MCP func(routes.MCP) http.Handler
	// Offboarding erases, hands over and exports what people have; nil: nothing
	// does.
	Offboarding *transfer.Offboarding
	// Hooks handles webhooks, which authenticate themselves; nil: none.
	Hooks http.Handler
	// Tracer receives a span for each request; nil: none.
	Tracer trace.Tracer
	// Log receives one line per request, without content. The default is none.
	Log *slog.Logger
	// Limits bound what callers may do.
	Limits request.Limits
	// Measure returns what else /metrics shows; nil: nothing.
	Measure func() []Measure
	// CursorKey signs cursors; servers that share it accept each other's. The
	// default is random.
	CursorKey []byte
	// Version is the version that the server reports.
	Version string
	// Now tells the time. The default is time.Now.
	Now func() time.Time
}

// Server is an http.Handler.
type Server struct {
	o        Options
	mux      *http.ServeMux // the calls of programs
	stores   *stores.Stores
	api      *routes.Server
	pages    *pages.Site
	access   *auth.Access // who may do what
	visitors auth.Visitors
	openings chan struct{} // links that are being opened
	shutdown *request.Shutdown
	metrics  *metrics
	forward  *forward.Forwarder
	handler  http.Handler
}

// New returns a Server.
func New(o Options) (*Server, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.WithDefaults()
	s := &Server{o: o, mux: http.NewServeMux(), shutdown: request.NewShutdown(), access: auth.NewAccess(o.Auth, o.Limits.Recheck), metrics: newMetrics(o.Version), openings: make(chan struct{}, maxOpenings)}
	s.forward = forward.New(forward.Options{By: o.Holder.Host + "/" + strconv.Itoa(o.Holder.PID), Complain: func(err error) { o.Log.Error("audit", "forward", err.Error()) },
		Users:   func(ctx context.Context) (*tenant.Directory, error) { return s.stores.Operators(ctx) },
		Tenants: func(ctx context.Context) ([]string, error) { return s.stores.AuditedTenants(ctx) }}, o.Forward...)
	s.stores = stores.New(stores.Options{AuditKeep: o.AuditKeep, Chained: s.forward.Grew,
		Open: o.Open, Holder: o.Holder, Acts: o.Acts, Together: o.Together, NoAudit: o.NoAudit, Log: o.Log, Now: o.Now,
		Backend: o.Backend, Limits: o.Limits, Access: s.access, Shutdown: s.shutdown})
	s.api = routes.New(s.mux, routes.Options{Stores: s.stores, Access: s.access, Shutdown: s.shutdown, Holder: o.Holder, Hosts: o.Hosts, Limits: o.Limits,
		Export: o.Export, Formats: o.Formats, Import: o.Import, Chat: o.Chat, Folder: o.Folder, Commands: o.Commands, SignIn: o.SignIn, MCP: o.MCP, Offboarding: o.Offboarding, NoAudit: o.NoAudit, CursorKey: o.CursorKey, Version: o.Version, Now: o.Now})
	s.healthRoutes()
	s.pages = pages.New(pages.Options{Stores: s.stores, API: s.api, Shutdown: s.shutdown, SignIn: o.SignIn, Inspect: o.Inspect, Watched: o.Watched, Formats: o.Formats, NoAudit: o.NoAudit, Version: o.Version, Now: o.Now})
	s.handler = s.watched(s.guarded(s.stores.Audited(nil, s.mux), s.stores.Audited(s.pages.Routes(), s.pages)))
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// OpenAPI returns the description of everything that the server answers.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.api.OpenAPI() }

// FlushAudit returns when everything that was done is in the audit log, or
// with the error of ctx. It is called after the last request, before the
// server ends.
func (s *Server) FlushAudit(ctx context.Context) error { return s.stores.FlushAudit(ctx) }

// AnchorAudit chains what servers did not live to chain, stores the head of
// every tenant's audit log, and returns the heads. It is called from time to
// time, and its result put out of the store's reach: in a file, on another
// machine.
func (s *Server) AnchorAudit(ctx context.Context) ([]tenant.Anchor, error) {
	return s.stores.AnchorAudit(ctx)
}

// SweepLinks removes the copies of links that have expired. It is called from time
// to time.
func (s *Server) SweepLinks(ctx context.Context) error {
	users, err := s.stores.Operators(ctx)
	if err != nil {
		return err
	}
	return users.SweepLinks(ctx)
}

// ForwardAudit sends audit logs to Options.Forward until the function that it returns
// is called.
func (s *Server) ForwardAudit(ctx context.Context) (end func()) { return s.forward.Run(ctx) }

// AuditHook adds to each commit in a store of a principal who made it, for a
// store that was opened elsewhere and serves requests of this server.
func (s *Server) AuditHook(p tidemark.Principal) records.Also { return s.stores.Also(p, false) }
