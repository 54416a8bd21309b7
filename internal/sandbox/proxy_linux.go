package sandbox

import (
	"cmp"
	"context"
	"net"
	"strings"
)

// local returns the targets on this machine, by port.
func (p *proxy) local() map[string]string {
	found := make(map[string]string)
	for _, h := range p.hosts {
		name := h.name
		if h.addr.IsLoopback() {
			name = h.addr.String()
		}
		if h.addr.IsLoopback() || h.name == "localhost" && !h.any {
			for _, port := range strings.Fields(cmp.Or(h.port, "80 443")) {
				found[port] = net.JoinHostPort(name, port)
			}
		}
	}
	return found
}

// attend serves a listener of the sandbox until it is closed. One on an allowed
// port of this machine leads there: many programs use no proxy for localhost.
func (p *proxy) attend(l net.Listener) {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	target, ok := p.local()[port]
	if !ok {
		p.serve(l)
		return
	}
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			if out, err := p.connect(context.Background(), target); err == nil {
				defer out.Close()
				join(in, in, out)
			}
		}()
	}
}
