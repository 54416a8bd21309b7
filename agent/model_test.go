package agent

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/standin"
)

func setupWith(variables map[string]string) *Setup {
	return &Setup{Getenv: func(name string) string { return variables[name] }}
}

func TestEveryProviderIsInTheListThatEverybodyUses(t *testing.T) {
	var names []string
	for _, p := range providers() {
		names = append(names, p.name)
	}
	if diff := cmp.Diff(model.Providers, names); diff != "" {
		t.Error(diff)
	}
}

func TestOnAPageItIsSaidWhatSomebodyThereCanDoAboutAMissingModel(t *testing.T) {
	for provider, want := range map[string]string{"": "start it again where ANTHROPIC_API_KEY", "anthropic": "set ANTHROPIC_API_KEY, and start the server again"} {
		_, err := setupWith(nil).Choose(Choice{Provider: provider}, Choice{})
		told := Served(err)
		if err == nil || !errors.Is(told, tidemark.ErrInvalid) || !strings.Contains(told.Error(), want) || strings.Contains(told.Error(), "--") {
			t.Errorf("provider %q: %v", provider, told)
		}
	}
	if err := Served(tidemark.ErrHeld); err != tidemark.ErrHeld {
		t.Errorf("another error became %v", err)
	}
}

func TestAnEndpointIsAskedWhichModelsItHas(t *testing.T) {
	url := standin.Start(t)
	for provider, want := range map[string]Offer{
		"anthropic":        {standin.Model, standin.ListedWindow, FromEndpoint},
		"openai":           {standin.Model, standin.ListedWindow, FromEndpoint},
		"openai-responses": {standin.Model, standin.ListedWindow, FromEndpoint},
		"ollama":           {standin.Model, standin.OllamaWindow, FromEndpoint},
		"llamacpp":         {standin.Model, standin.SlotWindow, FromEndpoint},
		"vllm":             {standin.Model, standin.ListedWindow, FromEndpoint},
		"openrouter":       {standin.Model, standin.ListedWindow, FromEndpoint},
		"demo":             {"demo", model.DefaultWindow, FromDefault},
	} {
		told, got, err := setupWith(nil).Offers(t.Context(), Choice{Provider: provider, BaseURL: url})
		if err != nil || told != provider {
			t.Fatalf("%s: %v", provider, err)
		}
		if diff := cmp.Diff([]Offer{want}, got); diff != "" {
			t.Errorf("%s: %s", provider, diff)
		}
	}
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	if _, _, err := setupWith(nil).Offers(t.Context(), Choice{Provider: "ollama", BaseURL: empty.URL}); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("an address without a list gives %v", err)
	}
}

func TestAProviderIsChosenByItsKeyAndSomeWantTheNameOfAModel(t *testing.T) {
	m, err := setupWith(map[string]string{"OPENROUTER_API_KEY": "k"}).Choose(Choice{}, Choice{})
	if err != nil || m.Provider != "openrouter" || !m.Remote {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := setupWith(nil).Choose(Choice{Provider: "openrouter"}, Choice{}); err == nil || !strings.Contains(err.Error(), "OPENROUTER_API_KEY") {
		t.Error(err)
	}
	if _, err := setupWith(nil).Choose(Choice{Provider: "vllm"}, Choice{}); !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), "the name of a model") {
		t.Error(err)
	}
	if m, err := setupWith(nil).Choose(Choice{Provider: "vllm", Model: "qwen"}, Choice{}); err != nil || m.Name != "qwen" || m.Remote {
		t.Errorf("%+v, %v", m, err)
	}
	if got := setupWith(map[string]string{"VLLM_API_KEY": "k", "OPENAI_API_KEY": "k"}).Models(); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "vllm") }) {
		t.Errorf("offers %q", got)
	}
}

func TestKeysOfProvidersAreKeptFromPrograms(t *testing.T) {
	s := setupWith(nil)
	for _, p := range providers() {
		for _, name := range p.keyVars {
			s.Environ = append(s.Environ, name+"=secret")
		}
	}
	s.Environ = append(s.Environ, "LANG=C")
	if diff := cmp.Diff([]string{"LANG=C"}, s.toolEnviron()); diff != "" {
		t.Error(diff)
	}
}

func TestASessionsProjectIsWorkedInOnlyWhenItIsAWorkTreeHere(t *testing.T) {
	home := t.TempDir()
	tree, bare := filepath.Join(home, "tree"), filepath.Join(home, "bare")
	for _, dir := range []string{filepath.Join(tree, ".git"), bare, filepath.Join(home, ".git")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{tree, home} {
		if err := os.WriteFile(filepath.Join(dir, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &Setup{Home: func() (string, error) { return home, nil }}
	for project, want := range map[string]string{tree: tree, bare: "here", home: "here", "": "here", "tree": "here", filepath.Join(home, "gone"): "here", "/": "here"} {
		if got := s.FolderFor(tidemark.Session{Project: project}, "here"); got != want {
			t.Errorf("a session about %q works in %q, want %q", project, got, want)
		}
	}
}
