package chat_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/extension"
	"github.com/tidemark-sessions/tidemark/internal/instructions"
	"github.com/tidemark-sessions/tidemark/model"
)

func names(r model.Request) (all []string) {
	for _, o := range r.Tools {
		all = append(all, o.Name)
	}
	return all
}

func TestSkillsAreListedAndLoadedWhenAskedFor(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"work": {calls(use("c1", "skill", `{"name":"deploy"}`), use("c2", "skill", `{"name":"none"}`))}})
	r.o.Instructions = func() instructions.Set { return instructions.Set{} }
	var now chat.Extensions
	r.o.Extensions = func() chat.Extensions { return now }
	c := r.new()
	r.send(c, "before")
	if first := r.model.last(t); slices.Contains(names(first), "skill") || strings.Contains(first.System, "Skills") {
		t.Errorf("there are none, and %q is offered", names(first))
	}
	now.Skills = []extension.Skill{{Name: "deploy", Description: "How to deploy.", File: ".claude/skills/deploy/SKILL.md", Text: "Press the red button."}}
	r.send(c, "work")
	last := r.model.last(t)
	if !slices.Contains(names(last), "skill") || !strings.Contains(last.System, "- deploy: How to deploy. (.claude/skills/deploy/SKILL.md)") || strings.Contains(last.System, "red button") {
		t.Errorf("offered %q, told %q", names(last), last.System)
	}
	got := results(r.path(c.ID()))
	if !strings.Contains(got["c1"].Text, "Press the red button.") || got["c1"].IsError || !got["c2"].IsError || !strings.Contains(got["c2"].Text, "there are: deploy") {
		t.Errorf("%+v", got)
	}
	if len(r.asks) != 0 {
		t.Errorf("asked: %+v", r.asks)
	}
	valid(t, last)
	r.close(c)
	c = r.resume(c.ID())
	// A command of the person may be the first thing in a resumed session.
	before := len(r.told())
	if err := c.RunCommand(t.Context(), "true"); err != nil {
		t.Fatal(err)
	}
	for _, e := range r.told()[before:] {
		if e.Notice != "" {
			t.Errorf("nothing changed, and it is told that %s", e.Notice)
		}
	}
	r.send(c, "after")
	beginsWith(t, r.model, r.model.last(t), last)
}

// TestADescribedWorkerHasNoMoreThanItsTools also holds for a worker of an earlier
// run, and when the file says something else by then.
func TestADescribedWorkerHasNoMoreThanItsTools(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{
		"go":    {calls(use("c1", "spawn_worker", `{"name":"first","agent":"reviewer","prompt":"look"}`)), calls(use("c2", "await_worker", `{"name":"first"}`))},
		"again": {calls(use("c3", "tell_worker", `{"name":"first","text":"look"}`)), calls(use("c4", "await_worker", `{"name":"first"}`))},
		"none":  {calls(use("c5", "spawn_worker", `{"name":"second","agent":"nobody","prompt":"look"}`))},
		"look":  {calls(use("w1", "bash", `{"command":"printf x >> ran"}`), use("w2", "ls", `{}`))},
	})
	r.o.Instructions = func() instructions.Set { return instructions.Set{} }
	agent := extension.Agent{Name: "reviewer", Description: "Reviews.", File: ".claude/agents/reviewer.md", Tools: []string{"Read", "LS", "Bash2", "Grep", "spawn_worker", "define_tool"}, Without: []string{"Grep"}, Text: "You review."}
	r.o.Extensions = func() chat.Extensions { return chat.Extensions{Agents: []extension.Agent{agent}} }
	check := func() {
		t.Helper()
		var asked *model.Request
		for _, q := range r.model.all() {
			if strings.Contains(q.System, "You review.") {
				asked = &q
			}
		}
		if asked == nil {
			t.Fatal("no worker was told what the file says")
		}
		same(t, names(*asked), []string{"read", "ls"})
		if !strings.Contains(asked.System, "who are not the user") {
			t.Errorf("%q", asked.System)
		}
		if ran(t, r) != 0 || len(r.asks) != 0 {
			t.Errorf("bash ran %d times, asked %d times", ran(t, r), len(r.asks))
		}
	}
	c := r.new()
	r.send(c, "go")
	if main := r.model.all()[0]; !strings.Contains(main.System, "- reviewer: Reviews.") || strings.Contains(main.System, "You review.") {
		t.Errorf("%q", main.System)
	}
	check()
	r.close(c)
	agent.Tools, agent.Without = nil, nil // the file allows more now
	c = r.resume(c.ID())
	r.model.mu.Lock()
	r.model.requests = nil
	r.model.mu.Unlock()
	r.send(c, "again")
	check()
	r.send(c, "none")
	if got := results(r.path(c.ID()))["c5"]; !got.IsError || !strings.Contains(got.Text, "there is no agent") {
		t.Errorf("%+v", got)
	}
}

// TestOnlyThePersonsFilesChooseAModel: a project could choose a dear one.
func TestOnlyThePersonsFilesChooseAModel(t *testing.T) {
	for name, c := range map[string]struct {
		agent extension.Agent
		want  string
		told  string
	}{
		"own":        {extension.Agent{Own: true, Model: "m2"}, "m2", ""},
		"same":       {extension.Agent{Own: true, Model: "m1"}, "m1", ""},
		"none":       {extension.Agent{Own: true}, "m1", ""},
		"alias":      {extension.Agent{Own: true, Model: "opus"}, "m1", "it is an alias"},
		"elsewhere":  {extension.Agent{Own: true, Model: "claude-opus-4-1"}, "m1", "the conversation is with scripted"},
		"of project": {extension.Agent{Model: "m2"}, "m1", "only your own files may choose"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, memory.New(), nil)
			c.agent.Name, c.agent.File, c.agent.Text = "reviewer", "reviewer.md", "You review."
			r.o.Extensions = func() chat.Extensions { return chat.Extensions{Agents: []extension.Agent{c.agent}} }
			conversation := r.new()
			r.send(conversation, "hello")
			if err := conversation.Spawn("reviewer", "look"); err != nil {
				t.Fatal(err)
			}
			if _, err := conversation.Await(t.Context(), "reviewer"); err != nil {
				t.Fatal(err)
			}
			if got := r.model.last(t).Model; got != c.want {
				t.Errorf("asked %q, want %q", got, c.want)
			}
			if told := strings.Join(r.notices(), "\n"); c.told != "" && !strings.Contains(told, c.told) || c.told == "" && strings.Contains(told, "asks for the model") {
				t.Errorf("told %q, want %q", told, c.told)
			}
			r.send(conversation, "and you?")
			if got := r.model.last(t).Model; got != "m1" {
				t.Errorf("the conversation itself asked %q", got)
			}
		})
	}
}

func TestAWorkerOfAnAgentsNameIsThatAgent(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	r.o.Extensions = func() chat.Extensions {
		return chat.Extensions{Agents: []extension.Agent{{Name: "reviewer", File: "/home/ada/agents/reviewer.md", Own: true, Text: "You review."}}}
	}
	c := r.new()
	r.send(c, "hello")
	for name, want := range map[string]bool{"reviewer": true, "other": false} {
		if err := c.Spawn(name, "look"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Await(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(r.model.last(t).System, "You review."); told != want {
			t.Errorf("%s: told %t", name, told)
		}
	}
}
