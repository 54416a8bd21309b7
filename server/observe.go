package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// watched gives each request an id, and reports its outcome to the log,
// the metrics and the tracer.
func (s *Server) watched(next http.Handler) http.Handler {
	tracer := trace.Tracer(noop.Tracer{})
	if s.o.Tracer != nil {
		tracer = s.o.Tracer
	}
	propagator := propagation.TraceContext{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := s.o.Now()
		n := request.NewNotes(r, s.mux)
		id, _, _ := n.Told()
		out := &request.Recorder{ResponseWriter: w}
		out.Header().Set("X-Request-Id", id)
		ctx := propagator.Extract(request.WithNotes(r.Context(), n), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
		r = r.WithContext(ctx)
		s.metrics.active.Add(1)
		stream := isStream(r)
		if stream {
			s.metrics.streams.Add(1)
		}
		defer func() {
			p := recover()
			if p == http.ErrAbortHandler {
				defer panic(p) // the connection is to be cut
			} else if p != nil {
				request.Note(ctx, "panic", fmt.Sprint(p))
				request.Note(ctx, "stack", string(debug.Stack()))
				if out.Status == 0 {
					request.AnswerProblem(out, &api.Problem{Status: 500, Title: "Internal Server Error", Code: "failed", Instance: id})
				}
			}
			s.metrics.active.Add(-1)
			if stream {
				s.metrics.streams.Add(-1)
			}
			s.tell(r, out, n, span, began)
		}()
		next.ServeHTTP(out, r)
	})
}

// tell reports the outcome of a request.
func (s *Server) tell(r *http.Request, out *request.Recorder, n *request.Notes, span trace.Span, began time.Time) {
	took := s.o.Now().Sub(began)
	route := request.Route(r.Context())
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	if route == "" {
		route = "other"
	}
	status := out.Status
	if status == 0 {
		status = 499 // the client went away first
	}
	method := methodOf(r)
	s.metrics.answered(method, route, status, took, isStream(r))
	span.SetName(method + " " + route)
	span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route), attribute.Int("http.response.status_code", status))
	if status >= 500 {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
	span.End()
	id, caller, notes := n.Told()
	level := slog.LevelInfo
	if status >= 500 {
		level = slog.LevelError
	}
	attrs := append([]slog.Attr{slog.String("id", id), slog.String("method", r.Method), slog.String("route", route), slog.Int("status", status),
		slog.Int64("bytes", out.Bytes), slog.Duration("took", took), slog.String("tenant", caller.Tenant), slog.String("user", caller.User)}, notes...)
	if caller.Token != "" {
		attrs = append(attrs, slog.String("token", caller.Token))
	}
	s.o.Log.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

// methodOf is the method of a request if it is a known one: a counter for
// each made-up word would fill the memory.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "other"
}
