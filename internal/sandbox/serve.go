//go:build linux || darwin

package sandbox

import (
	"net"
	"net/http"
)

// serve serves a listener until it is closed.
func (p *proxy) serve(l net.Listener) {
	server := &http.Server{Handler: p, ReadHeaderTimeout: dialWait}
	server.Serve(l)
	server.Close()
	p.plain.CloseIdleConnections()
}
