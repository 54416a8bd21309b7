package adk

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"google.golang.org/adk/session"
)

// owner is what ADK knows a session by. It is kept with the session.
type owner struct {
	App  string `json:"app"`
	User string `json:"user"`
	ID   string `json:"id"`
}

type about struct {
	ADK *owner `json:"adk"`
}

func (o owner) session(id tidemark.SessionID) (tidemark.Session, error) {
	extra, err := json.Marshal(about{&o})
	return tidemark.Session{ID: id, Title: o.ID, Agent: o.App, ForeignID: o.ID, Extra: extra}, err
}

// ownerOf returns whose a session is; one that ADK did not make is nobody's.
func ownerOf(s tidemark.Session) (owner, bool) {
	var a about
	if len(s.Extra) == 0 || json.Unmarshal(s.Extra, &a) != nil || a.ADK == nil {
		return owner{}, false
	}
	return *a.ADK, true
}

// kept is a session as it was read, and what was appended to it since.
type kept struct {
	owner owner
	id    tidemark.SessionID

	mu      sync.RWMutex
	head    int64          // the newest entry that is known here
	stateAt int64          // the entry with the newest state
	own     map[string]any // the state of the session itself
	state   map[string]any // of all scopes
	events  []*session.Event
	updated time.Time
}

func (k *kept) ID() string      { return k.owner.ID }
func (k *kept) AppName() string { return k.owner.App }
func (k *kept) UserID() string  { return k.owner.User }

// State is what can be read and set; what is set is not kept until an event
// says it.
func (k *kept) State() session.State { return state{k} }

func (k *kept) Events() session.Events {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return events(k.events[:len(k.events):len(k.events)])
}

func (k *kept) LastUpdateTime() time.Time {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.updated
}

// readEvents takes the events out of entries, and returns the last entry that
// is ADK's. Those that others wrote are passed over.
func (k *kept) readEvents(entries iter.Seq2[tidemark.Entry, error], after time.Time) (last entry, err error) {
	for e, err := range entries {
		if err != nil {
			return last, err
		}
		read, ok, err := entryOf(e)
		if err != nil {
			return last, err
		}
		if !ok {
			continue
		}
		if last = read; read.Event != nil && !read.Event.Timestamp.Before(after) {
			k.events = append(k.events, read.Event)
		}
	}
	return last, nil
}

// readState finds the state as it was after the last entry.
func (k *kept) readState(ctx context.Context, v *store.View, last entry) error {
	k.own, k.stateAt = last.State, last.seq
	if last.StateAt > 0 {
		k.stateAt = last.StateAt
		for e, err := range v.LogRange(ctx, last.StateAt, last.StateAt) {
			if err != nil {
				return err
			}
			at, _, err := entryOf(e)
			if err != nil {
				return err
			}
			k.own = at.State
		}
	}
	if k.own == nil {
		k.own = make(map[string]any)
	}
	maps.Copy(k.state, k.own)
	return nil
}

// took makes k what it is with one more event.
func (k *kept) took(seq int64, e entry, own, shared, temporary map[string]any) {
	if k.head = seq; e.State != nil {
		k.stateAt = seq
	}
	k.own = own
	for _, values := range []map[string]any{shared, own, temporary} {
		maps.Copy(k.state, values)
	}
	k.events = append(k.events, e.Event)
	k.updated = e.Event.Timestamp
}

type state struct{ k *kept }

func (s state) Get(key string) (any, error) {
	s.k.mu.RLock()
	defer s.k.mu.RUnlock()
	if value, ok := s.k.state[key]; ok {
		return value, nil
	}
	return nil, session.ErrStateKeyNotExist
}

func (s state) Set(key string, value any) error {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	s.k.state[key] = value
	return nil
}

func (s state) All() iter.Seq2[string, any] {
	s.k.mu.RLock()
	defer s.k.mu.RUnlock()
	return maps.All(maps.Clone(s.k.state))
}

type events []*session.Event

func (e events) All() iter.Seq[*session.Event] { return slices.Values(e) }
func (e events) Len() int                      { return len(e) }

func (e events) At(i int) *session.Event {
	if i < 0 || i >= len(e) {
		return nil
	}
	return e[i]
}
