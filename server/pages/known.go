package pages

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// The store lists sessions by the time of their last change, and can go on with
// that for as long as somebody reads. Another order, a sum, and a filter that few
// sessions pass need all of them: of many sessions they come from the last survey,
// with what changed since, instead of being read again for each page.

const (
	// readChanges bounds how many sessions are read to find what changed since a
	// survey; when more did, all of them are read.
	readChanges = 1000
	// clockSkew is how far the clocks of two writers may be apart.
	clockSkew = time.Minute
)

// known are the live sessions of a list before its filters, the one that changed
// last first. It is false when they have to be read from the store: they are few, or
// no survey can stand for them.
//
// Found are sessions that were begun or written to since the survey, and missed those
// that were thrown away. What appears with an older time, as an import may bring it,
// is there with the next survey.
func (l *listed) known(ctx context.Context) ([]store.Info, bool, error) {
	u := l.survey
	if u == nil || len(u.sessions) <= quickSessions || u.damaged > 0 || u.shared || l.f.State != "" || l.f.Project != "" {
		return nil, false, nil
	}
	read := make(map[string]bool)
	var all []store.Info
	same := 0
	for i, err := range l.st.Sessions(ctx, store.Filter{Each: true, Limit: readChanges}) {
		if errors.Is(err, tidemark.ErrCorrupt) || err == nil && i.Owner != "" {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		read[i.Name()] = true
		all = append(all, i)
		same++
		if at, ok := u.byName[i.Name()]; !ok || !u.sessions[at].UpdatedAt.Equal(i.UpdatedAt) {
			same = 0
		}
		if same == stateSessions {
			break
		}
	}
	if same < stateSessions {
		return nil, false, nil
	}
	for i, err := range l.st.Sessions(ctx, store.Filter{Each: true, State: store.Trash, Since: u.begun.Add(-clockSkew), Limit: readChanges}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		read[i.Name()] = true
	}
	var err error
	if l.labelled, err = l.st.Labelled(ctx, l.f.Tag); err != nil {
		return nil, false, err
	}
	l.recall = true
	all = slices.Grow(all, len(u.sessions))
	oldest := all[len(all)-1].UpdatedAt
	for at := range u.sessions {
		row := &u.sessions[at]
		// What is as new as what was read, and was not, is gone.
		if !row.UpdatedAt.After(oldest) && !read[row.Name()] {
			all = append(all, row.Info)
		}
	}
	return all, true, nil
}

// fits reports whether a session passes the filters that the store applies.
func (l *listed) fits(i store.Info) bool {
	return (l.f.Agent == "" || l.f.Agent == i.Agent) && (l.f.Tool == "" || l.f.Tool == toolOf(i)) && (!l.f.Gone || !i.Gone.IsZero()) &&
		(l.f.Tag == "" || slices.Contains(i.Tags, l.f.Tag) || l.labelled[i.Name()]) && !i.UpdatedAt.Before(l.f.Since)
}

// current are some sessions of a list as they are now, without those that have left
// it.
func (l *listed) current(ctx context.Context, infos []store.Info) ([]store.Info, error) {
	var all []store.Info
	for _, i := range infos {
		now, err := l.st.Session(ctx, i.ID)
		switch {
		case errors.Is(err, tidemark.ErrNotFound), err == nil && now.State != i.State:
			continue
		case errors.Is(err, tidemark.ErrCorrupt):
			now = i // its row tells
		case err != nil:
			return nil, err
		}
		all = append(all, now)
	}
	return all, nil
}
