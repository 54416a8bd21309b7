package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

func sleep(ctx context.Context, milliseconds int) error {
	select {
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// killedRuns is how often an agent works at least while its watcher is killed.
const killedRuns = 6

// kills has each agent work while a watcher runs, kills the watcher at moments of
// chance, and compares what it kept with an import of everything at once.
func (w *workshop) kills(ctx context.Context, n int) error {
	for _, c := range w.installed() {
		id := "kills " + c.tool
		if n == 0 || !w.due(id) {
			continue
		}
		var one found
		k, err := w.kill(ctx, c, n)
		if one.Killed, one.Wrong = &k, k.wrong; err != nil {
			one.Wrong = append(one.Wrong, err.Error())
		}
		if err := errors.Join(w.note(ctx, id, one), w.row(c, k)); err != nil {
			return err
		}
	}
	return nil
}

// row prints what came of the watcher of one agent, as workshop/crash does.
func (w *workshop) row(c client, k killed) error {
	if w.rows == nil {
		return nil
	}
	return w.rows.Encode(map[string]any{"what": "SIGKILL of tidemark watch", "where": c.title + " " + w.versions[c.tool] + " works", "store": "sqlite",
		"count": k.Kills, "acknowledged": k.Entries, "lost": k.lost, "doubled": k.doubled,
		"note": fmt.Sprintf("%d runs, %d sessions, %d of them gone there", k.Runs, k.Sessions+k.Gone, k.Gone)})
}

// killed is what was done while a watcher was killed, and what was kept of it.
type killed struct {
	Kills, Runs, Sessions, Entries int
	Gone                           int `json:",omitzero"` // sessions that the agent removed meanwhile, and that are kept
	lost, doubled                  int // entries that an import at once has and the watcher does not, and the other way round
	wrong                          []string
}

// kill kills the watcher of one agent.
func (w *workshop) kill(ctx context.Context, c client, n int) (k killed, err error) {
	m, err := w.newWorld("")
	if err != nil {
		return k, err
	}
	defer m.leave()
	if err := m.append(ctx, "new", tidemark.Say(tidemark.User, "so that there is a store")); err != nil {
		return k, err
	}
	if err := m.killWhileItWorks(ctx, c, n, &k); err != nil {
		return k, err
	}
	return k, m.sameAsAtOnce(ctx, c, &k)
}

// killWhileItWorks kills a watcher while an agent works, a number of times at least.
// In the end a watcher sees all that is there.
func (m *world) killWhileItWorks(ctx context.Context, c client, n int, k *killed) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var runs atomic.Int64
	done := make(chan struct{})
	var enough atomic.Bool
	go func() {
		defer close(done)
		for round := 0; !enough.Load() && ctx.Err() == nil; round++ {
			prompt := fmt.Sprintf(`Round %d. [[fake op bash echo harbour-%d]] [[fake say Noted %d.]] [[fake slow=5]]`, round, round, round)
			args := c.begin(prompt)
			if round%3 == 2 { // the newest goes on
				args = c.again(prompt)
			}
			if _, err := m.do(ctx, c.program, args...); err != nil {
				stop(err)
				return
			}
			runs.Add(1)
		}
	}()
	for k.Kills < n || runs.Load() < killedRuns {
		watcher := m.command(ctx, m.program, "--no-encrypt", "watch")
		if err = watcher.Start(); err != nil {
			break
		}
		err = sleep(ctx, 30+rand.IntN(700))
		_ = watcher.Process.Kill() // it may have ended
		_ = watcher.Wait()         // by the kill
		if err != nil {
			break
		}
		k.Kills++
	}
	enough.Store(true)
	<-done
	k.Runs = int(runs.Load())
	if err = errors.Join(err, context.Cause(ctx)); err == nil {
		_, err = m.tidemark(ctx, "watch", "--once")
	}
	return err
}

// sameAsAtOnce compares every session that its agent still has with what an import
// into an empty store makes of the same files. Where an agent rewrites what it wrote,
// that is the branch of the head: earlier versions are kept beside it.
func (m *world) sameAsAtOnce(ctx context.Context, c client, k *killed) error {
	at := *m
	at.environ = slices.Clone(m.environ)
	for i, v := range at.environ {
		if strings.HasPrefix(v, "TIDEMARK_STORE=") {
			at.environ[i] = "TIDEMARK_STORE=sqlite:" + filepath.Join(m.home, "..", "once.db")
		}
	}
	if _, err := at.tidemark(ctx, "import", "--all"); err != nil {
		return err
	}
	want, err := at.sessions(ctx)
	if err != nil {
		return err
	}
	have, err := m.sessions(ctx)
	if err != nil {
		return err
	}
	gone, err := m.tidemark(ctx, "ls", "-A", "-n", "0", "--gone", "--jq", ".[].id")
	if err != nil {
		return err
	}
	k.Gone = len(strings.Fields(gone))
	wrong := func(format string, args ...any) { k.wrong = append(k.wrong, fmt.Sprintf(format, args...)) }
	if len(have) != len(want)+k.Gone+1 { // the one that made the store
		wrong("%d sessions and %d that are gone there, at once there are %d", len(have)-1-k.Gone, k.Gone, len(want))
	}
	if len(want) == 0 {
		wrong("there are no sessions")
	}
	for _, id := range want {
		var more []string
		if !c.rewrites {
			more = []string{"--all"}
		}
		a, notThere := at.entries(ctx, id, more...)
		b, notHere := m.entries(ctx, id, more...)
		if err := errors.Join(notThere, notHere); err != nil {
			return err
		}
		if c.rewrites {
			inBranch(a)
			inBranch(b)
		}
		if !reflect.DeepEqual(a, b) {
			wrong("session %s has %d entries, at once it has %d", id, len(b), len(a))
		}
		k.lost, k.doubled = k.lost+notIn(a, b), k.doubled+notIn(b, a)
		k.Sessions, k.Entries = k.Sessions+1, k.Entries+len(a)
	}
	return nil
}

// notIn counts the entries that are in a and not, or not as often, in b.
func notIn(a, b []tidemark.Entry) (n int) {
	rest := slices.Clone(b)
	for _, e := range a {
		if i := slices.IndexFunc(rest, func(other tidemark.Entry) bool { return reflect.DeepEqual(e, other) }); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		} else {
			n++
		}
	}
	return n
}

// inBranch leaves out of entries what says where they are in the log.
func inBranch(all []tidemark.Entry) {
	for i := range all {
		e := &all[i]
		e.Seq, e.Parent, e.Depth, e.Nodes, e.Turn = 0, 0, 0, 0, 0
		e.Key, _, _ = strings.Cut(e.Key, "~")
	}
}
