package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// attached is the conversation that a connection is in.
type attached struct {
	k    *socket
	talk Conversation
	seen *Talk // for people who look on
	turn *turn // the last one, nil if there was none

	mu     sync.Mutex
	name   string // of the session, as far as known
	closed bool   // nothing more is sent
}

// turn is one message and everything that follows from it.
type turn struct {
	cancel context.CancelFunc
	over   chan struct{} // closed before its end is reported
	done   chan struct{} // closed afterwards
}

// errStuck means that a conversation did not end when it was told to.
var errStuck = errors.New("a conversation did not end")

func (a *attached) id() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.name
}

// gone receives when the conversation cannot continue.
func (a *attached) gone() <-chan error {
	if a == nil {
		return nil
	}
	if g, ok := a.talk.(Ender); ok {
		return g.Gone()
	}
	return nil
}

// emit sends what happens in the conversation, and nothing once it is closed,
// so that no leftover message goes into the next one.
func (a *attached) emit(v any) error {
	a.seen.hear(v)
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errAway
	}
	return a.k.tell(api.SocketReply{Type: api.SocketEvent, Session: a.name, Data: data})
}

// attach replaces the conversation with another one. The old one is gone
// before anything of the new one is opened; if the new one cannot be opened,
// there is none.
func (k *socket) attach(m api.SocketRequest) error {
	var id tidemark.SessionID
	var err error
	switch {
	case m.New == (m.Session != ""):
		return tidemark.Invalidf("attach wants a session, or new")
	case !m.New:
		owner, name := tidemark.CutOwner(m.Session)
		if owner != "" && owner != k.caller.User {
			return fmt.Errorf("session %s is another's: %w", name, tidemark.ErrDenied) // whether it exists or not
		}
		if id, err = tidemark.ParseSessionID(name); err != nil {
			return tidemark.NotFoundf("session %.40q: not found", m.Session)
		}
	}
	if err := k.detach(); err != nil {
		return err
	}
	st, err := k.s.stores.Of(k.ctx, k.caller.Principal)
	if err != nil {
		return err
	}
	a := &attached{k: k, seen: newTalk(false)}
	a.talk, err = k.s.o.Chat(k.ctx, st, ChatOptions{Session: id, ForceNew: m.ForceNewSession, Model: m.Model, Emit: a.emit})
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.name = string(a.talk.ID())
	a.mu.Unlock()
	k.now = a
	close(a.seen.ready)
	k.s.talks.add(talkName(k.caller, a.talk.ID()), a.seen)
	return k.tell(api.SocketReply{Type: api.SocketAttached, ID: m.ID, Session: a.id()})
}

// send begins a turn.
func (k *socket) send(m api.SocketRequest) error {
	a := k.now
	if a == nil {
		return errDetached()
	}
	if a.turn != nil {
		select {
		case <-a.turn.over:
			<-a.turn.done
		default:
			return tidemark.Conflictf("a turn is under way; wait for its end, or cancel it")
		}
	}
	ctx, cancel := context.WithCancel(k.ctx)
	t := &turn{cancel: cancel, over: make(chan struct{}), done: make(chan struct{})}
	a.turn = t
	a.seen.began()
	go func() {
		defer close(t.done)
		defer cancel()
		err := a.talk.Send(ctx, m.Text, a.emit)
		a.seen.ended(err)
		end := api.SocketReply{Type: api.SocketEnded, ID: m.ID, Session: string(a.talk.ID())}
		if err != nil {
			end.Problem = request.Problem(err)
			if end.Problem.Status >= 500 {
				request.Note(k.ctx, "error", err.Error())
			}
		}
		close(t.over)
		k.tell(end)
	}()
	return nil
}

// answer answers a question, and tells those who look on.
func (a *attached) answer(call string, allow bool) error {
	d := chat.Deny
	if allow {
		d = chat.Once
	}
	err := a.talk.Answer(call, d)
	if err == nil {
		a.seen.mu.Lock()
		defer a.seen.mu.Unlock()
		a.seen.answered(call)
	}
	return err
}

// cancel ends the turn in progress.
func (a *attached) cancel() {
	if a.turn != nil {
		a.turn.cancel()
	}
}

// detach closes the conversation: its turn is ended, its lease released, and
// nothing of it is left. If it does not end, the connection is closed,
// because nothing may be opened beside it.
func (k *socket) detach() error {
	a := k.now
	if a == nil {
		return nil
	}
	k.now = nil
	a.cancel()
	ctx, stop := context.WithTimeout(context.WithoutCancel(k.ctx), closeTimeout)
	defer stop()
	ended := true
	if a.turn != nil {
		select {
		case <-a.turn.done:
		case <-ctx.Done():
			ended = false
		}
	}
	err := a.talk.Close(ctx)
	k.s.talks.remove(talkName(k.caller, a.talk.ID()), a.seen)
	close(a.seen.over)
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	switch {
	case !ended || errors.Is(err, context.DeadlineExceeded):
		k.stop(errStuck)
		return errStuck
	case err != nil:
		// What was acknowledged is kept; the client can do nothing about the
		// rest.
		request.Note(k.ctx, "error", err.Error())
	}
	return nil
}

// drop reports that the conversation ended by itself, and closes it.
func (k *socket) drop(why error) {
	id := k.now.id()
	k.detach()
	reply := api.SocketReply{Type: api.SocketDetached, Session: id}
	if why != nil {
		reply.Reason, reply.Problem = why.Error(), request.Problem(why)
	}
	k.tell(reply)
}
