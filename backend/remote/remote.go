// Package remote is a Backend on a Tidemark server: the same calls over HTTP.
// Under package seal it is a store that a team shares and whose server never
// sees any content.
//
// It keeps nothing on this machine, checks everything that a server sends, and
// sends its token to no other host. What may have happened is never reported as
// failed, and nothing is done twice: see Commit.
//
//	b, err := remote.Open(ctx, "https://tidemark.example.org", &remote.Options{Token: token})
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// DefaultRetryFor is how long a call is retried when the server cannot be
// reached: long enough for a restart of the server.
const DefaultRetryFor = 10 * time.Second

// Options are the parts that a caller may choose. Nil, and each zero field,
// means the default.
type Options struct {
	// Token returns the caller's token; it is called for each request, and once
	// more when the server refuses the token. The default sends none.
	Token func(context.Context) (string, error)
	// HTTP makes the connections. Its redirects and cookies are not used. The
	// default is a client of this Backend's own.
	HTTP *http.Client
	// Plain allows http:// to other hosts, where everybody on the way can read
	// along, the token included.
	Plain bool
	// ReadOnly refuses every change on this side.
	ReadOnly bool
	// RetryFor is how long a call is retried. The default is DefaultRetryFor; a
	// negative one tries once.
	RetryFor time.Duration
}

// Backend speaks to one server. Its methods may be called concurrently.
type Backend struct {
	base   *url.URL
	o      Options
	http   *http.Client
	owned  *http.Transport // nil when the caller passed a client
	packs  bool            // large requests and responses are compressed
	most   int64           // bytes that the server accepts in one request
	owner  string          // the only owner that is asked for
	me     string          // who calls, as the server says
	scopes []string        // likewise, with whom others share

	life    context.Context // ends with Close
	end     context.CancelFunc
	mu      sync.Mutex
	closed  bool
	commits sync.WaitGroup
	ahead   atomic.Int64 // nanoseconds that the clock of the server is before this one
	seen    *position    // shared by all that Of returned
}

var errClosed = errors.New("remote: closed")

// Open checks that a Tidemark server answers at an address, and lets the caller
// in. ErrInvalid: the address is not valid. ErrNoStore: nothing answers there,
// or something else does. ErrDenied: the token is not accepted. ErrUnsupported:
// the server speaks another version of the protocol.
func Open(ctx context.Context, address string, o *Options) (*Backend, error) {
	b := &Backend{seen: new(position)}
	if o != nil {
		b.o = *o
	}
	if b.o.RetryFor == 0 {
		b.o.RetryFor = DefaultRetryFor
	}
	var err error
	if b.base, err = parse(address, b.o.Plain); err != nil {
		return nil, err
	}
	b.packs = !loopback(b.base.Hostname())
	b.client()
	b.life, b.end = context.WithCancel(context.Background())
	if err := b.greet(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// client makes the HTTP client: one that follows no redirects.
func (b *Backend) client() {
	b.http = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if given := b.o.HTTP; given != nil {
		b.http.Transport, b.http.Timeout = given.Transport, given.Timeout
		return
	}
	b.owned = &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        60 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	b.http.Transport = b.owned
}

// parse reads the address of a server.
func parse(address string, plain bool) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, tidemark.Invalidf("server address: not a URL")
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, tidemark.Invalidf("server address %s: want https://HOST", u.Redacted())
	case u.User != nil:
		return nil, tidemark.Invalidf("server address %s: a name or password does not belong into it; use a token", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, tidemark.Invalidf("server address %s: nothing may stand behind ? or #", u.Redacted())
	case u.Scheme == "http" && !plain && !loopback(u.Hostname()):
		return nil, tidemark.Invalidf("server address %s: over plain http everybody on the way could read the token and the sessions; use https", u.Redacted())
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}, nil
}

// loopback reports whether a host is this machine itself.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// greet asks the server what it is.
func (b *Backend) greet(ctx context.Context) error {
	reply, err := b.roundTrip(ctx, call{name: "", get: true, failFast: true}, 64<<10)
	if err != nil {
		var p *api.Problem
		switch {
		case errors.Is(err, tidemark.ErrDenied), ctx.Err() != nil, errors.As(err, &p) && p.Status >= 500:
			return err
		case errors.Is(err, tidemark.ErrNotFound):
			return noStore("%s: has no store for clients like this one: %w", b.base, textOnly{err})
		}
		return noStore("%w", textOnly{err})
	}
	var about api.About
	if json.Unmarshal(reply, &about) != nil || about.Service != api.Service || about.MaxRequestBytes < 1 {
		return noStore("%s: answers, but is not a Tidemark server", b.base)
	}
	if about.Format != api.BackendFormat {
		return tidemark.Unsupportedf("%s: speaks format %d of these calls, this program format %d; use the same version on both sides", b.base, about.Format, api.BackendFormat)
	}
	if about.Searches {
		return tidemark.Unsupportedf("%s: is of an earlier version, whose search index this program cannot use; upgrade the server first", b.base)
	}
	b.most = min(about.MaxRequestBytes, api.MaxRequestBytes)
	b.me, b.scopes = about.Principal, about.Scopes
	return nil
}

// Now returns the time by the clock of the server, as its last response had it, to the
// second.
func (b *Backend) Now() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())).UTC() }

// Address returns where the server is.
func (b *Backend) Address() string { return b.base.String() }

// Close waits for commits in progress, and ends every other call.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.commits.Wait()
	b.end()
	if b.owned != nil {
		b.owned.CloseIdleConnections()
	}
	return nil
}

// use returns a context that ends with ctx or with the Backend, and an error
// when the Backend is closed.
func (b *Backend) use(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if b.life.Err() != nil || b.isClosed() {
		return nil, nil, errClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(b.life, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

func (b *Backend) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// mayWrite refuses changes when the Backend is read-only.
func (b *Backend) mayWrite() error {
	if b.o.ReadOnly {
		return tidemark.Deniedf("%s: was opened for reading only", b.base)
	}
	return nil
}
