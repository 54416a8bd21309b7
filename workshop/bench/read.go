package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// shown is how many entries a tail, a range and a listing show.
const shown = 50

const (
	limitRead = "open, pread 12 KB, close"
	parseAll  = "parse all, encoding/json"
	nodeTail  = "node, from the end"
)

// middleOf is the length of the session whose middle is read.
const middleOf = 1_000_000

// reading measures the tail of sessions of many lengths, each in a store of
// its own, and a range in the middle.
func (r *run) reading(ctx context.Context) error {
	contenders, cleanUp, err := r.readingPeers(ctx)
	defer cleanUp()
	if err != nil {
		return err
	}
	var sizes []int
	for _, n := range r.size.logs {
		for _, backend := range []string{inMemory, inFiles, inSQLite} {
			if backend == inMemory && n != r.size.peer {
				continue
			}
			p, err := r.long(ctx, backend, n)
			if err != nil {
				return err
			}
			if p == nil {
				continue
			}
			if !slices.Contains(sizes, n) {
				sizes = append(sizes, n)
			}
			contenders = append(contenders, contender{backend + short(n), times(r.size.tails, func() error { return p.tail(ctx) })})
			if n == middleOf {
				at := int64(0)
				contenders = append(contenders, contender{backend + "middle", times(r.size.tails, func() error {
					at = (at*31 + 977) % (middleOf / 2) // another place each time
					return p.middle(ctx, middleOf/4+at)
				})})
			}
		}
	}
	r.say("tail of %d", shown)
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.read(s, sizes)
	return nil
}

// readingPeers returns what other tools do with a transcript.
func (r *run) readingPeers(ctx context.Context) ([]contender, func(), error) {
	dir := filepath.Join(r.dir, "peers")
	cleanUp := func() { os.RemoveAll(dir) }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, cleanUp, err
	}
	t, err := writeTranscript(dir, r.size.peer)
	if err != nil {
		return nil, cleanUp, err
	}
	all := []contender{
		{limitRead, times(r.size.tails, t.tailRead)},
		{parseAll, times(1, func() error {
			e, err := t.parseAll()
			if err == nil && len(e) != r.size.peer {
				err = fmt.Errorf("%d entries, not %d", len(e), r.size.peer)
			}
			return err
		})},
	}
	if _, err := exec.LookPath("node"); err != nil {
		r.table.skip("the tail that node reads: node is not installed")
		return all, cleanUp, nil
	}
	return append(all, contender{nodeTail, func() (sample, error) { return t.nodeTail(ctx, r.size.tails) }}), cleanUp, nil
}

// tail opens a session and reads its newest entries, decoded.
func (p *place) tail(ctx context.Context) error {
	v, err := p.View(ctx, p.session)
	if err != nil {
		return err
	}
	n := 0
	for e, err := range v.Tail(ctx, 0, shown) {
		if err != nil {
			return err
		}
		n += len(e.Blocks)
	}
	return count(n)
}

// middle opens a session and reads the entries that lead to one of its entries.
func (p *place) middle(ctx context.Context, seq int64) error {
	v, err := p.View(ctx, p.session)
	if err != nil {
		return err
	}
	n := 0
	for e, err := range v.Before(ctx, seq, shown) {
		if err != nil {
			return err
		}
		n += len(e.Blocks)
	}
	return count(n)
}

func count(n int) error {
	if n != shown {
		return fmt.Errorf("%d came, not %d", n, shown)
	}
	return nil
}

func short(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 1_000:
		return fmt.Sprintf("%dk", n/1_000)
	}
	return fmt.Sprint(n)
}

func (r *run) read(s samples, sizes []int) {
	of := fmt.Sprintf("tail of %d of %s: ", shown, short(r.size.peer))
	r.table.add(row{what: "tail of 50: " + limitRead, time: s.time(limitRead)})
	if len(s[nodeTail]) > 0 {
		r.table.add(row{what: of + nodeTail, time: s.time(nodeTail), against: limitRead, ratio: s.ratio(nodeTail, limitRead)})
	}
	r.table.add(row{what: of + parseAll, time: s.time(parseAll), against: limitRead, ratio: s.ratio(parseAll, limitRead)})
	if m := inMemory + short(r.size.peer); len(s[m]) > 0 {
		r.table.add(row{what: of + "memory", time: s.time(m), against: limitRead, ratio: s.ratio(m, limitRead)})
	}
	for _, backend := range durable {
		for _, n := range sizes {
			name := backend + short(n)
			r.table.add(row{goal: "P3", what: fmt.Sprintf("tail of 50 of %s: %s", short(n), backend), time: s.time(name),
				against: limitRead, ratio: s.ratio(name, limitRead), want: want{ratioAtMost: 10}})
		}
		r.readBeside(s, backend, sizes)
	}
}

// readBeside compares a backend with itself and with others.
func (r *run) readBeside(s samples, backend string, sizes []int) {
	if len(sizes) == 0 {
		return
	}
	least, most := sizes[0], sizes[len(sizes)-1]
	flat := want{}
	if most == 10_000_000 {
		flat.ratioAtMost = 1.3
	}
	name := func(n int) string { return backend + short(n) }
	r.table.add(row{goal: "P3", what: fmt.Sprintf("tail of 50 of %s: %s", short(most), backend), time: s.time(name(most)),
		against: "the same of " + short(least), ratio: s.ratio(name(most), name(least)), want: flat})
	if peer := name(r.size.peer); len(s[peer]) > 0 {
		work := fmt.Sprintf("tail of %d of %s: %s", shown, short(r.size.peer), backend)
		if len(s[nodeTail]) > 0 {
			r.table.add(row{goal: "P3", what: work, time: s.time(peer), against: nodeTail,
				ratio: s.faster(peer, nodeTail), faster: true, want: want{ratioAtLeast: 1}})
		}
		r.table.add(row{what: work, time: s.time(peer), against: parseAll, ratio: s.faster(peer, parseAll), faster: true})
	}
	middle, tail := backend+"middle", name(middleOf)
	if len(s[middle]) > 0 && len(s[tail]) > 0 {
		r.table.add(row{goal: "P4", what: "50 in the middle of 1M: " + backend, time: s.time(middle),
			against: "the tail of it", ratio: s.ratio(middle, tail), want: want{ratioAtMost: 2}})
	}
}
