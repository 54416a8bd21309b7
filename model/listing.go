package model

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
)

// Providers are the names of the providers that there are.
var Providers = []string{"anthropic", "openai", "openai-responses", "ollama", "llamacpp", "vllm", "openrouter", "demo"}

// Listed is a model that a server has.
type Listed struct {
	Name   string
	Window int // tokens that it can be sent, its answer included; 0: the server does not tell
	// TextOnly means that the server says that it takes no images.
	TextOnly bool
}

// Lister is a client whose server tells which models it has.
type Lister interface {
	// Models asks the server. The errors are those of Stream; nothing is asked
	// twice.
	Models(ctx context.Context) ([]Listed, error)
}

// Describer is a client whose server tells what one of its models takes.
type Describer interface {
	// Describe asks the server. A Window of 0 without an error means that it
	// cannot tell yet, such as before the model was loaded.
	Describe(ctx context.Context, name string) (Listed, error)
}

const (
	// maxListingBytes bounds what is read of a list: a router's has half a
	// megabyte.
	maxListingBytes = 16 << 20
	// maxListed and maxNameBytes bound what is taken of it.
	maxListed    = 10_000
	maxNameBytes = 300
)

// Ask sends a small request without a conversation, and returns the answer:
// which models there are, and what they take. The errors are those of Stream.
func Ask(client *http.Client, r *http.Request, provider string, keys ...string) ([]byte, error) {
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "tidemark")
	res, err := client.Do(r)
	if err != nil {
		return nil, Lost(provider, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		page, _ := io.ReadAll(io.LimitReader(res.Body, MaxRefusalBytes))
		return nil, Refused(provider, res.StatusCode, res.Header, WithoutKeys(page, keys...))
	}
	all, err := io.ReadAll(io.LimitReader(res.Body, maxListingBytes+1))
	switch {
	case err != nil:
		return nil, Lost(provider, err)
	case len(all) > maxListingBytes:
		return nil, Endless(provider)
	}
	return all, nil
}

// ReadListing reads a list of models, as Anthropic, OpenAI and those that speak
// like it send it. What makes no sense in it is left out.
func ReadListing(provider string, raw []byte) ([]Listed, error) {
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &list); err != nil || list.Data == nil {
		return nil, Nonsense(provider, "answered with something else than a list of models", raw[:min(len(raw), MaxRefusalBytes)])
	}
	var all []Listed
	for _, one := range list.Data[:min(len(list.Data), maxListed)] {
		var m struct {
			ID      string `json:"id"`
			MaxLen  Tokens `json:"max_model_len"`    // vLLM
			Context Tokens `json:"context_length"`   // OpenRouter
			Input   Tokens `json:"max_input_tokens"` // Anthropic
			Top     struct {
				Context Tokens `json:"context_length"`
			} `json:"top_provider"` // OpenRouter: who answers, which may take less
			Takes struct {
				Input []string `json:"input_modalities"`
			} `json:"architecture"` // OpenRouter
		}
		if json.Unmarshal(one, &m) != nil || m.ID == "" || len(m.ID) > maxNameBytes {
			continue
		}
		window := max(m.MaxLen, m.Context, m.Input)
		if m.Top.Context > 0 {
			window = min(max(window, 1), m.Top.Context)
		}
		all = append(all, Listed{Name: m.ID, Window: int(window), TextOnly: len(m.Takes.Input) > 0 && !slices.Contains(m.Takes.Input, "image")})
	}
	return all, nil
}

// Tokens is a number of tokens in the JSON of a server; anything that is no
// sensible number is 0.
type Tokens int

// UnmarshalJSON never fails: one odd field does not make a list useless.
func (n *Tokens) UnmarshalJSON(raw []byte) error {
	*n = 0
	var f float64
	if json.Unmarshal(bytes.TrimSpace(raw), &f) == nil && f >= 1 && f <= maxTokens {
		*n = Tokens(f)
	}
	return nil
}

// maxTokens is far above what any model takes: more is nonsense.
const maxTokens = 1 << 30
