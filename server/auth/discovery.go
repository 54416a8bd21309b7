package auth

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

const (
	// An issuer that does not answer is asked again after retryFirst, then after
	// twice as long each time, up to retryMost. Whoever comes in between is told to
	// come back, without asking it.
	retryFirst = time.Second
	retryMost  = 30 * time.Second
)

// discovered is what an issuer says about itself.
type discovered struct {
	issuer string // with entraTenant in it when it stands for many
	keys   *issuerKeys
	doors  issuerDoors
}

// discovery finds out what an issuer says about itself, when it is first needed: a
// server starts while an issuer is down.
type discovery struct {
	o     OIDCOptions
	found atomic.Pointer[discovered]

	mu    sync.Mutex // one asks at a time
	last  error      // why it was not found
	pause time.Duration
	next  time.Time // not asked again before
}

// get returns what the issuer says, or a 503 when that is not known; away then says
// why.
func (d *discovery) get(ctx context.Context) (*discovered, error) {
	if have := d.found.Load(); have != nil {
		return have, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if have := d.found.Load(); have != nil {
		return have, nil
	}
	if wait := time.Until(d.next); wait > 0 {
		return nil, notAnswering(wait)
	}
	// Others wait for the same answer: it does not end with this request.
	within, stop := context.WithTimeout(context.WithoutCancel(ctx), issuerTimeout)
	defer stop()
	have, err := d.ask(within)
	if d.last = err; err == nil {
		d.found.Store(have)
		return have, nil
	}
	d.pause = min(max(2*d.pause, retryFirst), retryMost)
	d.next = time.Now().Add(d.pause)
	request.Note(ctx, "error", "issuer "+d.o.Issuer+": "+err.Error())
	return nil, notAnswering(d.pause)
}

func notAnswering(wait time.Duration) error {
	return &api.Problem{Status: http.StatusServiceUnavailable, Title: "Service Unavailable", Code: "storage", Detail: "the issuer does not answer", RetryAfter: int(wait/time.Second) + 1}
}

// away returns why the issuer was not found.
func (d *discovery) away() error {
	if d.found.Load() != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// ask asks the issuer. An error that is not ErrInvalid may pass.
func (d *discovery) ask(ctx context.Context) (*discovered, error) {
	client := *d.o.HTTP
	client.Timeout = issuerTimeout
	met := &lastStatus{under: client.Transport}
	if met.under == nil {
		met.under = http.DefaultTransport
	}
	asking := client
	asking.Transport = met
	ctx = oidc.ClientContext(ctx, &asking)
	if d.o.Entra {
		// The discovery document is that of all organisations: its issuer has a
		// placeholder for the tenant, and is compared below.
		ctx = oidc.InsecureIssuerURLContext(ctx, d.o.Issuer)
	}
	provider, err := oidc.NewProvider(ctx, d.o.Issuer)
	switch {
	case err != nil && (met.status == 0 || met.status >= http.StatusInternalServerError || met.status == http.StatusTooManyRequests):
		return nil, err
	case err != nil:
		return nil, tidemark.Invalidf("issuer %s: %w", d.o.Issuer, err)
	}
	var said struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
		issuerDoors
	}
	if err := provider.Claims(&said); err != nil {
		return nil, tidemark.Invalidf("issuer %s: %w", d.o.Issuer, err)
	}
	if err := errors.Join(sameHost(d.o.Issuer, said.Issuer), checkIssuerURL(said.Keys)); err != nil {
		return nil, err
	}
	if d.o.ClientID != "" {
		for _, door := range []string{said.Authorize, said.Token} {
			if err := checkIssuerURL(door); err != nil {
				return nil, tidemark.Invalidf("it lets nobody sign in: %w", err)
			}
		}
	}
	return &discovered{issuer: said.Issuer, keys: newIssuerKeys(client, said.Keys), doors: said.issuerDoors}, nil
}

// lastStatus remembers the status of the last answer: the library passes on its
// text only.
type lastStatus struct {
	under  http.RoundTripper
	status int // 0: there was no answer
}

func (l *lastStatus) RoundTrip(r *http.Request) (*http.Response, error) {
	l.status = 0
	answer, err := l.under.RoundTrip(r)
	if err == nil {
		l.status = answer.StatusCode
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxIssuerBytes)
	}
	return answer, err
}
