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
	"sync"
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

// kill has agents work while a watcher runs, kills the watcher at moments of chance,
// and compares what it kept with an import of everything at once.
func (w *workshop) kill(ctx context.Context, n int) error {
	const id = "kills"
	if n == 0 || !w.due(id) {
		return nil
	}
	m, err := w.newWorld("")
	if err != nil {
		return err
	}
	defer m.leave()
	var one found
	runs, err := m.killWhileTheyWork(ctx, n)
	sessions, entries := 0, 0
	if err == nil {
		sessions, entries, one.Wrong, err = m.sameAsAtOnce(ctx)
	}
	if err != nil {
		one.Wrong = append(one.Wrong, err.Error())
	}
	one.Said = fmt.Sprintf("%d times at moments of chance while %s worked: %d runs, %d sessions, %d entries", n, strings.Join(names(w.installed()), ", "), runs, sessions, entries)
	return w.note(ctx, id, one)
}

// killWhileTheyWork kills a watcher while agents work, and returns how often they did.
func (m *world) killWhileTheyWork(ctx context.Context, n int) (runs int64, err error) {
	if err := m.append(ctx, "new", tidemark.Say(tidemark.User, "so that there is a store")); err != nil {
		return 0, err
	}
	work, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	var count atomic.Int64
	broken := make([]error, len(m.installed()))
	for i, c := range m.installed() {
		all.Go(func() {
			for round := 0; work.Err() == nil; round++ {
				prompt := fmt.Sprintf(`Round %d. [[fake op bash echo harbour-%d]] [[fake say Noted %d.]] [[fake slow=5]]`, round, round, round)
				args := c.begin(prompt)
				if round%3 == 2 { // the newest goes on
					args = c.again(prompt)
				}
				if _, broken[i] = m.do(ctx, c.program, args...); broken[i] != nil {
					stop()
					return
				}
				count.Add(1)
			}
		})
	}
	for killed := 0; killed < n && err == nil && work.Err() == nil; killed++ {
		watcher := m.command(ctx, m.program, "--no-encrypt", "watch")
		if err = watcher.Start(); err != nil {
			break
		}
		err = sleep(ctx, 30+rand.IntN(700))
		_ = watcher.Process.Kill() // it may have ended
		_ = watcher.Wait()         // by the kill
	}
	stop()
	all.Wait()
	if err = errors.Join(err, errors.Join(broken...)); err == nil {
		_, err = m.tidemark(ctx, "watch", "--once")
	}
	return count.Load(), err
}

// sameAsAtOnce compares every session with what an import into an empty store makes
// of the same files.
func (m *world) sameAsAtOnce(ctx context.Context) (sessions, entries int, wrong []string, err error) {
	at := *m
	at.environ = slices.Clone(m.environ)
	for i, v := range at.environ {
		if strings.HasPrefix(v, "TIDEMARK_STORE=") {
			at.environ[i] = "TIDEMARK_STORE=sqlite:" + filepath.Join(m.home, "..", "once.db")
		}
	}
	if _, err := at.tidemark(ctx, "import", "--all"); err != nil {
		return 0, 0, nil, err
	}
	want, err := at.sessions(ctx)
	if err != nil {
		return 0, 0, nil, err
	}
	have, err := m.sessions(ctx)
	if len(have) != len(want)+1 { // the one that made the store
		wrong = append(wrong, fmt.Sprintf("%d sessions, at once there are %d", len(have)-1, len(want)))
	}
	for _, id := range want {
		a, notThere := at.entries(ctx, id, "--all")
		b, notHere := m.entries(ctx, id, "--all")
		if err := errors.Join(err, notThere, notHere); err != nil {
			return sessions, entries, wrong, err
		}
		if !reflect.DeepEqual(a, b) {
			wrong = append(wrong, fmt.Sprintf("session %s has %d entries, at once it has %d", id, len(b), len(a)))
		}
		sessions, entries = sessions+1, entries+len(a)
	}
	return sessions, entries, wrong, err
}
