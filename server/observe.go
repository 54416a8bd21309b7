package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tidemark-sessions/tidemark/api"
)

// notes are what the log says about one request beyond its first line.
type notes struct {
	mu     sync.Mutex
	id     string
	caller Caller
	attrs  []slog.Attr
}

type notesKey struct{}

func newNotes(r *http.Request) *notes { return &notes{id: newRequestID(r)} }

func withNotes(ctx context.Context, n *notes) context.Context {
	return context.WithValue(ctx, notesKey{}, n)
}

// all is what there is to say.
func (n *notes) all() (id string, c Caller, attrs []slog.Attr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id, n.caller, slices.Clone(n.attrs)
}

// note adds to the log line of the request that ctx belongs to.
func note(ctx context.Context, key, value string) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.mu.Lock()
		n.attrs = append(n.attrs, slog.String(key, value))
		n.mu.Unlock()
	}
}

func noteCaller(ctx context.Context, c Caller) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.mu.Lock()
		n.caller = c
		n.mu.Unlock()
	}
}

// requestID is the id of the request that ctx belongs to.
func requestID(ctx context.Context) string {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		return n.id
	}
	return ""
}

// newRequestID takes the client's id when it is one that can stand in a log.
func newRequestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.')
	}) {
		return id
	}
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	before func(status int) // is told before the answer begins; nil: nobody is
}

func (w *recorder) begin(status int) {
	if w.status == 0 {
		w.status = status
		if w.before != nil {
			w.before(status)
		}
	}
}

func (w *recorder) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach what is underneath.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// watched gives each request an id, and tells the log, the metrics and the
// tracer what became of it.
func (s *Server) watched(next http.Handler) http.Handler {
	tracer := trace.Tracer(noop.Tracer{})
	if s.o.Tracer != nil {
		tracer = s.o.Tracer
	}
	propagator := propagation.TraceContext{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := s.o.Now()
		n := newNotes(r)
		id, _, _ := n.all()
		out := &recorder{ResponseWriter: w}
		out.Header().Set("X-Request-Id", id)
		ctx := propagator.Extract(withNotes(r.Context(), n), propagation.HeaderCarrier(r.Header))
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
				note(ctx, "panic", fmt.Sprint(p))
				note(ctx, "stack", string(debug.Stack()))
				if out.status == 0 {
					answerProblem(out, &api.Problem{Status: 500, Title: "Internal Server Error", Code: "failed", Instance: id})
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

// tell says what became of a request.
func (s *Server) tell(r *http.Request, out *recorder, n *notes, span trace.Span, began time.Time) {
	took := s.o.Now().Sub(began)
	_, route := s.mux.Handler(r)
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	if route == "" {
		route = "other"
	}
	status := out.status
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
	id, caller, notes := n.all()
	level := slog.LevelInfo
	if status >= 500 {
		level = slog.LevelError
	}
	attrs := append([]slog.Attr{slog.String("id", id), slog.String("method", r.Method), slog.String("route", route), slog.Int("status", status),
		slog.Int64("bytes", out.bytes), slog.Duration("took", took), slog.String("tenant", caller.Tenant), slog.String("user", caller.User)}, notes...)
	if caller.Token != "" {
		attrs = append(attrs, slog.String("token", caller.Token))
	}
	s.o.Log.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

// methodOf is the method of a request, as far as there are such methods: a
// counter for each word that somebody makes up would fill the memory.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "other"
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return strconv.FormatInt(n>>30, 10) + " GiB"
	case n >= 1<<20:
		return strconv.FormatInt(n>>20, 10) + " MiB"
	case n >= 1<<10:
		return strconv.FormatInt(n>>10, 10) + " KiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
