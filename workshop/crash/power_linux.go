package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// cutsAVolume is how many power cuts one file system goes through before
// a new one is made.
const cutsAVolume = 25

// mountOptions are common mount options, and bad ones.
var mountOptions = map[string][]string{
	"ext4": {"data=ordered,commit=5", "data=ordered,commit=1", "data=writeback,commit=5", "data=writeback,commit=1000",
		"data=journal,commit=5", "data=ordered,commit=1000,nodelalloc", "data=writeback,nodelalloc", "data=ordered,noauto_da_alloc,commit=1000"},
	"xfs": {"", "logbsize=32k", "logbsize=256k", "allocsize=64k"},
}

// power cuts the power of a file system under several writers.
func power(ctx context.Context, o options) ([]row, error) {
	if err := canMount(o.fs); err != nil {
		return nil, err
	}
	p, work, done, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &cutting{killing: killing{o: o, r: o.random(), place: place{program: p, backend: o.backend, plain: o.plain}}, work: work}
	c.total.what, c.total.where = "power cut", o.fs+" on a loop device"
	err = c.run(ctx)
	c.total.note = fmt.Sprintf("%d mount options, %d writers that sent again what a killed one had sent; leftovers told %d times",
		len(mountOptions[o.fs]), c.resent, c.leftovers)
	if c.total.broken() {
		c.total.note += fmt.Sprintf("; %d file systems broke", c.killing.broken)
		o.say("a copy of the store is left in %s", work)
	} else {
		done()
	}
	return []row{c.total}, err
}

// cutting is one run of power.
type cutting struct {
	killing
	work   string
	resent int
}

func (c *cutting) run(ctx context.Context) error {
	options := mountOptions[c.o.fs]
	for i := 0; c.total.count < c.o.n && (c.o.goOn || !c.total.broken()); i++ {
		if err := c.oneVolume(ctx, options[i%len(options)], i); err != nil {
			return fmt.Errorf("volume %d, %q: %w", i, options[i%len(options)], err)
		}
	}
	return nil
}

func (c *cutting) oneVolume(ctx context.Context, options string, i int) (err error) {
	v, err := newVolume(ctx, c.o.fs, imageSizes[c.o.fs], filepath.Join(c.work, "disk"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	c.place.dir = v.dir
	b := &book{say: func(format string, args ...any) {
		c.o.say("volume %d, cut %d, %q: %s", i, c.total.count, options, fmt.Sprintf(format, args...))
	}}
	defer func() { c.close(b) }()
	if err := v.mount(options, 0); err != nil {
		return err
	}
	for range min(cutsAVolume, c.o.n-c.total.count) {
		if err := ctx.Err(); err != nil {
			return err
		}
		writers, err := c.blow(b, v)
		if err != nil {
			return err
		}
		c.total.count++
		if err := v.unmount(); err != nil {
			return fmt.Errorf("unmount after a cut: %w", err)
		}
		if err := v.mount(options, 0); err != nil {
			return fmt.Errorf("after a cut: %w", err)
		}
		if err := b.look(c.place, writers, c.r.IntN(5) == 0); err != nil {
			return err
		}
		if b.row().broken() {
			return os.CopyFS(filepath.Join(c.work, fmt.Sprintf("broken-%d", i)), os.DirFS(v.dir))
		}
	}
	return nil
}

// blow starts writers, waits a moment and cuts the power. Their output counts
// only when it was read before the cut began: a sync in progress at the cut may
// return success and still be lost, which no real disk does.
func (c *cutting) blow(b *book, v *volume) (writers []*writer, err error) {
	var running []*errand
	defer func() {
		for _, w := range writers {
			w.kill()
		}
		for _, e := range running {
			e.kill(0)
		}
	}()
	if c.r.IntN(3) == 0 {
		if writers, err = c.successors(b); err != nil {
			return writers, err
		}
	}
	for len(writers) < 1+c.r.IntN(3) {
		w, err := c.writer(b)
		if err != nil {
			return writers, err
		}
		writers = append(writers, w)
	}
	for range c.r.IntN(3) {
		b.mu.Lock()
		e := newErrand(b, c.r)
		b.mu.Unlock()
		if e == nil {
			continue
		}
		if err := e.start(c.place); err != nil {
			return writers, err
		}
		running = append(running, e)
	}
	c.moment(writers)
	b.close()
	return writers, v.cut()
}

// successors kills some writers and starts others that resend what those got
// no answer for. What a killed writer wrote is in memory, maybe not on the
// disk; a writer that resends it is told that it is kept, and then it has to
// be.
func (c *cutting) successors(b *book) (writers []*writer, err error) {
	_, killed, err := c.round(b)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range killed {
		if s := w.s; s.id == "" || s.state.now != live || len(s.state.maybe) > 0 || s.busy || len(s.unanswered()) == 0 {
			continue
		}
		next, err := startWriterWith(c.place, b, w.s, c.r, c.r.IntN(4) > 0)
		if err != nil {
			return writers, err
		}
		writers = append(writers, next)
		c.resent++
	}
	return writers, nil
}

// moment waits a short random time: usually counted in answers, so that
// the cut falls near one.
func (c *cutting) moment(writers []*writer) {
	if c.r.IntN(5) == 0 {
		time.Sleep(time.Duration(c.r.IntN(20_000)) * time.Microsecond)
		return
	}
	w := writers[c.r.IntN(len(writers))]
	if w.again > 0 {
		w.after(w.again)
		return
	}
	w.after(1 + skewed(c.r))
	time.Sleep(time.Duration(c.r.IntN(400)) * time.Microsecond)
}

// skewed is usually small: the first answers depend on new files and names.
func skewed(r *rand.Rand) int { return r.IntN(1 + r.IntN(30)) }
