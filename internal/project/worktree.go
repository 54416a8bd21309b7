package project

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// AddWorktree makes a work tree of git in dir, an absolute path at which there is
// nothing, with the last commit of the repository that folder is in and on no
// branch. No hook of the repository runs. environ is passed to git as for Marks.
// ErrInvalid: git refuses, and says why.
func AddWorktree(ctx context.Context, folder, dir string, environ []string) error {
	if !hasGit(folder) {
		return tidemark.Invalidf("%s is no work tree of git", folder)
	}
	cmd := gitCommand(ctx, folder, environ, "-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach", "--", dir, "HEAD")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
	return tidemark.Invalidf("work tree %s: %w", dir, fmt.Errorf("git: %s (%w)", first, err))
}
