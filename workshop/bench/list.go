package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark/store"
)

const readAndStat = "readdir + stat"

// listing measures the newest sessions of many.
func (r *run) listing(ctx context.Context) error {
	var contenders []contender
	for i, backend := range []string{inSQLite, inFiles} {
		n := r.size.lists
		if backend == inFiles {
			n = max(n/10, 1) // a hundred times as long
		}
		p, err := r.crowd(ctx, backend, r.size.listed[i])
		if err != nil {
			return err
		}
		contenders = append(contenders,
			contender{backend, times(n, func() error { return p.newest(ctx, store.Filter{Limit: shown}) })},
			contender{backend + "project", times(n, func() error {
				return p.newest(ctx, store.Filter{Limit: min(shown, r.size.listed[i]/projects), Project: project(7)})
			})})
	}
	dir := filepath.Join(r.dir, "names")
	if err := manyFiles(dir, r.size.listed[1]); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	contenders = append(contenders, contender{readAndStat, times(1, func() error { return statAll(dir) })})
	r.say("list the newest %d", shown)
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.listed(s)
	return nil
}

// newest lists sessions as a picker shows them.
func (p *place) newest(ctx context.Context, f store.Filter) error {
	n := 0
	for i, err := range p.Sessions(ctx, f) {
		if err != nil {
			return err
		}
		if i.Title != "" {
			n++
		}
	}
	if n != f.Limit {
		return fmt.Errorf("%d sessions came, not %d", n, f.Limit)
	}
	return nil
}

// manyFiles makes as many files as a tool has that keeps each session in one.
func manyFiles(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%08x.json", i*7919)), []byte("{}\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func statAll(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if _, err := e.Info(); err != nil {
			return err
		}
	}
	return err
}

func (r *run) listed(s samples) {
	goals := map[string]want{}
	if r.size.listed == full.listed {
		goals[inSQLite], goals[inFiles] = want{timeAtMost: 0.5e6}, want{timeAtMost: 50e6}
	}
	peer := fmt.Sprintf("%s of %s files", readAndStat, short(r.size.listed[1]))
	r.table.add(row{what: peer, time: s.time(readAndStat)})
	for i, backend := range []string{inSQLite, inFiles} {
		for _, of := range []struct{ name, suffix string }{{backend, ""}, {backend + "project", ", of one project"}} {
			r.table.add(row{goal: "P6", what: fmt.Sprintf("newest %d of %s sessions%s: %s", shown, short(r.size.listed[i]), of.suffix, backend),
				time: s.time(of.name), against: peer, ratio: s.ratio(of.name, readAndStat), want: goals[backend]})
		}
	}
}
