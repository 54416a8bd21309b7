package acp

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// session is one that the editor has open: this side writes to it or, while
// somebody else does, follows it.
type session struct {
	a      *connection
	id     tidemark.SessionID
	screen *screen
	slot   chan struct{} // holds a token while something is in progress

	// Guarded by the slot: the folder of the agent, and the part of the
	// prompt that the user typed.
	folder, typed string
	asked         bool // the user was asked about what the session proposes

	announcing sync.Mutex
	announced  []string // the commands that the editor was told of

	mu     sync.Mutex
	cancel context.CancelFunc // cancels what is in progress
	closed bool
	c      *chat.Chat    // nil while somebody else writes
	done   chan struct{} // closed when c is closed
	follow func()        // ends following and waits for that; nil if nothing is followed
}

func newSession(a *connection, id tidemark.SessionID, folder string) *session {
	s := &session{a: a, id: id, folder: folder, slot: make(chan struct{}, 1)}
	s.screen = newScreen(folder, s.tell)
	return s
}

// tell sends an update. An error needs no handling: the connection ends when
// the editor is gone.
func (s *session) tell(u sdk.SessionUpdate) {
	err := s.a.conn.SendNotification(context.Background(), sdk.ClientMethodSessionUpdate, sdk.SessionNotification{SessionId: sdk.SessionId(s.id), Update: u})
	if err != nil && !s.a.wire.isBroken() {
		s.a.o.Log("session %s: an update was not sent: %s", s.id, err)
	}
}

// begin takes the slot for something that session/cancel ends. It returns
// ErrConflict when something else is in progress.
func (s *session) begin(ctx context.Context) (context.Context, func(), error) {
	select {
	case s.slot <- struct{}{}:
	default:
		return ctx, nil, tidemark.Conflictf("session %s: a turn is under way; wait for its end, or cancel it", s.id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		<-s.slot
		return ctx, nil, tidemark.NotFoundf("session %s was closed", s.id)
	}
	ctx, s.cancel = context.WithCancel(ctx)
	return ctx, s.end, nil
}

func (s *session) end() {
	s.mu.Lock()
	s.cancel()
	s.cancel = nil
	s.mu.Unlock()
	<-s.slot
}

// interrupt ends what is in progress.
func (s *session) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
}

// chat is the conversation, nil while somebody else writes to it.
func (s *session) chat() *chat.Chat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c
}

// options are those of the conversation, with Show and Approve of this session.
func (s *session) options(ctx context.Context, id tidemark.SessionID) (chat.Options, error) {
	s.a.mu.Lock()
	client := s.a.client
	s.a.mu.Unlock()
	o, err := s.a.o.Chat(ctx, Opening{Session: id, Folder: s.folder, Client: client})
	if err != nil {
		return o, err
	}
	o.Show = func(e chat.Event) {
		s.screen.event(e)
		if e.Result != nil {
			s.plan()
		}
	}
	o.Approve = s.approve
	if title := o.Title; title != nil {
		// Files embedded before the first words make no title.
		o.Title = func(said string) string {
			if strings.TrimSpace(s.typed) != "" {
				said = s.typed
			}
			return title(said)
		}
	}
	return o, nil
}

// take makes c the conversation of s. The caller holds the slot.
func (s *session) take(c *chat.Chat) {
	done := make(chan struct{})
	s.mu.Lock()
	s.c, s.done = c, done
	s.mu.Unlock()
	go func() {
		select {
		case a := <-c.Handed():
			s.handOver(c, done, a)
		case <-done:
		}
	}()
}

// attach makes this the writer of the session; ErrHeld when there is another. It
// shows the editor what it has not seen yet. The caller holds the slot.
func (s *session) attach(ctx context.Context) error {
	if s.chat() != nil {
		return nil
	}
	o, err := s.options(ctx, s.id)
	if err != nil {
		return err
	}
	s.screen.mute()
	defer s.screen.unmute()
	c, err := chat.Resume(ctx, o, s.id)
	if err != nil {
		return err
	}
	s.unfollow()
	s.take(c)
	if n := len(c.State().Loops); n > 0 {
		s.screen.event(chat.Event{Notice: fmt.Sprintf("%d loop(s) of this session rest while it is open in an editor; tidemark chat runs them.", n)})
	}
	return nil
}

// goOn is attach after following somebody else: what they wrote meanwhile is
// shown.
func (s *session) goOn(ctx context.Context) error {
	if s.chat() != nil {
		return nil
	}
	if err := s.attach(ctx); err != nil {
		return err
	}
	s.announce()
	return s.catchUp(ctx)
}

// catchUp shows what was written since the last entry that the editor was
// shown.
func (s *session) catchUp(ctx context.Context) error {
	v, err := s.a.o.Store.View(ctx, s.id)
	if err != nil {
		return err
	}
	return s.show(v.LogRange(ctx, s.screen.shown()+1, 0))
}

// replay shows the whole current branch of the conversation.
func (s *session) replay(ctx context.Context) error {
	v, err := s.a.o.Store.View(ctx, s.id)
	if err != nil {
		return err
	}
	// Entries of other branches are not news to somebody who saw this one.
	s.screen.from(v.Entries)
	return s.show(v.Path(ctx, 0))
}

func (s *session) show(entries func(func(tidemark.Entry, error) bool)) error {
	for e, err := range entries {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			s.screen.note("Entry %d is damaged: %s", e.Seq, err)
		case err != nil:
			return err
		default:
			s.screen.entry(e)
		}
	}
	return nil
}

// readAlong shows what somebody else writes, as they write it.
func (s *session) readAlong() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.mu.Lock()
	s.follow = func() { stop(); <-done }
	s.mu.Unlock()
	go func() {
		defer close(done)
		v, err := s.a.o.Store.View(ctx, s.id)
		if err == nil {
			err = s.show(v.Follow(ctx, s.screen.shown()))
		}
		if ctx.Err() == nil && err != nil {
			s.screen.note("What is written to this session elsewhere is no longer shown: %s", err)
		}
	}()
}

func (s *session) unfollow() {
	s.mu.Lock()
	follow := s.follow
	s.follow = nil
	s.mu.Unlock()
	if follow != nil {
		follow()
	}
}

// open opens the session as its writer or, when there is another writer, to
// follow. past asks to show the past first.
func (s *session) open(ctx context.Context, past bool) error {
	held := s.attach(ctx)
	if held != nil && !errors.Is(held, tidemark.ErrHeld) {
		return held
	}
	s.unfollow()
	if c := s.chat(); c != nil && !c.Exists() {
		return nil // nothing was said yet
	}
	see := s.fromNow
	if past {
		see = s.replay
	}
	if err := see(ctx); err != nil {
		return err
	}
	if held != nil {
		s.readAlong()
		s.screen.note("%s: it is read along here.\nhint: %s", held, s.a.hint(held))
	}
	return nil
}

// move makes the agent work in another folder from now on: an editor may open
// a session that it already has open elsewhere. The caller holds the slot.
func (s *session) move(folder string) error {
	if folder == s.folder {
		return nil
	}
	if c := s.chat(); c != nil && !c.Exists() {
		return tidemark.Conflictf("session %s begins in %s; begin another one here", s.id, s.folder)
	}
	s.folder = folder
	s.screen.move(folder)
	return s.release()
}

// fromNow marks every existing entry as seen.
func (s *session) fromNow(ctx context.Context) error {
	v, err := s.a.o.Store.View(ctx, s.id)
	if err == nil {
		s.screen.from(v.Entries)
	}
	return err
}

// closeTimeout bounds closing a session.
const closeTimeout = 5 * time.Second

// release closes the conversation: its state is kept, and its lease is free.
// The caller holds the slot.
func (s *session) release() error {
	s.mu.Lock()
	c, done := s.c, s.done
	s.c, s.done = nil, nil
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	close(done)
	ctx, stop := context.WithTimeout(context.Background(), closeTimeout)
	defer stop()
	var err error
	if c.Exists() {
		err = c.Checkpoint(ctx, "", "left")
	}
	err = errors.Join(err, c.Close(ctx))
	if errors.Is(err, tidemark.ErrConflict) {
		err = nil // we no longer held it
	}
	if err == nil && c.Exists() {
		s.a.o.Log("Session saved: %s", s.id)
	}
	s.a.leaving.Go(func() { s.a.o.Left(c) })
	return err
}

// close ends what is in progress and releases the session for good.
func (s *session) close() error {
	s.a.forget(s)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.interrupt()
	s.slot <- struct{}{}
	defer func() { <-s.slot }()
	s.unfollow()
	return s.release()
}

// handOver gives the session to whoever asks for it, when nothing is in
// progress, and follows it from then on.
func (s *session) handOver(c *chat.Chat, done chan struct{}, a store.HandoverRequest) {
	s.screen.note("%s asks for this session; it is handed over when nothing is under way.", a.From)
	select {
	case s.slot <- struct{}{}:
	case <-done:
		return
	}
	defer func() { <-s.slot }()
	if s.chat() != c {
		return
	}
	if err := s.release(); err != nil {
		s.a.o.Log("session %s: %s", s.id, err)
	}
	s.readAlong()
	s.announce()
	s.screen.note("Handed over to %s; it is read along here.", a.From)
}

// takeOver is the command that asks for a session that is written to elsewhere.
const takeOver = "take-over"

// ask asks the writer of the session to hand it over, and waits.
func (s *session) ask(ctx context.Context) error {
	o, err := s.options(ctx, s.id)
	if err != nil {
		return err
	}
	return s.a.o.Store.AwaitHandover(ctx, s.id, o.Holder, s.goOn)
}

// The options of a permission request.
const (
	allowOnce   sdk.PermissionOptionId = "allow-once"
	allowAlways sdk.PermissionOptionId = "allow-always"
	rejectOnce  sdk.PermissionOptionId = "reject-once"
)

// approve asks the editor about a call, and waits for the answer or the end of
// the turn.
func (s *session) approve(ctx context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
	if err := a.Readable(); err != nil {
		return chat.Deny, err
	}
	options := []sdk.PermissionOption{
		{OptionId: allowOnce, Kind: sdk.PermissionOptionKindAllowOnce, Name: "Allow once"},
		{OptionId: rejectOnce, Kind: sdk.PermissionOptionKindRejectOnce, Name: "Reject"},
	}
	if a.Whole {
		always := "Always allow " + a.Tool
		switch {
		case !a.Widens.Empty():
			always = "Allow in this project to " + a.Widens.String()
		case a.Scope != "":
			always += " (" + a.Scope + ")"
		}
		options = slices.Insert(options, 1, sdk.PermissionOption{OptionId: allowAlways, Kind: sdk.PermissionOptionKindAllowAlways, Name: oneLine(always)})
	}
	r, err := sdk.SendRequest[sdk.RequestPermissionResponse](s.a.conn, ctx, sdk.ClientMethodSessionRequestPermission, sdk.RequestPermissionRequest{
		SessionId: sdk.SessionId(s.id),
		ToolCall:  newCall(s.folder, a.Worker, a.ID, a.Tool, a.Input).asked(render.ApprovalText(a.Lines)),
		Options:   options,
	})
	switch {
	case ctx.Err() != nil:
		return chat.Deny, ctx.Err()
	case err != nil:
		return chat.Deny, fmt.Errorf("the editor gave no answer: %w", err)
	case r.Outcome.Cancelled != nil:
		// In the protocol this answer means that the turn is cancelled. The
		// cancellation itself is a message of its own, and may come later.
		s.interrupt()
		return chat.Deny, errors.New("the user cancelled the turn")
	case r.Outcome.Selected == nil:
		return chat.Deny, errors.New("the editor gave no answer")
	}
	switch r.Outcome.Selected.OptionId {
	case allowOnce:
		return chat.Once, nil
	case allowAlways:
		return chat.Always, nil
	}
	return chat.Deny, nil
}

// plan sends the task list, if there is one and it changed.
func (s *session) plan() {
	if c := s.chat(); c != nil {
		s.screen.plan(c.State().Tasks)
	}
}

// folderOf checks the folder that an editor names.
func folderOf(cwd string) (string, error) {
	if !filepath.IsAbs(cwd) {
		return "", tidemark.Invalidf("cwd %q: not an absolute path", cwd)
	}
	return filepath.Clean(cwd), nil
}
