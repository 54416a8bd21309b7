package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark/store"
)

// complete offers commands, and behind them nodes, sessions, workers or files.
func (r *repl) complete(ctx context.Context, line string, pos int) (int, []string) {
	before := line[:min(pos, len(line))]
	name, arg, inArg := strings.Cut(before, " ")
	if !strings.HasPrefix(name, "/") {
		from := strings.LastIndexAny(before, " \n") + 1
		return from, fileNames(before[from:])
	}
	var found []string
	if !inArg {
		for _, s := range slashes() {
			if strings.HasPrefix(s.name, name) {
				found = append(found, s.name+" ")
			}
		}
		return 0, found
	}
	from := len(name) + 1
	add := func(candidate string) {
		if strings.HasPrefix(candidate, arg) {
			found = append(found, candidate)
		}
	}
	switch name {
	case "/branch":
		if v, err := r.begun(ctx); err == nil {
			if nodes, err := v.Tree(ctx); err == nil {
				for _, n := range nodes {
					add(fmt.Sprintf("n%d", n.Number))
					if n.Label != "" {
						add(n.Label)
					}
				}
			}
		}
	case "/resume":
		for i, err := range r.s.Sessions(ctx, store.Filter{Limit: 50}) {
			if err == nil {
				add(string(i.ID)[:8])
			}
		}
	case "/view", "/send", "/stop":
		if all, err := r.c.Workers(ctx); err == nil {
			for _, w := range all {
				add(w.Name)
			}
		}
	case "/cancel":
		for _, l := range r.c.State().Loops {
			add(l.ID)
		}
	case "/doc":
		return from, fileNames(arg)
	case "/compact":
		for _, s := range []string{"simple", "code-aware", "role-budget", "model"} {
			add(s)
		}
	}
	return from, found
}

// fileNames completes the name of a file.
func fileNames(begin string) []string {
	if begin == "" {
		return nil
	}
	dir, base := filepath.Split(begin)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, base) && (base != "" || name[0] != '.') {
			if name = dir + name; e.IsDir() {
				name += string(filepath.Separator)
			}
			found = append(found, name)
		}
	}
	return found
}
