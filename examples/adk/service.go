// Package adk keeps the sessions of Google's Agent Development Kit in a
// Tidemark store: a [session.Service] with the promises of the store.
//
// An event is durable when AppendEvent returns, together with what it changed
// in its session's state. One process writes to a session at a time: others get
// tidemark.ErrHeld, which names it. A session that somebody else appended to
// since it was read is tidemark.ErrConflict: get it again. An event that is
// appended again under its ID is kept once.
//
// Values of a state go through JSON, so numbers come back as float64. The
// package opens no store and prints nothing.
//
//	runner.New(runner.Config{AppName: "harbour", Agent: pilot, SessionService: adk.New(s, holder)})
package adk

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"google.golang.org/adk/session"
)

// Service keeps sessions in a store. Its methods may be called concurrently.
type Service struct {
	store *store.Store
	who   tidemark.Holder
	seed  maphash.Seed
	turns [64]sync.Mutex // who of this process appends to a session; the lease keeps the others out
}

var _ session.Service = (*Service)(nil)

// New returns a Service over s, which appends in the name of who.
func New(s *store.Store, who tidemark.Holder) *Service {
	return &Service{store: s, who: who, seed: maphash.MakeSeed()}
}

// idOf is the id under which the store knows a session.
func idOf(app, user, id string) tidemark.SessionID {
	return tidemark.SessionID(tidemark.IDOf("adk session", app, user, id))
}

// require names what a request lacks.
func require(fields ...string) error {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == "" {
			return tidemark.Invalidf("%s: it is needed", fields[i])
		}
	}
	return nil
}

// Create makes a session: ErrExists when there is one of that ID.
func (s *Service) Create(ctx context.Context, req *session.CreateRequest) (*session.CreateResponse, error) {
	if err := require("AppName", req.AppName, "UserID", req.UserID); err != nil {
		return nil, err
	}
	owner := owner{App: req.AppName, User: req.UserID, ID: req.SessionID}
	if owner.ID == "" {
		owner.ID = string(tidemark.NewSessionID())
	}
	id := idOf(owner.App, owner.User, owner.ID)
	exists := tidemark.Existsf("session %q of %q: already there", owner.ID, owner.User)
	if _, err := s.store.Session(ctx, id); err == nil {
		return nil, exists
	} else if !errors.Is(err, tidemark.ErrNotFound) {
		return nil, err
	}
	state := split(req.State)
	shared, err := s.share(ctx, owner, state)
	if err != nil {
		return nil, err
	}
	first, err := beginning(state.session)
	if err != nil {
		return nil, err
	}
	about, err := owner.session(id)
	if err != nil {
		return nil, err
	}
	w := s.store.Create(about, s.who)
	seqs, err := w.Append(ctx, first)
	if errors.Is(err, tidemark.ErrConflict) {
		return nil, errors.Join(exists, err) // somebody made it just now
	}
	if err == nil {
		err = w.Close(ctx)
	}
	if err != nil {
		return nil, err
	}
	info, err := s.store.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	made := &kept{owner: owner, id: id, own: state.session, state: shared, head: seqs[0], stateAt: seqs[0], updated: info.UpdatedAt}
	maps.Copy(made.state, state.session)
	return &session.CreateResponse{Session: made}, nil
}

// Get reads a session: ErrNotFound. What it costs with NumRecentEvents does not
// depend on how long the session is.
func (s *Service) Get(ctx context.Context, req *session.GetRequest) (*session.GetResponse, error) {
	if err := require("AppName", req.AppName, "UserID", req.UserID, "SessionID", req.SessionID); err != nil {
		return nil, err
	}
	v, err := s.store.View(ctx, idOf(req.AppName, req.UserID, req.SessionID))
	if err != nil {
		return nil, err
	}
	if v.State != store.Live {
		return nil, tidemark.NotFoundf("session %q is in the trash", req.SessionID)
	}
	owner := owner{App: req.AppName, User: req.UserID, ID: req.SessionID}
	shared, err := s.shared(ctx, owner)
	if err != nil {
		return nil, err
	}
	k := &kept{owner: owner, id: v.ID, state: shared, head: v.Entries, updated: v.UpdatedAt}
	entries := v.Path(ctx, 0)
	if req.NumRecentEvents > 0 {
		entries = v.Tail(ctx, 0, req.NumRecentEvents)
	}
	last, err := k.readEvents(entries, req.After)
	if err == nil && last.seq == 0 {
		// What is newest was written by others: the state is further back.
		last, err = new(kept).readEvents(v.Path(ctx, 0), time.Time{})
	}
	if err == nil {
		err = k.readState(ctx, v, last)
	}
	if err != nil {
		return nil, err
	}
	return &session.GetResponse{Session: k}, nil
}

// List returns the sessions of a user, or of all users, without their events.
func (s *Service) List(ctx context.Context, req *session.ListRequest) (*session.ListResponse, error) {
	if err := require("AppName", req.AppName); err != nil {
		return nil, err
	}
	found := &session.ListResponse{Sessions: []session.Session{}}
	for i, err := range s.store.Sessions(ctx, store.Filter{Agent: req.AppName}) {
		if err != nil {
			return nil, err
		}
		owner, ok := ownerOf(i.Session)
		if !ok || req.UserID != "" && owner.User != req.UserID {
			continue
		}
		// The newest event knows the state; it is not shown.
		got, err := s.Get(ctx, &session.GetRequest{AppName: owner.App, UserID: owner.User, SessionID: owner.ID, NumRecentEvents: 1})
		if errors.Is(err, tidemark.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		k := got.Session.(*kept)
		k.events = nil
		found.Sessions = append(found.Sessions, k)
	}
	return found, nil
}

// Delete destroys a session. One that is not there is no error. ErrHeld:
// somebody writes to it.
func (s *Service) Delete(ctx context.Context, req *session.DeleteRequest) error {
	if err := require("AppName", req.AppName, "UserID", req.UserID, "SessionID", req.SessionID); err != nil {
		return err
	}
	err := s.store.Purge(ctx, idOf(req.AppName, req.UserID, req.SessionID), s.who)
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil
	}
	return err
}

// AppendEvent keeps an event and what it changes, in the store and in cur. Of
// partial events it keeps nothing, and temporary state it keeps in cur alone.
//
// What an event changes in the state of the app and of the user is written just
// before it: after a crash between the two the change is there and the event
// is not, and appending the event again is safe.
func (s *Service) AppendEvent(ctx context.Context, cur session.Session, event *session.Event) error {
	k, ok := cur.(*kept)
	if !ok || event == nil {
		return tidemark.Invalidf("AppendEvent: want a session of this service and an event")
	}
	if event.Partial {
		return nil
	}
	if event.ID == "" {
		event.ID = string(tidemark.NewSessionID())
	}
	turn := &s.turns[maphash.String(s.seed, string(k.id))%uint64(len(s.turns))]
	turn.Lock()
	defer turn.Unlock()
	w, err := s.store.Attach(ctx, k.id, s.who)
	if err != nil {
		return fmt.Errorf("adk session %q: %w", k.owner.ID, err)
	}
	err = s.append(ctx, w, k, event)
	return errors.Join(err, w.Close(ctx))
}

func (s *Service) append(ctx context.Context, w *store.Writer, k *kept, event *session.Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.ContainsFunc(k.events, func(e *session.Event) bool { return e.ID == event.ID }) {
		return nil // it was appended already
	}
	if w.Head() != k.head {
		return s.behind(ctx, w, k, event)
	}
	change := split(event.Actions.StateDelta)
	stored := *event
	stored.Actions.StateDelta = change.kept()
	shared, err := s.share(ctx, k.owner, change)
	if err != nil {
		return err
	}
	own := maps.Clone(k.own)
	maps.Copy(own, change.session)
	e := entry{Event: &stored, StateAt: k.stateAt}
	if len(change.session) > 0 {
		e.State, e.StateAt = own, 0
	}
	line, err := e.entry()
	if err != nil {
		return err
	}
	seqs, err := w.Append(ctx, line)
	if err != nil || seqs[0] <= k.head {
		return err // nil: it was appended before what was read
	}
	k.took(seqs[0], e, own, shared, change.temporary)
	if len(change.temporary) > 0 {
		event.Actions.StateDelta = maps.Clone(stored.Actions.StateDelta)
	}
	return nil
}

// behind says why a session is not as it was read: the event is there already,
// from a try that was not heard of, or somebody else appended to it.
func (s *Service) behind(ctx context.Context, w *store.Writer, k *kept, event *session.Event) error {
	v, err := s.store.View(ctx, k.id)
	if err != nil {
		return err
	}
	for e, err := range v.Tail(ctx, 0, 1) {
		if err != nil {
			return err
		}
		if e.Key != keyOf(event) || e.Parent != k.head {
			break
		}
		last, _, err := entryOf(e)
		if err != nil {
			return err
		}
		shared, err := s.shared(ctx, k.owner)
		if err != nil {
			return err
		}
		change := split(event.Actions.StateDelta)
		own := maps.Clone(k.own)
		maps.Copy(own, change.session)
		k.took(e.Seq, last, own, shared, change.temporary)
		return nil
	}
	return tidemark.Conflictf("adk session %q changed since it was read, it has %d entries and not %d: get it again", k.owner.ID, w.Head(), k.head)
}
