package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// host is one host that may be reached.
type host struct {
	name string     // in lower case; "" when it is an address
	any  bool       // subdomains of name, and not name itself
	addr netip.Addr // when it was given as an address
	port string     // "" is 80 and 443
}

// parseHost reads NAME, *.NAME, NAME:PORT or an address with its port.
func parseHost(s string) (host, error) {
	wrong := fmt.Errorf("sandbox: host %q: want NAME, *.NAME, NAME:PORT or ADDRESS:PORT", s)
	var h host
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if n, port, err := net.SplitHostPort(name); err == nil {
		number, err := strconv.Atoi(port)
		if err != nil || number < 1 || number > 65535 {
			return h, wrong
		}
		name, h.port = n, port
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		h.addr = addr.Unmap()
		if h.port == "" {
			return h, wrong
		}
		return h, nil
	}
	h.name, h.any = strings.CutPrefix(name, "*.")
	if h.any && !strings.Contains(h.name, ".") || !isHostName(h.name) {
		return h, wrong
	}
	return h, nil
}

// isHostName distinguishes names from disguised numbers, such as 127.1 and
// 0x7f.1, which some resolvers take for addresses.
func isHostName(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" || last[0] >= '0' && last[0] <= '9' {
		return false
	}
	return len(name) <= 253 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") == "" && !strings.Contains(name, "..")
}

// allows reports whether a target may be reached.
func (h host) allows(name, port string) bool {
	if h.port != port && (h.port != "" || port != "80" && port != "443") {
		return false
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return h.addr.IsValid() && h.addr == addr.Unmap()
	}
	return isHostName(name) && h.name != "" && (!h.any && name == h.name || h.any && strings.HasSuffix(name, "."+h.name))
}

// refusal begins the proxy's message about a host that is not allowed.
const refusal = "the sandbox does not allow the host"

// proxy is the one way out of a sandbox: an HTTP proxy that reaches the hosts
// that were allowed, and nobody else. It resolves names itself and connects to
// the address it checked, so that a name cannot lead to this machine or its
// network; those have to be given as localhost or an address.
type proxy struct {
	hosts  []host
	lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	plain  *http.Transport
}

// dialWait bounds how long a host may take to answer.
const dialWait = 30 * time.Second

func newProxy(names []string) (*proxy, error) {
	p := &proxy{dial: (&net.Dialer{Timeout: dialWait}).DialContext}
	p.lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	}
	for _, n := range names {
		h, err := parseHost(n)
		if err != nil {
			return nil, err
		}
		p.hosts = append(p.hosts, h)
	}
	p.plain = &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return p.connect(ctx, address) },
		DisableCompression: true, ResponseHeaderTimeout: 5 * time.Minute, IdleConnTimeout: dialWait}
	return p, nil
}

var errRefused = errors.New(refusal)

// connect connects to an allowed target.
func (p *proxy) connect(ctx context.Context, target string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, fmt.Errorf("%w %q", errRefused, target)
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !slices.ContainsFunc(p.hosts, func(h host) bool { return h.allows(name, port) }) {
		return nil, fmt.Errorf("%w %q", errRefused, net.JoinHostPort(name, port))
	}
	addr, err := netip.ParseAddr(name)
	if err == nil {
		return p.dial(ctx, "tcp", net.JoinHostPort(addr.String(), port))
	}
	found := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} // this machine is not looked up
	if name != "localhost" {
		if found, err = p.lookup(ctx, name); err != nil {
			return nil, err
		}
	}
	err = fmt.Errorf("%w %q: it leads to this machine or its network", errRefused, name)
	for _, a := range found {
		if name != "localhost" && !public(a) {
			continue
		}
		var conn net.Conn
		if conn, err = p.dial(ctx, "tcp", net.JoinHostPort(a.Unmap().String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// reserved are networks that are not public on the internet and that netip has
// no predicate for: shared by carriers, benchmarks, address translation that
// hides other addresses.
var reserved = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("::/96")}

// public reports whether an address is public on the internet.
func public(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(reserved, func(n netip.Prefix) bool { return n.Contains(a) })
}

// ServeHTTP handles CONNECT and requests with an absolute URL.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		p.forward(w, r)
	default:
		http.Error(w, "this is a proxy", http.StatusBadRequest)
	}
}

func (p *proxy) fail(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, errRefused) {
		status = http.StatusForbidden
	}
	http.Error(w, err.Error(), status)
}

func (p *proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	out, err := p.connect(r.Context(), r.Host)
	if err != nil {
		p.fail(w, err)
		return
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.fail(w, err)
		return
	}
	defer in.Close()
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	join(in, buffered, out)
}

// join copies data in both directions until both sides are done. from is the
// stream from in, of which some may have been buffered already.
func join(in net.Conn, from io.Reader, out net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(out, from)
		if tcp, ok := out.(*net.TCPConn); ok {
			tcp.CloseWrite()
		}
	}()
	io.Copy(in, out)
	in.Close()
	<-done
}

// hopHeaders are for the proxy and not for the host.
var hopHeaders = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func (p *proxy) forward(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.RequestURI = ""
	out.Host = r.URL.Host // a Host header cannot name another host
	for _, h := range hopHeaders {
		out.Header.Del(h)
	}
	answer, err := p.plain.RoundTrip(out)
	if err != nil {
		p.fail(w, err)
		return
	}
	defer answer.Body.Close()
	for _, h := range hopHeaders {
		answer.Header.Del(h)
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	io.Copy(w, answer.Body)
}
