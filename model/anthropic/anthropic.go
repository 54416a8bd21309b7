// Package anthropic calls models through Anthropic's Messages API and compatible
// servers.
//
// It keeps no conversation and reads no environment.
//
//	client := anthropic.New(anthropic.Options{Key: key})
//	for e, err := range client.Stream(ctx, request) { … }
package anthropic

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidemark-sessions/tidemark/model"
)

// Provider is the name of this provider, in errors and in blocks.
const Provider = "anthropic"

// Options say which server to use, and how.
type Options struct {
	BaseURL   string       // default: Anthropic's own; a /v1 at its end may be left out
	Key       string       // an API key
	Token     string       // a bearer token, for gateways that need one
	HTTP      *http.Client // default: http.DefaultClient; redirects are not followed
	Retry     model.Retry
	MaxTokens int  // of an answer when the request does not say; default 8192
	NoCache   bool // do not request prompt caching, for servers that refuse the field
}

// Client calls one server. It may be used by several goroutines.
type Client struct {
	o      Options
	http   *http.Client
	url    *url.URL
	broken error // an error in the options, returned when they are used
}

const (
	home = "https://api.anthropic.com"
	// version is the only one that the API has had; additions are betas.
	version = "2023-06-01"
)

// defaultMaxTokens is what every model of this API allows.
const defaultMaxTokens = 8192

// New returns a client. It does not connect yet.
func New(o Options) *Client {
	if o.MaxTokens == 0 {
		o.MaxTokens = defaultMaxTokens
	}
	if o.BaseURL == "" {
		o.BaseURL = home
	}
	c := &Client{o: o, http: model.Straight(o.HTTP)}
	if c.url, c.broken = model.ParseBase(o.BaseURL); c.broken == nil {
		c.url.Path = strings.TrimSuffix(strings.TrimRight(c.url.Path, "/"), "/v1")
		c.url = c.url.JoinPath("v1", "messages")
	}
	return c
}

// Stream requests the next message. The last event is Done, or there is an
// error: *model.Error, which may be model.ErrTooLong, model.ErrEndless or
// tidemark.ErrDenied; ctx's own; or tidemark.ErrInvalid for a request that
// cannot be sent.
func (c *Client) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	body, err := c.body(r)
	if c.broken != nil {
		err = c.broken
	}
	if err != nil {
		return func(yield func(model.Event, error) bool) { yield(model.Event{}, err) }
	}
	return c.o.Retry.Stream(ctx, func(ctx context.Context, alive func(), emit func(model.Event) error) (*model.Answer, error) {
		res, err := c.post(ctx, body)
		if err != nil {
			return nil, model.Lost(Provider, err)
		}
		defer res.Body.Close()
		alive()
		if res.StatusCode != http.StatusOK {
			page, _ := io.ReadAll(io.LimitReader(res.Body, model.MaxRefusalBytes))
			return nil, model.Refused(Provider, res.StatusCode, res.Header, model.WithoutKeys(page, c.o.Key, c.o.Token))
		}
		return read(res.Body, alive, emit)
	})
}

func (c *Client) post(ctx context.Context, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", "tidemark")
	c.identify(req)
	return c.http.Do(req)
}

// identify says who asks, and in which version of the API.
func (c *Client) identify(req *http.Request) {
	req.Header.Set("Anthropic-Version", version)
	if c.o.Key != "" {
		req.Header.Set("X-Api-Key", c.o.Key)
	}
	if c.o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
}

// mostListed is the most that the API puts on one page of models, far more than
// there are.
const mostListed = "1000"

// Models implements model.Lister.
func (c *Client) Models(ctx context.Context) ([]model.Listed, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	at := c.url.JoinPath("..", "models")
	at.RawQuery = url.Values{"limit": {mostListed}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	c.identify(req)
	raw, err := model.Ask(c.http, req, Provider, c.o.Key, c.o.Token)
	if err != nil {
		return nil, err
	}
	return model.ReadListing(Provider, raw)
}
