package runner

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// fence puts the program of a run into its sandbox.
func (r *run) fence(cmd *exec.Cmd) (*sandbox.Fence, error) {
	p := *r.t.Sandbox
	for _, path := range installed(cmd.Path, r.t.Dir) {
		if _, ok := sandbox.Below(p.Root, path); !ok {
			p.Read = append(slices.Clip(p.Read), path)
		}
	}
	fence, err := sandbox.Confine(p, cmd)
	if err != nil {
		return nil, fmt.Errorf("program %q: %w", cmd.Args[0], err)
	}
	return fence, nil
}

// installed returns the files that belong to a program: its file, every link on
// the way to it, and for one that npm installed the packages beside it.
func installed(path, dir string) []string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	found := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		found = append(found, real)
	}
	for i, file := range found {
		if before, _, ok := strings.Cut(file, "/node_modules/"); ok {
			found[i] = before + "/node_modules"
		}
	}
	return slices.Compact(found)
}
