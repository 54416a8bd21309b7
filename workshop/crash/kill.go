package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// killsAStore is how many kills one store goes through before a new one is
// begun, so that reading everything after each blow stays fast.
const killsAStore = 150

// maxWriters is the number of concurrent writers in one store.
const maxWriters = 4

// kill kills writers and other commands by SIGKILL at random instants.
func kill(ctx context.Context, o options) ([]row, error) {
	p, work, done, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	t := &killing{o: o, r: o.random(), place: place{program: p, backend: o.backend, plain: o.plain}}
	t.total.what, t.total.where = "SIGKILL", "real process"
	err = t.run(ctx, work)
	t.total.note = fmt.Sprintf("%d in a writer, %d in another command; slowest start to first answer %d ms; leftovers told %d times",
		t.total.count-t.errands, t.errands, t.slowest.Milliseconds(), t.leftovers)
	if t.total.broken() {
		t.total.note += fmt.Sprintf("; %d stores broke", t.broken)
		o.say("the stores are left in %s", work)
	} else {
		done()
	}
	return []row{t.total}, err
}

// killing is one run of kill.
type killing struct {
	o       options
	r       *rand.Rand
	place   place
	total   row
	errands int           // kills of other commands than append
	slowest time.Duration // from the start of a writer to its first answer

	leftovers int // see book
	broken    int // stores with a broken promise
}

func (t *killing) run(ctx context.Context, work string) error {
	for i := 0; t.total.count < t.o.n; i++ {
		t.place.dir = filepath.Join(work, fmt.Sprint(i))
		if err := os.Mkdir(t.place.dir, 0o700); err != nil {
			return err
		}
		b := &book{say: t.o.say}
		err := t.oneStore(ctx, b)
		t.close(b)
		if err != nil || t.total.broken() && !t.o.goOn {
			return err
		}
		if err := os.RemoveAll(t.place.dir); err != nil {
			return err
		}
	}
	return nil
}

// close adds up what one store's book says.
func (t *killing) close(b *book) {
	r := b.row()
	t.total.add(r)
	t.leftovers += b.leftovers
	if r.broken() {
		t.broken++
	}
}

func (o options) say(format string, args ...any) {
	fmt.Fprintf(o.log, "crash: "+format+"\n", args...)
}

// oneStore deals blows to one store until it has had enough of them.
func (t *killing) oneStore(ctx context.Context, b *book) error {
	for dealt := 0; dealt < killsAStore && t.total.count < t.o.n; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, writers, err := t.round(b)
		if err != nil {
			return err
		}
		dealt += n
		t.total.count += n
		if err := b.look(t.place, writers, false); err != nil || b.row().broken() {
			return err
		}
	}
	return b.look(t.place, nil, true)
}

// round starts some writers and errands, kills each at a random instant, and
// returns how many were really killed.
func (t *killing) round(b *book) (killed int, writers []*writer, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	count := func(hit bool, errand int) {
		mu.Lock()
		defer mu.Unlock()
		if hit {
			killed++
			t.errands += errand
		}
	}
	for range 1 + t.r.IntN(maxWriters) {
		w, err := t.writer(b)
		if err != nil {
			return killed, writers, err
		}
		writers = append(writers, w)
		answers, wait, how := t.r.IntN(20), time.Duration(t.r.IntN(3000))*time.Microsecond, t.r.IntN(12)
		if how < 3 { // while it starts, or attaches
			answers, wait = 0, 4*wait
		}
		all.Go(func() {
			w.after(answers)
			switch {
			case how >= 10: // it survives
				w.finish()
				return
			case how >= 6: // while it releases its lease and tidies the store
				close(w.enough)
			}
			time.Sleep(wait)
			count(w.kill(), 0)
		})
	}
	for range t.r.IntN(3) {
		b.mu.Lock()
		e := newErrand(b, t.r)
		b.mu.Unlock()
		if e == nil {
			continue
		}
		if err := e.start(t.place); err != nil {
			return killed, writers, err
		}
		wait := time.Duration(t.r.IntN(18_000)) * time.Microsecond
		all.Go(func() { count(e.kill(wait), 1) })
	}
	if t.r.IntN(2) == 0 {
		all.Go(b.reader(t.place, t.r))
	}
	all.Wait()
	for _, w := range writers {
		t.slowest = max(t.slowest, w.first)
	}
	return killed, writers, nil
}

// writer starts a writer on a session that a killed one left, or on a new one.
func (t *killing) writer(b *book) (*writer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := pick(t.r, b.idle())
	if !ok || t.r.IntN(4) == 0 {
		s = b.begin()
	}
	return startWriter(t.place, b, s, t.r)
}
