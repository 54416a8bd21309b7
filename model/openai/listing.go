package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark/model"
)

// Kind is a server whose own interface, beside that of OpenAI, tells more about
// its models.
type Kind string

// The kinds of servers that are asked in their own ways.
const (
	Ollama     Kind = "ollama"     // /api/show and /api/ps
	LlamaCpp   Kind = "llamacpp"   // /props
	VLLM       Kind = "vllm"       // max_model_len in the list of models
	OpenRouter Kind = "openrouter" // context_length in the list of models
)

// Models implements model.Lister.
func (c *Client) Models(ctx context.Context) ([]model.Listed, error) {
	raw, err := c.ask(ctx, http.MethodGet, c.base.JoinPath("models"), nil)
	if err != nil {
		return nil, err
	}
	all, err := model.ReadListing(c.o.Name, raw)
	if err != nil || c.o.Kind != Ollama && c.o.Kind != LlamaCpp {
		return all, err
	}
	for i := range all[:min(len(all), maxShown)] {
		// One that cannot be asked about is in the list all the same.
		if told, err := c.Describe(ctx, all[i].Name); err == nil {
			all[i] = told
		}
	}
	return all, ctx.Err()
}

// maxShown is how many models of a list are asked about one by one.
const maxShown = 100

// Describe implements model.Describer. A server of no Kind is not asked: it
// would not tell.
func (c *Client) Describe(ctx context.Context, name string) (model.Listed, error) {
	switch c.o.Kind {
	case Ollama:
		return c.describeOllama(ctx, name)
	case LlamaCpp:
		at := c.root.JoinPath("props")
		at.RawQuery = url.Values{"model": {name}}.Encode()
		raw, err := c.ask(ctx, http.MethodGet, at, nil)
		if err != nil {
			return model.Listed{}, err
		}
		return props(raw, name), nil
	case VLLM, OpenRouter:
		all, err := c.Models(ctx)
		for _, m := range all {
			if m.Name == name {
				return m, nil
			}
		}
		return model.Listed{Name: name}, err
	}
	return model.Listed{Name: name}, nil
}

// describeOllama is what Ollama has set for a model: by the model's own
// settings, or as it was loaded. What the model could take at most does not
// count, since Ollama cuts off what is above its setting without a word.
func (c *Client) describeOllama(ctx context.Context, name string) (model.Listed, error) {
	asked, err := model.JSON(map[string]string{"model": name})
	if err != nil {
		return model.Listed{}, err
	}
	raw, err := c.ask(ctx, http.MethodPost, c.root.JoinPath("api", "show"), asked)
	if err != nil {
		return model.Listed{}, err
	}
	told := shown(raw, name)
	if told.Window > 0 {
		return told, nil
	}
	if raw, err = c.ask(ctx, http.MethodGet, c.root.JoinPath("api", "ps"), nil); err != nil {
		return told, err
	}
	told.Window = loadedWindow(raw, name)
	return told, nil
}

// shown is what /api/show tells: num_ctx in the parameters that it lists line
// by line, if it is set, and whether vision is among the capabilities.
func shown(raw []byte, name string) model.Listed {
	told := model.Listed{Name: name}
	var page struct {
		Parameters   string   `json:"parameters"`
		Capabilities []string `json:"capabilities"`
	}
	if json.Unmarshal(raw, &page) != nil {
		return told
	}
	told.TextOnly = len(page.Capabilities) > 0 && !slices.Contains(page.Capabilities, "vision")
	for line := range strings.Lines(page.Parameters) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "num_ctx" {
			if n, err := strconv.Atoi(words[1]); err == nil {
				told.Window = sensible(n)
				break
			}
		}
	}
	return told
}

// loadedWindow is what a model was loaded with, by /api/ps; 0 if it is not
// loaded. A name without a tag means the tag latest.
func loadedWindow(raw []byte, name string) int {
	var loaded struct {
		Models []struct {
			Name    string       `json:"name"`
			Context model.Tokens `json:"context_length"`
		} `json:"models"`
	}
	if json.Unmarshal(raw, &loaded) != nil {
		return 0
	}
	for _, m := range loaded.Models {
		if m.Name == name || m.Name == name+":latest" {
			return int(m.Context)
		}
	}
	return 0
}

// props is what /props of llama.cpp tells: the context of one slot, and whether
// its model sees.
func props(raw []byte, name string) model.Listed {
	var page struct {
		Settings struct {
			Context model.Tokens `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Modalities struct {
			Vision *bool `json:"vision"`
		} `json:"modalities"`
	}
	if json.Unmarshal(raw, &page) != nil {
		return model.Listed{Name: name}
	}
	sees := page.Modalities.Vision
	return model.Listed{Name: name, Window: int(page.Settings.Context), TextOnly: sees != nil && !*sees}
}

// sensible returns a number of tokens, 0 for one that cannot be meant.
func sensible(n int) int {
	if n < 1 || n > 1<<30 {
		return 0
	}
	return n
}

// ask sends a small request and returns the answer.
func (c *Client) ask(ctx context.Context, method string, to *url.URL, body []byte) ([]byte, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.o.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	return model.Ask(c.http, r, c.o.Name, c.o.Key)
}
