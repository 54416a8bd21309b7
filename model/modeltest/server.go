package modeltest

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// Server is a server in the process, over pipes instead of sockets, so that it
// works in a synctest bubble, where back-off takes no time. The n-th request is
// answered by the n-th handler, later ones by the last.
type Server struct {
	handlers []http.HandlerFunc
	conns    chan net.Conn
	closed   chan struct{}

	mu sync.Mutex
	// The requests, to be read after the answers have ended.
	Bodies []string
	Heads  []http.Header
	Paths  []string
}

// Serve starts a server, which ends with the test, and returns it with a client
// that reaches it under every address.
func Serve(t testing.TB, handlers ...http.HandlerFunc) (*Server, *http.Client) {
	s := &Server{handlers: handlers, conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: s}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(s) }()
	transport := &http.Transport{DialContext: s.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-done
	})
	return s, &http.Client{Transport: transport}
}

func (s *Server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case s.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Server) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *Server) Close() error   { close(s.closed); return nil }
func (s *Server) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	n := min(len(s.Bodies), len(s.handlers)-1)
	s.Bodies = append(s.Bodies, string(body))
	s.Heads = append(s.Heads, r.Header)
	s.Paths = append(s.Paths, r.URL.Path)
	s.mu.Unlock()
	s.handlers[n](w, r)
}

// Asked returns how many requests came.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Bodies)
}

// Stream sends events, and flushes.
func Stream(words string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, words)
		w.(http.Flusher).Flush()
	}
}

// Then runs handlers one after the other on one response.
func Then(handlers ...http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, h := range handlers {
			h(w, r)
		}
	}
}

// Cut breaks the connection.
func Cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// Hang sends nothing until the client disconnects.
func Hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Write adds to a response.
func Write(more string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, more) }
}

// Page is a complete response, with headers as NAME, VALUE.
func Page(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Forever writes one piece again and again, until the client disconnects.
func Forever(piece string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
	}
}
