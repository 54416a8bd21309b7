package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// lanes is the number of concurrent conversations in one store.
const lanes = 4

// killsATalk is the most kills that a conversation goes through: enough for
// it to be compacted.
const killsATalk = 12

// chooser makes the random choices of one lane.
type chooser = *rand.Rand

// chat kills conversations with an agent by SIGKILL at random instants, while
// the model answers, while tools run and while workers work, and resumes
// them.
func chat(ctx context.Context, o options) ([]row, error) {
	if _, err := exec.LookPath("bash"); err != nil {
		return nil, &skipped{"the agent's shell is bash, and there is none"}
	}
	p, work, done, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	model, err := startModel()
	if err != nil {
		done()
		return nil, err
	}
	defer model.close()
	t := &chatting{o: o, model: model, work: work, book: &book{say: o.say}, place: place{program: p, backend: o.backend, plain: o.plain}}
	err = t.run(ctx)
	total := t.book.row()
	total.what, total.where, total.count = "SIGKILL", "tidemark chat", int(t.kills.Load())
	total.note = t.note()
	if total.broken() {
		o.say("the stores are left in %s", work)
	} else {
		done()
	}
	return []row{total}, err
}

// note summarises what the kills hit, so that a reader sees what was tried.
func (t *chatting) note() string {
	summaries, workers := t.model.met()
	return fmt.Sprintf("%d in a single turn, %d in a conversation; %d tools ran, %d twice; %d calls interrupted; %d workers, %d summaries; "+
		"slowest resumed turn %d ms; %d left something running, gone after %d ms",
		t.single.Load(), t.kills.Load()-t.single.Load(), t.ran.Load(), t.twice.Load(), t.interrupted.Load(), workers, summaries,
		t.slowest.Load()/1e6, t.orphaned.Load(), t.orphan.Load()/1e6)
}

// chatting is one run of chat.
type chatting struct {
	o     options
	place place
	model *standIn
	work  string

	kills, single, ran, twice, interrupted, orphaned atomic.Int64
	slowest, orphan                                  atomic.Int64 // nanoseconds
	talks                                            atomic.Int64 // for names

	book *book // its lock guards the counts
}

// fault counts a broken promise and reports it.
func (t *chatting) fault(count *int, format string, args ...any) {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	t.book.fault(count, format, args...)
}

func (t *chatting) broken() bool {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	return t.book.row().broken()
}

// over reports whether a lane starts nothing more.
func (t *chatting) over(ctx context.Context, until int64) bool {
	return ctx.Err() != nil || t.kills.Load() >= until || t.broken() && !t.o.goOn
}

func (t *chatting) run(ctx context.Context) error {
	for i := 0; !t.over(ctx, int64(t.o.n)); i++ {
		p := t.place
		p.dir = filepath.Join(t.work, fmt.Sprint("store", i))
		if err := os.Mkdir(p.dir, 0o700); err != nil {
			return err
		}
		if a, err := p.ask("", "append", "new"); err != nil || a.code != 0 { // appends nothing, but creates the store
			return fmt.Errorf("a new store: exit %d, %w: %s", a.code, err, a.err)
		}
		until := min(int64(t.o.n), t.kills.Load()+killsAStore)
		errs := make([]error, lanes)
		var all sync.WaitGroup
		for lane := range lanes {
			r := rand.New(rand.NewPCG(t.o.seed, uint64(i*lanes+lane)))
			all.Go(func() { errs[lane] = t.lane(ctx, p, r, until) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if err := t.atTheEnd(p); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// atTheEnd checks a whole store.
func (t *chatting) atTheEnd(p place) error {
	a, err := p.ask("", "verify")
	if err == nil && a.code != 0 {
		t.fault(&t.book.unreadable, "verify ends with %d: %s%s", a.code, a.out, a.err)
	}
	if err != nil {
		return err
	}
	t.book.mu.Lock()
	err = t.book.secrecy(p)
	t.book.mu.Unlock()
	if err != nil || t.broken() {
		return err
	}
	return os.RemoveAll(p.dir)
}

// lane runs one conversation after the other.
func (t *chatting) lane(ctx context.Context, p place, r chooser, until int64) error {
	for !t.over(ctx, until) {
		if err := t.hold(ctx, p, r, until); err != nil {
			return err
		}
	}
	return nil
}

// hold runs one conversation: kill, check, resume.
func (t *chatting) hold(ctx context.Context, p place, r chooser, until int64) error {
	c := &conversation{place: p, model: t.model, name: fmt.Sprintf("talk%d", t.talks.Add(1)), told: make(map[string]map[int64]entry)}
	c.work = filepath.Join(t.work, c.name)
	if err := os.Mkdir(c.work, 0o700); err != nil {
		return err
	}
	c.talk = t.model.begin(c.name, c.effects(), r.Uint64())
	defer t.model.end(c.name)
	for n := 1 + r.IntN(killsATalk); n > 0 && !t.over(ctx, until); n-- {
		h, err := t.victim(c, r)
		if err != nil {
			return err
		}
		if !t.strike(h, r) {
			continue
		}
		t.kills.Add(1)
		if h.stdin == nil {
			t.single.Add(1)
		}
		left := make(chan struct{})
		go func() {
			defer close(left)
			t.outlived(c, h.mark)
		}()
		err = t.look(c, r)
		<-left
		if err != nil {
			return err
		}
	}
	return t.close(c)
}

// victim starts a chat that will be killed.
func (t *chatting) victim(c *conversation, r chooser) (*chatter, error) {
	switch r.IntN(6) {
	case 0, 1, 2:
		return c.singleTurn(r, canary+" single message")
	case 3:
		return c.converse(r, 1, true)
	}
	return c.converse(r, 1+r.IntN(4), false)
}

// strike kills a chat at a random instant, and reports whether it was still
// running.
func (t *chatting) strike(h *chatter, r chooser) bool {
	wait, most := time.Duration(r.IntN(4000))*time.Microsecond, time.Duration(100+r.IntN(2500))*time.Millisecond
	switch r.IntN(6) {
	case 0: // at any time: while it starts, or attaches
		return h.kill(0, time.Duration(r.IntN(150))*time.Millisecond, most)
	case 1: // while something slow goes on
		return h.kill(r.IntN(30), time.Duration(r.IntN(60))*time.Millisecond, most)
	}
	return h.kill(1+r.IntN(40), wait, most)
}

// outliving is how long processes of a killed chat may keep running: no
// command of the script takes as long.
const outliving = 10 * time.Second

// outlived waits for the end of what a killed chat left running: a tool has a
// process group of its own.
func (t *chatting) outlived(c *conversation, mark string) {
	died := time.Now()
	left := marked(mark)
	if len(left) == 0 {
		return
	}
	t.orphaned.Add(1)
	for _, pid := range left {
		for isMarked(pid, mark) {
			if time.Since(died) > outliving {
				t.fault(&t.book.aid, "%s: process %d of a killed chat runs after %s", c.name, pid, outliving)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	raise(&t.orphan, time.Since(died))
}

// raise keeps the longest time.
func raise(longest *atomic.Int64, took time.Duration) {
	for was := longest.Load(); was < int64(took) && !longest.CompareAndSwap(was, int64(took)); was = longest.Load() {
	}
}

// close adds up what was acknowledged in a conversation, and removes its
// folder.
func (t *chatting) close(c *conversation) error {
	effects, err := c.tokens()
	if err != nil {
		return err
	}
	t.ran.Add(int64(len(effects)))
	t.book.mu.Lock()
	t.book.acknowledged += c.acknowledged()
	t.book.mu.Unlock()
	if t.broken() {
		return nil
	}
	return os.RemoveAll(c.work)
}
