package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// editText lets the person change a text in their editor: $VISUAL, $EDITOR, or vi.
// The text lies in a folder of its own meanwhile, which only they can enter.
func editText(text string) (string, error) {
	words := strings.Fields(cmp.Or(strings.TrimSpace(os.Getenv("VISUAL")), strings.TrimSpace(os.Getenv("EDITOR")), "vi"))
	scratch, err := durable.NewScratch("tidemark-message")
	if err != nil {
		return "", tidemark.Storagef("editor: %w", err)
	}
	defer scratch.Close()
	dir, err := durable.OpenDir(scratch.Dir())
	if err != nil {
		return "", tidemark.Storagef("editor: %w", err)
	}
	defer dir.Close()
	const name = "message.md"
	if err := durable.Create(dir, name, []byte(text)); err != nil {
		return "", tidemark.Storagef("editor: %w", err)
	}
	file := filepath.Join(scratch.Dir(), name)
	cmd := exec.Command(words[0], append(words[1:], file)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", tidemark.Invalidf("editor %s: %w; choose another with $EDITOR", words[0], err)
	}
	edited, err := os.ReadFile(file)
	return string(edited), err
}
