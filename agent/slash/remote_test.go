package slash

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/model/standin"
	"github.com/tidemark-sessions/tidemark/store"
)

// remotely opens a conversation on a page; the function returns what was emitted
// since it was last called, in words.
func remotely(t *testing.T) (*Remote, *store.Store, func() string) {
	t.Helper()
	setup := &agent.Setup{Getenv: func(string) string { return "" }, Environ: os.Environ(), IsProject: func(string) bool { return true }, Home: os.UserHomeDir}
	s := store.New(memory.New(), nil)
	var heard strings.Builder
	r, err := OpenRemote(t.Context(), setup, agent.Options{Store: s, Holder: process.Self("test"), Project: t.TempDir(), SandboxMode: agent.SandboxOff,
		Choice: agent.Choice{Provider: "openai", Model: standin.Model, BaseURL: standin.Start(t)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(t.Context()) })
	r.talk.Out = writing{r, &heard}
	return r, s, func() string { defer heard.Reset(); return heard.String() }
}

// writing also keeps what is told.
type writing struct {
	r *Remote
	b *strings.Builder
}

func (w writing) Write(b []byte) (int, error) {
	w.b.Write(b)
	return told{w.r.Remote}.Write(b)
}

func TestEveryCommandThatNeedsAFrontIsOnThePageOrElsewhere(t *testing.T) {
	r, s, heard := remotely(t)
	enter := func(line string) error {
		return r.Enter(t.Context(), line, nil, func(any) error { return nil })
	}
	if err := enter("[[fake say hello]]"); err != nil {
		t.Fatal(err)
	}
	tried := map[string]string{"/retry": "sent again", "/permissions": "Now: ask", "/diff": "no repository", "/review": "", "/help": "/undo"}
	for _, k := range Commands() {
		_, elsewhere := onPages[k.Name]
		says, here := tried[k.Name]
		switch {
		case k.NeedsFront && elsewhere == here:
			t.Errorf("%s: on the page %v, elsewhere %v", k.Name, here, elsewhere)
		case !k.NeedsFront && elsewhere:
			t.Errorf("%s needs no front, and is not on the page", k.Name)
		case here:
			if err := enter(k.Name); err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
			if got := heard(); !strings.Contains(got, says) || strings.Contains(got, "Ctrl-") || strings.Contains(got, "Shift-") {
				t.Errorf("%s says %q", k.Name, got)
			}
		case elsewhere:
			if err := enter(k.Name + " it"); !errors.Is(err, tidemark.ErrUnsupported) || !strings.Contains(err.Error(), onPages[k.Name]) {
				t.Errorf("%s: %v", k.Name, err)
			}
		}
	}
	for name := range onPages {
		if !slices.ContainsFunc(Commands(), func(k Command) bool { return k.Name == name }) {
			t.Errorf("%s is no command", name)
		}
	}

	// Who wants a plan asks for one, as in a terminal; an image goes with a message alone.
	if err := enter("/permissions plan"); err != nil {
		t.Fatal(err)
	}
	if err := enter("//etc/hosts, what is it? [[fake say a file]]"); err != nil {
		t.Fatal(err)
	}
	v, err := s.View(t.Context(), r.ID())
	if err != nil {
		t.Fatal(err)
	}
	said, err := lastSaid(t.Context(), v)
	if err != nil || len(said) != 2 || !strings.HasPrefix(said[0].Text, "/etc/hosts") || said[1].Text != PlanFirst {
		t.Errorf("%v: %v", err, said)
	}
	if err := r.Enter(t.Context(), "/cost", []tidemark.Block{{Type: tidemark.BlockImage}}, nil); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a command with an image: %v", err)
	}
	if err := enter("/model"); err != nil || !strings.Contains(heard(), standin.Model) {
		t.Errorf("%v: the models are not listed", err)
	}
	if _, err := Image("x.png", []byte("no")); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("what is no image: %v", err)
	}
}
