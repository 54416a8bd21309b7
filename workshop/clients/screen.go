package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// onScreen reports whether an agent shows one of some texts on the screen on which it
// lists its sessions. The screen is one of tmux.
func (m *world) onScreen(ctx context.Context, c client, texts ...string) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, runTimeout)
	defer stop()
	tmux := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "tmux", append([]string{"-f", "/dev/null", "-S", filepath.Join(m.home, "tmux")}, args...)...)
		cmd.Dir = m.project
		cmd.Env = append(slices.DeleteFunc(slices.Clone(m.environ), func(v string) bool { return v == "TERM=dumb" }), "TERM=xterm-256color", "LANG=C.UTF-8")
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("tmux %s: %w: %s", args[0], err, out)
		}
		return string(out), err
	}
	if _, err := tmux(append([]string{"new-session", "-d", "-x", "160", "-y", "50", filepath.Join(m.path(), c.program)}, c.screen...)...); err != nil {
		return false, err
	}
	defer func() { _, _ = tmux("kill-server") }() // the agent may have ended it
	shown := ""
	for range screenLooks {
		if err := sleep(ctx, 500); err != nil {
			return false, err
		}
		now, err := tmux("capture-pane", "-p")
		if err != nil {
			return false, fmt.Errorf("%s left its screen, which showed:\n%s", c.title, shown)
		}
		shown = now
		for _, text := range texts {
			if strings.Contains(shown, text) {
				return true, nil
			}
		}
	}
	fmt.Fprintf(m.log, "%s shows:\n%s\n", c.title, shown)
	return false, nil
}

// screenLooks is how often a screen is looked at, twice a second.
const screenLooks = 80
