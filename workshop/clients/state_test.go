package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// kept is what the runs found so far.
func kept(t *testing.T) *workshop {
	w := &workshop{state: "found.json", scratch: t.TempDir()}
	if err := w.load(); err != nil {
		t.Fatal(err)
	}
	if len(w.found) == 0 {
		t.Fatal("nothing was found yet")
	}
	return w
}

func TestThePageIsMadeOfWhatWasFound(t *testing.T) {
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	if kept(t).page() != string(page) {
		t.Error("docs/agents.md is not what is made of found.json; make it with: go run ./workshop/clients -tool none -write docs/agents.md")
	}
}

func TestWhatWasFoundIsOfTrialsThatThereAre(t *testing.T) {
	w := kept(t)
	there := map[string]bool{"through": true}
	for _, c := range clients {
		there["hook "+c.tool], there["kills "+c.tool], there["in "+c.tool+" from "+here] = true, true, true
		for _, from := range clients {
			there["in "+c.tool+" from "+from.tool] = true
		}
		for _, talk := range converttest.Conversations() {
			there["writer "+c.tool+" "+talk.Name] = true
		}
		if !slices.Contains(repairable, c.tool) {
			continue
		}
		tool, err := transfer.ToolNamed(c.tool)
		if err != nil {
			t.Fatal(err)
		}
		broken, err := w.broken(t.Context(), tool)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range broken {
			there["repair "+c.tool+" "+b.Name] = true
		}
	}
	for id, one := range w.found {
		if !there[id] {
			t.Errorf("%q is no trial, or no longer", id)
		}
		if one.Day == "" || strings.Contains(id, " ") && one.Version == "" {
			t.Errorf("%q does not say when and with which version", id)
		}
		for _, said := range slices.Concat(one.Wrong, one.Lost, []string{one.Said}) {
			if strings.Contains(said, "/tmp/") || strings.Contains(said, "/home/") || strings.Contains(said, "/dev/") {
				t.Errorf("%q names a folder of a machine: %s", id, said)
			}
		}
	}
}

func TestRunsAddUp(t *testing.T) {
	dir := t.TempDir()
	run := func(state, trial, said string, beside ...string) *workshop {
		t.Helper()
		w := &workshop{log: t.Output(), state: filepath.Join(dir, state), scratch: dir, agents: filepath.Join(dir, "agents"), program: filepath.Join(dir, "bin", "tidemark"), versions: map[string]string{"pi": "1.0.0", "codex": "2.0.0"}}
		if err := w.load(beside...); err != nil {
			t.Fatal(err)
		}
		if err := w.note(t.Context(), trial, found{Said: said, Wrong: []string{"see " + filepath.Join(dir, "world-1", "log")}}); err != nil {
			t.Fatal(err)
		}
		return w
	}
	run("one.json", "in pi from codex", "first")
	run("two.json", "writer pi call", "second")
	run("one.json", "hook codex", "third", filepath.Join(dir, "two.json"))
	w := run("one.json", "in pi from codex", "again")
	if len(w.found) != 3 || w.found["in pi from codex"].Said != "again" || w.found["writer pi call"].Said != "second" || w.found["hook codex"].Version != "2.0.0" {
		t.Errorf("kept: %+v", w.found)
	}
	if one := w.found["in pi from codex"]; one.Version != "1.0.0" || one.From != "2.0.0" || strings.Contains(one.Wrong[0], dir) {
		t.Errorf("kept: %+v", one)
	}
	if err := w.load(filepath.Join(dir, "missing.json")); err == nil {
		t.Error("a file of another run that is missing was passed over")
	}
}

func TestEntriesThatAreMissingAndThoseTooManyAreCounted(t *testing.T) {
	a, b := tidemark.Say(tidemark.User, "a"), tidemark.Say(tidemark.User, "b")
	once, kept := []tidemark.Entry{a, b, b}, []tidemark.Entry{a, a, a, b}
	if lost, doubled := notIn(once, kept), notIn(kept, once); lost != 1 || doubled != 2 {
		t.Errorf("%d lost and %d doubled", lost, doubled)
	}
}
