package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// Server is a server's description of itself.
type Server struct {
	URL     string `json:"url"`
	Version string `json:"version"`
}

// serverTimeout is how long a server has to say whether it is ready; a slower
// one is of no use to the caller.
const serverTimeout = 5 * time.Second

// DescribeServer returns the description of the server at a URL, if it is ready.
func DescribeServer(ctx context.Context, at string) (*Server, error) {
	ctx, stop := context.WithTimeout(ctx, serverTimeout)
	defer stop()
	var ready strings.Builder
	if err := fetch(ctx, at+"/readyz", func(body io.Reader) error {
		_, err := io.Copy(&ready, body)
		return err
	}); err != nil {
		return nil, err
	}
	if strings.TrimSpace(ready.String()) != "ready" {
		return nil, tidemark.Invalidf("is no Tidemark server")
	}
	var about struct{ Info struct{ Version string } }
	err := fetch(ctx, at+"/openapi.json", func(body io.Reader) error { return json.NewDecoder(body).Decode(&about) })
	return &Server{URL: at, Version: about.Info.Version}, err
}

// maxAbout bounds what an unknown server can make this program read.
const maxAbout = 8 << 20

func fetch(ctx context.Context, url string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return tidemark.Invalidf("%w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return cmp.Or(errors.Unwrap(err), err) // without the address, which the caller adds
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("is not ready: it answers %s", resp.Status)
	}
	return read(io.LimitReader(resp.Body, maxAbout))
}

// LocalURL returns the URL of a server that listens at an address of this machine, or
// of one with a certificate. ErrInvalid: it is neither.
func LocalURL(addr string) (string, error) {
	scheme := "http"
	if rest, ok := strings.CutPrefix(addr, "https://"); ok {
		scheme, addr = "https", rest
	}
	addr = strings.TrimSuffix(strings.TrimPrefix(addr, "http://"), "/")
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", tidemark.Invalidf("--addr %q: want HOST:PORT", addr)
	}
	ip := net.ParseIP(host)
	if host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if ip = net.ParseIP(host); scheme == "http" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", hint.With(tidemark.Invalidf("--addr %s: the token would go over the wire for all to read", addr), "put https:// in front, or name an address of this machine")
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// SignInLink is a link that signs a browser in, once.
type SignInLink struct {
	URL  string    `json:"url"`
	Till time.Time `json:"till"`
}

// linkTimeout is how long the server may take to make a link.
const linkTimeout = 10 * time.Second

// RequestSignInLink requests a link from the server, with the token of the local user.
func RequestSignInLink(ctx context.Context, base, token string) (SignInLink, error) {
	ctx, stop := context.WithTimeout(ctx, linkTimeout)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/v1/signin-code", nil)
	if err != nil {
		return SignInLink{}, tidemark.Invalidf("%w", err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	// The token is for the named server only; neither a redirect nor a proxy may
	// get it.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op
		}
		return SignInLink{}, hint.With(tidemark.Storagef("no server answers at %s: %w", base, err), "start one with: tidemark serve, or name its address with --addr")
	}
	defer res.Body.Close()
	var said struct {
		Path   string    `json:"path"`
		Till   time.Time `json:"till"`
		Detail string    `json:"detail"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&said)
	switch {
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return SignInLink{}, hint.With(fmt.Errorf("the server at %s does not take the token: %w", base, tidemark.ErrDenied), "it may be another one's server, or have another --token-file")
	case res.StatusCode != http.StatusCreated || err != nil || !strings.HasPrefix(said.Path, "/signin?"):
		return SignInLink{}, tidemark.Unsupportedf("the server at %s makes no link: %s", base, strings.TrimSpace(res.Status+" "+said.Detail))
	}
	return SignInLink{URL: base + said.Path, Till: said.Till}, nil
}

// APICall is a call of a server that is none of a Backend.
type APICall struct {
	Method, Path string // with its query
	Body         []byte // nil: none
	Into         any    // receives the answer, which is JSON
}

const (
	// maxAnswer bounds what a server may answer to an APICall.
	maxAnswer = 16 << 20
	// apiTimeout bounds the call: a large body on a slow line takes minutes.
	apiTimeout = 10 * time.Minute
)

// CallAPI makes one call of the server at an address. Errors are those of the server.
// Callers may make it again: it tries once.
func CallAPI(ctx context.Context, address string, token func(context.Context) (string, error), c APICall) error {
	b := &Backend{o: Options{Token: token}}
	var err error
	if b.base, err = parse(address, false); err != nil {
		return err
	}
	b.client()
	defer b.owned.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	r, err := http.NewRequestWithContext(ctx, c.Method, b.base.String()+c.Path, bytes.NewReader(c.Body))
	if err != nil {
		cancel()
		return tidemark.Invalidf("server address: %w", err)
	}
	if c.Body != nil {
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	if word, err := b.token(ctx); err != nil {
		cancel()
		return err
	} else if word != "" {
		r.Header.Set("Authorization", "Bearer "+word)
	}
	res, err := b.http.Do(r)
	if err != nil {
		cancel()
		return b.broken(err, true)
	}
	a := &answer{Response: res, cancel: cancel, body: &watchedBody{in: res.Body, watch: time.AfterFunc(quietFor, cancel)}}
	defer a.close()
	if res.StatusCode >= 300 {
		return b.refusal(a)
	}
	text, err := b.readAll(a, maxAnswer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, c.Into); err != nil {
		return tidemark.Storagef("%s: answers, but not as a Tidemark server does", b.base)
	}
	return nil
}
