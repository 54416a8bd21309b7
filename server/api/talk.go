package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// A person at this machine talks in a session from its page. The conversation is
// held by the server and not by the page, so that it goes on while the page is
// loaded again; it is the one of the terminal, with its approvals, its sandbox and
// its lease. Whoever looks at the session meanwhile is told what it is saying.

const (
	// talkIdle is how long a conversation keeps its session after the last turn,
	// so that the next one need not begin anew. Who asks for it gets it at once.
	talkIdle = time.Minute
	// draftBytes bounds how much of an answer is shown before it is kept, and
	// outputBytes how much of a running program's output.
	draftBytes  = 1 << 20
	outputBytes = 32 << 10
)

// talks are the conversations in this process, by person and session.
type talks struct {
	mu      sync.Mutex
	of      map[string]*Talk
	changed chan struct{} // closed when one begins or ends; nil: nobody waits
}

func talkName(c request.Caller, id tidemark.SessionID) string {
	return c.Tenant + "/" + c.User + "/" + string(id)
}

// note wakes those who wait for a conversation. The caller has mu.
func (h *talks) note() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// add registers a conversation under a name, and returns the one that is there
// already, if there is one.
func (h *talks) add(name string, t *Talk) (there *Talk) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if there = h.of[name]; there != nil {
		return there
	}
	if h.of == nil {
		h.of = make(map[string]*Talk)
	}
	h.of[name] = t
	h.note()
	return nil
}

func (h *talks) remove(name string, t *Talk) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of[name] == t {
		delete(h.of, name)
		h.note()
	}
}

// MayTalk reports whether somebody may talk in sessions from a page: the person
// whose machine this is, at this machine. Tools run here as that person, so that
// neither a token nor a browser elsewhere is enough.
func (s *Server) MayTalk(r *http.Request) bool {
	c := request.CallerOf(r.Context())
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	forwarded := r.Header.Get("Forwarded") != "" || r.Header.Get("X-Forwarded-For") != ""
	return s.o.Chat != nil && c.OwnsServer() && c.Role.May(request.Writer) && err == nil && ip != nil && ip.IsLoopback() && !forwarded && request.Hosts{}.Ours(r.Host)
}

// TalkFolder is the folder that a conversation in a session works in; "" if that is
// not known.
func (s *Server) TalkFolder(of tidemark.Session) string {
	if s.o.Folder == nil {
		return ""
	}
	return s.o.Folder(of)
}

// HoldsTalks reports whether there can be conversations in this process.
func (s *Server) HoldsTalks() bool { return s.o.Chat != nil }

// TalkOf returns the conversation of the caller in a session, nil if there is
// none; changed is closed when one begins or ends.
func (s *Server) TalkOf(ctx context.Context, id tidemark.SessionID) (t *Talk, changed <-chan struct{}) {
	h := &s.talks
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.of[talkName(request.CallerOf(ctx), id)], h.changed
}

// Asking are the sessions in which a conversation of the caller in this process waits
// for an answer, in order.
func (s *Server) Asking(ctx context.Context) (all []tidemark.SessionID) {
	h, of := &s.talks, talkName(request.CallerOf(ctx), "")
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, t := range h.of {
		if id, ok := strings.CutPrefix(name, of); ok && t.asks() {
			all = append(all, tidemark.SessionID(id))
		}
	}
	slices.Sort(all)
	return all
}

func (t *Talk) asks() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Here && len(t.asked) > 0
}

// Say says something in a session of the caller, who may talk in it, with images, and
// returns once that is kept, or once the command or the memory that it is begins: what
// follows goes on without them. ErrHeld means that somebody else writes to the session, ErrConflict that a turn is under way.
func (s *Server) Say(ctx context.Context, id tidemark.SessionID, text string, images ...tidemark.Block) error {
	for {
		t, err := s.openTalk(ctx, id, false)
		if err != nil {
			return err
		}
		if kept, err := t.say(ctx, text, images); kept != nil {
			select {
			case err := <-kept:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		} else if err != nil {
			return err
		}
		<-t.over // it just ended; the next one hears it
	}
}

// BeginTalk begins a new session of the caller, who may talk, in a project and with
// a model, "" for those of this machine, and returns once what they said is kept.
// ErrInvalid means that the project is no work tree of theirs here.
func (s *Server) BeginTalk(ctx context.Context, project, model, text string, images ...tidemark.Block) (tidemark.SessionID, error) {
	if s.o.Chat == nil {
		return "", tidemark.Unsupportedf("this server holds no conversations")
	}
	if slash.IsAside(text) {
		return "", tidemark.Invalidf("a session begins with a message; commands and memories follow. A message that begins with a slash begins with two, one that begins with # with a blank")
	}
	if project != "" && s.TalkFolder(tidemark.Session{Project: project}) != project {
		return "", tidemark.Invalidf("project %.200q: not a work tree of yours on this machine", project)
	}
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return "", err
	}
	t := newTalk(true)
	if err := s.entered(func() error {
		t.conv, err = s.o.Chat(context.WithoutCancel(ctx), st, ChatOptions{Person: true, Project: project, Model: model, Emit: t.hear})
		return err
	}); err != nil {
		return "", err
	}
	name := talkName(request.CallerOf(ctx), t.conv.ID())
	s.talks.add(name, t) // nobody else knows its id
	t.rest = time.NewTimer(talkIdle)
	close(t.ready)
	go s.attend(context.WithoutCancel(ctx), name, t)
	kept, err := t.say(ctx, text, images)
	if kept != nil {
		select {
		case err = <-kept:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return t.conv.ID(), err
}

// say begins a turn. It returns nothing when the conversation is about to end.
func (t *Talk) say(ctx context.Context, text string, images []tidemark.Block) (<-chan error, error) {
	typist, types := t.conv.(Typist)
	if !types && len(images) > 0 {
		return nil, tidemark.Unsupportedf("this conversation takes words only")
	}
	t.mu.Lock()
	switch {
	case t.closing:
		t.mu.Unlock()
		return nil, nil
	case t.running:
		t.mu.Unlock()
		return nil, tidemark.Conflictf("an answer is under way; wait for its end, or stop it")
	}
	kept := make(chan error, 1)
	turn, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.running, t.acked, t.cancel = true, kept, cancel
	_, t.shell = slash.Shell(text)
	t.shell = t.shell && types
	t.rest.Stop()
	t.mu.Unlock()
	t.began()
	if types && slash.IsAside(text) {
		t.commanded(text)
	}
	go func() {
		defer cancel()
		if !types {
			t.ended(t.conv.Send(turn, text, t.hear))
			return
		}
		t.ended(typist.Enter(turn, text, images, t.hear))
	}()
	return kept, nil
}

// commanded notes that a turn is a command or a memory, of which nothing may be kept: who typed it
// does not wait.
func (t *Talk) commanded(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pieces = []Piece{{Kind: commandPiece, text: []byte(line + "\n")}}
	t.acked <- nil
	t.acked = nil
	t.note(true)
}

// TalkCommands are the commands that the caller has in a session, and what a line that
// begins with one can go on with, from where.
func (s *Server) TalkCommands(ctx context.Context, of tidemark.Session, line string) (all []slash.Command, from int, more []string) {
	if t, _ := s.TalkOf(ctx, of.ID); t != nil && t.Here {
		select {
		case <-t.ready:
			if typist, ok := t.conv.(Typist); ok && t.err == nil {
				from, more = typist.Complete(ctx, line)
				return typist.Commands(), from, more
			}
		default:
		}
	}
	if s.o.Commands == nil {
		return nil, 0, nil
	}
	return s.o.Commands(of), 0, nil
}

// AskFor asks whoever holds a session of the caller to hand it over, and returns
// when they did.
func (s *Server) AskFor(ctx context.Context, id tidemark.SessionID) error {
	_, err := s.openTalk(ctx, id, true)
	return err
}

// StopTalk ends a turn, "" for the one in progress. ErrNotFound means that it is over:
// who stops an answer just as it ends does not mean the next one.
func (s *Server) StopTalk(ctx context.Context, id tidemark.SessionID, turn string) error {
	t, _ := s.TalkOf(ctx, id)
	if t == nil || !t.Here {
		return tidemark.NotFoundf("session %s: nothing is being said", id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel == nil || turn != "" && turn != t.turn {
		return tidemark.NotFoundf("session %s: nothing is being said", id)
	}
	t.cancel()
	return nil
}

// AnswerTalk answers a question of a turn, as it was shown. ErrNotFound means that
// no such question waits.
func (s *Server) AnswerTalk(ctx context.Context, id tidemark.SessionID, shown string, d chat.Decision) error {
	t, _ := s.TalkOf(ctx, id)
	if t == nil || !t.Here {
		return tidemark.NotFoundf("session %s: nothing is asked", id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.IndexFunc(t.asked, func(q Question) bool { return q.Shown == shown })
	if at < 0 {
		return tidemark.NotFoundf("session %s: that is not asked any more", id)
	}
	call := t.asked[at].Call
	if err := t.conv.Answer(call, d); err != nil {
		return err
	}
	t.answered(call)
	return nil
}

// openTalk returns the conversation in a session, which is opened if it is not; asking
// means that its holder is asked for it first.
func (s *Server) openTalk(ctx context.Context, id tidemark.SessionID, asking bool) (*Talk, error) {
	if s.o.Chat == nil {
		return nil, tidemark.Unsupportedf("this server holds no conversations")
	}
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, err
	}
	name, t := talkName(request.CallerOf(ctx), id), newTalk(true)
	for {
		there := s.talks.add(name, t)
		if there == nil {
			break
		}
		if !there.Here && !asking {
			return nil, tidemark.Errorf(tidemark.ErrHeld, "session %s is open in another program of this person", id)
		}
		select {
		case <-there.ready:
			if there.err == nil && there.Here {
				return there, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if there.Here {
			<-there.over // it could not be opened
			continue
		}
		if err := s.awaitEnd(ctx, st, id, there); err != nil {
			return nil, err
		}
	}
	t.err = errPanicked
	defer func() {
		if t.err != nil {
			s.talks.remove(name, t)
			close(t.over)
			close(t.ready)
		}
	}()
	if t.err = s.entered(func() error { return s.begin(context.WithoutCancel(ctx), st, id, t, asking) }); t.err != nil {
		return nil, t.err
	}
	t.rest = time.NewTimer(talkIdle)
	close(t.ready)
	go s.attend(context.WithoutCancel(ctx), name, t)
	return t, nil
}

// errPanicked stands for the outcome of what opens a conversation until it returns.
// A panic is answered as any other; it leaves nothing that others wait for.
var errPanicked = errors.New("a conversation could not be opened")

// entered opens a conversation, which a shutdown then waits for.
func (s *Server) entered(open func() error) (err error) {
	if !s.shutdown.Enter() {
		return request.Unavailable("the server is going down")
	}
	err = errPanicked
	defer func() {
		if err != nil {
			s.shutdown.Leave()
		}
	}()
	return open()
}

// awaitEnd asks a client of this server for its session, and waits until it is let
// go.
func (s *Server) awaitEnd(ctx context.Context, st *store.Store, id tidemark.SessionID, there *Talk) error {
	return st.AwaitHandover(ctx, id, s.o.Holder, func(context.Context) error {
		select {
		case <-there.over:
			return nil
		default:
			return tidemark.Errorf(tidemark.ErrHeld, "session %s is open in another program of this person", id)
		}
	})
}

// begin opens the conversation.
func (s *Server) begin(ctx context.Context, st *store.Store, id tidemark.SessionID, t *Talk, asking bool) (err error) {
	open := func(ctx context.Context) error {
		t.conv, err = s.o.Chat(ctx, st, ChatOptions{Session: id, Person: true, Emit: t.hear})
		return err
	}
	if err := open(ctx); !asking || !errors.Is(err, tidemark.ErrHeld) {
		return err
	}
	return st.AwaitHandover(ctx, id, s.o.Holder, open)
}

// attend ends a conversation that nobody needs, that somebody else got, or whose
// server goes down.
func (s *Server) attend(ctx context.Context, name string, t *Talk) {
	defer s.shutdown.Leave()
	var gone <-chan error
	if e, ok := t.conv.(Ender); ok {
		gone = e.Gone()
	}
	for over := false; !over; {
		select {
		case <-t.rest.C:
			over = t.ends(true)
		case <-gone:
			over = t.ends(false)
		case <-s.shutdown.Begun():
			over = t.ends(false)
		}
	}
	ctx, stop := context.WithTimeout(ctx, closeTimeout)
	defer stop()
	t.settle(ctx)
	if err := t.conv.Close(ctx); err != nil {
		// What was acknowledged is kept; nobody can do anything about the rest.
		request.Note(ctx, "error", err.Error())
	}
	s.talks.remove(name, t)
	close(t.over)
}

// ends decides that a conversation ends; one that is only idle does not when
// somebody just said something.
func (t *Talk) ends(idle bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if idle && t.running {
		return false
	}
	t.closing = true
	if t.cancel != nil {
		t.cancel()
	}
	return true
}

// settle waits for the end of the turn in progress.
func (t *Talk) settle(ctx context.Context) {
	for {
		t.mu.Lock()
		running, changed := t.running, t.changed
		t.mu.Unlock()
		if !running {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
