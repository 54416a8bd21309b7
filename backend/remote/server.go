package remote

import (
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
