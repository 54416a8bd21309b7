package chat_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// measured is a scripted model whose server tells its window.
type measured struct {
	*scripted
	tokens []int // one answer each time it is asked; the last one again and again
	err    error
	asked  int
}

func (m *measured) Describe(context.Context, string) (model.Listed, error) {
	m.asked++
	return model.Listed{Window: m.tokens[min(m.asked, len(m.tokens))-1]}, m.err
}

func TestTheWindowThatTheServerTellsCounts(t *testing.T) {
	r := newRig(t, newMemory(), map[string][]reply{"hello": {says("ok")}})
	c := r.new()
	m := &measured{scripted: r.model, tokens: []int{0, 0, 40_000}}
	if err := c.SetModel(m, "ollama", "m", false); err != nil {
		t.Fatal(err)
	}
	var seen []int
	for range 5 {
		r.send(c, "hello")
		seen = append(seen, c.Window())
	}
	same(t, seen, []int{model.DefaultWindow, model.DefaultWindow, 40_000, 40_000, 40_000})
	if m.asked != 3 || c.CompactAbove() != 30_000 {
		t.Errorf("asked %d times, compacts above %d", m.asked, c.CompactAbove())
	}
	failing := &measured{scripted: r.model, tokens: []int{0}, err: errors.New("no such page")}
	if err := c.SetModel(failing, "llamacpp", "m", false); err != nil {
		t.Fatal(err)
	}
	r.send(c, "hello")
	r.send(c, "hello")
	if c.Window() != model.DefaultWindow || failing.asked != 1 {
		t.Errorf("%d after %d questions to a server that cannot tell", c.Window(), failing.asked)
	}
}

func TestAWindowThatNotEvenTheToolsFitIntoIsTold(t *testing.T) {
	r := newRig(t, newMemory(), map[string][]reply{"hello": {says("ok")}})
	c := r.new()
	if err := c.SetModel(&measured{scripted: r.model, tokens: []int{200}}, "ollama", "tiny", false); err != nil {
		t.Fatal(err)
	}
	r.send(c, "hello")
	if !r.noticed("tiny takes 200 tokens here") {
		t.Errorf("said %q", r.notices())
	}
}

func TestAChangeOfModelSaysWhatIsNotKept(t *testing.T) {
	thought := tidemark.Block{Type: tidemark.BlockThinking, Text: "hm", Provider: "anthropic", Raw: `{"type":"thinking","thinking":"hm","signature":"s"}`}
	r := newRig(t, newMemory(), map[string][]reply{"hello": {calls(thought, tidemark.Text("ok"))}, "long": {says(strings.Repeat("word ", 20_000))}})
	c := r.new()
	r.send(c, "hello")
	for provider, want := range map[string]int{"anthropic": 0, "openai": 1} {
		if err := c.SetModel(r.model, provider, "claude-sonnet-5", false); err != nil {
			t.Fatal(err)
		}
		if got := c.AfterSwitch(); len(got) != want {
			t.Errorf("%s: said %q", provider, got)
		}
	}
	r.send(c, "long")
	if err := c.SetModel(r.model, "anthropic", "unknown", false); err != nil {
		t.Fatal(err)
	}
	if got := c.AfterSwitch(); len(got) != 1 || !strings.Contains(got[0], "unknown takes 16000") {
		t.Errorf("said %q", got)
	}
	if u := c.LastUsage(); u == nil {
		t.Error("what the last answer used is not known")
	}
}
