package request

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Hosts are the names that a server answers to, besides loopback ones; nil:
// any.
type Hosts []string

// Ours reports whether a host is one that this server answers to.
func (h Hosts) Ours(host string) bool {
	name := host
	if alone, _, err := net.SplitHostPort(host); err == nil {
		name = alone
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if name == "localhost" {
		return true
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(h, func(known string) bool { return strings.EqualFold(known, name) || strings.EqualFold(known, host) })
}

// OurOrigin reports whether a page may open a WebSocket: it came from this
// server, or the client is no browser.
func (h Hosts) OurOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (h == nil || h.Ours(u.Host))
}
