// Package openai calls models through the chat completions API, in the dialects
// of OpenAI, Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and the like, or
// through OpenAI's Responses API. It accepts what each sends and requests little,
// because they agree on little.
//
// It keeps no conversation and reads no environment.
//
//	client := openai.New(openai.Options{BaseURL: "http://localhost:11434/v1", Name: "ollama"})
//	for e, err := range client.Stream(ctx, request) { … }
package openai

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

// Options say which server to use, and how.
type Options struct {
	BaseURL string // default: OpenAI's own; a host without a path gets /v1
	Key     string // "": none is sent, as local servers expect
	Name    string // the name of the server in errors; default "openai"
	Kind    Kind   // "": it is asked nothing about its models but their names
	// Responses has it use the Responses API instead of chat completions: there
	// a model goes on with its own thoughts after each call of a tool.
	Responses bool
	HTTP      *http.Client // default: http.DefaultClient; redirects are not followed
	Retry     model.Retry
}

// Client calls one server. It may be used by several goroutines.
type Client struct {
	o      Options
	http   *http.Client
	base   *url.URL // of what OpenAI has, with /v1
	root   *url.URL // of what a Kind has beside it
	url    *url.URL // of what answers
	broken error    // an error in the options, returned when they are used
}

const home = "https://api.openai.com/v1"

// New returns a client. It does not connect yet.
func New(o Options) *Client {
	if o.BaseURL == "" {
		o.BaseURL = home
	}
	if o.Name == "" {
		o.Name = "openai"
	}
	c := &Client{o: o, http: model.Straight(o.HTTP)}
	c.base, c.broken = model.ParseBase(o.BaseURL)
	if c.broken != nil {
		return c
	}
	if strings.Trim(c.base.Path, "/") == "" {
		c.base.Path = "/v1"
	}
	root := *c.base
	root.Path = strings.TrimSuffix(strings.TrimRight(root.Path, "/"), "/v1")
	c.root, c.url = &root, c.base.JoinPath("chat", "completions")
	if o.Responses {
		c.url = c.base.JoinPath("responses")
	}
	return c
}

// Stream requests the next message. The last event is Done, or there is an
// error: *model.Error, which may be model.ErrTooLong, model.ErrEndless or
// tidemark.ErrDenied; ctx's own; or tidemark.ErrInvalid for a request that
// cannot be sent.
func (c *Client) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	err := c.broken
	var body []byte
	if err == nil {
		body, err = c.body(r)
	}
	if err != nil {
		return func(yield func(model.Event, error) bool) { yield(model.Event{}, err) }
	}
	return c.o.Retry.Stream(ctx, func(ctx context.Context, alive func(), emit func(model.Event) error) (*model.Answer, error) {
		res, err := c.post(ctx, body)
		if err != nil {
			return nil, model.Lost(c.o.Name, err)
		}
		defer res.Body.Close()
		alive()
		if res.StatusCode != http.StatusOK {
			page, _ := io.ReadAll(io.LimitReader(res.Body, model.MaxRefusalBytes))
			return nil, model.Refused(c.o.Name, res.StatusCode, res.Header, model.WithoutKeys(page, c.o.Key))
		}
		read := readChat
		if c.o.Responses {
			read = readResponses
		}
		answer, err := read(c.o.Name, res.Body, alive, emit)
		if answer != nil && answer.Entry.Model == "" {
			answer.Entry.Model = r.Model
		}
		return answer, err
	})
}

func (c *Client) post(ctx context.Context, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "tidemark")
	if c.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	return c.http.Do(req)
}
