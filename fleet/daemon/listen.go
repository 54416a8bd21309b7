package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// slowCaller bounds how long a request may take to come in.
const slowCaller = 30 * time.Second

// Serve listens at the addresses of the file, one for webhooks and one for metrics,
// until ctx ends. After a reload it opens the new addresses before it closes the old
// ones. If it cannot listen at a new address, it reports that and keeps the old one.
// ErrInvalid: it cannot listen at an address of the first file.
func (g *endpoints) Serve(ctx context.Context, secret func(name string) string) error {
	w := &watch{g: g, secret: secret, open: make(map[string]*door), failed: make(chan error, 1)}
	defer w.close()
	if errs := w.move(ctx, g.addresses()); len(errs) > 0 {
		if ctx.Err() != nil {
			return nil
		}
		return errors.Join(errs...)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.failed:
			return err
		case <-g.reloaded:
			for _, err := range w.move(ctx, g.addresses()) {
				g.of.reportError(fmt.Errorf("the old address stays: %w", err))
			}
		}
	}
}

// addresses returns the addresses for webhooks and metrics in the file.
func (g *endpoints) addresses() places {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	return places{g.of.file.Webhooks.Listen, g.of.file.Metrics.Listen}
}

// places are the addresses for webhooks and metrics; "": none.
type places struct{ hooks, metrics string }

// watch is the set of open listeners.
type watch struct {
	g      *endpoints
	secret func(string) string
	at     places
	open   map[string]*door
	failed chan error
	wg     sync.WaitGroup
}

// door is a listener at one address, with a handler that can be replaced.
type door struct {
	server  *http.Server
	address net.Addr
	handler atomic.Pointer[http.Handler]
}

// move listens at other addresses. Where that fails, the old address is kept, and the
// error returned.
func (w *watch) move(ctx context.Context, to places) (errs []error) {
	opened := func(address string) bool {
		if address == "" || w.open[address] != nil {
			return true
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			errs = append(errs, tidemark.Invalidf("listening at %s: %w", address, err))
			return false
		}
		w.open[address] = w.serve(l)
		return true
	}
	if !opened(to.hooks) {
		to.hooks = w.at.hooks
	}
	if !opened(to.metrics) {
		to.metrics = w.at.metrics
	}
	w.at = to
	handlers := w.g.handlers(to.hooks, to.metrics, w.secret)
	for address, p := range w.open {
		h, ok := handlers[address]
		if ok {
			p.handler.Store(&h)
			continue
		}
		delete(w.open, address)
		w.wg.Go(func() { p.end(slowCaller) })
	}
	return errs
}

// serve starts a server on a listener. Until move sets its handler, it answers 404.
func (w *watch) serve(l net.Listener) *door {
	p := &door{address: l.Addr()}
	nothing := http.NotFoundHandler()
	p.handler.Store(&nothing)
	p.server = &http.Server{ReadTimeout: slowCaller, WriteTimeout: 2 * slowCaller, MaxHeaderBytes: 64 << 10,
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { (*p.handler.Load()).ServeHTTP(rw, r) })}
	w.wg.Go(func() {
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			select {
			case w.failed <- err:
			default: // one is enough
			}
		}
	})
	return p
}

// end shuts the server down, and gives requests that have come in that long to be
// answered.
func (p *door) end(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		p.server.Close()
	}
}

func (w *watch) close() {
	for _, p := range w.open {
		p.server.Close()
	}
	w.wg.Wait()
}
