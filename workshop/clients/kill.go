package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// kills is what a watcher that was killed while agents worked left.
type kills struct {
	Kills, Runs, Sessions, Entries int
	Wrong                          []string
}

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
func (w *workshop) kill(ctx context.Context, n int) (k kills, err error) {
	if n == 0 {
		return k, nil
	}
	m, err := w.newWorld()
	if err != nil {
		return k, err
	}
	if err := m.append(ctx, "new", tidemark.Say(tidemark.User, "so that there is a store")); err != nil {
		return k, err
	}
	work, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	var mu sync.Mutex
	var broken error
	for _, c := range clients {
		done.Go(func() {
			for round := 0; work.Err() == nil; round++ {
				prompt := fmt.Sprintf(`Round %d. [[fake op bash {"cmd":"echo harbour-%d"}]] [[fake say Noted %d.]] [[fake slow=5]]`, round, round, round)
				args := c.begin(prompt)
				if round%3 == 2 { // the newest goes on
					args = again[c.tool](prompt)
				}
				_, err := m.do(ctx, c.program, args...)
				mu.Lock()
				k.Runs++
				if err != nil && broken == nil {
					broken = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	for ; k.Kills < n && err == nil && work.Err() == nil; k.Kills++ {
		watcher := m.command(ctx, m.program, "--no-encrypt", "watch")
		if err = watcher.Start(); err != nil {
			break
		}
		err = sleep(ctx, 30+rand.IntN(700))
		_ = watcher.Process.Kill() // it may have ended
		_ = watcher.Wait()         // by the kill
	}
	stop()
	done.Wait()
	if err != nil || broken != nil {
		return k, fmt.Errorf("%w", firstOf(err, broken))
	}
	if _, err := m.tidemark(ctx, "watch", "--once"); err != nil {
		return k, err
	}
	return k, m.sameAsAtOnce(ctx, &k)
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// again are the arguments that go on with the newest session of a tool.
var again = map[string]func(prompt string) []string{
	"claude-code": func(prompt string) []string { return []string{"-c", "-p", prompt, "--allowedTools", "Bash"} },
	"codex": func(prompt string) []string {
		return []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "resume", "--last", prompt}
	},
}

// sameAsAtOnce compares every session with what an import into an empty store makes
// of the same files.
func (m *world) sameAsAtOnce(ctx context.Context, k *kills) error {
	at := *m
	at.environ = slices.Clone(m.environ)
	for i, v := range at.environ {
		if len(v) > 15 && v[:15] == "TIDEMARK_STORE=" {
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
	if len(have) != len(want)+1 { // the one that made the store
		k.Wrong = append(k.Wrong, fmt.Sprintf("%d sessions, at once there are %d", len(have)-1, len(want)))
	}
	for _, id := range want {
		a, err := at.entries(ctx, id, "--all")
		if err != nil {
			return err
		}
		b, err := m.entries(ctx, id, "--all")
		if err != nil {
			k.Wrong = append(k.Wrong, err.Error())
			continue
		}
		if !reflect.DeepEqual(a, b) {
			k.Wrong = append(k.Wrong, fmt.Sprintf("session %s has %d entries, at once it has %d", id, len(b), len(a)))
		}
		k.Sessions++
		k.Entries += len(a)
	}
	return nil
}
