package api

import (
	"context"
	"net/http"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/stores"
	"github.com/tidemark-sessions/tidemark/store"
)

// MCP is what a handler of the Model Context Protocol gets. Everything is called
// with the context of a request, and concerns the caller of that request.
type MCP struct {
	Write  bool // the handler is for callers who may write
	Open   func(context.Context) (*store.Store, error)
	Fleet  func(context.Context) (*fleet.Store, error)
	Holder func(context.Context) tidemark.Holder
	// Doing announces that a tool is about to change something: changes with the
	// returned context are recorded as that.
	Doing func(ctx context.Context, tool string) context.Context
	// Wrote is called with the outcome.
	Wrote func(ctx context.Context, tool, thing string, err error)
	Tell  func(context.Context, error) error // converts an error into what the caller may see
}

// mcpRoutes mounts the handlers: one for writers, one for readers.
func (s *Server) mcpRoutes() {
	if s.o.MCP == nil {
		s.mux.HandleFunc(request.MCPPath, func(w http.ResponseWriter, _ *http.Request) {
			request.AnswerProblem(w, tidemark.NotFoundf("this server has nothing for other agents"))
		})
		return
	}
	of := func(write bool) http.Handler {
		return s.o.MCP(MCP{Write: write, Open: known(s.stores.Mine), Fleet: known(s.stores.Fleet), Holder: s.Asked, Doing: mcpDoing, Wrote: s.mcpWrote, Tell: request.Fail})
	}
	reads, writes := of(false), of(true)
	s.mux.HandleFunc(request.MCPPath, func(w http.ResponseWriter, r *http.Request) {
		switch role := request.CallerOf(r.Context()).Role; {
		case role.May(request.Writer):
			writes.ServeHTTP(w, r)
		case role.May(request.Reader):
			reads.ServeHTTP(w, r)
		default:
			request.AnswerProblem(w, tidemark.ErrDenied)
		}
	})
}

// known opens a store only for a known caller: a context that lost its caller
// on the way through the protocol belongs to nobody.
func known[S any](open func(context.Context) (*S, error)) func(context.Context) (*S, error) {
	return func(ctx context.Context) (*S, error) {
		if request.CallerOf(ctx).Tenant == "" {
			return nil, tidemark.ErrDenied
		}
		return open(ctx)
	}
}

func mcpDoing(ctx context.Context, tool string) context.Context {
	return stores.Doing(ctx, "MCP "+tool, request.MCPPath)
}

// mcpWrote records what a tool did: the request does not say, as all calls of
// the protocol look alike from outside.
func (s *Server) mcpWrote(ctx context.Context, tool, thing string, err error) {
	outcome := tenant.AuditDone
	switch {
	case err != nil:
		outcome = tenant.AuditFailed
	case stores.Carried(ctx):
		return
	}
	s.stores.AuditLater(ctx, "MCP "+tool, thing, outcome)
}
