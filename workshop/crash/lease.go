package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/store"
)

// The two leases of the trial. Under the long one only the proof that a
// holder is dead lets another in, so every takeover shows that the proof
// works. The short one expires while writers are suspended.
const (
	longLease  = time.Hour
	shortLease = 300 * time.Millisecond
)

// lease lets many processes contend for a few sessions while they are killed,
// suspended and resumed.
func lease(ctx context.Context, o options) ([]row, error) {
	var rows []row
	for _, stops := range []bool{false, true} {
		r, err := fight(ctx, o, stops)
		if err != nil {
			return rows, err
		}
		rows = append(rows, r)
		if r.broken() {
			return rows, nil
		}
	}
	r, err := reuseTrial(ctx, o)
	var skip *skipped
	if errors.As(err, &skip) {
		o.say("forced pid reuse: %s", skip.reason)
		return rows, nil
	}
	return append(rows, r), err
}

func fight(ctx context.Context, o options, stops bool) (row, error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "tidemark-crash-")
	if err != nil {
		return row{}, err
	}
	defer os.RemoveAll(dir)
	a := &arena{o: o, r: o.random(), dir: dir, term: longLease, stops: stops, holds: make(map[string]*tenure), acks: make(map[string][]ack)}
	total := row{what: "lease", where: "SIGKILL"}
	if stops {
		a.term, total.where = shortLease, "SIGKILL, SIGSTOP"
	}
	if err := a.prepare(ctx); err != nil {
		return total, err
	}
	if err := a.run(ctx); err != nil {
		return total, err
	}
	if err := a.check(ctx); err != nil {
		return total, err
	}
	total.add(a.found)
	total.count, total.seconds = a.attempts, time.Since(began).Seconds()
	total.note = fmt.Sprintf("%d processes, %d sessions; attached %d, refused %d; %d killed, %d while holding",
		o.procs, o.sessions, a.granted, a.attempts-a.granted, a.kills, a.deaths)
	if stops {
		total.note += fmt.Sprintf("; %d suspended, %d of them replaced meanwhile, %d late writers refused", a.suspended, a.replaced, a.late)
	} else {
		total.note += fmt.Sprintf(", slowest takeover %d ms", a.slowest.Milliseconds())
	}
	return total, nil
}

// arena is one contest.
type arena struct {
	o        options
	r        *rand.Rand
	dir      string
	term     time.Duration
	stops    bool
	sessions []string

	mu       sync.Mutex
	fighters []*fighter
	names    int
	holds    map[string]*tenure // by session, as far as reported
	vacant   map[string]time.Time
	acks     map[string][]ack // by session
	found    row

	attempts, granted, kills, deaths, suspended, replaced, late int
	slowest                                                     time.Duration
}

// fighter is one contender as its parent sees it.
type fighter struct {
	name      string
	cmd       *exec.Cmd
	stdin     io.Closer
	done      chan struct{}
	killed    bool
	suspended bool
	holding   *tenure
}

// tenure is one period in which a contender may write.
type tenure struct {
	session, name string
	by            *fighter
	suspended     bool // at least once
	replaced      bool // another was let in before it ended
}

// ack is an entry that was acknowledged to a contender.
type ack struct {
	seq  int64
	text string
}

func (a *arena) fault(count *int, format string, args ...any) {
	*count++
	a.o.say(format, args...)
}

func (a *arena) prepare(ctx context.Context) error {
	a.vacant = make(map[string]time.Time)
	s, err := openStore(ctx, a.o.backend, a.dir, a.term)
	if err != nil {
		return err
	}
	defer s.Close()
	for range a.o.sessions {
		w := s.Create(tidemark.Session{}, process.Self("crash"))
		if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "first 0")); err != nil {
			return err
		}
		if err := w.Close(ctx); err != nil {
			return err
		}
		a.sessions = append(a.sessions, string(w.ID()))
	}
	return nil
}

// run keeps the contenders busy and in danger until there were enough
// attempts.
func (a *arena) run(ctx context.Context) error {
	defer a.end()
	for range a.o.procs {
		if err := a.spawn(); err != nil {
			return err
		}
	}
	for {
		time.Sleep(time.Duration(2+a.r.IntN(20)) * time.Millisecond)
		a.mu.Lock()
		enough, broken := a.enough(), a.found.broken()
		a.mu.Unlock()
		if enough || broken || ctx.Err() != nil {
			return ctx.Err()
		}
		f := a.victim()
		if f == nil {
			continue
		}
		if a.stops && a.r.IntN(3) > 0 {
			a.stop(f, time.Duration(float64(a.term)*(0.2+2*a.r.Float64())))
			continue
		}
		if err := a.kill(f); err != nil {
			return err
		}
	}
}

// enough reports whether there were as many attempts as requested, and
// enough blows to make them meaningful.
func (a *arena) enough() bool {
	blows := a.kills
	if a.stops {
		blows = a.suspended
	}
	return a.attempts >= a.o.n/2+1 && blows >= a.o.n/100
}

// maxSuspended keeps the contest going: a process suspended in the middle
// of a commit holds the lock of the store, and everybody waits for it.
const maxSuspended = 2

// victim chooses a contender, usually one that holds a session, and none
// while enough are suspended.
func (a *arena) victim() *fighter {
	a.mu.Lock()
	defer a.mu.Unlock()
	var holding, rest []*fighter
	suspended := 0
	for _, f := range a.fighters {
		switch {
		case f.suspended:
			if suspended++; suspended >= maxSuspended {
				return nil
			}
		case f.holding != nil:
			holding = append(holding, f)
		default:
			rest = append(rest, f)
		}
	}
	if f, ok := pick(a.r, holding); ok && a.r.IntN(10) < 7 {
		return f
	}
	// Somebody has to be left to take over.
	if f, ok := pick(a.r, rest); ok && len(rest) > 1 {
		return f
	}
	return nil
}

func (a *arena) spawn() error {
	me, err := os.Executable()
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names++
	f := &fighter{name: "c" + strconv.Itoa(a.names), done: make(chan struct{})}
	f.cmd = exec.Command(me, "contend", "-backend", a.o.backend, "-dir", a.dir, "-lease", a.term.String(), "-name", f.name,
		"-seed", fmt.Sprint(a.r.Uint64()), "-sessions", strings.Join(a.sessions, ","))
	f.cmd.Env = append(os.Environ(), helperMark+"=contend")
	f.cmd.SysProcAttr = dieWithMe()
	stderr := new(strings.Builder)
	f.cmd.Stderr = stderr
	if f.stdin, err = f.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := f.cmd.Start(); err != nil {
		return err
	}
	a.fighters = append(a.fighters, f)
	go func() {
		defer close(f.done)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			a.hear(f, strings.Fields(line))
		}
		err := f.cmd.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		if err != nil && !f.killed {
			a.fault(&a.found.aid, "%s ended with %v: %s", f.name, err, stderr)
		}
	}()
	return nil
}

// hear records what a contender reported.
func (a *arena) hear(f *fighter, words []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(words) < 2 {
		a.fault(&a.found.aid, "%s says %q", f.name, words)
		return
	}
	session := words[1]
	switch words[0] {
	case "held":
		a.attempts++
	case "got":
		a.attempts++
		a.granted++
		if since, died := a.vacant[session]; died {
			a.slowest = max(a.slowest, time.Since(since))
			delete(a.vacant, session)
		}
		if old := a.holds[session]; old != nil && old.by != f {
			old.replaced = true
			if old.by.suspended {
				a.replaced++
			}
		}
		f.holding = &tenure{session: session, name: words[2], by: f}
		a.holds[session] = f.holding
	case "ack":
		seq, err := strconv.ParseInt(words[3], 10, 64)
		if err != nil {
			a.fault(&a.found.aid, "%s says %q", f.name, words)
			return
		}
		a.found.acknowledged++
		a.acks[session] = append(a.acks[session], ack{seq, words[2] + " " + words[4]})
	case "lost":
		if t := f.holding; t != nil && !t.suspended && !a.stops {
			a.fault(&a.found.aid, "%s lost %s though it was alive and its lease lasts an hour", words[2], session)
		}
		a.late++
		a.leave(f, session)
	case "free":
		a.leave(f, session)
	}
}

func (a *arena) leave(f *fighter, session string) {
	if t := a.holds[session]; t != nil && t.by == f {
		delete(a.holds, session)
	}
	f.holding = nil
}

// kill ends a contender and starts another in its place.
func (a *arena) kill(f *fighter) error {
	a.mu.Lock()
	f.killed = true
	a.mu.Unlock()
	f.cmd.Process.Kill()
	died := time.Now()
	<-f.done
	a.mu.Lock()
	a.kills++
	if t := f.holding; t != nil && a.holds[t.session] == t {
		a.deaths++
		delete(a.holds, t.session)
		a.vacant[t.session] = died
	}
	for i := range a.fighters {
		if a.fighters[i] == f {
			a.fighters = append(a.fighters[:i], a.fighters[i+1:]...)
			break
		}
	}
	a.mu.Unlock()
	return a.spawn()
}

// stop suspends a contender for a while.
func (a *arena) stop(f *fighter, how time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if suspend(f.cmd.Process) != nil {
		return
	}
	f.suspended = true
	a.suspended++
	if f.holding != nil {
		f.holding.suspended = true
	}
	time.AfterFunc(how, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		f.suspended = false
		resume(f.cmd.Process)
	})
}

// end lets everybody finish.
func (a *arena) end() {
	a.mu.Lock()
	all := a.fighters
	for _, f := range all {
		resume(f.cmd.Process)
		f.killed = true
		f.stdin.Close()
	}
	a.mu.Unlock()
	for _, f := range all {
		select {
		case <-f.done:
		case <-time.After(10 * time.Second):
			f.cmd.Process.Kill()
			<-f.done
		}
	}
}

// check reads the logs: the entries of one tenure are contiguous, so nobody
// wrote while another was the writer, and nobody wrote after the next had
// begun.
func (a *arena) check(ctx context.Context) error {
	s, err := openStore(ctx, a.o.backend, a.dir, a.term)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, id := range a.sessions {
		if err := a.checkLog(ctx, s, id); err != nil {
			return err
		}
	}
	for err := range s.VerifyAll(ctx, nil) {
		a.fault(&a.found.unreadable, "verify: %v", err)
	}
	for id, since := range a.vacant {
		// The last holder died and nobody took over: that must still be
		// possible.
		w, err := s.Attach(ctx, tidemark.SessionID(id), process.Self("crash"))
		if err != nil {
			a.fault(&a.found.aid, "session %s, whose holder died %s ago: %v", id, time.Since(since), err)
			continue
		}
		if err := w.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (a *arena) checkLog(ctx context.Context, s *store.Store, id string) error {
	v, err := s.View(ctx, tidemark.SessionID(id))
	if err != nil {
		return err
	}
	var texts []string
	for e, err := range v.Log(ctx) {
		if err != nil {
			a.fault(&a.found.unreadable, "session %s: %v", id, err)
		}
		text := ""
		if len(e.Blocks) > 0 {
			text = e.Blocks[0].Text
		}
		texts = append(texts, text)
	}
	a.compare(id, texts)
	return nil
}

// compare judges the entries of one session, in their order.
func (a *arena) compare(id string, texts []string) {
	at := make(map[string]int64)
	ended := make(map[string]bool) // tenures after which somebody else wrote
	last, next := "", 0
	for i, text := range texts {
		seq := int64(i + 1)
		name, number, _ := strings.Cut(text, " ")
		n, err := strconv.Atoi(number)
		if name != last {
			if ended[name] {
				a.fault(&a.found.doubled, "session %s: entry %d is by %s, after %s had begun: two writers", id, seq, name, last)
				next = n
			} else {
				next = 0
			}
			ended[last] = true
			last = name
		}
		if err != nil || n != next {
			a.fault(&a.found.lost, "session %s: entry %d is %q, not number %d", id, seq, text, next)
		}
		next = n + 1
		at[text] = seq
	}
	for _, k := range a.acks[id] {
		if at[k.text] != k.seq {
			a.fault(&a.found.lost, "session %s: entry %d (%s) is at %d", id, k.seq, k.text, at[k.text])
		}
	}
}

// reuseTrial gives the pid of a dead holder to another process.
func reuseTrial(ctx context.Context, o options) (row, error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "tidemark-crash-")
	if err != nil {
		return row{}, err
	}
	defer os.RemoveAll(dir)
	n, err := reusePids(ctx, o, filepath.Clean(dir))
	r := row{what: "lease", where: "pid used again", count: n, acknowledged: n, seconds: time.Since(began).Seconds(),
		note: "each time the dead holder was replaced at once, and a living one was not"}
	return r, err
}
