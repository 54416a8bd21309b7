// Package anthropic asks models over the Messages API of Anthropic, and over
// what speaks like it. The official library makes the connection and knows the
// events; the bytes of a request are made here, so that an old conversation is
// sent as it was sent before, whatever the library's version.
//
// It keeps no conversation and reads no environment.
//
//	client := anthropic.New(anthropic.Options{Key: key})
//	for e, err := range client.Stream(ctx, request) { … }
package anthropic

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/tidemark-sessions/tidemark/model"
)

// Provider is the name of this provider, in errors and in blocks.
const Provider = "anthropic"

// Options say whom to ask, and how.
type Options struct {
	BaseURL   string       // default: Anthropic's own; a /v1 at its end may be left out
	Key       string       // an API key
	Token     string       // a bearer token, where a gateway wants one
	HTTP      *http.Client // default: http.DefaultClient; redirects are not followed
	Retry     model.Retry
	MaxTokens int  // of an answer when the request does not say; default 8192
	NoCache   bool // do not ask for prompt caching, for servers that refuse the field
}

// Client asks one server. It may be used by several goroutines.
type Client struct {
	o      Options
	sdk    sdk.Client
	broken error // of the options, told when they are used
}

// defaultMaxTokens is what every model of this API grants.
const defaultMaxTokens = 8192

// New returns a client. It connects to nothing yet.
func New(o Options) *Client {
	if o.MaxTokens == 0 {
		o.MaxTokens = defaultMaxTokens
	}
	c := &Client{o: o}
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithMaxRetries(0),
		option.WithHTTPClient(model.Straight(o.HTTP)),
		option.WithMiddleware(boundRefusals),
	}
	if o.BaseURL != "" {
		base, err := model.ParseBase(o.BaseURL)
		if err != nil {
			c.broken = err
			return c
		}
		options = append(options, option.WithBaseURL(withoutVersion(base)))
	}
	if o.Key != "" {
		options = append(options, option.WithAPIKey(o.Key))
	}
	if o.Token != "" {
		options = append(options, option.WithAuthToken(o.Token))
	}
	c.sdk = sdk.NewClient(options...)
	return c
}

// withoutVersion leaves out the /v1 that the library adds.
func withoutVersion(base *url.URL) string {
	u := *base
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	return u.String()
}

// boundRefusals keeps the library from reading an error page without end.
func boundRefusals(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if err == nil && res.StatusCode >= 400 {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, model.MaxRefusalBytes), res.Body}
	}
	return res, err
}

// Stream asks for the next message. The last event is Done, or there is an
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
		var res *http.Response
		if err := c.sdk.Post(ctx, "v1/messages", body, &res, option.WithHeader("Accept", "text/event-stream")); err != nil {
			return nil, c.refused(err)
		}
		defer res.Body.Close()
		alive()
		if res.StatusCode != http.StatusOK {
			page, _ := io.ReadAll(io.LimitReader(res.Body, model.MaxRefusalBytes))
			return nil, model.Refused(Provider, res.StatusCode, res.Header, c.withoutKey(page))
		}
		return read(res.Body, alive, emit)
	})
}

// refused returns the error for what the library could not send, or for what
// the server did not take.
func (c *Client) refused(err error) error {
	var api *sdk.Error
	if !errors.As(err, &api) || api.Response == nil {
		return model.Lost(Provider, err)
	}
	return model.Refused(Provider, api.StatusCode, api.Response.Header, c.withoutKey([]byte(api.RawJSON())))
}

// withoutKey takes the key out of what a server says: some quote it.
func (c *Client) withoutKey(page []byte) []byte {
	for _, secret := range []string{c.o.Key, c.o.Token} {
		if secret != "" {
			page = bytes.ReplaceAll(page, []byte(secret), []byte("[key]"))
		}
	}
	return page
}
