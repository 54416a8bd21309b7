package agent

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/anthropic"
	"github.com/tidemark-sessions/tidemark/model/demo"
	"github.com/tidemark-sessions/tidemark/model/openai"
)

// Choice is the model to use, as far as somebody chose one.
type Choice struct {
	Provider, Model, BaseURL string
}

// AddressFor is the address that was chosen, as long as it is that of this
// provider: the key of one must not be sent to another.
func (c Choice) AddressFor(provider string) string {
	if c.Provider != "" && c.Provider != provider {
		return ""
	}
	return c.BaseURL
}

// Model is a language model that can be asked.
type Model struct {
	Client         chat.Model
	Provider, Name string
	Remote         bool   // it is not on this machine
	BaseURL        string // the address that somebody gave for it, "" for that of its provider
}

// provider describes a provider of models.
type provider struct {
	name, model string   // its name, and its default model; "": somebody has to name one
	base        string   // its default address
	baseVars    []string // variables that set the address
	keyVars     []string // variables with a key, of which errors name the first
	client      func(base, key string) chat.Model
}

func providers() []provider {
	speaking := func(name string, kind openai.Kind) func(base, key string) chat.Model {
		return func(base, key string) chat.Model {
			return openai.New(openai.Options{BaseURL: base, Key: key, Name: name, Kind: kind, Responses: name == openai.ResponsesProvider})
		}
	}
	const openAI = "https://api.openai.com/v1"
	return []provider{
		{name: "anthropic", model: "claude-sonnet-5-5", base: "https://api.anthropic.com", baseVars: []string{"ANTHROPIC_BASE_URL"}, keyVars: []string{"ANTHROPIC_API_KEY"},
			client: func(base, key string) chat.Model { return anthropic.New(anthropic.Options{BaseURL: base, Key: key}) }},
		{name: "openai", model: "gpt-5.1", base: openAI, baseVars: []string{"OPENAI_BASE_URL"}, keyVars: []string{"OPENAI_API_KEY"}, client: speaking("openai", "")},
		{name: openai.ResponsesProvider, model: "gpt-5.1", base: openAI, baseVars: []string{"OPENAI_BASE_URL"}, keyVars: []string{"OPENAI_API_KEY"},
			client: speaking(openai.ResponsesProvider, "")},
		{name: "ollama", model: "llama3.2", base: "http://127.0.0.1:11434/v1", baseVars: []string{"OLLAMA_HOST"}, client: speaking("ollama", openai.Ollama)},
		// llama.cpp has one model, whatever it is called.
		{name: "llamacpp", model: "default", base: "http://127.0.0.1:8080/v1", client: speaking("llamacpp", openai.LlamaCpp)},
		{name: "vllm", base: "http://127.0.0.1:8000/v1", keyVars: []string{"VLLM_API_KEY"}, client: speaking("vllm", openai.VLLM)},
		{name: "openrouter", model: "openrouter/auto", base: "https://openrouter.ai/api/v1", keyVars: []string{"OPENROUTER_API_KEY"}, client: speaking("openrouter", openai.OpenRouter)},
		{name: demo.Provider, model: "demo", client: func(_, _ string) chat.Model { return demo.New(demo.Options{}) }},
	}
}

// CheckProvider returns ErrInvalid for an unknown provider.
func CheckProvider(name string) error {
	if slices.Contains(model.Providers, name) {
		return nil
	}
	return tidemark.Invalidf("provider %q: want one of %s", name, strings.Join(model.Providers, ", "))
}

// provider returns the chosen provider: by name, or else the first for which
// there is a key.
func (s *Setup) provider(name string) (provider, error) {
	for _, p := range providers() {
		if p.name == name || name == "" && len(p.keyVars) > 0 && s.first(p.keyVars) != "" {
			return p, nil
		}
	}
	if name != "" {
		return provider{}, CheckProvider(name)
	}
	return provider{}, hint.With(tidemark.Invalidf("%w: set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, or name one with --provider", errNoModel), demoHint)
}

// errNoModel is what is wrong when nobody said which model is to be asked.
var errNoModel = errors.New("no model to talk to")

// errNoKey is what is wrong when the model is known, and how to be let in is not.
var errNoKey = errors.New("wants a key")

// Served says what is missing to somebody on a page of a server, who has neither its
// flags nor its environment; any other error comes back as it is.
func Served(err error) error {
	switch {
	case errors.Is(err, errNoModel):
		return tidemark.Invalidf("no model is set up for this server: start it again where ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY is set, or with a provider and a model in its config.yaml (provider: ollama needs no key)")
	case errors.Is(err, errNoKey):
		return tidemark.Invalidf("%w, and start the server again", err)
	}
	return err
}

const demoHint = "try it without a key or a network: tidemark chat --provider demo"

// The variables that choose a model.
const (
	ProviderVariable = "TIDEMARK_PROVIDER"
	ModelVariable    = "TIDEMARK_MODEL"
	BaseURLVariable  = "TIDEMARK_BASE_URL"
)

// Choose returns the chosen model: by what was said for this conversation, by
// the environment or by the configuration, or else the one that the session was
// last used with. ErrInvalid: there is none, or its key is missing.
func (s *Setup) Choose(said, last Choice) (Model, error) {
	p, err := s.provider(cmp.Or(said.Provider, s.Getenv(ProviderVariable), last.Provider, s.Default.Provider))
	if err != nil {
		return Model{}, err
	}
	base := cmp.Or(said.BaseURL, s.Getenv(BaseURLVariable), s.first(p.baseVars))
	if base == "" && s.Default.Provider == p.name {
		base = s.Default.BaseURL
	}
	if base = cmp.Or(base, p.base); base != "" && !strings.Contains(base, "://") {
		base = "http://" + base // the form of OLLAMA_HOST
	}
	m := Model{Provider: p.name, Remote: isRemote(base), BaseURL: said.BaseURL}
	key := s.first(p.keyVars)
	if key == "" && len(p.keyVars) > 0 && m.Remote {
		return m, hint.With(tidemark.Invalidf("%s %w: set %s", p.name, errNoKey, p.keyVars[0]), demoHint)
	}
	m.Name = cmp.Or(said.Model, s.Getenv(ModelVariable))
	if m.Name == "" && last.Provider == p.name {
		m.Name = last.Model
	}
	if m.Name == "" && s.Default.Provider == p.name {
		m.Name = s.Default.Model
	}
	if m.Name = cmp.Or(m.Name, p.model); m.Name == "" {
		return m, hint.With(tidemark.Invalidf("%s wants the name of a model", p.name), "tidemark models --provider %s lists what it has; --model NAME chooses", p.name)
	}
	m.Client = p.client(base, key)
	return m, nil
}

// Another returns another model for a conversation, by name: NAME of the same
// provider, or PROVIDER/NAME. baseURL applies only to the same provider.
func (s *Setup) Another(provider, baseURL, name string) (Model, error) {
	choice := Choice{Provider: provider, Model: name, BaseURL: baseURL}
	if other, rest, ok := strings.Cut(name, "/"); ok && other != provider {
		if CheckProvider(other) == nil {
			choice = Choice{Provider: other, Model: rest}
		}
	} else if ok {
		choice.Model = rest
	}
	return s.Choose(choice, Choice{})
}

// Models are the models that can be offered for choice, as PROVIDER/NAME:
// those with a key.
func (s *Setup) Models() (names []string) {
	for _, p := range providers() {
		if s.first(p.keyVars) != "" && p.model != "" {
			names = append(names, p.name+"/"+p.model)
		}
	}
	return names
}

// Offer is a model that an endpoint has.
type Offer struct {
	Name   string `json:"name"`
	Window int    `json:"window"` // tokens that it can be sent, its answer included
	// From is who says so: endpoint, table (of families of models), or default
	// where nobody knows.
	From string `json:"window_from"`
}

// Who says how many tokens a model takes.
const (
	FromEndpoint = "endpoint"
	FromTable    = "table"
	FromDefault  = "default"
)

// Offers asks the chosen provider's endpoint which models it has, by name. The
// errors are those of Choose and of package model.
func (s *Setup) Offers(ctx context.Context, said Choice) (provider string, all []Offer, err error) {
	said.Model = cmp.Or(said.Model, "any")
	m, err := s.Choose(said, Choice{})
	if err != nil {
		return "", nil, err
	}
	listed := []model.Listed{{Name: demo.Provider}}
	if asked, ok := m.Client.(model.Lister); ok {
		if listed, err = asked.Models(ctx); err != nil {
			return m.Provider, nil, err
		}
	}
	all = []Offer{}
	for _, l := range listed {
		o := Offer{Name: l.Name, Window: l.Window, From: FromEndpoint}
		if o.Window == 0 {
			o.Window, o.From = model.Window(m.Provider, l.Name), FromTable
			if o.Window == model.DefaultWindow {
				o.From = FromDefault
			}
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Offer) int { return strings.Compare(a.Name, b.Name) })
	return m.Provider, all, nil
}

// first is the value of the first of these variables that is set.
func (s *Setup) first(names []string) string {
	for _, name := range names {
		if v := s.Getenv(name); v != "" {
			return v
		}
	}
	return ""
}

// isRemote reports whether an address leads away from this machine.
func isRemote(base string) bool {
	if base == "" {
		return false
	}
	u, err := url.Parse(base)
	if err != nil {
		return true
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host != "localhost" && !(ip != nil && (ip.IsLoopback() || ip.IsUnspecified()))
}

// toolEnviron is the environment of the agent's programs: ours, without
// the keys of models and of the store.
func (s *Setup) toolEnviron() []string {
	return slices.DeleteFunc(slices.Clone(s.Environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		for _, p := range providers() {
			if slices.Contains(p.keyVars, name) {
				return true
			}
		}
		return name == "ANTHROPIC_AUTH_TOKEN" || strings.HasPrefix(name, "TIDEMARK_")
	})
}

// ModelHint is the way out of an error of a provider.
func ModelHint(e *model.Error) string {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "check the key; the provider does not take it"
	case http.StatusNotFound:
		return "choose another model with --model, or another address with --base-url"
	case 0:
		return "is the provider reachable? Its address is chosen with --base-url"
	}
	return ""
}
