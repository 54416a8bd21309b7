package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// timed bounds how long a body may take to arrive, also one that nobody
// reads: a client that sends a byte an hour would hold a connection forever.
// A large body only has to keep arriving.
func (s *Server) timed(w http.ResponseWriter, r *http.Request) io.ReadCloser {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return r.Body
	}
	b := &timedBody{ReadCloser: r.Body, out: http.NewResponseController(w), timeout: s.o.Limits.BodyTimeout}
	b.until = time.Now().Add(b.timeout)
	b.extends = s.isBulk(r) || strings.HasPrefix(r.URL.Path, tenantSpace)
	_ = b.out.SetReadDeadline(b.until) // in some tests there is no connection
	return b
}

type timedBody struct {
	io.ReadCloser
	out     *http.ResponseController
	timeout time.Duration
	until   time.Time
	extends bool
}

func (b *timedBody) Read(p []byte) (int, error) {
	if b.extends {
		b.until = time.Now().Add(b.timeout)
	}
	_ = b.out.SetReadDeadline(b.until)
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		// From now on reading only detects whether the client is still there.
		_ = b.out.SetReadDeadline(time.Time{})
	}
	return n, err
}
