package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark/store"
)

// The names of what appends are compared with.
const (
	plainEach = "write + " + syncName
	plainOne  = "one write + " + syncName + " for all"
	rowEach   = "SQLite, a transaction per entry"
)

// appending measures durable appends, by one writer and by many in one
// process.
func (r *run) appending(ctx context.Context) error {
	if err := r.appendingBy(ctx, 1, r.size.appends); err != nil {
		return err
	}
	for _, n := range r.size.writers {
		if err := r.appendingBy(ctx, n, max(r.size.shared/n, 1)); err != nil {
			return err
		}
	}
	return r.localBeside(ctx)
}

// appendingBy lets every writer append n entries to a session of its own.
func (r *run) appendingBy(ctx context.Context, writers, n int) error {
	r.say("append, %d at once", writers)
	dir := filepath.Join(r.dir, "plain")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	line, err := json.Marshal(placed(100_000))
	if err != nil {
		return err
	}
	line = append(line, '\n')
	plain, err := plainContenders(dir, writers, n, line)
	if err != nil {
		return err
	}
	rows, err := openRows(ctx, dir)
	if err != nil {
		return err
	}
	defer rows.close()
	contenders := append(plain, contender{rowEach, together(writers, n, nil, func(d int) error { return rows.append(ctx, d, line) })})
	for _, backend := range []string{inMemory, inFiles, inSQLite} {
		p, err := r.open(ctx, backend, "append")
		if err != nil {
			return err
		}
		defer p.leave()
		all, err := p.writers(ctx, writers)
		if err != nil {
			return err
		}
		contenders = append(contenders, contender{backend, appendContender(ctx, all, n)})
	}
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.appended(s, writers)
	return nil
}

func appendContender(ctx context.Context, all []*store.Writer, n int) func() (sample, error) {
	seqs := make([]int64, len(all))
	// A lease is renewed with an append every ten seconds. It is renewed
	// before each repetition, so that the pause between two is not measured.
	ready := func(d int) error { return all[d].Renew(ctx) }
	return together(len(all), n, ready, func(d int) error {
		seqs[d]++
		_, err := all[d].Append(ctx, say(seqs[d]))
		return err
	})
}

// plainContenders write the same bytes without any store: each writer to a
// file of its own, and one for all of them at once.
func plainContenders(dir string, writers, n int, line []byte) ([]contender, error) {
	var own []*plainFile
	for i := range writers {
		f, err := openPlain(dir, fmt.Sprintf("own-%d", i))
		if err != nil {
			return nil, err
		}
		own = append(own, f)
	}
	all := []contender{{plainEach, together(writers, n, nil, func(d int) error { return own[d].append(line) })}}
	if writers == 1 {
		return all, nil
	}
	one, err := openPlain(dir, "one")
	if err != nil {
		return nil, err
	}
	lines := []byte(strings.Repeat(string(line), writers))
	batch := times(n, func() error { return one.append(lines) })
	return append(all, contender{plainOne, func() (sample, error) {
		s, err := batch()
		s.each /= float64(writers)
		return s, err
	}}), nil
}

func (r *run) appended(s samples, writers int) {
	if writers == 1 {
		r.table.add(row{what: "append, 1 writer: " + plainEach, time: s.time(plainEach)})
		r.table.add(row{what: "append, 1 writer: " + rowEach, time: s.time(rowEach), against: plainEach, ratio: s.ratio(rowEach, plainEach)})
		r.table.add(row{what: "append, 1 writer: memory (not durable)", time: s.time(inMemory), against: plainEach, ratio: s.ratio(inMemory, plainEach)})
		r.table.add(row{goal: "P1", what: "append, 1 writer: files", time: s.time(inFiles), against: plainEach,
			ratio: s.ratio(inFiles, plainEach), fine: true, want: want{ratioAtMost: 1.25}})
		r.table.add(row{goal: "P1", what: "append, 1 writer: sqlite", time: s.time(inSQLite), against: plainEach,
			ratio: s.ratio(inSQLite, plainEach), fine: true, want: want{ratioAtMost: 1.25}})
		return
	}
	work := fmt.Sprintf("append, %d writers: ", writers)
	goal, eachWant, rowWant, oneWant, evenWant := "", want{}, want{}, want{}, want{}
	if writers == 64 {
		goal, eachWant, rowWant, oneWant, evenWant = "P2", want{ratioAtMost: 1.2}, want{ratioAtLeast: 15}, want{ratioAtMost: 6}, want{ratioAtMost: 10}
	}
	r.table.add(row{what: work + plainOne, time: s.time(plainOne)})
	for _, name := range []string{plainEach, rowEach} {
		r.table.add(row{what: work + name, time: s.time(name), against: plainOne, ratio: s.ratio(name, plainOne)})
	}
	r.table.add(row{what: work + "memory (not durable)", time: s.time(inMemory), against: plainOne, ratio: s.ratio(inMemory, plainOne)})
	r.table.add(row{goal: goal, what: work + "files", time: s.time(inFiles), against: plainEach + ", a file each",
		ratio: s.ratio(inFiles, plainEach), want: eachWant})
	r.table.add(row{goal: goal, what: work + "sqlite", time: s.time(inSQLite), against: rowEach,
		ratio: s.faster(inSQLite, rowEach), faster: true, want: rowWant})
	r.table.add(row{goal: goal, what: work + "sqlite", time: s.time(inSQLite), against: plainOne, ratio: s.ratio(inSQLite, plainOne), want: oneWant})
	for _, backend := range durable {
		p99 := s.of(backend, func(one sample) float64 { return one.p99 })
		even := s.of(backend, func(one sample) float64 { return one.p99 / one.p50 })
		half := s.of(backend, p50)
		g, w := "", want{}
		if backend == inSQLite {
			g, w = goal, evenWant
		}
		r.table.add(row{goal: g, what: work + backend + ", p99 of one append", time: p99, against: "p50, " + duration(half.median), ratio: even, want: w})
	}
}
