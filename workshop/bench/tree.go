package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark/store"
)

const (
	oneAppend   = "append"
	freshFile   = "a new file, durable"
	copyBytes   = "copy its bytes, durable"
	copyEntries = "parse and write it, durable"
)

var treeWork = []string{"branch", "label", "checkpoint", "fork"}

// growing measures what changes the shape of a session: branches and forks.
func (r *run) growing(ctx context.Context) error {
	dir := filepath.Join(r.dir, "copies")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t, err := writeTranscript(dir, r.size.peer)
	if err != nil {
		return err
	}
	for _, backend := range durable {
		for _, n := range r.size.trees {
			if err := r.growingIn(ctx, backend, n, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) growingIn(ctx context.Context, backend string, n int, t transcript) error {
	r.say("branch, label, checkpoint and fork of %s entries in %s", short(n), backend)
	p, err := r.long(ctx, backend, n)
	if err != nil || p == nil {
		return err
	}
	w, err := p.Attach(ctx, p.session, p.who)
	if err != nil {
		return err
	}
	contenders := r.treeContenders(ctx, p, w, n)
	dir := filepath.Dir(t.name)
	fresh := 0
	contenders = append(contenders, contender{freshFile, times(r.size.branches, func() error {
		fresh++
		return newFile(dir, fmt.Sprintf("fresh-%s-%s-%d", backend, short(n), fresh), []byte("{}\n"))
	})})
	if n == r.size.peer {
		to := filepath.Join(dir, "copy")
		contenders = append(contenders, contender{copyBytes, times(1, func() error { return t.copyTo(to) })},
			contender{copyEntries, times(1, func() error { return t.rewriteTo(to) })})
	}
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.grown(s, backend, n)
	return w.Close(ctx)
}

func (r *run) treeContenders(ctx context.Context, p *place, w *store.Writer, n int) []contender {
	seq, id := int64(n), w.ID()
	state := store.Checkpoint{Reason: "bench", CoreMemory: map[string]string{"scratchpad": "half done"}}
	work := map[string]func() error{
		oneAppend: func() error {
			_, err := w.Append(ctx, say(seq))
			return err
		},
		"branch":     func() error { return w.Branch(ctx, seq%int64(n)+1) },
		"label":      func() error { return p.Label(ctx, id, seq%int64(n)+1, fmt.Sprintf("label %d", seq%4)) },
		"checkpoint": func() error { return w.SaveCheckpoint(ctx, state) },
		"fork": func() error {
			_, err := p.Fork(ctx, id, int64(n)/2, "")
			return err
		},
	}
	var all []contender
	for _, name := range append([]string{oneAppend}, treeWork...) {
		repeat := times(r.size.branches, func() error {
			seq += 7919
			return work[name]()
		})
		all = append(all, contender{name, func() (sample, error) {
			if err := w.Renew(ctx); err != nil {
				return sample{}, err
			}
			return repeat()
		}})
	}
	return all
}

func (r *run) grown(s samples, backend string, n int) {
	base, name := oneAppend, "one append"
	if backend == inFiles {
		base, name = freshFile, freshFile
		r.table.add(row{what: "one append at " + short(n) + ": files", time: s.time(oneAppend), against: freshFile, ratio: s.ratio(oneAppend, freshFile)})
	}
	for _, work := range treeWork {
		goal := want{ratioAtMost: 1.5}
		if work == "fork" {
			goal.ratioAtMost = 2
		}
		r.table.add(row{goal: "P5", what: fmt.Sprintf("%s at %s: %s", work, short(n), backend), time: s.time(work),
			against: name, ratio: s.ratio(work, base), want: goal})
	}
	if len(s[copyBytes]) == 0 {
		return
	}
	for _, work := range []string{"branch", "fork"} {
		r.table.add(row{what: fmt.Sprintf("%s at %s: %s", work, short(n), backend), time: s.time(work),
			against: copyBytes + ", " + duration(s.time(copyBytes).median), ratio: s.faster(work, copyBytes), faster: true})
		r.table.add(row{what: fmt.Sprintf("%s at %s: %s", work, short(n), backend), time: s.time(work),
			against: copyEntries + ", " + duration(s.time(copyEntries).median), ratio: s.faster(work, copyEntries), faster: true})
	}
}
