package request

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Notes are what the log says about one request in addition to the standard
// fields.
type Notes struct {
	mu     sync.Mutex
	id     string
	route  string
	caller Caller
	attrs  []slog.Attr
}

type notesKey struct{}

// NewNotes returns the notes of a request, with its id and the route that answers
// it, "" if there is none. Looking for a route is dear, and several ask.
func NewNotes(r *http.Request, routes *http.ServeMux) *Notes {
	n := &Notes{id: newRequestID(r)}
	_, n.route = routes.Handler(r)
	return n
}

// Route returns the route of the request that ctx belongs to, of the calls of
// programs.
func Route(ctx context.Context) string {
	if n, ok := ctx.Value(notesKey{}).(*Notes); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.route
	}
	return ""
}

// NoteRoute records that another route answers the request of ctx.
func NoteRoute(ctx context.Context, route string) {
	if n, ok := ctx.Value(notesKey{}).(*Notes); ok {
		n.mu.Lock()
		n.route = route
		n.mu.Unlock()
	}
}

// WithNotes returns the context of the request that n is about.
func WithNotes(ctx context.Context, n *Notes) context.Context {
	return context.WithValue(ctx, notesKey{}, n)
}

// Told returns what was noted.
func (n *Notes) Told() (id string, c Caller, attrs []slog.Attr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id, n.caller, slices.Clone(n.attrs)
}

// Note adds to the log line of the request that ctx belongs to.
func Note(ctx context.Context, key, value string) {
	if n, ok := ctx.Value(notesKey{}).(*Notes); ok {
		n.mu.Lock()
		n.attrs = append(n.attrs, slog.String(key, value))
		n.mu.Unlock()
	}
}

// NoteCaller records who makes the request of ctx.
func NoteCaller(ctx context.Context, c Caller) {
	if n, ok := ctx.Value(notesKey{}).(*Notes); ok {
		n.mu.Lock()
		n.caller = c
		n.mu.Unlock()
	}
}

// ID is the id of the request that ctx belongs to.
func ID(ctx context.Context) string {
	if n, ok := ctx.Value(notesKey{}).(*Notes); ok {
		return n.id
	}
	return ""
}

// newRequestID uses the client's id if it is safe in a log.
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
