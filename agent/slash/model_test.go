package slash

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model/standin"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// typist is a Front that has a line.
type typist struct {
	Front
	line string
}

func (f *typist) Offer(line string) bool { f.line = line; return true }

// asking is a conversation with a model at an address.
func asking(t *testing.T, provider, base string, environ map[string]string) (*Conversation, *bytes.Buffer) {
	t.Helper()
	setup := &agent.Setup{Getenv: func(name string) string { return environ[name] }, IsProject: func(string) bool { return false }}
	m, err := setup.Choose(agent.Choice{Provider: provider, Model: "first", BaseURL: base}, agent.Choice{})
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	s := store.New(memory.New(), nil)
	talk, err := chat.New(chat.Options{Store: s, Model: m.Client, Provider: m.Provider, Name: m.Name, Remote: m.Remote,
		Box: func(tool.State, tool.Files, store.Limits, func(string, []byte)) (*tool.Box, error) {
			return tool.New(tool.Options{Root: root})
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { talk.Close(t.Context()) })
	var out bytes.Buffer
	return &Conversation{Chat: talk, Store: s, Setup: setup, Model: m, Out: &out}, &out
}

func TestModelsOfTheEndpointAreOffered(t *testing.T) {
	c, out := asking(t, "openai", standin.Start(t)+"/v1", map[string]string{"ANTHROPIC_API_KEY": "k"})
	front := &typist{}
	c.Front = front
	if err := c.Run(t.Context(), "/model"); err != nil || front.line != "/model " || !strings.Contains(out.String(), "openai/first") {
		t.Fatalf("%v, line %q, said %q", err, front.line, out)
	}
	from, found := c.Complete(t.Context(), "/model ", len("/model "))
	if from != len("/model ") || !slices.Contains(found, standin.Model) || !slices.Contains(found, "first") || !slices.ContainsFunc(found, func(s string) bool { return strings.HasPrefix(s, "anthropic/") }) {
		t.Errorf("offered: %d, %q", from, found)
	}
	if _, found = c.Complete(t.Context(), "/model "+standin.Model[1:], len("/model "+standin.Model[1:])); !slices.Equal(found, []string{standin.Model}) {
		t.Errorf("offered for letters of a name: %q", found)
	}
	if err := c.Run(t.Context(), "/model "+standin.Model[1:]); err != nil || c.Model.Name != standin.Model {
		t.Errorf("%v: a part of a name that only one has is %q", err, c.Model.Name)
	}
	if err := c.Run(t.Context(), "/model other"); err != nil || c.Model.Name != "other" {
		t.Errorf("%v: a name that nobody has is %q", err, c.Model.Name)
	}
}

func TestAnEndpointThatDoesNotTellLeavesTheUsualModels(t *testing.T) {
	c, out := asking(t, "openai", "http://127.0.0.1:1/v1", map[string]string{"OPENAI_API_KEY": "k"})
	c.Front = &typist{}
	if err := c.Run(t.Context(), "/model"); err != nil || !strings.Contains(out.String(), "does not say which models it has") {
		t.Errorf("%v: said %q", err, out)
	}
	if _, found := c.Complete(t.Context(), "/model ", len("/model ")); !slices.Equal(found, []string{"first", "gpt-5.1", "openai-responses/gpt-5.1"}) {
		t.Errorf("offered: %q", found)
	}
}

func TestTheAddressOfOneProviderIsNotThatOfAnother(t *testing.T) {
	c, _ := asking(t, "openai", "http://127.0.0.1:1/v1", map[string]string{"OLLAMA_HOST": "127.0.0.1:2"})
	for _, name := range []string{"second", "ollama/third", "fourth"} {
		if err := c.Run(t.Context(), "/model "+name); err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{"openai": "http://127.0.0.1:1/v1"}[c.Model.Provider]; c.Model.BaseURL != want {
			t.Errorf("%s/%s is asked at %q, want %q", c.Model.Provider, c.Model.Name, c.Model.BaseURL, want)
		}
	}
	said := agent.Choice{Provider: "openai", BaseURL: "http://proxy"}
	if said.AddressFor("anthropic") != "" || said.AddressFor("openai") != "http://proxy" || (agent.Choice{BaseURL: "http://proxy"}).AddressFor("any") != "http://proxy" {
		t.Error("an address goes with another provider")
	}
}
