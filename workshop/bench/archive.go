package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/search"
)

// What export and import are compared with, and what they have to reach.
const (
	copyTexts  = "copy the transcripts, durable"
	exportsAll = 150 // MB/s
	importsAll = 30  // with the index
	movesIn    = 150 << 20
)

// sessionFormats are the ways to export one session.
var sessionFormats = []string{"md", "html", "json", "ndjson"}

// trip is one way to move text.
type trip struct {
	name  string
	text  int64 // bytes
	least float64
	peak  int64 // of memory
	run   func() (cost, error)
}

// wanted is what a trip that took so many nanoseconds has to reach.
func (t *trip) wanted(took float64) (goal string, w want) {
	if t.least == 0 {
		return "", want{}
	}
	met := rounded(perSecond(t.text, took)) >= t.least
	return "P9", want{text: fmt.Sprintf("≥ %.0f MB/s", t.least), met: &met}
}

// moving measures export and import of everything, and export of one long
// session.
func (r *run) moving(ctx context.Context) error {
	if !r.hasProgram() {
		return nil
	}
	l, err := r.books(ctx, r.size.moved)
	if err != nil || l == nil {
		return err
	}
	dir := filepath.Join(r.dir, "moved")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	one, text, err := r.oneSession(ctx, l)
	if err != nil {
		return err
	}
	defer one.leave()
	if err := errors.Join(l.close(), one.close()); err != nil { // as they are when no process has them open
		return err
	}
	trips, err := r.trips(ctx, l, dir)
	if err != nil {
		return err
	}
	for _, format := range sessionFormats {
		trips = append(trips, &trip{name: fmt.Sprintf("export one session of %s entries as %s", short(l.entries), format), text: text,
			run: func() (cost, error) {
				return r.cost(ctx, one, "export", string(one.session), "-o", filepath.Join(dir, "one."+format))
			}})
	}
	contenders := []contender{{copyTexts, times(1, func() error { return joinFiles(l.dir, filepath.Join(dir, "copy")) })}}
	for _, t := range trips {
		contenders = append(contenders, contender{t.name, t.sample})
	}
	r.say("export and import of %.0f MB", float64(l.text)/1e6)
	reps := r.size.moves
	if l.entries > full.entries {
		reps = 3 // a gigabyte takes minutes
	}
	s, err := r.compareTimes(ctx, reps, contenders...)
	if err != nil {
		return err
	}
	r.moved(l, s, trips)
	return nil
}

// sample keeps the largest memory of all repetitions.
func (t *trip) sample() (sample, error) {
	c, err := t.run()
	t.peak = max(t.peak, c.peak)
	return sample{each: float64(c.took)}, err
}

// trips returns the ways to move everything: out of each store, and from the
// archives of a plain and a sealed one into each kind of store.
func (r *run) trips(ctx context.Context, l *library, dir string) ([]*trip, error) {
	var all []*trip
	for _, backend := range shelves {
		p := l.stores[backend]
		all = append(all, &trip{name: "export --all: " + backend, text: l.text, least: exportsAll, run: func() (cost, error) {
			return r.cost(ctx, p, "export", "--all", "-o", filepath.Join(dir, "out"))
		}})
	}
	for _, backend := range shelves {
		from := strings.Replace(backend, inFiles, inSQLite, 1)
		file := filepath.Join(dir, strings.ReplaceAll(from, " ", "-")+".tidemark")
		if backend == from {
			if err := r.start(ctx, l.stores[from], "export", "--all", "-o", file); err != nil {
				return nil, err
			}
		}
		t := &trip{name: "import with its index: " + backend, text: l.text, least: importsAll}
		if backend != from {
			t.name, t.least = "import, no index: "+backend, 0
		}
		t.run = func() (cost, error) { return r.imports(ctx, backend, file, l.stores[from].keyFile) }
		all = append(all, t)
	}
	plain := filepath.Join(dir, inSQLite+".tidemark")
	return append(all, &trip{name: "import before the index, in one process: " + inSQLite, text: l.text,
		run: func() (cost, error) { return r.reads(ctx, plain) }}), nil
}

// imports imports an archive into a store that does not exist yet.
func (r *run) imports(ctx context.Context, backend, file, keyFile string) (cost, error) {
	p, err := r.site(backend, "import")
	if err != nil {
		return cost{}, err
	}
	defer os.RemoveAll(p.dir)
	if p.keyFile = keyFile; keyFile != "" {
		return r.cost(ctx, p, "import", file)
	}
	return r.cost(ctx, p, "import", "--no-encrypt", file)
}

// reads is an import without the command's later steps.
func (r *run) reads(ctx context.Context, file string) (c cost, err error) {
	p, err := r.open(ctx, inSQLite, "reads")
	if err != nil {
		return c, err
	}
	defer p.leave()
	f, err := os.Open(file)
	if err != nil {
		return c, err
	}
	defer f.Close()
	s, err := times(1, func() error {
		_, err := archive.Read(ctx, f, p.Records().Backend(), nil)
		return err
	})()
	c.took = time.Duration(s.each)
	return c, err
}

// oneSession makes a store with one long session of the corpus, and returns
// how much text is in it.
func (r *run) oneSession(ctx context.Context, l *library) (*place, int64, error) {
	p, err := r.open(ctx, inSQLite, "one session")
	if err != nil {
		return nil, 0, err
	}
	var text int64
	w := p.Create(tidemark.Session{Title: "a long session", Model: "demo"}, p.who)
	p.session = w.ID()
	for from := 0; from < l.entries; from += corpusSession {
		_, entries := l.session(from / corpusSession)
		for i := range entries {
			text += int64(len(search.Text(entries[i])))
		}
		if _, err := w.Append(ctx, entries...); err != nil {
			return nil, 0, err
		}
	}
	return p, text, w.Close(ctx)
}

// joinFiles copies all files of a directory into one, durably.
func joinFiles(dir, to string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	w, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return errors.Join(err, w.Close())
		}
		_, err = io.Copy(w, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return errors.Join(w.Sync(), w.Close())
}

func (r *run) moved(l *library, s samples, trips []*trip) {
	r.table.add(row{what: fmt.Sprintf("%s, %.0f MB of text", copyTexts, float64(l.text)/1e6), value: rate(l.text, s.time(copyTexts).median)})
	for _, t := range trips {
		took := s.time(t.name).median
		one := row{what: t.name, value: rate(t.text, took), against: copyTexts, ratio: s.ratio(t.name, copyTexts).times(float64(l.text) / float64(t.text))}
		one.goal, one.want = t.wanted(took)
		r.table.add(one)
		r.table.addPeak(t, true)
	}
}

// addPeak adds how much memory a trip took, if the system told.
func (t *table) addPeak(trip *trip, judged bool) {
	if trip.peak == 0 {
		return
	}
	one := row{goal: "P9", what: "memory of " + trip.name, value: megabytes(trip.peak)}
	if met := trip.peak <= movesIn; judged {
		one.want = want{text: "≤ " + megabytes(movesIn), met: &met}
	}
	t.add(one)
}
