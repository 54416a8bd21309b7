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

// Serve listens where the file says, webhooks and metrics each at their own
// address, until ctx ends. When another file holds, what it says of that is
// opened before what it says no more is closed; an address at which nobody can
// listen is said, and the old one stays. ErrInvalid when that is so from the
// beginning.
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
				g.of.trouble(fmt.Errorf("the old address stays: %w", err))
			}
		}
	}
}

// addresses are where the file wants webhooks and metrics to be.
func (g *endpoints) addresses() places {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	return places{g.of.file.Webhooks.Listen, g.of.file.Metrics.Listen}
}

// places are addresses, "" for nowhere.
type places struct{ hooks, metrics string }

// watch is what is listened to.
type watch struct {
	g      *endpoints
	secret func(string) string
	at     places
	open   map[string]*door
	failed chan error
	wg     sync.WaitGroup
}

// door is one address that is listened to. What it serves may change.
type door struct {
	server  *http.Server
	address net.Addr
	handler atomic.Pointer[http.Handler]
}

// move makes the watch be at other places, as far as that can be; what cannot
// be stays where it was.
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

// serve answers at an address. Until it is known what, there is nothing.
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

// end lets calls that have come in have their answer.
func (p *door) end(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
