package acp

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model/demo"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

func TestAnEditorIsOfferedTheCommandsOfItsFolder(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, ".claude", "commands"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ".claude", "commands", "fix.md"), []byte("Fix $ARGUMENTS."), 0o600); err != nil {
		t.Fatal(err)
	}
	s := store.New(memory.New(), nil)
	c, err := chat.New(chat.Options{Store: s, Model: demo.New(demo.Options{Delay: -1}), Provider: "demo", Name: "demo",
		Box: func(tool.State, tool.Files, store.Limits, func(string, []byte)) (*tool.Box, error) {
			return tool.New(tool.Options{Root: root})
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	a := Agent{Setup: &agent.Setup{Getenv: func(string) string { return "" }, IsProject: func(dir string) bool { return dir == root }},
		Options: func(folder string) agent.Options { return agent.Options{Project: folder} }}
	find := func(folder string, c *chat.Chat) *Command {
		all := a.commands(Options{Store: s}, c, folder)
		if !slices.ContainsFunc(all, func(k Command) bool { return k.Name == "tree" }) {
			t.Errorf("%s: the usual commands are not there", folder)
		}
		for _, k := range all {
			if k.Name == "fix" {
				return &k
			}
		}
		return nil
	}
	if find(t.TempDir(), c) != nil || find(root, nil) != nil {
		t.Error("the command is offered where it is not")
	}
	fix := find(root, c)
	if fix == nil {
		t.Fatal("the command of the project is not offered")
	}
	var out bytes.Buffer
	if err := fix.Run(t.Context(), c, root, "the tide", &out); err != nil {
		t.Fatal(err)
	}
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for e, err := range v.Log(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, e.Text())
	}
	if !strings.Contains(strings.Join(said, "\n"), "Fix the tide.") {
		t.Errorf("said: %q", said)
	}
}
