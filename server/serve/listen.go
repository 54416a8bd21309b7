package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/server"
)

// Listener is the address of a server and, for TLS, the files with its
// certificate and key.
type Listener struct {
	Addr, CertFile, KeyFile string
}

// CheckListener refuses an address, named by a flag, at which the token of a
// local user would be sent over an unprotected connection.
func (l Listener) CheckListener(flag string, local bool) error {
	if (l.CertFile == "") != (l.KeyFile == "") {
		return tidemark.Invalidf("--tls-cert and --tls-key go together")
	}
	host, _, err := net.SplitHostPort(l.Addr)
	if err != nil {
		return tidemark.Invalidf("%s %q: want HOST:PORT", flag, l.Addr)
	}
	if ip := net.ParseIP(host); local && l.CertFile == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return hint.With(tidemark.Invalidf("%s %s: others could read along, the token included", flag, l.Addr),
			"listen at 127.0.0.1, or give --tls-cert and --tls-key")
	}
	return nil
}

// drainTimeout is how long requests have to end when the server shuts down.
const drainTimeout = 20 * time.Second

// Serve serves a handler of s until ctx ends, and then lets requests in
// progress end.
func (l Listener) Serve(ctx context.Context, s *server.Server, handler http.Handler, listener net.Listener, p *Program) error {
	h := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.NewTextHandler(p.Errors, nil), slog.LevelWarn)}
	scheme := "http"
	if l.CertFile != "" {
		scheme = "https"
		certificate, err := newCertificate(l.CertFile, l.KeyFile, p.Complain)
		if err != nil {
			return err
		}
		p.certificate = certificate
		h.TLSConfig = &tls.Config{GetCertificate: certificate.get}
		go certificate.reload(ctx, p)
	}
	p.Say("Serving at %s://%s", scheme, listener.Addr())
	n := process.NewNotifier(p.getenv)
	n.Ready()
	ended := make(chan error, 1)
	go func() {
		if l.CertFile != "" {
			ended <- h.ServeTLS(listener, "", "")
		} else {
			ended <- h.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	n.Stopping()
	s.Drain()
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer stop()
	err := errors.Join(h.Shutdown(late), s.Wait(late))
	if errors.Is(err, context.DeadlineExceeded) {
		p.Say("tidemark: some requests did not end in %s and were cut off", drainTimeout)
		err = h.Close()
	}
	p.Say("Served.")
	return err
}
