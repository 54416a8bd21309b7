package agent

import (
	"cmp"
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

// Model is a language model that can be asked.
type Model struct {
	Client         chat.Model
	Provider, Name string
	Remote         bool // it is not on this machine
}

// provider describes a provider of models.
type provider struct {
	name, model string   // its name, and its default model
	base        string   // its default address
	baseVars    []string // variables that set the address
	keyVars     []string // variables with a key, of which errors name the first
	client      func(base, key string) chat.Model
}

func providers() []provider {
	return []provider{
		{name: "anthropic", model: "claude-sonnet-5-5", base: "https://api.anthropic.com", baseVars: []string{"ANTHROPIC_BASE_URL"}, keyVars: []string{"ANTHROPIC_API_KEY"},
			client: func(base, key string) chat.Model { return anthropic.New(anthropic.Options{BaseURL: base, Key: key}) }},
		{name: "openai", model: "gpt-5.1", base: "https://api.openai.com/v1", baseVars: []string{"OPENAI_BASE_URL"}, keyVars: []string{"OPENAI_API_KEY"},
			client: func(base, key string) chat.Model { return openai.New(openai.Options{BaseURL: base, Key: key}) }},
		{name: "ollama", model: "llama3.2", base: "http://127.0.0.1:11434/v1", baseVars: []string{"OLLAMA_HOST"},
			client: func(base, key string) chat.Model {
				return openai.New(openai.Options{BaseURL: base, Key: key, Name: "ollama"})
			}},
		{name: "demo", model: "demo",
			client: func(_, _ string) chat.Model { return demo.New(demo.Options{}) }},
	}
}

// CheckProvider returns ErrInvalid for an unknown provider.
func CheckProvider(name string) error {
	var names []string
	for _, p := range providers() {
		if p.name == name {
			return nil
		}
		names = append(names, p.name)
	}
	return tidemark.Invalidf("provider %q: want one of %s", name, strings.Join(names, ", "))
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
	return provider{}, hint.With(tidemark.Invalidf("no model to talk to: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name one with --provider"), demoHint)
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
	m := Model{Provider: p.name, Remote: isRemote(base)}
	key := s.first(p.keyVars)
	if key == "" && len(p.keyVars) > 0 && m.Remote {
		return m, hint.With(tidemark.Invalidf("%s wants a key: set %s", p.name, p.keyVars[0]), demoHint)
	}
	m.Name = cmp.Or(said.Model, s.Getenv(ModelVariable))
	if m.Name == "" && last.Provider == p.name {
		m.Name = last.Model
	}
	if m.Name == "" && s.Default.Provider == p.name {
		m.Name = s.Default.Model
	}
	m.Name = cmp.Or(m.Name, p.model)
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
		if s.first(p.keyVars) != "" {
			names = append(names, p.name+"/"+p.model)
		}
	}
	return names
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
