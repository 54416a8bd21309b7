package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/wire"
)

// healthRoutes are those for machines: whether the server lives, whether it
// is ready, its metrics, and the calls of a Backend.
func (s *Server) healthRoutes() {
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("alive\n"))
	})
	s.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context()); err != nil {
			request.AnswerProblem(w, err)
			return
		}
		w.Write([]byte("ready\n"))
	})
	s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if c := request.CallerOf(r.Context()); !c.Operator && !slices.Contains(c.Scopes, auth.MetricsScope) {
			request.AnswerProblem(w, tidemark.ErrDenied)
			return
		}
		w.Header().Set("Content-Type", metricsType)
		more := storesMeasured(s.stores.Figures())
		if s.o.Measure != nil {
			more = append(more, s.o.Measure()...)
		}
		s.metrics.write(w, more)
	})
	s.mux.Handle("/api/v1/backend/", s.backendCalls())
	s.mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		request.AnswerProblem(w, tidemark.NotFoundf("%s %s: no such call; see /openapi.json", r.Method, r.URL.Path))
	})
}

// readyTimeout is how long the store may take to answer.
const readyTimeout = 3 * time.Second

func (s *Server) ready(ctx context.Context) error {
	select {
	case <-s.shutdown.Begun():
		return request.Unavailable("the server is going down")
	default:
	}
	if s.o.Ready == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, readyTimeout)
	defer stop()
	if err := s.o.Ready(ctx); err != nil {
		request.Note(ctx, "error", err.Error())
		if known := new(api.Problem); errors.As(err, &known) {
			return err
		}
		return request.Unavailable("the store cannot be reached")
	}
	return nil
}

// Drain ends streams, so that the shutdown need not wait for them. Readiness
// ends at once, for load balancers.
func (s *Server) Drain() { s.shutdown.Begin() }

// Wait returns when every conversation is closed, or ctx ends. It is called
// after Drain: http.Server does not track connections that became WebSockets.
func (s *Server) Wait(ctx context.Context) error { return s.shutdown.Wait(ctx) }

// backendCalls serves clients that apply the rules themselves: readers read,
// writers write, and only the operator touches the records that say who may do
// what.
func (s *Server) backendCalls() http.Handler {
	quota := wire.NewBlobQuota(s.o.Limits.User.Blobs)
	return wire.Handler(func(r *http.Request) (tidemark.Backend, error) {
		c := request.CallerOf(r.Context())
		need := request.Reader
		if wire.Writes(r) {
			need = request.Writer
		}
		if !c.Role.May(need) {
			return nil, tidemark.ErrDenied
		}
		if s.o.Backend == nil {
			return nil, tidemark.NotFoundf("this server has no store for such clients")
		}
		b, err := s.o.Backend(r.Context(), c.Principal)
		return wire.Fence{Backend: b, Whole: c.OwnsServer(), Also: s.stores.Also(c.Principal, true),
			Blobs: auth.OnlyBlobs(c.Scopes), Quota: quota, Caller: c.Principal}, err
	})
}
