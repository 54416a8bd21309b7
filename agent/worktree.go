package agent

import (
	"context"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/rewind"
)

// Worktree is a fork of a session in a work tree of its own.
type Worktree struct {
	Fork  store.Info    `json:"fork"`
	Dir   string        `json:"dir"`
	Files int           `json:"files"`          // that differ from the last commit, because the session changed them
	Left  []rewind.Left `json:"left,omitempty"` // that could not be made what they were
}

// ForkWorktree forks a session at an entry, 0 for its head, and makes a work tree of
// git for the fork in dir: the last commit of the session's project, with the files
// that the session changed as they were at that entry. Changes that somebody else
// did not commit are not in it. ErrInvalid: the project has no git, or dir is in use.
func ForkWorktree(ctx context.Context, v *store.View, seq int64, as tidemark.Session, dir string, environ []string) (Worktree, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Worktree{}, err
	}
	to := rewind.Target{Files: rewind.Newest}
	if seq != 0 {
		if to, err = rewind.Node(ctx, v, seq); err != nil {
			return Worktree{}, err
		}
	}
	w := Worktree{Dir: dir}
	if err := project.AddWorktree(ctx, v.Project, dir, environ); err != nil {
		return w, err
	}
	if w.Files, w.Left, err = rewind.Place(ctx, v, v.Project, dir, to.Files); err != nil {
		return w, err
	}
	as.Project = dir
	w.Fork, err = v.Store().ForkAs(ctx, v.ID, seq, as)
	return w, err
}
