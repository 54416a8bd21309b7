package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/store"
)

// mayWake tells which chats the person let be woken: those with a wake among the
// grants of this user, on this machine. Nil when there is none.
func (f *fleetRoom) mayWake() func(tidemark.SessionID) bool {
	all, err := f.grants().All()
	if err != nil {
		f.grantsTold.Do(func() { f.complain(err) })
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

// grantedWake is the project in which a timer of a checkpoint that has fired is
// granted, "" when none is.
func (f *fleetRoom) grantedWake(id tidemark.SessionID, c store.Checkpoint, now time.Time) string {
	all, err := f.grants().All()
	if err != nil {
		return ""
	}
	for _, w := range c.WakeTriggers {
		if w.Kind != store.WakeTimer || w.At.After(now) {
			continue
		}
		thing := chat.WakeThing(w)
		i := slices.IndexFunc(all, func(g grant.Grant) bool { return g.Session == id && g.Thing == thing && !g.Declined })
		if i >= 0 {
			return all[i].Project
		}
	}
	return ""
}

// wake goes on with a chat of this person that sleeps, as a resume would: with
// what they configured for its project, and what they granted there. Nobody is
// there to ask: everything else is denied.
func (f *fleetRoom) wake(ctx context.Context, id tidemark.SessionID) error {
	now := time.Now()
	c, err := f.opened.Store.Checkpoint(ctx, id, "")
	if err != nil {
		return err
	}
	project := f.grantedWake(id, c, now)
	if project == "" {
		return tidemark.Deniedf("nobody at this machine granted that it is woken now")
	}
	own := *f.app
	if own.config, err = loadSettings(f.configFile, project); err != nil {
		return err
	}
	t := &talk{app: &own, cmd: &cobra.Command{Use: "tidemark fleet"}, folder: project, person: true, unattended: true, s: f.opened.Store, screen: &chatScreen{app: &own}}
	var last modelChoice
	last.provider, last.model = chat.ModelOf(c)
	if t.provider, err = own.model(modelChoice{}, last); err != nil {
		return err
	}
	o, err := t.chatOptions(ctx)
	if err != nil {
		return err
	}
	o.Show = func(chat.Event) {}
	woken, err := chat.Resume(ctx, o, id)
	if err != nil {
		return err
	}
	err = woken.Change(ctx, func(c *store.Checkpoint) error {
		c.WakeTriggers = slices.DeleteFunc(c.WakeTriggers, func(t store.WakeTrigger) bool { return t.Kind == store.WakeTimer && !t.At.After(now) })
		return nil
	})
	if err == nil {
		_, err = woken.Send(ctx, tidemark.Text("The timer that you set has fired. Go on with what you were at."))
	}
	return errors.Join(err, woken.Close(context.WithoutCancel(ctx)))
}
