package main

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/anthropic"
	"github.com/tidemark-sessions/tidemark/model/demo"
	"github.com/tidemark-sessions/tidemark/model/openai"
)

// modelChoice is which model to ask, as far as somebody said.
type modelChoice struct {
	provider, model, baseURL string
}

// provider is a language model that can be asked.
type provider struct {
	name   string
	model  string
	remote bool // it is not on this machine
	client chat.Model
}

// maker is what is known of the providers of models.
type maker struct {
	name, model string   // its name, and the model that it is asked for unless somebody says
	base        string   // where it is, unless somebody says
	baseVars    []string // variables that say
	keyVars     []string // variables with a key, the first of which is named in errors
	make        func(base, key string) chat.Model
}

func makers() []maker {
	return []maker{
		{name: "anthropic", model: "claude-sonnet-5-5", base: "https://api.anthropic.com", baseVars: []string{"ANTHROPIC_BASE_URL"}, keyVars: []string{"ANTHROPIC_API_KEY"},
			make: func(base, key string) chat.Model { return anthropic.New(anthropic.Options{BaseURL: base, Key: key}) }},
		{name: "openai", model: "gpt-5.1", base: "https://api.openai.com/v1", baseVars: []string{"OPENAI_BASE_URL"}, keyVars: []string{"OPENAI_API_KEY"},
			make: func(base, key string) chat.Model { return openai.New(openai.Options{BaseURL: base, Key: key}) }},
		{name: "ollama", model: "llama3.2", base: "http://127.0.0.1:11434/v1", baseVars: []string{"OLLAMA_HOST"},
			make: func(base, key string) chat.Model {
				return openai.New(openai.Options{BaseURL: base, Key: key, Name: "ollama"})
			}},
		{name: "demo", model: "demo",
			make: func(_, _ string) chat.Model { return demo.New(demo.Options{}) }},
	}
}

// makerOf returns the provider that was chosen: by name, or else the first that
// a key is there for.
func makerOf(name string) (maker, error) {
	var names []string
	for _, m := range makers() {
		names = append(names, m.name)
		if m.name == name || name == "" && len(m.keyVars) > 0 && firstEnv(m.keyVars) != "" {
			return m, nil
		}
	}
	if name != "" {
		return maker{}, tidemark.Invalidf("provider %q: want one of %s", name, strings.Join(names, ", "))
	}
	return maker{}, withHint(tidemark.Invalidf("no model to talk to: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name one with --provider"),
		"try it without a key or a network: tidemark chat --provider demo")
}

// model returns the model that was chosen: by flag, environment or
// configuration, or else the one that the session was last used with.
func (a *app) model(flags, last modelChoice) (provider, error) {
	name := cmp.Or(flags.provider, os.Getenv("TIDEMARK_PROVIDER"), last.provider, a.config.Provider)
	m, err := makerOf(name)
	if err != nil {
		return provider{}, err
	}
	base := cmp.Or(flags.baseURL, os.Getenv("TIDEMARK_BASE_URL"), firstEnv(m.baseVars))
	if base == "" && a.config.Provider == m.name {
		base = a.config.BaseURL
	}
	if base = cmp.Or(base, m.base); base != "" && !strings.Contains(base, "://") {
		base = "http://" + base // as OLLAMA_HOST has it
	}
	p := provider{name: m.name, remote: isRemote(base)}
	key := firstEnv(m.keyVars)
	if key == "" && len(m.keyVars) > 0 && p.remote {
		return p, withHint(tidemark.Invalidf("%s wants a key: set %s", m.name, m.keyVars[0]),
			"try it without a key or a network: tidemark chat --provider demo")
	}
	p.model = cmp.Or(flags.model, os.Getenv("TIDEMARK_MODEL"))
	if p.model == "" && last.provider == m.name {
		p.model = last.model
	}
	if p.model == "" && a.config.Provider == m.name {
		p.model = a.config.Model
	}
	p.model = cmp.Or(p.model, m.model)
	p.client = m.make(base, key)
	return p, nil
}

func firstEnv(names []string) string {
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
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

// toolEnviron is the environment of what the agent runs: ours, without the
// keys of models and of the store.
func toolEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		for _, m := range makers() {
			if slices.Contains(m.keyVars, name) {
				return true
			}
		}
		return name == "ANTHROPIC_AUTH_TOKEN" || strings.HasPrefix(name, "TIDEMARK_")
	})
}

// modelSettings are the rows of `config show` about models.
func (a *app) modelSettings() []setting {
	row := func(name, variable, configured string) setting {
		if v := os.Getenv(variable); v != "" {
			return setting{name, v, "$" + variable}
		}
		return setting{name, configured, cmp.Or(a.config.origins[name], "default")}
	}
	return []setting{row("provider", "TIDEMARK_PROVIDER", a.config.Provider), row("model", "TIDEMARK_MODEL", a.config.Model),
		row("base_url", "TIDEMARK_BASE_URL", a.config.BaseURL)}
}

// modelHint is the way out of what a provider answered.
func modelHint(e *model.Error) string {
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
