package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// standIn is a server in the process, over pipes instead of sockets, so that
// it can live in a bubble of synctest where back-off takes no time. The n-th
// request is answered by the n-th handler, later ones by the last.
type standIn struct {
	handlers []http.HandlerFunc
	conns    chan net.Conn
	closed   chan struct{}

	mu     sync.Mutex
	bodies []string
	heads  []http.Header
	paths  []string
}

func serve(t testing.TB, handlers ...http.HandlerFunc) (*standIn, *http.Client) {
	s := &standIn{handlers: handlers, conns: make(chan net.Conn), closed: make(chan struct{})}
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

func (s *standIn) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case s.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *standIn) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *standIn) Close() error   { close(s.closed); return nil }
func (s *standIn) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	n := min(len(s.bodies), len(s.handlers)-1)
	s.bodies = append(s.bodies, string(body))
	s.heads = append(s.heads, r.Header)
	s.paths = append(s.paths, r.URL.Path)
	s.mu.Unlock()
	s.handlers[n](w, r)
}

func (s *standIn) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// heard is what came out of a stream. What was said before a Wait is void.
type heard struct {
	text, thinking string
	calls          []string
	waits          []model.Wait
	answer         *model.Answer
	err            error
}

func hear(seq iter.Seq2[model.Event, error]) (h heard) {
	for e, err := range seq {
		switch {
		case err != nil:
			h.err = err
		case e.Wait != nil:
			h.waits = append(h.waits, *e.Wait)
			h.text, h.thinking, h.calls = "", "", nil
		case e.Done != nil:
			h.answer = e.Done
		case e.Call != "":
			h.calls = append(h.calls, e.Call)
		default:
			h.text += e.Text
			h.thinking += e.Thinking
		}
	}
	return h
}

// events sends server-sent events, each "NAME {data}", and flushes.
func events(list ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range list {
			name, data, _ := strings.Cut(e, " ")
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
		}
		w.(http.Flusher).Flush()
	}
}

// then runs handlers one after the other on one answer.
func then(handlers ...http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, h := range handlers {
			h(w, r)
		}
	}
}

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func write(more string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, more) }
}

func page(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// saying is a whole answer of one text.
func saying(text string) http.HandlerFunc {
	return events(
		`message_start {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"usage":{"input_tokens":7,"output_tokens":1}}}`,
		`content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+quoted(text)+`}}`,
		`content_block_stop {"type":"content_block_stop","index":0}`,
		`message_delta {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
		`message_stop {"type":"message_stop"}`)
}

// half is the beginning of such an answer.
func half() http.HandlerFunc {
	return events(
		`message_start {"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":7}}}`,
		`content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"void"}}`)
}

func ask(text string) model.Request {
	return model.Request{Model: "claude-x", Entries: []tidemark.Entry{tidemark.Say(tidemark.User, text)}}
}

// client returns a client of the stand-in.
func client(t testing.TB, o Options, handlers ...http.HandlerFunc) (*Client, *standIn) {
	s, h := serve(t, handlers...)
	o.HTTP = h
	if o.BaseURL == "" {
		o.BaseURL = "http://model.test"
	}
	return New(o), s
}

func patient() model.Retry {
	return model.Retry{Attempts: 4, First: time.Second, Most: 30 * time.Second, Silence: time.Minute}
}

func wantError(t *testing.T, err error, cause error, words ...string) {
	t.Helper()
	var told *model.Error
	if !errors.As(err, &told) {
		t.Fatalf("error %v (%T), want a *model.Error", err, err)
	}
	if cause != nil && !errors.Is(err, cause) {
		t.Errorf("error %q does not answer to %q", err, cause)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}
