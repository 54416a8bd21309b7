package chat

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// minLoop is the shortest interval of a loop.
const minLoop = time.Second

// AddLoop repeats a goal at the given interval, beginning now; a goal of
// "" works through the task list. Loops are kept with the session.
func (c *Chat) AddLoop(ctx context.Context, goal string, every time.Duration) (store.Loop, error) {
	if every < minLoop {
		return store.Loop{}, tidemark.Invalidf("interval %s: want at least %s", every, minLoop)
	}
	l := store.Loop{Goal: goal, EverySeconds: int64(every / time.Second), NextAt: c.o.Now().UTC().Truncate(time.Second)}
	err := c.Change(ctx, func(s *checkpoint) error {
		n := 1
		for slices.ContainsFunc(s.Loops, func(o store.Loop) bool { return o.ID == fmt.Sprintf("loop-%d", n) }) {
			n++
		}
		l.ID = fmt.Sprintf("loop-%d", n)
		s.Loops = append(s.Loops, l)
		return nil
	})
	return l, err
}

// CancelLoop ends a loop, or returns ErrNotFound.
func (c *Chat) CancelLoop(ctx context.Context, id string) error {
	return c.Change(ctx, func(s *checkpoint) error {
		n := len(s.Loops)
		if s.Loops = slices.DeleteFunc(s.Loops, func(l store.Loop) bool { return l.ID == id }); len(s.Loops) == n {
			return tidemark.NotFoundf("loop %q: not found", id)
		}
		return nil
	})
}

// Rearm restarts the loops of an earlier run from now, and returns them.
func (c *Chat) Rearm(ctx context.Context) ([]store.Loop, error) {
	now := c.o.Now().UTC().Truncate(time.Second)
	err := c.Change(ctx, func(s *checkpoint) error {
		for i, l := range s.Loops {
			if every := time.Duration(l.EverySeconds) * time.Second; l.NextAt.Before(now) {
				s.Loops[i].NextAt = now.Add(every)
			}
		}
		return nil
	})
	return c.State().Loops, err
}

// NextLoop returns the loop that is due first; false when there is none.
func (c *Chat) NextLoop() (store.Loop, bool) {
	loops := c.State().Loops
	if len(loops) == 0 {
		return store.Loop{}, false
	}
	return slices.MinFunc(loops, func(a, b store.Loop) int { return a.NextAt.Compare(b.NextAt) }), true
}

// RunLoop does one round of a loop. It returns ErrNotFound when the
// loop was cancelled meanwhile. A loop over the task list ends when
// the list does.
func (c *Chat) RunLoop(ctx context.Context, l store.Loop) (Turn, error) {
	c.refresh()
	prompt := l.Goal
	if prompt == "" {
		tasks := c.State().Tasks
		i := slices.IndexFunc(tasks, func(t store.Task) bool { return !t.Done })
		if i < 0 {
			c.notice("All tasks are done; " + l.ID + " ends.")
			return Turn{}, c.CancelLoop(ctx, l.ID)
		}
		prompt = fmt.Sprintf("Work on task %d: %s\nSay that it is done with the task tool when it is.", tasks[i].ID, tasks[i].Text)
	}
	// The next time is kept before the work begins, so that a crash does not
	// run it twice.
	err := c.Change(context.WithoutCancel(ctx), func(s *checkpoint) error {
		for i := range s.Loops {
			if s.Loops[i].ID == l.ID {
				s.Loops[i].NextAt = c.o.Now().UTC().Truncate(time.Second).Add(time.Duration(l.EverySeconds) * time.Second)
				s.Loops[i].TimesFinished++
				return nil
			}
		}
		return tidemark.NotFoundf("loop %q: not found", l.ID)
	})
	if err != nil {
		return Turn{}, err
	}
	return c.mainTurn(ctx, []tidemark.Block{tidemark.Text(prompt)})
}
