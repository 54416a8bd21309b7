package slash

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark/store"
)

// Complete offers candidates to replace line[from:pos]: commands, and after
// them nodes, sessions, workers or files.
func (c *Conversation) Complete(ctx context.Context, line string, pos int) (from int, found []string) {
	before := line[:min(pos, len(line))]
	name, arg, inArg := strings.Cut(before, " ")
	if !strings.HasPrefix(name, "/") {
		from = strings.LastIndexAny(before, " \n") + 1
		if word := before[from:]; strings.HasPrefix(word, "@") {
			return from, c.completeFile(ctx, word)
		}
		return from, fileNames(before[from:])
	}
	if !inArg {
		for _, k := range c.Commands() {
			if strings.HasPrefix(k.Name, name) {
				found = append(found, k.Name+" ")
			}
		}
		return 0, found
	}
	from = len(name) + 1
	add := func(candidate string) {
		if strings.HasPrefix(candidate, arg) {
			found = append(found, candidate)
		}
	}
	switch name {
	case "/branch":
		if v, err := c.begun(ctx); err == nil {
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
		for i, err := range c.Store.Sessions(ctx, store.Filter{Limit: 50}) {
			if err == nil {
				add(string(i.ID)[:8])
			}
		}
	case "/view", "/send", "/stop":
		if all, err := c.Chat.Workers(ctx); err == nil {
			for _, w := range all {
				add(w.Name)
			}
		}
	case "/cancel":
		for _, l := range c.Chat.State().Loops {
			add(l.ID)
		}
	case "/doc":
		return from, fileNames(arg)
	case "/model":
		return from, c.completeModel(ctx, arg)
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
