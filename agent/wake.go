package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/store"
)

// Waker resumes sleeping sessions when a timer has fired that the person granted
// on this machine.
type Waker struct {
	Store  *store.Store
	Holder tidemark.Holder
	Grants *grant.Book
	// Setup returns what the person configured for a project.
	Setup func(project string) (*Setup, error)
	// Untrusted is called, once, with why the grants cannot be read.
	Untrusted func(error)

	told sync.Once
}

// MayWake returns which sessions the person allowed to be woken: those with a
// wake among the grants. Nil when there are none.
func (w *Waker) MayWake() func(tidemark.SessionID) bool {
	all, err := w.Grants.All()
	if err != nil {
		w.told.Do(func() { w.Untrusted(err) })
	}
	may := make(map[tidemark.SessionID]bool)
	for _, g := range all {
		if g.Kind == grant.Wake && !g.Declined {
			may[g.Session] = true
		}
	}
	if len(may) == 0 {
		return nil
	}
	return func(id tidemark.SessionID) bool { return may[id] }
}

// Sleepers lists the sessions that say that they are to be woken by then, of
// those that the person let be woken and that nobody has open.
func (w *Waker) Sleepers(ctx context.Context, by time.Time) ([]tidemark.SessionID, error) {
	may := w.MayWake()
	if may == nil {
		return nil, nil
	}
	return w.Store.Sleepers(ctx, by, may)
}

// grantedIn is the project in which a fired timer of a checkpoint is granted,
// "" when none is.
func (w *Waker) grantedIn(id tidemark.SessionID, c store.Checkpoint, now time.Time) string {
	all, err := w.Grants.All()
	if err != nil {
		return ""
	}
	for _, t := range c.WakeTriggers {
		if !fired(t, now) {
			continue
		}
		thing := chat.WakeThing(t)
		i := slices.IndexFunc(all, func(g grant.Grant) bool { return g.Session == id && g.Thing == thing && !g.Declined })
		if i >= 0 {
			return all[i].Project
		}
	}
	return ""
}

func fired(t store.WakeTrigger, now time.Time) bool {
	return t.Kind == store.WakeTimer && !t.At.After(now)
}

// Wake resumes a session: with what the person configured for its project, and
// what they granted there. Nobody can be asked: everything else is denied.
// ErrDenied: no fired timer is granted.
func (w *Waker) Wake(ctx context.Context, id tidemark.SessionID) error {
	now := time.Now()
	c, err := w.Store.Checkpoint(ctx, id, "")
	if err != nil {
		return err
	}
	project := w.grantedIn(id, c, now)
	if project == "" {
		return tidemark.Deniedf("nobody at this machine granted that it is woken now")
	}
	setup, err := w.Setup(project)
	if err != nil {
		return err
	}
	a, err := setup.Assemble(ctx, Options{Store: w.Store, Holder: w.Holder, Session: id, Project: project, Folder: project,
		Grants: w.Grants.For(project), Unattended: true})
	if err != nil {
		return err
	}
	woken, err := chat.Resume(ctx, a.Chat, id)
	if err != nil {
		return err
	}
	err = woken.Change(ctx, func(c *store.Checkpoint) error {
		c.WakeTriggers = slices.DeleteFunc(c.WakeTriggers, func(t store.WakeTrigger) bool { return fired(t, now) })
		return nil
	})
	if err == nil {
		_, err = woken.Send(ctx, tidemark.Text("The timer that you set has fired. Go on with what you were at."))
	}
	return errors.Join(err, woken.Close(context.WithoutCancel(ctx)))
}
