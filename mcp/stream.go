package mcp

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
)

// Serve serves one client over a pair of streams, one message per line, until
// in or ctx ends; neither is an error. Requests received before the end of in
// are answered. It returns ErrInvalid when the input is not messages.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	err := newServer(o).Run(ctx, &stream{sdk.IOTransport{Reader: io.NopCloser(in), Writer: unclosed{out}}})
	if err == nil || errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return tidemark.Invalidf("what comes in is not the Model Context Protocol: %w", err)
}

// unclosed is a stream that belongs to the caller.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// stream is a transport that does not end while a request is unanswered:
// whoever pipes in a few requests and closes the pipe wants their answers.
type stream struct{ sdk.IOTransport }

func (s *stream) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := s.IOTransport.Connect(ctx)
	return &answering{Connection: c, idle: make(chan struct{}, 1)}, err
}

// answering is a connection that counts its unanswered requests.
type answering struct {
	sdk.Connection

	mu      sync.Mutex
	waiting map[jsonrpc.ID]bool
	idle    chan struct{} // receives when the last one was answered
}

// answerTimeout bounds how long the end waits for answers. A client that is
// gone for good should not keep the program running.
const answerTimeout = 10 * time.Second

func (a *answering) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := a.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && r.ID.IsValid() {
		a.mu.Lock()
		if a.waiting == nil {
			a.waiting = make(map[jsonrpc.ID]bool)
		}
		a.waiting[r.ID] = true
		a.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		a.finish(ctx)
	}
	return m, err
}

func (a *answering) Write(ctx context.Context, m jsonrpc.Message) error {
	err := a.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		a.mu.Lock()
		delete(a.waiting, r.ID)
		if len(a.waiting) == 0 {
			select {
			case a.idle <- struct{}{}:
			default:
			}
		}
		a.mu.Unlock()
	}
	return err
}

// finish returns when nothing waits for an answer any more.
func (a *answering) finish(ctx context.Context) {
	late, stop := context.WithTimeout(ctx, answerTimeout)
	defer stop()
	for {
		a.mu.Lock()
		n := len(a.waiting)
		a.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-a.idle:
		case <-late.Done():
			return
		}
	}
}
